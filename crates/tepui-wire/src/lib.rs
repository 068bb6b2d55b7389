//! The protocol's types as HTTP, both directions. No sockets and nothing asynchronous.

pub mod access;
pub mod address;
pub mod auth;
pub mod blob;
pub mod connection_string;
pub mod cors;
pub mod crypto;
pub mod delegation_xml;
pub mod error_body;
pub mod head;
pub mod metadata;
mod multipart;
pub mod parameters;
pub mod payload;
pub mod percent;
pub mod query;
pub mod queue;
pub mod remote;
pub mod request_headers;
pub mod table;
pub mod version;
pub mod xml;
