//! Entities and tables from JSON.

use tepui_model::table::Properties;
use tepui_model::{ErrorCode, ServiceError};

/// An entity as a request has it: the keys may be missing, the address may have them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DecodedEntity {
    pub partition_key: Option<String>,
    pub row_key: Option<String>,
    pub properties: Properties,
}

pub fn decode_entity(_body: &[u8]) -> Result<DecodedEntity, ServiceError> {
    Err(ErrorCode::NotImplemented.into())
}

/// The name in `{"TableName":"T"}`; `None` if there is none.
pub fn decode_table_name(_body: &[u8]) -> Result<Option<String>, ServiceError> {
    Err(ErrorCode::NotImplemented.into())
}
