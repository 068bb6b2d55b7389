//! Entities and tables as JSON, both directions.

mod decode;
mod reader;
mod text;
mod writer;

pub use decode::{DecodedEntity, decode_entity, decode_table_name};
pub(super) use decode::{Refusal, unreadable_body};
pub use text::write_json_string;
pub use writer::{EntityWriter, entity_body, table_body, tables_body, write_entity};
