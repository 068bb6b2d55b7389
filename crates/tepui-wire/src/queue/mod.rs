//! The Queue service over HTTP.

pub mod classify;
pub mod decode;
pub mod encode;
pub mod message_xml;
pub mod receipt;
pub mod resource;
