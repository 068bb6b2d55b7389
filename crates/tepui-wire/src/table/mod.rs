//! The Table service over HTTP.

pub mod atom;
pub mod filter_text;
pub mod format;
pub mod json;
pub mod links;
mod number;
pub mod select;
mod value;
