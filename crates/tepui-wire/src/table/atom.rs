//! Entities and tables as Atom, the format of versions before 2015-12-11.

mod decode;
mod encode;

pub use decode::{decode_entry, decode_table_entry};
pub use encode::{FeedWriter, entity_entry, table_entry, table_feed};

const ATOM: &str = "http://www.w3.org/2005/Atom";
const DATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices";
const METADATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";
const SCHEME: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/scheme";

#[cfg(test)]
#[path = "atom_tests.rs"]
mod tests;
