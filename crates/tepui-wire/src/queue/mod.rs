//! The Queue service over HTTP.

pub mod message_xml;
pub mod pop_receipt;
pub mod reply;
pub mod request;
