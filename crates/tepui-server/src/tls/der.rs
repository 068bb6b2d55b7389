//! Just enough of DER to read what is in certificates and PFX files.

/// Elements one after another.
#[derive(Clone, Copy)]
pub(super) struct Der<'a>(&'a [u8]);

/// One element.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
}

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;
/// `[0]`, around another element.
pub(super) const CONTEXT_0: u8 = 0xa0;
/// `[0]`, instead of the tag of its content.
pub(super) const IMPLICIT_0: u8 = 0x80;
/// `[3]`, around another element.
pub(super) const CONTEXT_3: u8 = 0xa3;

impl<'a> Der<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next element, if it is whole.
    pub(super) fn next(&mut self) -> Option<Element<'a>> {
        let [tag, first, rest @ ..] = self.0 else { return None };
        // Tags of several bytes are not used here, and lengths without an end are not DER.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            long @ 0x81..=0x84 => {
                let (length, rest) = rest.split_at_checked(usize::from(long - 0x80))?;
                (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Element { tag: *tag, content })
    }

    /// The next element, if it has this tag; otherwise it stays.
    pub(super) fn optional(&mut self, tag: u8) -> Option<Element<'a>> {
        let mut after = *self;
        let element = after.next().filter(|element| element.tag == tag)?;
        *self = after;
        Some(element)
    }

    /// The content of the next element, which has this tag.
    pub(super) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.optional(tag).map(|element| element.content)
    }

    /// The elements inside the next one, which has this tag.
    pub(super) fn inside(&mut self, tag: u8) -> Option<Self> {
        self.take(tag).map(Self)
    }

    /// The next element as a number that is not negative.
    pub(super) fn number(&mut self) -> Option<u32> {
        let bytes = self.take(INTEGER)?;
        let is_positive = bytes.first().is_some_and(|first| *first < 0x80);
        let number = bytes
            .iter()
            .try_fold(0_u32, |number, byte| number.checked_mul(256).map(|number| number + u32::from(*byte)));
        number.filter(|_| is_positive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements() {
        for (case, bytes, expected) in [
            ("empty", &[][..], None),
            ("a byte", &[4], None),
            ("short", &[4, 2, 7, 8], Some((4, &[7, 8][..]))),
            ("with more after it", &[4, 1, 7, 8], Some((4, &[7]))),
            ("cut off", &[4, 3, 7, 8], None),
            ("a long length", &[4, 0x81, 2, 7, 8], Some((4, &[7, 8]))),
            ("a longer length", &[4, 0x82, 0, 1, 7], Some((4, &[7]))),
            ("a length that is cut off", &[4, 0x82, 0], None),
            ("no end", &[4, 0x80, 7, 0, 0], None),
            ("a length of five bytes", &[4, 0x85, 0, 0, 0, 0, 0], None),
            ("a long tag", &[0x1f, 1, 7], None),
        ] {
            let element = Der::new(bytes).next();
            assert_eq!(element.map(|element| (element.tag, element.content)), expected, "{case}");
        }
    }

    #[test]
    fn numbers() {
        for (bytes, expected) in [
            (&[2, 1, 5][..], Some(5)),
            (&[2, 2, 8, 0], Some(2048)),
            (&[2, 5, 0, 0xff, 0xff, 0xff, 0xff], Some(u32::MAX)),
            (&[2, 5, 1, 0, 0, 0, 0], None),
            (&[2, 1, 0xff], None),
            (&[2, 0], None),
            (&[4, 1, 5], None),
        ] {
            assert_eq!(Der::new(bytes).number(), expected, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut der = Der::new(&bytes);
            let mut read = 0;
            while let Some(element) = der.next() {
                read += element.content.len();
            }
            prop_assert!(read <= bytes.len());
        }
    }
}
