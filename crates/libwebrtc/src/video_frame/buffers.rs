//! The buffers that an application can make: brightness and colour in planes of their own.
//!
//! Every plane is `stride × rows` samples long. A stride below what a row needs is raised to it. As with any
//! `Vec`, asking for more memory than there is ends the program: sizes are the caller's to check.

use std::fmt;

use super::{VideoBuffer, VideoBufferType, sealed::Sealed};

fn plane<Sample: Clone>(stride: u32, rows: u32, value: Sample) -> Vec<Sample> {
    vec![value; stride as usize * rows as usize]
}

/// A buffer with one plane of brightness and two of colour, each colour sample covering
/// `$across × $down` pixels.
macro_rules! planar_buffer {
    ($(#[$doc:meta])* $name:ident, $as_self:ident, $kind:ident, $sample:ty, $across:literal, $down:literal) => {
        $(#[$doc])*
        pub struct $name {
            width: u32,
            height: u32,
            strides: (u32, u32, u32),
            planes: (Vec<$sample>, Vec<$sample>, Vec<$sample>),
        }

        impl $name {
            /// A buffer with rows of at least these lengths, all samples 0.
            pub fn with_strides(width: u32, height: u32, stride_y: u32, stride_u: u32, stride_v: u32) -> Self {
                let (chroma_width, chroma_height) = (width.div_ceil($across), height.div_ceil($down));
                let strides = (stride_y.max(width), stride_u.max(chroma_width), stride_v.max(chroma_width));
                let planes = (
                    plane(strides.0, height, 0),
                    plane(strides.1, chroma_height, 0),
                    plane(strides.2, chroma_height, 0),
                );
                Self { width, height, strides, planes }
            }

            /// A buffer without padding, all samples 0.
            pub fn new(width: u32, height: u32) -> Self {
                Self::with_strides(width, height, 0, 0, 0)
            }

            /// Samples per row of the colour planes.
            pub fn chroma_width(&self) -> u32 {
                self.width.div_ceil($across)
            }

            /// Rows of the colour planes.
            pub fn chroma_height(&self) -> u32 {
                self.height.div_ceil($down)
            }

            /// Samples from one row to the next, for Y, U and V.
            pub fn strides(&self) -> (u32, u32, u32) {
                self.strides
            }

            /// The planes Y, U and V.
            pub fn data(&self) -> (&[$sample], &[$sample], &[$sample]) {
                (&self.planes.0, &self.planes.1, &self.planes.2)
            }

            /// The planes Y, U and V, to write to.
            pub fn data_mut(&mut self) -> (&mut [$sample], &mut [$sample], &mut [$sample]) {
                (&mut self.planes.0, &mut self.planes.1, &mut self.planes.2)
            }
        }

        video_buffer!($name, $as_self, $kind);
    };
}

/// What makes a struct with `width` and `height` a [`VideoBuffer`].
macro_rules! video_buffer {
    ($name:ident, $as_self:ident, $kind:ident) => {
        impl Sealed for $name {}

        impl VideoBuffer for $name {
            fn width(&self) -> u32 {
                self.width
            }

            fn height(&self) -> u32 {
                self.height
            }

            fn buffer_type(&self) -> VideoBufferType {
                VideoBufferType::$kind
            }

            fn $as_self(&self) -> Option<&$name> {
                Some(self)
            }
        }

        impl AsRef<dyn VideoBuffer> for $name {
            fn as_ref(&self) -> &(dyn VideoBuffer + 'static) {
                self
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("width", &self.width)
                    .field("height", &self.height)
                    .finish_non_exhaustive()
            }
        }
    };
}

planar_buffer!(
    /// 8 bits; one colour sample for 2 × 2 pixels.
    I420Buffer, as_i420, I420, u8, 2, 2
);
planar_buffer!(
    /// 8 bits; one colour sample for 2 pixels of a row.
    I422Buffer, as_i422, I422, u8, 2, 1
);
planar_buffer!(
    /// 8 bits; one colour sample for every pixel.
    I444Buffer, as_i444, I444, u8, 1, 1
);
planar_buffer!(
    /// 10 bits; one colour sample for 2 × 2 pixels.
    I010Buffer, as_i010, I010, u16, 2, 2
);

impl I420Buffer {
    /// A black picture. (All samples 0 would be dark green.)
    pub fn new_black(width: u32, height: u32) -> Self {
        let mut buffer = Self::new(width, height);
        buffer.planes.1.fill(128);
        buffer.planes.2.fill(128);
        buffer
    }
}

/// 8 bits; one plane of brightness, one of alternating U and V for 2 × 2 pixels each.
pub struct NV12Buffer {
    width: u32,
    height: u32,
    strides: (u32, u32),
    planes: (Vec<u8>, Vec<u8>),
}

impl NV12Buffer {
    /// A buffer with rows of at least these lengths, all samples 0.
    pub fn with_strides(width: u32, height: u32, stride_y: u32, stride_uv: u32) -> Self {
        let strides = (stride_y.max(width), stride_uv.max(width.div_ceil(2).saturating_mul(2)));
        let planes = (plane(strides.0, height, 0), plane(strides.1, height.div_ceil(2), 0));
        Self { width, height, strides, planes }
    }

    /// A buffer without padding, all samples 0.
    pub fn new(width: u32, height: u32) -> Self {
        Self::with_strides(width, height, 0, 0)
    }

    /// Pairs of colour samples per row.
    pub fn chroma_width(&self) -> u32 {
        self.width.div_ceil(2)
    }

    /// Rows of the colour plane.
    pub fn chroma_height(&self) -> u32 {
        self.height.div_ceil(2)
    }

    /// Samples from one row to the next, for Y and UV.
    pub fn strides(&self) -> (u32, u32) {
        self.strides
    }

    /// The planes Y and UV.
    pub fn data(&self) -> (&[u8], &[u8]) {
        (&self.planes.0, &self.planes.1)
    }

    /// The planes Y and UV, to write to.
    pub fn data_mut(&mut self) -> (&mut [u8], &mut [u8]) {
        (&mut self.planes.0, &mut self.planes.1)
    }
}

video_buffer!(NV12Buffer, as_nv12, NV12);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_of_an_odd_sized_picture_round_up() {
        let i420 = I420Buffer::new(5, 3);
        let (y, u, v) = i420.data();
        assert_eq!((y.len(), u.len(), v.len()), (15, 6, 6));
        assert_eq!((i420.chroma_width(), i420.chroma_height()), (3, 2));
        assert_eq!(i420.strides(), (5, 3, 3));

        let i422 = I422Buffer::new(5, 3);
        assert_eq!((i422.data().0.len(), i422.data().1.len()), (15, 9));
        let i444 = I444Buffer::new(5, 3);
        assert_eq!((i444.data().0.len(), i444.data().2.len()), (15, 15));
        let i010 = I010Buffer::new(5, 3);
        assert_eq!((i010.data().0.len(), i010.data().2.len()), (15, 6));
        let nv12 = NV12Buffer::new(5, 3);
        assert_eq!((nv12.data().0.len(), nv12.data().1.len(), nv12.strides()), (15, 12, (5, 6)));
    }

    #[test]
    fn strides_pad_rows_and_never_cut_them() {
        let padded = I420Buffer::with_strides(4, 2, 16, 8, 1);
        assert_eq!(padded.strides(), (16, 8, 2));
        let (y, u, v) = padded.data();
        assert_eq!((y.len(), u.len(), v.len()), (32, 8, 2));
    }

    #[test]
    fn black_is_black_in_every_plane() {
        let mut black = I420Buffer::new_black(4, 4);
        let (y, u, v) = black.data_mut();
        assert!(y.iter().all(|sample| *sample == 0));
        assert!(u.iter().chain(v.iter()).all(|sample| *sample == 128));
    }

    #[test]
    fn a_buffer_knows_its_kind() {
        let buffer: Box<dyn VideoBuffer> = Box::new(NV12Buffer::new(2, 2));
        assert_eq!(buffer.buffer_type(), VideoBufferType::NV12);
        assert!(buffer.as_nv12().is_some() && buffer.as_i420().is_none());
    }
}
