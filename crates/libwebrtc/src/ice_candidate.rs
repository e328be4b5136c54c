//! [`IceCandidate`]: one address under which a peer may be reached, as text with the media section it is for.
//!
//! Like a session description, a candidate is kept as text and [`IceCandidate::parse`] never refuses
//! anything, because `livekit` unwraps its result for every line the server trickles (see
//! [`session_description`](crate::session_description)). `IceCandidate::resolve` says what the engine can
//! do with it.

use std::{fmt, net::IpAddr};

use str0m::{Candidate, net::Protocol};

use crate::session_description::SdpParseError;

/// Longer lines are refused unread; a real candidate has around 100 bytes.
const MAX_LINE_BYTES: usize = 4096;

/// The component that carries everything; the others are for RTCP on a port of its own, which we never use.
const RTP_COMPONENT: &str = "1";

/// A candidate's text and the media section it belongs to. [`ToString`] gives the text, without `a=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IceCandidate {
    sdp_mid: String,
    sdp_mline_index: i32,
    candidate: String,
}

/// What a candidate of the other side is to us.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Resolved {
    /// An address that can be tried.
    Usable(Candidate),
    /// A correct candidate that we have no use for, and why. To be skipped without an error.
    Ignored(&'static str),
}

impl IceCandidate {
    /// Takes the line as it is, with or without `a=` in front. Never an error, see the module's text: a line
    /// that is no candidate is refused when it is added to a peer connection.
    pub fn parse(sdp_mid: &str, sdp_mline_index: i32, sdp: &str) -> Result<IceCandidate, SdpParseError> {
        let line = sdp.trim();
        let candidate = line.strip_prefix("a=").unwrap_or(line).to_owned();
        Ok(Self { sdp_mid: sdp_mid.to_owned(), sdp_mline_index, candidate })
    }

    /// The `mid` of the media section the candidate is for.
    pub fn sdp_mid(&self) -> String {
        self.sdp_mid.clone()
    }

    /// The position of that media section.
    pub fn sdp_mline_index(&self) -> i32 {
        self.sdp_mline_index
    }

    /// The line, beginning with `candidate:`.
    pub fn candidate(&self) -> String {
        self.candidate.clone()
    }

    /// Reads the line: a candidate to try, one to skip, or an error if it is none at all.
    pub(crate) fn resolve(&self) -> Result<Resolved, SdpParseError> {
        let line = self.candidate.as_str();
        if line.len() > MAX_LINE_BYTES {
            return Err(SdpParseError::new(line, format!("longer than {MAX_LINE_BYTES} bytes")));
        }
        if line.is_empty() {
            return Ok(Resolved::Ignored("the end of the candidates"));
        }
        let mut fields: Vec<&str> = line.split_whitespace().collect();
        // A name in place of the address is correct, yet str0m only reads addresses: put one in, so that the
        // rest of the line is still checked, and skip the candidate afterwards.
        let address = fields.get_mut(4).filter(|address| is_mdns_name(address));
        let hides_its_address = address.map(|address| *address = "192.0.2.1").is_some();
        let candidate = Candidate::from_sdp_string(&fields.join(" "))
            .map_err(|error| SdpParseError::new(line, error.to_string()))?;

        Ok(if hides_its_address {
            Resolved::Ignored("its address is an mDNS name")
        } else if candidate.proto() != Protocol::Udp {
            Resolved::Ignored("it is not for UDP")
        } else if fields.get(1) != Some(&RTP_COMPONENT) {
            Resolved::Ignored("it is for RTCP on a port of its own")
        } else if !can_be_sent_to(candidate.addr().ip()) || candidate.addr().port() == 0 {
            Resolved::Ignored("nothing can be sent to its address")
        } else {
            Resolved::Usable(candidate)
        })
    }
}

/// Browsers hide their addresses behind such names.
fn is_mdns_name(address: &str) -> bool {
    address.to_ascii_lowercase().ends_with(".local")
}

fn can_be_sent_to(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !is_broadcast
}

impl fmt::Display for IceCandidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.candidate)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOST: &str = "candidate:1 1 udp 2130706431 192.168.1.7 50000 typ host generation 0 ufrag abcd";

    fn candidate(line: &str) -> IceCandidate {
        IceCandidate::parse("0", 0, line).expect("parse accepts every text")
    }

    fn why_ignored(line: &str) -> &'static str {
        match candidate(line).resolve() {
            Ok(Resolved::Ignored(why)) => why,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_host_candidate_resolves_to_its_address() {
        let candidate = IceCandidate::parse("audio", 2, HOST).unwrap();
        assert_eq!(candidate.sdp_mid(), "audio");
        assert_eq!(candidate.sdp_mline_index(), 2);
        assert_eq!(candidate.candidate(), HOST);
        let Ok(Resolved::Usable(resolved)) = candidate.resolve() else { panic!("{candidate:?}") };
        assert_eq!(resolved.addr(), "192.168.1.7:50000".parse().unwrap());
        assert_eq!(resolved.ufrag(), Some("abcd"));
    }

    #[test]
    fn other_kinds_over_udp_are_usable_too() {
        for line in [
            "candidate:2 1 UDP 1694498815 203.0.113.9 40000 typ srflx raddr 10.0.0.1 rport 50000",
            "candidate:3 1 udp 16777215 203.0.113.9 40001 typ relay raddr 0.0.0.0 rport 0",
            "candidate:4 1 udp 2130706431 2001:db8::1 40002 typ host",
        ] {
            assert!(matches!(candidate(line).resolve(), Ok(Resolved::Usable(_))), "{line}");
        }
    }

    #[test]
    fn the_attribute_prefix_and_the_line_end_are_dropped() {
        assert_eq!(candidate(&format!("a={HOST}\r\n")), candidate(HOST));
        assert_eq!(candidate(HOST).to_string(), HOST);
    }

    #[test]
    fn what_we_cannot_use_is_kept_and_skipped() {
        let tcp = "candidate:5 1 tcp 1671430143 192.168.1.7 7881 typ host tcptype passive";
        assert_eq!(candidate(tcp).candidate(), tcp);
        assert_eq!(why_ignored(tcp), "it is not for UDP");

        let mdns = "candidate:6 1 udp 2113937151 1b2c3d4e-0000-4000-8000-000000000001.local 53000 typ host";
        assert_eq!(candidate(mdns).candidate(), mdns);
        assert_eq!(why_ignored(mdns), "its address is an mDNS name");

        assert_eq!(
            why_ignored(&HOST.replacen("1 1 udp", "1 2 udp", 1)),
            "it is for RTCP on a port of its own"
        );
        for address in ["0.0.0.0", "::", "255.255.255.255", "224.0.0.251", "ff02::fb"] {
            assert_eq!(
                why_ignored(&HOST.replace("192.168.1.7", address)),
                "nothing can be sent to its address"
            );
        }
        assert_eq!(why_ignored(&HOST.replace("50000", "0")), "nothing can be sent to its address");
        assert_eq!(why_ignored(""), "the end of the candidates");
    }

    #[test]
    fn what_is_no_candidate_is_a_typed_error() {
        for line in [
            "hello",
            "candidate:",
            "candidate:1 1 udp 2130706431 192.168.1.7 50000",
            "candidate:1 1 udp 2130706431 example.org 50000 typ host",
            "candidate:1 1 udp 2130706431 192.168.1.7 70000 typ host",
            "candidate:1 1 sctp 2130706431 192.168.1.7 50000 typ host",
            "candidate:1 1 udp x name.local 50000 typ host",
        ] {
            let error = candidate(line).resolve().expect_err(line);
            assert_eq!(error.line, line);
        }
        let endless = candidate(&format!("{HOST}{}", " x".repeat(MAX_LINE_BYTES))).resolve().unwrap_err();
        assert!(endless.description.contains("longer than"), "{endless}");
    }

    proptest! {
        #[test]
        fn any_text_is_taken_and_resolved_without_a_panic(
            line in "\\PC*|(a=)?candidate:[0-9a-z.: -]{0,80}|candidate:1 1 udp [0-9]{1,10} [0-9a-f:.]{2,15}(\\.local)? [0-9]{1,6} typ (host|relay)( raddr \\PC{0,9})?",
        ) {
            let candidate = candidate(&line);
            let _ = candidate.resolve();
            prop_assert!(line.contains(&candidate.candidate()));
        }
    }
}
