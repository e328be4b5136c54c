//! From what ICE and DTLS do to the connection state that `livekit` watches.
//!
//! `str0m` has no `Failed` and gives up on a silent peer only after more than 20 seconds. libwebrtc calls a
//! connection disconnected after about 5 seconds without a sign of life and failed after about 15, and
//! `livekit` starts its resume on exactly that; so silence is judged here. Pure: time is an argument.

use std::time::{Duration, Instant};

use crate::peer_connection::{IceConnectionState, PeerConnectionState};

/// Without any packet from the peer for this long: `Disconnected`.
pub(crate) const DISCONNECTED_AFTER: Duration = Duration::from_secs(5);
/// Without any packet for this long, or never connected since checking began: `Failed`.
pub(crate) const FAILED_AFTER: Duration = Duration::from_secs(15);

/// What `str0m` reports of ICE, without the states it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ice {
    New,
    Checking,
    Connected,
    Completed,
    Disconnected,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not one state in disguise")]
pub(crate) struct StateTracker {
    ice: Ice,
    dtls_up: bool,
    /// DTLS refused the peer or something inside is wrong: no way back.
    broken: bool,
    /// The peer said goodbye: it falls silent now and no restart brings it back.
    left: bool,
    closed: bool,
    /// Since when we have been trying without success (set by checking, cleared by connecting).
    trying_since: Option<Instant>,
    last_heard: Option<Instant>,
    reported: PeerConnectionState,
    reported_ice: IceConnectionState,
}

/// States that have just changed, in the order in which libwebrtc reports them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) ice: Option<IceConnectionState>,
    pub(crate) connection: Option<PeerConnectionState>,
}

impl StateTracker {
    pub(crate) fn new() -> Self {
        Self {
            ice: Ice::New,
            dtls_up: false,
            broken: false,
            left: false,
            closed: false,
            trying_since: None,
            last_heard: None,
            reported: PeerConnectionState::New,
            reported_ice: IceConnectionState::New,
        }
    }

    pub(crate) fn connection(&self) -> PeerConnectionState {
        self.reported
    }

    pub(crate) fn ice(&self) -> IceConnectionState {
        self.reported_ice
    }

    pub(crate) fn ice_changed(&mut self, now: Instant, ice: Ice) {
        self.ice = ice;
        match ice {
            Ice::Connected | Ice::Completed => {
                self.trying_since = None;
                self.last_heard = Some(now);
            }
            Ice::Checking | Ice::Disconnected => {
                self.trying_since.get_or_insert(now);
            }
            Ice::New => {}
        }
    }

    /// An ICE restart was agreed: the clock of failure starts anew.
    pub(crate) fn restarted(&mut self, now: Instant) {
        if self.left {
            self.broken = true;
            return;
        }
        self.ice = Ice::Checking;
        self.trying_since = Some(now);
        self.last_heard = Some(now);
    }

    pub(crate) fn dtls_connected(&mut self) {
        self.dtls_up = true;
    }

    pub(crate) fn peer_left(&mut self) {
        self.left = true;
    }

    pub(crate) fn broke(&mut self) {
        self.broken = true;
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn heard(&mut self, now: Instant) {
        self.last_heard = Some(now);
    }

    /// When silence alone would next change the state.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if self.closed || self.broken || self.reported == PeerConnectionState::Failed {
            return None;
        }
        let trying = self.trying_since.map(|since| since + FAILED_AFTER);
        let silent = self.last_heard.filter(|_| self.dtls_up).map(|heard| {
            if self.reported == PeerConnectionState::Disconnected {
                heard + FAILED_AFTER
            } else {
                heard + DISCONNECTED_AFTER
            }
        });
        [trying, silent].into_iter().flatten().min()
    }

    /// Compares what is with what was last reported.
    pub(crate) fn update(&mut self, now: Instant) -> Changed {
        let (ice, connection) = self.judge(now);
        let mut changed = Changed::default();
        if ice != self.reported_ice {
            self.reported_ice = ice;
            changed.ice = Some(ice);
        }
        if connection != self.reported {
            self.reported = connection;
            changed.connection = Some(connection);
        }
        changed
    }

    fn judge(&self, now: Instant) -> (IceConnectionState, PeerConnectionState) {
        if self.closed {
            return (IceConnectionState::Closed, PeerConnectionState::Closed);
        }
        let silent_for = match self.last_heard {
            Some(heard) if self.dtls_up => now.saturating_duration_since(heard),
            _ => Duration::ZERO,
        };
        let trying_for =
            self.trying_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));

        let ice = if silent_for >= FAILED_AFTER || trying_for >= FAILED_AFTER {
            IceConnectionState::Failed
        } else if silent_for >= DISCONNECTED_AFTER {
            IceConnectionState::Disconnected
        } else {
            match self.ice {
                Ice::New => IceConnectionState::New,
                Ice::Connected => IceConnectionState::Connected,
                Ice::Completed => IceConnectionState::Completed,
                Ice::Disconnected if self.dtls_up => IceConnectionState::Disconnected,
                // Before the first connection libwebrtc goes on checking until it fails.
                Ice::Checking | Ice::Disconnected => IceConnectionState::Checking,
            }
        };
        let connection = if self.broken {
            PeerConnectionState::Failed
        } else {
            match ice {
                IceConnectionState::Failed => PeerConnectionState::Failed,
                IceConnectionState::Disconnected => PeerConnectionState::Disconnected,
                IceConnectionState::New => PeerConnectionState::New,
                IceConnectionState::Connected | IceConnectionState::Completed if self.dtls_up => {
                    PeerConnectionState::Connected
                }
                _ => PeerConnectionState::Connecting,
            }
        };
        (ice, connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PeerConnectionState as S;

    fn connected(start: Instant) -> StateTracker {
        let mut state = StateTracker::new();
        state.ice_changed(start, Ice::Checking);
        state.update(start);
        state.ice_changed(start, Ice::Connected);
        state.dtls_connected();
        state.update(start);
        state
    }

    /// Runs the tracker's own deadlines and notes every reported state with the second it came at.
    fn run_silence(state: &mut StateTracker, start: Instant, limit: Duration) -> Vec<(u64, S)> {
        let mut seen = Vec::new();
        while let Some(at) = state.next_deadline().filter(|at| *at <= start + limit) {
            if let Some(now_is) = state.update(at).connection {
                seen.push((at.duration_since(start).as_secs(), now_is));
            } else {
                break;
            }
        }
        seen
    }

    #[test]
    fn states_come_in_libwebrtcs_order() {
        let start = Instant::now();
        let mut state = StateTracker::new();
        assert_eq!(state.connection(), S::New);
        state.ice_changed(start, Ice::Checking);
        assert_eq!(state.update(start).connection, Some(S::Connecting));
        state.ice_changed(start, Ice::Connected);
        assert_eq!(state.update(start).connection, None, "ICE alone is not connected: DTLS is missing");
        state.dtls_connected();
        assert_eq!(state.update(start).connection, Some(S::Connected));
    }

    #[test]
    fn silence_disconnects_after_5_s_and_fails_after_15_s() {
        let start = Instant::now();
        let mut state = connected(start);
        let seen = run_silence(&mut state, start, Duration::from_secs(60));
        assert_eq!(seen, [(5, S::Disconnected), (15, S::Failed)]);
    }

    #[test]
    fn a_packet_brings_a_silent_connection_back() {
        let start = Instant::now();
        let mut state = connected(start);
        let at = start + Duration::from_secs(6);
        assert_eq!(state.update(at).connection, Some(S::Disconnected));
        state.heard(at);
        assert_eq!(state.update(at).connection, Some(S::Connected));
    }

    #[test]
    fn checking_that_finds_nobody_fails() {
        let start = Instant::now();
        let mut state = StateTracker::new();
        state.ice_changed(start, Ice::Checking);
        state.update(start);
        state.ice_changed(start + Duration::from_secs(3), Ice::Disconnected);
        assert_eq!(state.update(start + Duration::from_secs(3)).connection, None);
        let seen = run_silence(&mut state, start, Duration::from_secs(60));
        assert_eq!(seen, [(15, S::Failed)]);
    }

    #[test]
    fn an_ice_restart_recovers_from_failed() {
        let start = Instant::now();
        let mut state = connected(start);
        run_silence(&mut state, start, Duration::from_secs(60));
        assert_eq!(state.connection(), S::Failed);
        let at = start + Duration::from_secs(20);
        state.restarted(at);
        state.ice_changed(at, Ice::Checking);
        assert_eq!(state.update(at).connection, Some(S::Connecting));
        state.ice_changed(at, Ice::Completed);
        assert_eq!(state.update(at).connection, Some(S::Connected));
    }

    #[test]
    fn a_restart_cannot_revive_a_peer_that_said_goodbye() {
        let start = Instant::now();
        let mut state = connected(start);
        state.peer_left();
        assert_eq!(state.update(start).connection, None, "its silence is left to time");
        state.restarted(start + Duration::from_secs(1));
        assert_eq!(state.update(start + Duration::from_secs(1)).connection, Some(S::Failed));
    }

    #[test]
    fn a_broken_connection_stays_failed_and_a_closed_one_closed() {
        let start = Instant::now();
        let mut state = connected(start);
        state.broke();
        assert_eq!(state.update(start).connection, Some(S::Failed));
        state.heard(start + Duration::from_secs(1));
        assert_eq!(state.update(start + Duration::from_secs(1)).connection, None);
        state.close();
        assert_eq!(state.update(start).connection, Some(S::Closed));
    }
}
