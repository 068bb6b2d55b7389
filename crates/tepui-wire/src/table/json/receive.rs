//! Entities and tables in replies, as clients read them: with the ETag and the timestamp, and without judging them.

use super::entity_reader::EntityReader;
use super::reader::{Malformed, Reader, Value};
use tepui_model::Timestamp;
use tepui_model::table::Properties;

/// An entity as a reply has it. What was not selected, or is not told at the level of metadata, is not there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoteEntity {
    pub partition_key: Option<String>,
    pub row_key: Option<String>,
    pub timestamp: Option<Timestamp>,
    /// As the service spells it.
    pub etag: Option<String>,
    /// Without those that are null.
    pub properties: Properties,
}

/// The entity that is all of a body. `None` if it cannot be read.
pub fn receive_entity(body: &[u8]) -> Option<RemoteEntity> {
    let mut reader = Reader::open(body).ok()?;
    let entity = EntityReader::default().read(&mut reader).ok()?;
    reader.end().ok()?;
    Some(entity)
}

/// Hands over the entities of a page, each as soon as it is read. `None` if the page cannot be read, which may turn out after
/// some of them.
pub fn receive_entities(body: &[u8], mut take: impl FnMut(RemoteEntity)) -> Option<()> {
    let mut like_before = EntityReader::default();
    each(body, |reader| {
        take(like_before.read(reader)?);
        Ok(())
    })
}

/// The names of a page of tables.
pub fn receive_tables(body: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    each(body, |reader| {
        let mut table = None;
        while let Some((name, value)) = reader.next_inner()? {
            if let ("TableName", Value::Text(text)) = (&*name, value) {
                table = Some(text.into_owned());
            }
        }
        names.push(table.ok_or(Malformed)?);
        Ok(())
    })?;
    Some(names)
}

/// Reads each object of the array `value`, which must be there.
fn each<'a>(body: &'a [u8], mut read: impl FnMut(&mut Reader<'a>) -> Result<(), Malformed>) -> Option<()> {
    let mut reader = Reader::open(body).ok()?;
    let mut seen = false;
    while let Some(name) = reader.next_name().ok()? {
        if name == "value" {
            seen = true;
            reader.objects(&mut read).ok()?;
        } else {
            reader.value().ok()?;
        }
    }
    seen.then_some(())
}
