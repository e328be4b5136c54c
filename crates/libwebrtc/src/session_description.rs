//! [`SessionDescription`]: the text of an SDP offer or answer with its type.
//!
//! A description is kept as text; the engine reads it when it is applied. [`SessionDescription::parse`]
//! never refuses anything: `livekit` unwraps its result for whatever the server sends, inside the task that
//! handles signalling, so an error there would end the room's signalling for good. What is wrong with a
//! text is said by `SessionDescription::check` and by the engine when the description is applied, where
//! `livekit` expects an error.

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::{RtcError, RtcErrorType};

/// The largest description the engine looks at. A room with hundreds of tracks stays well below it.
const MAX_SDP_BYTES: usize = 512 * 1024;

/// How much of an offending line an error repeats.
const QUOTED_CHARS: usize = 120;

/// What a description is in the offer/answer exchange.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum SdpType {
    /// A proposal.
    Offer,
    /// A provisional answer.
    PrAnswer,
    /// The final answer.
    Answer,
    /// Takes the last offer back.
    Rollback,
}

impl SdpType {
    fn name(self) -> &'static str {
        match self {
            Self::Offer => "offer",
            Self::PrAnswer => "pranswer",
            Self::Answer => "answer",
            Self::Rollback => "rollback",
        }
    }
}

impl FromStr for SdpType {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::Offer, Self::PrAnswer, Self::Answer, Self::Rollback]
            .into_iter()
            .find(|sdp_type| sdp_type.name() == name)
            .ok_or("not an SDP type: expected offer, pranswer, answer or rollback")
    }
}

impl fmt::Display for SdpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a description or a candidate cannot be used.
#[derive(Clone, Error, Debug, PartialEq, Eq)]
#[error("Failed to parse sdp: {line} - {description}")]
pub struct SdpParseError {
    /// The offending line, shortened if it is long.
    pub line: String,
    /// What is wrong with it.
    pub description: String,
}

impl SdpParseError {
    /// An error about `line`, of which it repeats only the beginning: it ends up in logs.
    pub(crate) fn new(line: &str, description: impl Into<String>) -> Self {
        Self { line: line.chars().take(QUOTED_CHARS).collect(), description: description.into() }
    }
}

impl From<SdpParseError> for RtcError {
    fn from(error: SdpParseError) -> Self {
        Self { error_type: RtcErrorType::InvalidSdp, message: error.to_string() }
    }
}

/// An SDP text and what it is. [`ToString`] gives the text back unchanged.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionDescription {
    pub(crate) ty: SdpType,
    pub(crate) sdp: String,
}

impl SessionDescription {
    /// Takes `sdp` as it is. Never an error, see the module's text: what cannot be used is refused when the
    /// description is applied to a peer connection.
    pub fn parse(sdp: &str, sdp_type: SdpType) -> Result<Self, SdpParseError> {
        Ok(Self { ty: sdp_type, sdp: sdp.to_owned() })
    }

    /// What the description is.
    pub fn sdp_type(&self) -> SdpType {
        self.ty
    }

    /// The checks that come before any parsing: is this SDP at all, and of a size worth reading?
    ///
    /// A rollback has no text and passes.
    pub(crate) fn check(&self) -> Result<(), SdpParseError> {
        if self.ty == SdpType::Rollback {
            return Ok(());
        }
        let first_line = self.sdp.lines().next().unwrap_or_default();
        if self.sdp.len() > MAX_SDP_BYTES {
            let problem = format!("{} bytes, more than the {MAX_SDP_BYTES} allowed", self.sdp.len());
            return Err(SdpParseError::new(first_line, problem));
        }
        if first_line.trim_end() != "v=0" {
            return Err(SdpParseError::new(first_line, "the first line is not v=0"));
        }
        Ok(())
    }
}

impl fmt::Display for SessionDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sdp)
    }
}

impl fmt::Debug for SessionDescription {
    /// Leaves the text out: it holds the ICE password, and `livekit` logs descriptions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionDescription").field("sdp_type", &self.ty).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn description(sdp: &str) -> SessionDescription {
        SessionDescription::parse(sdp, SdpType::Answer).expect("parse accepts every text")
    }

    #[test]
    fn types_survive_their_text_form() {
        for name in ["offer", "pranswer", "answer", "rollback"] {
            assert_eq!(name.parse::<SdpType>().unwrap().to_string(), name);
        }
        assert!("Offer".parse::<SdpType>().is_err());
        assert!("".parse::<SdpType>().is_err());
    }

    #[test]
    fn text_is_kept_as_it_came() {
        let sdp = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n";
        let description = description(sdp);
        assert_eq!(description.to_string(), sdp);
        assert_eq!(description.sdp_type(), SdpType::Answer);
        assert_eq!(description.check(), Ok(()));
    }

    #[test]
    fn check_names_what_is_not_sdp() {
        for sdp in ["", "\r\nv=0\r\n", "v=1\r\n", "hello", "v=01"] {
            assert_eq!(description(sdp).check().unwrap_err().description, "the first line is not v=0");
        }
        assert_eq!(description("v=0\n").check(), Ok(()));
    }

    #[test]
    fn check_refuses_a_text_over_the_limit() {
        let padding = "a".repeat(MAX_SDP_BYTES);
        assert_eq!(description(&format!("v=0\n{}", &padding[4..])).check(), Ok(()));
        let error = description(&format!("v=0\n{padding}")).check().unwrap_err();
        assert!(error.description.contains("more than"), "{error}");
    }

    #[test]
    fn an_error_repeats_only_the_beginning_of_a_line() {
        let error = description(&"ü".repeat(100_000)).check().unwrap_err();
        assert_eq!(error.line.chars().count(), QUOTED_CHARS);
        assert_eq!(RtcError::from(error).error_type, RtcErrorType::InvalidSdp);
    }

    #[test]
    fn a_rollback_needs_no_text() {
        assert_eq!(SessionDescription::parse("", SdpType::Rollback).unwrap().check(), Ok(()));
    }

    #[test]
    fn debug_output_keeps_the_password_out_of_logs() {
        let shown = format!("{:?}", description("v=0\r\na=ice-pwd:topsecret\r\n"));
        assert!(shown.contains("Answer") && !shown.contains("topsecret"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_text_is_taken_and_checked_without_a_panic(sdp in "\\PC*|(v=0\r?\n)?(.|\r|\n){0,200}") {
            let description = description(&sdp);
            prop_assert_eq!(description.to_string(), sdp.clone());
            prop_assert_eq!(description.check().is_ok(), sdp.lines().next().is_some_and(|line| line.trim_end() == "v=0"));
        }
    }
}
