//! Entities and tables as JSON, both directions.
//!
//! Follows the REST pages "Payload format for Table service operations" and "Understanding the Table
//! service data model". Entities go straight between JSON and packed
//! [`Properties`](tepui_model::table::Properties), without a tree in between. Knows nothing of headers.

mod decode;
mod entity_reader;
mod reader;
mod receive;
mod text;
mod writer;

pub use decode::{DecodedEntity, KeysIn, decode_entity, decode_table_name};
pub(super) use decode::{Refusal, unreadable_body};
pub use receive::{RemoteEntity, receive_entities, receive_entity, receive_tables};
pub use text::write_json_string;
pub use writer::{EntityWriter, entity_body, table_body, tables_body, write_entity};
pub(super) use writer::{entity_request, table_request};
