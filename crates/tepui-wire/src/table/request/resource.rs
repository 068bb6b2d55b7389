//! What the path of a request names: the service, a table, entities, a batch.

use crate::percent;
use tepui_model::table::entity::is_key_character;
use tepui_model::table::{EntityKey, MetricsTableName, TableName};
use tepui_model::{ErrorCode, ServiceError};

/// The resource of a request. Names of tables are as the caller spelled them and may name none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// The account itself: service properties, stats, the service document.
    Service,
    /// `$metadata`.
    Metadata,
    Tables,
    Table(String),
    Entities(String),
    Entity(String, EntityKey),
    Batch,
}

impl Resource {
    /// Reads a path after the account, percent-encoded, without a slash in front.
    ///
    /// ```
    /// use tepui_model::table::EntityKey;
    /// use tepui_wire::table::request::resource::Resource;
    /// let resource = Resource::parse("Orders(PartitionKey='o''k',RowKey='r%20%25')", "d1").unwrap();
    /// assert_eq!(resource, Resource::Entity("Orders".to_owned(), EntityKey::new("o'k", "r %")));
    /// ```
    pub fn parse(path: &str, account: &str) -> Result<Self, ServiceError> {
        let decoded = percent::decode(path).ok_or_else(syntax_error)?;
        match &*decoded {
            "" => return Ok(Self::Service),
            "$batch" | "$batch/" => return Ok(Self::Batch),
            "$metadata" => return Ok(Self::Metadata),
            _ => {}
        }
        let name_ends = decoded.find(['(', '/']).unwrap_or(decoded.len());
        let (name, rest) = decoded.split_at(name_ends);
        let is_tables = name.eq_ignore_ascii_case("Tables");
        // Fidelity: a segment after a table's name stands for the table, its keys too. scenario: path-after-table
        let keys = match rest.split_once('(') {
            Some((segment, inside)) if segment.is_empty() || !is_tables => {
                Keys::parse(inside).ok_or_else(syntax_error)?
            }
            _ => Keys::None,
        };
        Ok(match keys {
            Keys::None if is_tables => Self::Tables,
            Keys::None => Self::Entities(name.to_owned()),
            Keys::Single(table) if is_tables => Self::Table(table),
            Keys::Both(key) if !is_tables => Self::Entity(name.to_owned(), checked(key)?),
            Keys::Single(_) | Keys::Both(_) | Keys::Other => {
                return Err(ServiceError::new(ErrorCode::InvalidInput).with_message(format!(
                    "The number of keys specified in the URI does not match number of key properties for the resource '{account}.{name}'."
                )));
            }
        })
    }

    /// Refuses the name of a table that no table can have, where entities or policies are asked for. What asks for the
    /// table itself is told that there is none. Metrics tables have names that no other table can have.
    ///
    /// Fidelity: before anything else is judged. scenario: table-bad-names
    pub fn check_name(&self) -> Result<(), ServiceError> {
        match self {
            Self::Entities(table) | Self::Entity(table, _) => match MetricsTableName::find(table) {
                Some(_) => Ok(()),
                None => TableName::parse(table).map(drop),
            },
            Self::Service | Self::Metadata | Self::Tables | Self::Table(_) | Self::Batch => Ok(()),
        }
    }

    /// The table that the resource belongs to, if it is one.
    pub fn table(&self) -> Option<&str> {
        match self {
            Self::Table(table) | Self::Entities(table) | Self::Entity(table, _) => Some(table),
            Self::Service | Self::Metadata | Self::Tables | Self::Batch => None,
        }
    }
}

/// What stands between the parentheses of a path.
enum Keys {
    None,
    /// `'value'`
    Single(String),
    /// `PartitionKey='p',RowKey='r'` in either order
    Both(EntityKey),
    /// Something else that can be read.
    Other,
}

impl Keys {
    /// `None` if it cannot be read.
    fn parse(inside: &str) -> Option<Self> {
        let mut rest = inside.trim_start();
        if rest.trim_end() == ")" {
            return Some(Self::None);
        }
        if rest.starts_with('\'') {
            let value = literal(&mut rest)?;
            return match rest.trim() {
                ")" => Some(Self::Single(value)),
                _ if rest.trim_start().starts_with(',') && rest.trim_end().ends_with(')') => {
                    Some(Self::Other)
                }
                _ => None,
            };
        }
        let mut pairs = Vec::new();
        loop {
            let (name, after) = rest.split_once('=')?;
            rest = after;
            pairs.push((name.trim().to_owned(), literal(&mut rest)?));
            rest = rest.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start(),
                None if rest.trim_end() == ")" => break,
                None => return None,
            }
        }
        let named =
            |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        Some(match (pairs.len(), named("PartitionKey"), named("RowKey")) {
            (2, Some(partition_key), Some(row_key)) => Self::Both(EntityKey { partition_key, row_key }),
            _ => Self::Other,
        })
    }
}

/// Takes a literal in quotes off the front; two quotes inside stand for one.
fn literal(rest: &mut &str) -> Option<String> {
    let mut value = String::new();
    *rest = rest.trim_start().strip_prefix('\'')?;
    loop {
        let (piece, after) = rest.split_once('\'')?;
        value.push_str(piece);
        *rest = after;
        match after.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                *rest = after;
            }
            None => return Some(value),
        }
    }
}

fn checked(key: EntityKey) -> Result<EntityKey, ServiceError> {
    for text in [&key.partition_key, &key.row_key] {
        if text.contains(['/', '\\']) {
            return Err(syntax_error());
        }
        if !text.chars().all(is_key_character) {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
    }
    Ok(key)
}

fn syntax_error() -> ServiceError {
    ServiceError::new(ErrorCode::InvalidInput).with_message("Bad Request - Error in query syntax.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths() {
        let entity = |p: &str, r: &str| Ok(Resource::Entity("T".to_owned(), EntityKey::new(p, r)));
        let set = || Ok(Resource::Entities("T".to_owned()));
        use ErrorCode::*;
        for (path, expected) in [
            ("", Ok(Resource::Service)),
            ("$batch", Ok(Resource::Batch)),
            ("%24batch", Ok(Resource::Batch)),
            ("$metadata", Ok(Resource::Metadata)),
            ("Tables", Ok(Resource::Tables)),
            ("tables()", Ok(Resource::Tables)),
            ("Tables('People')", Ok(Resource::Table("People".to_owned()))),
            ("Tables(%27People%27)", Ok(Resource::Table("People".to_owned()))),
            ("T", set()),
            ("T()", set()),
            ("T/", set()),
            ("T/Tables", set()),
            ("T/Tables()", set()),
            ("T/Tables('People')", Err(InvalidInput)),
            ("T/X(PartitionKey='p',RowKey='r')", entity("p", "r")),
            ("Tables/X('People')", Ok(Resource::Tables)),
            ("T(PartitionKey='p',RowKey='r')", entity("p", "r")),
            ("T(RowKey='r', PartitionKey='p')", entity("p", "r")),
            ("T%28PartitionKey%3D%27p%27%2CRowKey%3D%27r%27%29", entity("p", "r")),
            ("T(PartitionKey='',RowKey='')", entity("", "")),
            ("T(PartitionKey='o''k',RowKey='a+b,c=(d)')", entity("o'k", "a+b,c=(d)")),
            ("T(PartitionKey='%E5%A4%A7',RowKey='%25')", entity("大", "%")),
            ("T('p')", Err(InvalidInput)),
            ("T('p','r')", Err(InvalidInput)),
            ("T(PartitionKey='p')", Err(InvalidInput)),
            ("T(A='p',B='r')", Err(InvalidInput)),
            ("T(PartitionKey='p',RowKey='r'", Err(InvalidInput)),
            ("T(PartitionKey='p',RowKey=1)", Err(InvalidInput)),
            ("T(PartitionKey='p',RowKey='r')x", Err(InvalidInput)),
            ("T(PartitionKey='a%2Fb',RowKey='r')", Err(InvalidInput)),
            ("T(PartitionKey='a%5Cb',RowKey='r')", Err(InvalidInput)),
            ("T(PartitionKey='a%23',RowKey='r')", Err(OutOfRangeInput)),
            ("T(PartitionKey='%C2%85',RowKey='r')", Err(OutOfRangeInput)),
            ("T(%FF)", Err(InvalidInput)),
        ] {
            assert_eq!(Resource::parse(path, "d1").map_err(|error| error.code), expected, "{path}");
        }
        let error = Resource::parse("T('p')", "d1").unwrap_err();
        assert!(error.message().ends_with("for the resource 'd1.T'."));
    }

    #[test]
    fn names_of_tables() {
        use ErrorCode::*;
        for (path, expected) in [
            ("Orders()", Ok(())),
            ("$MetricsHourPrimaryTransactionsBlob()", Ok(())),
            ("%24metricscapacityblob(PartitionKey='p',RowKey='data')", Ok(())),
            ("$MetricsOfMine()", Err(InvalidResourceName)),
            ("$logs()", Err(InvalidResourceName)),
            ("Tables('$MetricsOfMine')", Ok(())),
        ] {
            let checked = Resource::parse(path, "d1").unwrap().check_name();
            assert_eq!(checked.map_err(|error| error.code), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_or_refused(path in "[T()'=,%a-fPRK 0-9é/$]{0,40}") {
            let _ = Resource::parse(&path, "d1");
        }
    }
}
