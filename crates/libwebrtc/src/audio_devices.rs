//! The audio-device half of a peer connection factory: microphones and loudspeakers.
//!
//! A server has none and this crate opens none: there are no devices, nothing can be selected, initialised or
//! started, and `livekit`'s `PlatformAudio` fails to be created with its own error. Sound goes in through an
//! audio source and comes out of an audio stream. What is only a wish (whether recording or playout would be
//! enabled) is remembered.
//!
//! The trait is the original's, which `livekit` imports from `peer_connection_factory::native`.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{
    audio_source::native::NativeAudioSource, audio_track::RtcAudioTrack,
    peer_connection_factory::PeerConnectionFactory, video_source::native::NativeVideoSource,
    video_track::RtcVideoTrack,
};

/// The wishes that a factory remembers about devices; both off at first.
#[derive(Debug, Default)]
pub(crate) struct AudioDeviceFlags {
    recording_enabled: AtomicBool,
    playout_enabled: AtomicBool,
}

/// What a factory makes besides connections, and what it would know about audio devices.
pub trait PeerConnectionFactoryExt {
    /// A track for the pictures of a source. They are not sent.
    fn create_video_track(&self, label: &str, source: NativeVideoSource) -> RtcVideoTrack;
    /// A track for the sound of a source.
    fn create_audio_track(&self, label: &str, source: NativeAudioSource) -> RtcAudioTrack;
    /// A track for a microphone. There is none, so it stays silent.
    fn create_device_audio_track(&self, label: &str) -> RtcAudioTrack;
    /// How many loudspeakers there are: 0.
    fn playout_devices(&self) -> i16;
    /// How many microphones there are: 0.
    fn recording_devices(&self) -> i16;
    /// The name of a loudspeaker: empty.
    fn playout_device_name(&self, index: u16) -> String;
    /// The name of a microphone: empty.
    fn recording_device_name(&self, index: u16) -> String;
    /// The identifier of a loudspeaker: empty.
    fn playout_device_guid(&self, index: u16) -> String;
    /// The identifier of a microphone: empty.
    fn recording_device_guid(&self, index: u16) -> String;
    /// Selects a loudspeaker: `false`, there is none.
    fn set_playout_device(&self, index: u16) -> bool;
    /// Selects a microphone: `false`, there is none.
    fn set_recording_device(&self, index: u16) -> bool;
    /// Selects a loudspeaker: `false`, there is none.
    fn set_playout_device_by_guid(&self, guid: &str) -> bool;
    /// Selects a microphone: `false`, there is none.
    fn set_recording_device_by_guid(&self, guid: &str) -> bool;
    /// Whether recording was stopped: `false`, it never runs.
    fn stop_recording(&self) -> bool;
    /// Whether recording is ready: `false`.
    fn init_recording(&self) -> bool;
    /// Whether recording runs: `false`.
    fn start_recording(&self) -> bool;
    /// Whether recording is ready: `false`.
    fn recording_is_initialized(&self) -> bool;
    /// Whether playout was stopped: `false`, it never runs.
    fn stop_playout(&self) -> bool;
    /// Whether playout is ready: `false`.
    fn init_playout(&self) -> bool;
    /// Whether playout runs: `false`.
    fn start_playout(&self) -> bool;
    /// Whether playout is ready: `false`.
    fn playout_is_initialized(&self) -> bool;
    /// Whether a device cancels echo itself: `false`.
    fn builtin_aec_is_available(&self) -> bool;
    /// Whether a device controls gain itself: `false`.
    fn builtin_agc_is_available(&self) -> bool;
    /// Whether a device suppresses noise itself: `false`.
    fn builtin_ns_is_available(&self) -> bool;
    /// Whether that could be switched: `false`.
    fn enable_builtin_aec(&self, enable: bool) -> bool;
    /// Whether that could be switched: `false`.
    fn enable_builtin_agc(&self, enable: bool) -> bool;
    /// Whether that could be switched: `false`.
    fn enable_builtin_ns(&self, enable: bool) -> bool;
    /// Remembers whether a microphone would be used.
    fn set_adm_recording_enabled(&self, enabled: bool);
    /// Whether a microphone would be used.
    fn adm_recording_enabled(&self) -> bool;
    /// Remembers whether a loudspeaker would be used.
    fn set_adm_playout_enabled(&self, enabled: bool);
    /// Whether a loudspeaker would be used.
    fn adm_playout_enabled(&self) -> bool;
    /// Whether the machine's audio can be used: `false`.
    fn acquire_platform_adm(&self) -> bool;
    /// Gives back what cannot be acquired: does nothing.
    fn release_platform_adm(&self);
    /// How many use the machine's audio: 0.
    fn platform_adm_ref_count(&self) -> i32;
    /// Whether anybody uses the machine's audio: `false`.
    fn is_platform_adm_active(&self) -> bool;
}

impl PeerConnectionFactoryExt for PeerConnectionFactory {
    fn create_video_track(&self, label: &str, _source: NativeVideoSource) -> RtcVideoTrack {
        RtcVideoTrack::new(label)
    }

    fn create_audio_track(&self, label: &str, source: NativeAudioSource) -> RtcAudioTrack {
        self.new_audio_track(label, source)
    }

    fn create_device_audio_track(&self, label: &str) -> RtcAudioTrack {
        self.new_silent_audio_track(label)
    }

    fn playout_devices(&self) -> i16 {
        0
    }

    fn recording_devices(&self) -> i16 {
        0
    }

    fn playout_device_name(&self, _index: u16) -> String {
        String::new()
    }

    fn recording_device_name(&self, _index: u16) -> String {
        String::new()
    }

    fn playout_device_guid(&self, _index: u16) -> String {
        String::new()
    }

    fn recording_device_guid(&self, _index: u16) -> String {
        String::new()
    }

    fn set_playout_device(&self, _index: u16) -> bool {
        false
    }

    fn set_recording_device(&self, _index: u16) -> bool {
        false
    }

    fn set_playout_device_by_guid(&self, _guid: &str) -> bool {
        false
    }

    fn set_recording_device_by_guid(&self, _guid: &str) -> bool {
        false
    }

    fn stop_recording(&self) -> bool {
        false
    }

    fn init_recording(&self) -> bool {
        false
    }

    fn start_recording(&self) -> bool {
        false
    }

    fn recording_is_initialized(&self) -> bool {
        false
    }

    fn stop_playout(&self) -> bool {
        false
    }

    fn init_playout(&self) -> bool {
        false
    }

    fn start_playout(&self) -> bool {
        false
    }

    fn playout_is_initialized(&self) -> bool {
        false
    }

    fn builtin_aec_is_available(&self) -> bool {
        false
    }

    fn builtin_agc_is_available(&self) -> bool {
        false
    }

    fn builtin_ns_is_available(&self) -> bool {
        false
    }

    fn enable_builtin_aec(&self, _enable: bool) -> bool {
        false
    }

    fn enable_builtin_agc(&self, _enable: bool) -> bool {
        false
    }

    fn enable_builtin_ns(&self, _enable: bool) -> bool {
        false
    }

    fn set_adm_recording_enabled(&self, enabled: bool) {
        self.audio_devices().recording_enabled.store(enabled, Ordering::Release);
    }

    fn adm_recording_enabled(&self) -> bool {
        self.audio_devices().recording_enabled.load(Ordering::Acquire)
    }

    fn set_adm_playout_enabled(&self, enabled: bool) {
        self.audio_devices().playout_enabled.store(enabled, Ordering::Release);
    }

    fn adm_playout_enabled(&self) -> bool {
        self.audio_devices().playout_enabled.load(Ordering::Acquire)
    }

    fn acquire_platform_adm(&self) -> bool {
        false
    }

    fn release_platform_adm(&self) {}

    fn platform_adm_ref_count(&self) -> i32 {
        0
    }

    fn is_platform_adm_active(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_no_audio_devices() {
        let factory = PeerConnectionFactory::default();
        assert_eq!((factory.playout_devices(), factory.recording_devices()), (0, 0));
        assert!(!factory.set_recording_device(0) && !factory.set_playout_device_by_guid("default"));
        assert!(!factory.acquire_platform_adm());
        factory.release_platform_adm();
        assert_eq!(factory.platform_adm_ref_count(), 0);
    }

    #[test]
    fn wishes_are_remembered_by_all_clones_of_a_factory() {
        let factory = PeerConnectionFactory::default();
        assert!(!factory.adm_recording_enabled() && !factory.adm_playout_enabled());
        factory.clone().set_adm_recording_enabled(true);
        assert!(factory.adm_recording_enabled() && !factory.adm_playout_enabled());
        factory.set_adm_playout_enabled(true);
        factory.set_adm_recording_enabled(false);
        assert!(!factory.adm_recording_enabled() && factory.adm_playout_enabled());
    }
}
