//! The Queue service over HTTP.

pub mod message_xml;
pub mod receipt;
pub mod reply;
pub mod request;
