//! The Blob service over HTTP.

mod answer_headers;
pub mod batch;
pub mod block_list_xml;
pub mod classify;
mod conditions;
pub mod decode;
pub mod delegation_xml;
pub mod encode;
mod headers;
mod list_xml;
pub mod marker;
mod page_list_xml;
pub mod resource;
pub mod source;
pub mod structured;
pub mod tag_filter_text;
pub mod tags_text;
