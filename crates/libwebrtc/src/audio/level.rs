//! How loud audio is.

/// Root mean square of PCM, 0 to 1; zero where there is none.
pub(crate) fn rms(pcm: &[i16]) -> f64 {
    if pcm.is_empty() {
        return 0.0;
    }
    let energy: f64 = pcm.iter().map(|sample| f64::from(*sample).powi(2)).sum();
    (energy / pcm.len() as f64).sqrt() / 32_768.0
}

/// A root mean square as dBov: 0 at most, −127 for silence, as RFC 6464 wants it.
pub(crate) fn dbov(rms: f64) -> i8 {
    if rms <= 0.0 { -127 } else { (20.0 * rms.log10()).round().clamp(-127.0, 0.0) as i8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_known_signals() {
        assert_eq!(dbov(rms(&[])), -127);
        assert_eq!(dbov(rms(&[0; 100])), -127);
        assert_eq!(dbov(rms(&[i16::MIN; 100])), 0);
        assert_eq!(dbov(rms(&[3_277, -3_277])), -20);
        assert_eq!(dbov(rms(&[1])), -90);
    }
}
