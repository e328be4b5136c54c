//! What the engine must know of a remote description and `str0m` does not tell: which media lines send, under
//! which stream id, and how the other side wants its Opus.
//!
//! Reads text only; it never changes or judges a description (that is `str0m`'s part).

use crate::audio::codec::OpusParams;

/// One audio or video line of a description.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MediaLine {
    pub(crate) mid: String,
    pub(crate) video: bool,
    /// The describing side sends on this line.
    pub(crate) sends: bool,
    /// The describing side receives on this line.
    pub(crate) receives: bool,
    /// The first stream id of `a=msid`, unless it is `-` (a track in no stream).
    pub(crate) stream_id: Option<String>,
    /// Payload types that are RFC 2198 redundancy.
    pub(crate) red: Vec<u8>,
    /// The payload type named first: what the describing side likes best.
    preferred: Option<u8>,
    /// Payload types that are Opus.
    pub(crate) opus: Vec<u8>,
    /// How the describing side wants to receive Opus.
    pub(crate) opus_params: OpusParams,
}

/// A description, as far as the engine reads it itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Description {
    pub(crate) media: Vec<MediaLine>,
    /// There is a live `m=application` line, so data channels need no further negotiation.
    pub(crate) has_application: bool,
    /// The largest message the describing side takes on a data channel.
    pub(crate) max_message_size: Option<usize>,
}

impl Description {
    pub(crate) fn read(sdp: &str) -> Self {
        let mut description = Self::default();
        // Attributes before the first m-line belong to the session: none of them concerns us.
        let mut in_media = false;
        for line in sdp.lines().map(str::trim_end) {
            if let Some(rest) = line.strip_prefix("m=") {
                in_media = description.open_line(rest);
            } else if let Some(size) = line.strip_prefix("a=max-message-size:") {
                // 0 stands for any size.
                description.max_message_size =
                    size.trim().parse().ok().map(|size| if size == 0 { usize::MAX } else { size });
            } else if in_media && let Some(media) = description.media.last_mut() {
                media.read_attribute(line);
            }
        }
        description
    }

    fn open_line(&mut self, rest: &str) -> bool {
        let mut words = rest.split_ascii_whitespace();
        let (kind, port) = (words.next().unwrap_or(""), words.next().unwrap_or("0"));
        match kind {
            "audio" | "video" => {
                self.media.push(MediaLine {
                    mid: String::new(),
                    video: kind == "video",
                    sends: true,
                    receives: true,
                    stream_id: None,
                    preferred: words.nth(1).and_then(|word| word.parse().ok()),
                    red: Vec::new(),
                    opus: Vec::new(),
                    opus_params: OpusParams::default(),
                });
                true
            }
            "application" => {
                self.has_application |= port != "0";
                false
            }
            _ => false,
        }
    }
}

impl MediaLine {
    /// The payload type under which the describing side would rather have redundancy than plain Opus.
    pub(crate) fn preferred_red(&self) -> Option<u8> {
        self.preferred.filter(|pt| self.red.contains(pt))
    }

    fn read_attribute(&mut self, line: &str) {
        let Some(attribute) = line.strip_prefix("a=") else { return };
        let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
        match name {
            "mid" => value.trim().clone_into(&mut self.mid),
            "sendonly" => self.receives = false,
            "recvonly" => self.sends = false,
            "inactive" => (self.sends, self.receives) = (false, false),
            "msid" if self.stream_id.is_none() => {
                self.stream_id =
                    value.split_ascii_whitespace().next().filter(|id| *id != "-").map(str::to_owned);
            }
            "rtpmap" => self.read_rtpmap(value),
            "fmtp" => self.read_fmtp(value),
            _ => {}
        }
    }

    fn read_rtpmap(&mut self, value: &str) {
        let Some((pt, codec)) = value.split_once(' ') else { return };
        let Ok(pt) = pt.parse() else { return };
        let name = codec.split('/').next().unwrap_or("").trim();
        if name.eq_ignore_ascii_case("opus") {
            self.opus.push(pt);
        } else if name.eq_ignore_ascii_case("red") && !self.video {
            self.red.push(pt);
        }
    }

    fn read_fmtp(&mut self, value: &str) {
        let Some((pt, parameters)) = value.split_once(' ') else { return };
        if !pt.parse().is_ok_and(|pt| self.opus.contains(&pt)) {
            return;
        }
        for parameter in parameters.split(';') {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (key, value) = (key.trim(), value.trim());
            match key {
                "usedtx" => self.opus_params.dtx = value == "1",
                "useinbandfec" => self.opus_params.fec = value == "1",
                "stereo" => self.opus_params.stereo = value == "1",
                "maxaveragebitrate" => self.opus_params.max_bitrate = value.parse().ok(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "v=0\r\no=- 1 2 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\na=msid-semantic:WMS *\r\n\
        m=audio 9 UDP/TLS/RTP/SAVPF 63 111\r\na=mid:0\r\na=sendonly\r\na=msid:PA_x|TR_y TR_y\r\n\
        a=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\na=rtpmap:111 opus/48000/2\r\n\
        a=fmtp:111 minptime=10;useinbandfec=1; usedtx=1;maxaveragebitrate=32000\r\n\
        m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:1\r\na=inactive\r\na=msid:- TR_z\r\n\
        m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:2\r\na=max-message-size:65535\r\n";

    #[test]
    fn reads_direction_stream_and_opus_parameters_of_each_line() {
        let read = Description::read(ANSWER);
        assert!(read.has_application);
        assert_eq!(read.max_message_size, Some(65_535));
        let [audio, video] = &read.media[..] else { panic!("two media lines, not {read:?}") };
        assert_eq!((audio.mid.as_str(), audio.sends, audio.receives), ("0", true, false));
        assert_eq!(audio.stream_id.as_deref(), Some("PA_x|TR_y"));
        assert_eq!((&audio.red[..], &audio.opus[..]), (&[63][..], &[111][..]));
        assert_eq!(audio.preferred_red(), Some(63), "redundancy is named first");
        assert!(audio.opus_params.dtx && audio.opus_params.fec && !audio.opus_params.stereo);
        assert_eq!(audio.opus_params.max_bitrate, Some(32_000));
        assert!(video.video && !video.sends && !video.receives);
        assert_eq!(video.stream_id, None, "a track in no stream has no stream id");
    }

    #[test]
    fn a_refused_application_line_carries_no_channels() {
        let refused = ANSWER.replace("m=application 9", "m=application 0");
        assert!(!Description::read(&refused).has_application);
    }
}
