//! The Table service over HTTP.

pub mod atom;
pub mod batch;
pub mod classify;
pub mod decode;
pub mod encode;
pub mod filter_text;
pub mod format;
pub mod json;
pub mod links;
mod number;
pub mod presentation;
pub mod resource;
pub mod select;
pub mod token;
mod value;
