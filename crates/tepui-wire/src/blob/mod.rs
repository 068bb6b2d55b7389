//! The Blob service over HTTP.

mod answer_headers;
pub mod batch;
pub mod block_list_xml;
mod conditions;
mod headers;
mod list_xml;
pub mod marker;
mod page_list_xml;
pub mod reply;
pub mod request;
pub mod source;
pub mod structured;
pub mod tag_filter_text;
pub mod tags_text;
