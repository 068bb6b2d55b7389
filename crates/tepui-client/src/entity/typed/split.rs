//! Values that are larger than a property may be: in pieces, each a property.
//!
//! The first piece has the name of the property, those after it `Name1` to `Name14`. The last one is followed by an empty
//! piece, unless it is the fifteenth: a merge with a shorter value leaves pieces of the longer one behind, and that is where
//! reading must end.

use super::{get, put, required};
use crate::{Error, ErrorKind};
use tepui_model::table::{Properties, PropertiesBuilder};

/// What an entity can hold at all is 1 MiB; 15 pieces of 64 KiB are just below.
const MAX_PIECES: usize = 15;
const MAX_PIECE_BYTES: usize = 64 << 10;
/// A text is measured in UTF-16.
const MAX_PIECE_UNITS: usize = MAX_PIECE_BYTES / 2;

/// A value that can be split: text and bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be split over several properties",
    label = "not String or Vec<u8>"
)]
pub trait SplitValue: super::PropertyValue + Default {
    /// As few pieces as possible, none of them empty; none for an empty value.
    fn pieces(&self) -> Vec<Self>;
    fn is_empty(&self) -> bool;
    fn append(&mut self, piece: Self);
}

impl SplitValue for String {
    fn pieces(&self) -> Vec<Self> {
        let mut pieces = Vec::new();
        let (mut piece, mut units) = (Self::new(), 0);
        for character in self.chars() {
            // A pair of surrogates stays together, or neither piece would be a text.
            if units + character.len_utf16() > MAX_PIECE_UNITS {
                pieces.push(std::mem::take(&mut piece));
                units = 0;
            }
            piece.push(character);
            units += character.len_utf16();
        }
        if !piece.is_empty() {
            pieces.push(piece);
        }
        pieces
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn append(&mut self, piece: Self) {
        self.push_str(&piece);
    }
}

impl SplitValue for Vec<u8> {
    fn pieces(&self) -> Vec<Self> {
        self.chunks(MAX_PIECE_BYTES).map(<[u8]>::to_vec).collect()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn append(&mut self, mut piece: Self) {
        Self::append(self, &mut piece);
    }
}

/// `names`: of the pieces, in order.
#[doc(hidden)]
pub fn put_split<T: SplitValue>(
    to: &mut PropertiesBuilder,
    names: &[&str],
    value: Option<&T>,
) -> Result<(), Error> {
    let Some(value) = value else { return Ok(()) };
    let mut pieces = value.pieces();
    if pieces.len() > MAX_PIECES {
        let name = names.first().copied().unwrap_or_default();
        let message = format!("the value takes more than {MAX_PIECES} properties of 64 KiB: {name}");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    // The end.
    pieces.push(T::default());
    names.iter().zip(&pieces).try_for_each(|(name, piece)| put(to, name, Some(piece)))
}

#[doc(hidden)]
pub fn get_split<T: SplitValue>(from: &Properties, names: &[&str]) -> Result<Option<T>, Error> {
    let Some((first, others)) = names.split_first() else { return Ok(None) };
    let Some(mut value) = get::<T>(from, first)? else {
        return match others.iter().find(|name| from.get(name).is_some_and(|piece| !is_empty(piece))) {
            Some(_) => required(first, None),
            None => Ok(None),
        };
    };
    if value.is_empty() {
        return Ok(Some(value));
    }
    for name in others {
        match get::<T>(from, name)? {
            Some(piece) if !piece.is_empty() => value.append(piece),
            _ => break,
        }
    }
    Ok(Some(value))
}

fn is_empty(value: tepui_model::table::ValueRef<'_>) -> bool {
    match value {
        tepui_model::table::ValueRef::String(text) => text.bytes().is_empty(),
        tepui_model::table::ValueRef::Binary(bytes) => bytes.is_empty(),
        _ => false,
    }
}
