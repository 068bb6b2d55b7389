//! The Table service over HTTP.

pub mod atom;
pub mod batch;
pub mod filter_text;
pub mod format;
pub mod json;
pub mod links;
mod number;
pub mod reply;
pub mod request;
pub mod select;
pub mod token;
mod value;
