//! The text of `$filter`, both directions.

use tepui_model::table::Filter;
use tepui_model::{ErrorCode, ServiceError};

/// The filter that a text stands for; `None` for a blank one.
pub fn parse(_text: &str) -> Result<Option<Filter>, ServiceError> {
    Err(ErrorCode::NotImplemented.into())
}

/// A text that parses to the filter.
pub fn print(_filter: &Filter) -> String {
    String::new()
}
