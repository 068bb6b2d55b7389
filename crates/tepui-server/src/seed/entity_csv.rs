//! Entities in CSV. The first record names the columns: `PartitionKey`, `RowKey`, and properties as `Name` or `Name:Type`, or
//! with a column `Name@type` beside them, which says the type for each entity, as Azure Storage Explorer writes it.

use super::csv::Field;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tepui_model::Timestamp;
use tepui_model::table::edm::Guid;
use tepui_model::table::entity::{check_key_characters, check_key_lengths};
use tepui_model::table::{EdmType, EntityKey, Properties, PropertiesBuilder, ValueRef};

/// The columns of a file.
#[derive(Debug)]
pub(super) struct Columns(Vec<Column>);

#[derive(Debug)]
enum Column {
    PartitionKey,
    RowKey,
    /// The timestamp, which the server sets.
    Ignored,
    Property {
        name: String,
        kind: EdmType,
        kind_column: Option<usize>,
    },
    /// The type of a property.
    Kind,
}

impl Columns {
    pub(super) fn parse(header: &[Field]) -> Result<Self, String> {
        let names: Vec<&str> = header.iter().map(|field| field.text.trim()).collect();
        let mut columns = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(format!("a column is there twice: {name}"));
            }
            columns.push(Self::column(name, &names)?);
        }
        for (key, is_there) in [
            ("PartitionKey", columns.iter().any(|column| matches!(column, Column::PartitionKey))),
            ("RowKey", columns.iter().any(|column| matches!(column, Column::RowKey))),
        ] {
            if !is_there {
                return Err(format!("the first line names the columns, and one must be {key}"));
            }
        }
        Ok(Self(columns))
    }

    fn column(name: &str, names: &[&str]) -> Result<Column, String> {
        Ok(match name {
            "" => return Err("a column has no name".to_owned()),
            "PartitionKey" => Column::PartitionKey,
            "RowKey" => Column::RowKey,
            "Timestamp" | "Timestamp@type" | "PartitionKey@type" | "RowKey@type" | "odata.etag" => {
                Column::Ignored
            }
            name if name.ends_with("@type") => {
                let property = name.strip_suffix("@type").unwrap_or_default();
                match names.contains(&property) {
                    true => Column::Kind,
                    false => return Err(format!("there is no column that this is the type of: {name}")),
                }
            }
            name => {
                let (property, kind) = match name.split_once(':') {
                    Some((property, kind)) => (property, parse_kind(kind)?),
                    None => (name, EdmType::String),
                };
                let typed = format!("{property}@type");
                let kind_column = names.iter().position(|name| *name == typed);
                Column::Property { name: property.to_owned(), kind, kind_column }
            }
        })
    }

    /// The entity of a record.
    pub(super) fn entity(&self, fields: &[Field]) -> Result<(EntityKey, Properties), String> {
        if fields.len() != self.0.len() {
            return Err(format!(
                "{} fields are expected, as in the first line, not {}",
                self.0.len(),
                fields.len()
            ));
        }
        let (mut partition_key, mut row_key) = ("", "");
        let mut properties = PropertiesBuilder::new();
        for (column, field) in self.0.iter().zip(fields) {
            match column {
                Column::PartitionKey => partition_key = &field.text,
                Column::RowKey => row_key = &field.text,
                Column::Ignored | Column::Kind => {}
                Column::Property { .. } if field.text.is_empty() && !field.is_quoted => {}
                Column::Property { name, kind, kind_column } => {
                    let kind =
                        match kind_column.and_then(|index| fields.get(index)).map(|kind| kind.text.trim()) {
                            None | Some("") => *kind,
                            Some(given) => parse_kind(given)?,
                        };
                    push(&mut properties, name, kind, &field.text)?;
                }
            }
        }
        check_key_characters(partition_key, row_key).map_err(|error| error.message().to_owned())?;
        check_key_lengths(partition_key, row_key).map_err(|code| code.message().to_owned())?;
        let properties = properties.finish();
        properties.check_entity(partition_key, row_key).map_err(|code| code.message().to_owned())?;
        Ok((EntityKey::new(partition_key, row_key), properties))
    }
}

fn parse_kind(name: &str) -> Result<EdmType, String> {
    let name = name.strip_prefix("Edm.").unwrap_or(name);
    EdmType::parse(&format!("Edm.{name}")).ok_or_else(|| {
        format!("a type is String, Int32, Int64, Double, Boolean, DateTime, Guid or Binary: {name}")
    })
}

fn push(properties: &mut PropertiesBuilder, name: &str, kind: EdmType, text: &str) -> Result<(), String> {
    let invalid = || {
        let shown: String = text.chars().take(60).collect();
        format!("{name} is not of the type {}: {shown}", kind.name().trim_start_matches("Edm."))
    };
    let binary;
    let value = match kind {
        EdmType::String => ValueRef::string(text),
        EdmType::Int32 => ValueRef::Int32(text.trim().parse().map_err(|_| invalid())?),
        EdmType::Int64 => ValueRef::Int64(text.trim().parse().map_err(|_| invalid())?),
        EdmType::Double => ValueRef::Double(parse_double(text.trim()).ok_or_else(invalid)?),
        EdmType::Boolean => ValueRef::Boolean(match text.trim().to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => return Err(invalid()),
        }),
        EdmType::DateTime => ValueRef::DateTime(Timestamp::parse_iso(text.trim()).ok_or_else(invalid)?),
        EdmType::Guid => ValueRef::Guid(Guid::parse(text.trim()).ok_or_else(invalid)?),
        EdmType::Binary => {
            binary = BASE64.decode(text.trim()).map_err(|_| invalid())?;
            ValueRef::Binary(&binary)
        }
    };
    properties.push(name, value).map_err(|error| format!("{name}: {}", error.message()))
}

fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "INF" | "Infinity" => Some(f64::INFINITY),
        "-INF" | "-Infinity" => Some(f64::NEG_INFINITY),
        text => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}
