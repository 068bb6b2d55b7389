//! One target for every parser of foreign bytes.
//!
//! A target takes any bytes. It panics if a parser does, if an input is refused as if the server were to
//! blame, if a limit is not kept, or if what was read cannot be printed and read again.

mod acl;
mod address;
mod atom;
mod authorization;
mod batch;
mod blob_batch;
mod blob_marker;
mod blob_request;
mod blob_tags;
mod block_list_xml;
mod condition;
mod cors;
mod date;
mod entity_json;
mod filter;
mod jwt;
mod message_xml;
mod pop_receipt;
mod queue_request;
mod request;
mod sas;
mod service_properties;
mod stored;
mod structured;
mod table_name_json;
mod token;

pub use acl::acl;
pub use address::address;
pub use atom::atom;
pub use authorization::authorization;
pub use batch::batch;
pub use blob_batch::blob_batch;
pub use blob_marker::blob_marker;
pub use blob_request::blob_request;
pub use blob_tags::blob_tags;
pub use block_list_xml::block_list_xml;
pub use condition::condition;
pub use cors::cors;
pub use date::date;
pub use entity_json::entity_json;
pub use filter::filter;
pub use jwt::jwt;
pub use message_xml::message_xml;
pub use pop_receipt::pop_receipt;
pub use queue_request::queue_request;
pub use request::request;
pub use sas::sas;
pub use service_properties::service_properties;
pub use stored::stored;
pub use structured::structured;
pub use table_name_json::table_name_json;
pub use token::token;

/// A target as the driver sees it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Also the name of its directory in `corpus/`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// What mutations put in.
    pub words: &'static [&'static str],
    /// How long inputs can be: a head, or a body.
    pub max_bytes: usize,
}

const HEAD: usize = 64 * 1024;
const BODY: usize = 1024 * 1024;

macro_rules! targets {
    ($($name:ident, $max_bytes:ident;)*) => {
        /// Every target, in the order of their names.
        pub const ALL: &[Target] = &[$(Target {
            name: stringify!($name),
            run: $name,
            words: $name::WORDS,
            max_bytes: $max_bytes,
        },)*];
    };
}

targets! {
    acl, BODY;
    address, HEAD;
    atom, BODY;
    authorization, HEAD;
    batch, BODY;
    blob_batch, BODY;
    blob_marker, HEAD;
    blob_request, BODY;
    blob_tags, BODY;
    block_list_xml, BODY;
    condition, HEAD;
    cors, BODY;
    date, HEAD;
    entity_json, BODY;
    filter, HEAD;
    jwt, HEAD;
    message_xml, BODY;
    pop_receipt, HEAD;
    queue_request, BODY;
    request, BODY;
    sas, HEAD;
    service_properties, BODY;
    stored, BODY;
    structured, BODY;
    table_name_json, BODY;
    token, HEAD;
}
