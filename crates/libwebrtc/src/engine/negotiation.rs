//! Offers and answers.
//!
//! `str0m` changes nothing until an answer is accepted, so an offer that is never answered costs nothing and
//! may be followed by another: the new one takes over what the old one had asked for (media ids and channel
//! numbers stay the same). What `livekit` does to the text of a description before it sends it (it munges) does
//! not concern us: the text is kept for whoever asks, the decisions are `str0m`'s own.

use std::collections::HashSet;

use str0m::{
    change::{SdpAnswer, SdpOffer, SdpPendingOffer},
    media::{Direction, MediaKind, Mid},
};

use super::{
    ChannelKey, Connection, Event, TransceiverKey,
    connection::closed,
    sdp::{Description, MediaLine},
    transceivers::to_str0m,
};
use crate::{
    RtcError,
    peer_connection::SignalingState,
    rtp_transceiver::RtpTransceiverDirection,
    session_description::{SdpType, SessionDescription},
};

/// Media lines in one description beyond which it is refused: each costs memory for good.
const MAX_MEDIA_LINES: usize = 1024;

/// Where the negotiation stands.
#[derive(Default)]
pub(crate) struct Negotiation {
    signaling: Signaling,
    /// The last offer we made, until it is answered or replaced.
    offer: Option<Offer>,
    /// The answer to the last remote offer, until it is asked for.
    answer: Option<String>,
    pending_local: Option<SessionDescription>,
    current_local: Option<SessionDescription>,
    current_remote: Option<SessionDescription>,
    has_application: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Signaling {
    #[default]
    Stable,
    HaveLocalOffer,
    HaveRemoteOffer,
    Closed,
}

struct Offer {
    pending: SdpPendingOffer,
    media: Vec<(TransceiverKey, Mid)>,
    channels: Vec<(ChannelKey, str0m::channel::ChannelId)>,
}

impl Negotiation {
    pub(crate) fn close(&mut self) {
        *self = Self { signaling: Signaling::Closed, ..Self::default() };
    }

    pub(crate) fn signaling_state(&self) -> SignalingState {
        match self.signaling {
            Signaling::Stable => SignalingState::Stable,
            Signaling::HaveLocalOffer => SignalingState::HaveLocalOffer,
            Signaling::HaveRemoteOffer => SignalingState::HaveRemoteOffer,
            Signaling::Closed => SignalingState::Closed,
        }
    }
}

fn names_are_unique(sdp: &str) -> bool {
    let mut names = HashSet::new();
    sdp.lines().filter_map(|line| line.strip_prefix("a=mid:")).all(|name| names.insert(name))
}

impl Connection {
    pub(crate) fn signaling_state(&self) -> SignalingState {
        self.negotiation.signaling_state()
    }

    pub(crate) fn current_local_description(&self) -> Option<SessionDescription> {
        self.negotiation.current_local.clone()
    }

    pub(crate) fn current_remote_description(&self) -> Option<SessionDescription> {
        self.negotiation.current_remote.clone()
    }

    /// The media id that candidates are announced with.
    pub(crate) fn first_mid(&self) -> String {
        let offered = self.negotiation.offer.as_ref().and_then(|o| o.media.first()).map(|(_, mid)| *mid);
        let known = self.transceivers.iter().find_map(|t| t.mid);
        known.or(offered).map_or_else(|| "0".to_owned(), |mid| mid.to_string())
    }

    pub(crate) fn create_offer(&mut self, ice_restart: bool) -> Result<SessionDescription, RtcError> {
        if self.negotiation.signaling == Signaling::Closed || self.state.is_broken() {
            return Err(RtcError::invalid_state("the connection is closed or broken"));
        }
        if self.negotiation.signaling == Signaling::HaveRemoteOffer {
            return Err(RtcError::invalid_state("answer the remote offer first"));
        }
        let offer = self.try_offer(ice_restart)?;
        if names_are_unique(&offer.sdp) {
            return Ok(offer);
        }
        // `str0m` draws the names of lines at random and does not compare those of one offer: about one first
        // offer in ten thousand has a name twice. The peer would refuse it.
        if self.negotiation.current_remote.is_some() {
            return Err(RtcError::internal("two new media lines drew the same name; offer again"));
        }
        self.negotiation.offer = None;
        self.begin_anew();
        self.create_offer(ice_restart)
    }

    fn try_offer(&mut self, ice_restart: bool) -> Result<SessionDescription, RtcError> {
        let previous = self.negotiation.offer.take();
        let (mut media, mut channels) =
            previous.as_ref().map(|offer| (offer.media.clone(), offer.channels.clone())).unwrap_or_default();

        let mut api = self.rtc.as_mut().ok_or_else(closed)?.sdp_api();
        if let Some(previous) = previous {
            api.merge(previous.pending);
        }
        for channel in self.channels.waiting_to_open() {
            if channels.iter().all(|(key, _)| *key != channel.key) {
                channels.push((channel.key, api.add_channel_with_config(channel.config())));
            }
        }
        let mut known_line = None;
        for transceiver in self.transceivers.iter() {
            let direction = to_str0m(transceiver.direction);
            if let Some(mid) = transceiver.mid {
                // Asked for anew each time: the last answer may have granted less.
                api.set_direction(mid, direction);
                // Rather one that carries nothing now: the change there and back empties its buffers.
                if known_line.is_none() || transceiver.remote_stream_id().is_none() {
                    known_line = Some((mid, direction));
                }
            } else if media.iter().all(|(key, _)| *key != transceiver.key) {
                let mid = api.add_media(
                    transceiver.kind,
                    direction,
                    transceiver.stream_id.clone(),
                    transceiver.track_id.clone(),
                    None,
                );
                media.push((transceiver.key, mid));
            }
        }
        if ice_restart {
            api.ice_restart(true);
        }
        if !api.has_changes() {
            // `str0m` offers changes only: change a direction there and back.
            let Some((mid, direction)) = known_line else {
                return Err(RtcError::invalid_state(
                    "there is nothing to offer: no media and no data channel",
                ));
            };
            let other =
                if direction == Direction::Inactive { Direction::RecvOnly } else { Direction::Inactive };
            api.set_direction(mid, other);
            api.set_direction(mid, direction);
        }
        let Some((offer, pending)) = api.apply() else {
            return Err(RtcError::invalid_state("there is nothing to offer"));
        };
        self.negotiation.offer = Some(Offer { pending, media, channels });
        self.settle();
        Ok(SessionDescription { ty: SdpType::Offer, sdp: offer.to_sdp_string() })
    }

    pub(crate) fn create_answer(&mut self) -> Result<SessionDescription, RtcError> {
        let answer = self.negotiation.answer.clone();
        answer
            .map(|sdp| SessionDescription { ty: SdpType::Answer, sdp })
            .ok_or_else(|| RtcError::invalid_state("there is no remote offer to answer"))
    }

    pub(crate) fn set_local(&mut self, description: SessionDescription) -> Result<(), RtcError> {
        match (description.sdp_type(), self.negotiation.signaling) {
            (_, Signaling::Closed) => return Err(closed()),
            (SdpType::Offer, Signaling::Stable | Signaling::HaveLocalOffer) => {
                let Some(offer) = &self.negotiation.offer else {
                    return Err(RtcError::invalid_state(
                        "this offer was not made here, or is answered already",
                    ));
                };
                for (key, mid) in &offer.media {
                    if let Some(transceiver) = self.transceivers.get_mut(*key) {
                        transceiver.mid = Some(*mid);
                    }
                }
                self.adopt_munged_directions(&description);
                self.negotiation.pending_local = Some(description);
                self.set_signaling(Signaling::HaveLocalOffer);
            }
            (SdpType::Answer, Signaling::HaveRemoteOffer) => {
                self.negotiation.answer = None;
                self.negotiation.current_local = Some(description);
                self.set_signaling(Signaling::Stable);
                self.open_channels();
            }
            (SdpType::Rollback, Signaling::HaveLocalOffer) => self.withdraw_offer(),
            (kind, state) => {
                return Err(RtcError::invalid_state(format!(
                    "a local {kind} does not fit the state {state:?}"
                )));
            }
        }
        self.settle();
        Ok(())
    }

    pub(crate) fn set_remote(&mut self, description: SessionDescription) -> Result<(), RtcError> {
        description.check()?;
        let read = Description::read(&description.sdp);
        if read.media.len() > MAX_MEDIA_LINES {
            return Err(RtcError::invalid_sdp(format!("more than {MAX_MEDIA_LINES} media lines")));
        }
        match (description.sdp_type(), self.negotiation.signaling) {
            (_, Signaling::Closed) => return Err(closed()),
            (SdpType::Answer, Signaling::HaveLocalOffer) => {
                if self.negotiation.current_remote.as_ref() == Some(&description) {
                    // `livekit` withdraws an open offer by applying the last answer again.
                    self.withdraw_offer();
                    self.settle();
                    return Ok(());
                }
                self.accept_answer(&description)?;
                self.negotiation.current_local = self.negotiation.pending_local.take();
            }
            (SdpType::Offer, Signaling::Stable | Signaling::HaveRemoteOffer) => {
                self.accept_offer(&description)?;
            }
            (kind, state) => {
                return Err(RtcError::invalid_state(format!(
                    "a remote {kind} does not fit the state {state:?}"
                )));
            }
        }
        let from_offer = description.sdp_type() == SdpType::Offer;
        self.negotiation.current_remote = Some(description);
        self.negotiation.has_application |= read.has_application;
        if let Some(bytes) = read.max_message_size {
            self.channels.limit_messages(bytes);
        }
        for line in read.media {
            self.apply_remote_line(line, from_offer);
        }
        self.set_signaling(if from_offer { Signaling::HaveRemoteOffer } else { Signaling::Stable });
        if !from_offer {
            self.open_channels();
        }
        self.settle();
        Ok(())
    }

    fn accept_answer(&mut self, description: &SessionDescription) -> Result<(), RtcError> {
        // Read before the offer is used up: a text that is no SDP leaves everything as it was.
        let answer =
            SdpAnswer::from_sdp_string(&description.sdp).map_err(|e| RtcError::invalid_sdp(e.to_string()))?;
        let Some(offer) = self.negotiation.offer.take() else {
            return Err(RtcError::invalid_state("no offer of ours is open"));
        };
        let username = self.local_username();
        if let Err(error) = self.open_rtc()?.sdp_api().accept_answer(offer.pending, answer) {
            // The offer is spent and its lines are lost: only a new connection helps.
            self.broke(&format!("the answer does not fit the offer: {error}"));
            self.report_state();
            return Err(RtcError::invalid_sdp(error.to_string()));
        }
        let rtc = self.rtc.as_mut().ok_or_else(closed)?;
        for (key, id) in offer.channels {
            self.channels.assign(key, id, rtc);
        }
        self.note_restart(&username);
        Ok(())
    }

    fn accept_offer(&mut self, description: &SessionDescription) -> Result<(), RtcError> {
        let offer =
            SdpOffer::from_sdp_string(&description.sdp).map_err(|e| RtcError::invalid_sdp(e.to_string()))?;
        let username = self.local_username();
        let accepted = self.open_rtc()?.sdp_api().accept_offer(offer);
        let answer = accepted.map_err(|e| RtcError::invalid_sdp(e.to_string()))?;
        self.note_restart(&username);
        self.negotiation.answer = Some(answer.to_sdp_string());
        Ok(())
    }

    /// `livekit` turns lines that we do not use into ones that may receive, in the text it sends. The peer then
    /// may send on them, so they have to count as such here too.
    fn adopt_munged_directions(&mut self, offer: &SessionDescription) {
        for line in
            Description::read(&offer.sdp).media.into_iter().filter(|line| line.receives && !line.sends)
        {
            if let Some(transceiver) = self.transceivers.by_mid(Mid::from(line.mid.as_str()))
                && transceiver.direction == RtpTransceiverDirection::Inactive
            {
                transceiver.direction = RtpTransceiverDirection::RecvOnly;
            }
        }
    }

    /// Whether ICE begins anew is decided by both sides; new credentials show that it does.
    fn note_restart(&mut self, username_before: &str) {
        if self.local_username() != username_before {
            self.state.restarted(self.now);
            self.forget_remote_candidates();
        }
    }

    fn apply_remote_line(&mut self, line: MediaLine, from_offer: bool) {
        let mid = Mid::from(line.mid.as_str());
        if self.transceivers.by_mid(mid).is_none() {
            if !from_offer {
                return;
            }
            let kind = if line.video { MediaKind::Video } else { MediaKind::Audio };
            let key = self.transceivers.add(self.now, kind, RtpTransceiverDirection::RecvOnly, None, None);
            if let Some(made) = self.transceivers.get_mut(key) {
                made.mid = Some(mid);
            }
            self.events.push_back(Event::TransceiverFromPeer(key));
        }
        let Some(transceiver) = self.transceivers.by_mid(mid) else { return };
        if transceiver.remote_described(line) {
            let key = transceiver.key;
            self.events.push_back(Event::Track(key));
        }
    }

    /// The offer is void; what it asked for is asked again by the next one.
    fn withdraw_offer(&mut self) {
        if let Some(offer) = &self.negotiation.offer {
            for (key, _) in &offer.media {
                if let Some(transceiver) = self.transceivers.get_mut(*key) {
                    transceiver.mid = None;
                }
            }
        }
        self.negotiation.pending_local = None;
        self.set_signaling(Signaling::Stable);
    }

    /// Opens the channels that wait, where the peer takes data channels at all.
    pub(super) fn open_channels(&mut self) {
        if let Some(rtc) = self.rtc.as_mut().filter(|_| self.negotiation.has_application) {
            let offered: Vec<_> = self
                .negotiation
                .offer
                .iter()
                .flat_map(|offer| offer.channels.iter().map(|(key, _)| *key))
                .collect();
            self.channels.open_waiting(&offered, rtc);
        }
    }

    fn set_signaling(&mut self, signaling: Signaling) {
        if self.negotiation.signaling != signaling {
            self.negotiation.signaling = signaling;
            self.events.push_back(Event::Signaling(self.negotiation.signaling_state()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names_are_unique;

    #[test]
    fn a_name_that_two_lines_share_is_seen() {
        assert!(names_are_unique("m=audio\r\na=mid:abc\r\nm=video\r\na=mid:abd\r\n"));
        assert!(!names_are_unique("m=audio\r\na=mid:abc\r\nm=video\r\na=mid:abc\r\n"));
    }
}
