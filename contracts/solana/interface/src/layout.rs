//! Structs whose bytes are their fields one after the other, as borsh writes fields of fixed size.

/// A field of fixed size.
pub(crate) trait Field: Sized {
    const SIZE: usize;
    /// Reads from exactly `SIZE` bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Writes to exactly `SIZE` bytes.
    fn write(&self, bytes: &mut [u8]);
}

impl Field for u8 {
    const SIZE: usize = 1;

    fn read(bytes: &[u8]) -> Self {
        bytes[0]
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes[0] = *self;
    }
}

impl Field for u64 {
    const SIZE: usize = 8;

    fn read(bytes: &[u8]) -> Self {
        let mut array = [0; 8];
        array.copy_from_slice(bytes);
        u64::from_le_bytes(array)
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.to_le_bytes());
    }
}

impl Field for [u8; 32] {
    const SIZE: usize = 32;

    fn read(bytes: &[u8]) -> Self {
        let mut array = [0; 32];
        array.copy_from_slice(bytes);
        array
    }

    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
}

/// Defines a struct of [`Field`]s with `SIZE`, `to_bytes` and `from_bytes`, and for each leading constant (`tag = value`)
/// a byte that is written before the fields and compared when read.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        pub struct $name:ident [$($prefix:expr),*] {
            $($(#[$field_meta:meta])* pub $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $kind,)*
        }

        impl $name {
            const PREFIX: &'static [u8] = &[$($prefix),*];

            /// Length of the bytes.
            pub const SIZE: usize = Self::PREFIX.len() $(+ <$kind as $crate::layout::Field>::SIZE)*;

            /// The bytes: leading constants, then the fields in the order of the struct.
            pub fn to_bytes(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                bytes[..Self::PREFIX.len()].copy_from_slice(Self::PREFIX);
                let at = Self::PREFIX.len();
                $(
                    let end = at + <$kind as $crate::layout::Field>::SIZE;
                    $crate::layout::Field::write(&self.$field, &mut bytes[at..end]);
                    let at = end;
                )*
                debug_assert!(at == Self::SIZE);
                bytes
            }

            /// Reads exactly [`Self::SIZE`] bytes; `None` for another length or other leading constants.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                if bytes.len() != Self::SIZE || !bytes.starts_with(Self::PREFIX) {
                    return None;
                }
                let at = Self::PREFIX.len();
                $(
                    let end = at + <$kind as $crate::layout::Field>::SIZE;
                    let $field = <$kind as $crate::layout::Field>::read(&bytes[at..end]);
                    let at = end;
                )*
                debug_assert!(at == Self::SIZE);
                Some(Self { $($field,)* })
            }
        }
    };
}

pub(crate) use layout;
