//! Entities and tables in Atom.

use crate::checks::{entity_survives, refused};
use tepui_model::table::EntityKey;
use tepui_wire::table::atom::{decode_entry, decode_table_entry};
use tepui_wire::table::json::KeysIn;

pub(super) const WORDS: &[&str] = &[
    "<entry xmlns=\"http://www.w3.org/2005/Atom\">",
    "</entry>",
    "<content type=\"application/xml\">",
    "</content>",
    "<m:properties>",
    "</m:properties>",
    "<d:",
    "</d:",
    "<d:PartitionKey>",
    "<d:RowKey>",
    "<d:TableName>",
    "/>",
    ">",
    " xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\"",
    " xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"",
    " xmlns=\"\"",
    " m:null=\"true\"",
    " m:type=\"Edm.Int32\"",
    " m:type=\"Edm.Int64\"",
    " m:type=\"Edm.Double\"",
    " m:type=\"Edm.Boolean\"",
    " m:type=\"Edm.DateTime\"",
    " m:type=\"Edm.Guid\"",
    " m:type=\"Edm.Binary\"",
    " m:type=\"\"",
    "AQL/",
    "NaN",
    "INF",
    "-0",
    "1e400",
    "&lt;",
    "&#0;",
    "&#x1;",
    "&#xD;",
    "&nope;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?p ?>",
    "<!DOCTYPE a [<!ENTITY e \"x\">]>",
    "\u{FEFF}",
    "\r\n",
    "\0",
    "\u{7F}",
];

/// What is read can be written and read again.
pub fn atom(data: &[u8]) {
    match decode_entry(data, KeysIn::Body) {
        Ok(entity) => {
            let (Some(partition_key), Some(row_key)) = (entity.partition_key, entity.row_key) else {
                panic!("an insert without keys");
            };
            entity_survives(&EntityKey { partition_key, row_key }, &entity.properties);
        }
        Err(error) => refused(&error),
    }
    match decode_entry(data, KeysIn::Address) {
        Ok(entity) => entity_survives(&EntityKey::new("p", "r"), &entity.properties),
        Err(error) => refused(&error),
    }
    if let Err(error) = decode_table_entry(data) {
        refused(&error);
    }
}
