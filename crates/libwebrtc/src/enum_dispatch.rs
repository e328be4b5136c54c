//! The macro `enum_dispatch!`: methods of an enum that only forward to the value inside each variant.
//!
//! Part of the public API, because `livekit` writes its own track and participant enums with it. It
//! produces plain `match` expressions and nothing else.

/// Writes methods that call the method of the same name on whatever the variant holds.
///
/// ```
/// struct Cat;
/// struct Dog;
/// impl Cat { fn says(&self, times: usize) -> String { "miaow ".repeat(times) } }
/// impl Dog { fn says(&self, times: usize) -> String { "woof ".repeat(times) } }
///
/// enum Pet { Cat(Cat), Dog(Dog) }
/// impl Pet {
///     libwebrtc::enum_dispatch!(
///         [Cat, Dog];
///         /// What the pet says, that many times.
///         pub fn says(self: &Self, times: usize) -> String;
///     );
/// }
/// assert_eq!(Pet::Cat(Cat).says(2), "miaow miaow ");
/// assert_eq!(Pet::Dog(Dog).says(1), "woof ");
/// ```
///
/// The return type is always written, `-> ()` for none; `self` is written with its type.
#[macro_export]
macro_rules! enum_dispatch {
    (
        $variants:tt;
        $(
            $(#[$attribute:meta])*
            $vis:vis fn $method:ident($self:ident: $receiver:ty $(, $arg:ident: $arg_type:ty)* $(,)?) -> $result:ty;
        )+
    ) => {
        $(
            $(#[$attribute])*
            #[inline]
            $vis fn $method($self: $receiver $(, $arg: $arg_type)*) -> $result {
                $crate::enum_dispatch!(@forward $self, $variants, $method, ($($arg),*))
            }
        )+
    };
    // Variants and arguments are two independent repetitions, which one arm cannot nest: here the
    // arguments have become a single token tree that each variant's arm repeats as a whole.
    (@forward $self:ident, [$($variant:ident),+ $(,)?], $method:ident, $args:tt) => {
        match $self {
            $(Self::$variant(inner) => inner.$method $args,)+
        }
    };
}
