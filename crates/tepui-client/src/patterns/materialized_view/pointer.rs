//! Which table a view is in, and which one it is being rebuilt in.

use super::{MaterializedView, View};
use crate::entity::Properties;
use crate::patterns::outbox::{Row, write};
use crate::{ETag, EntityKey, Error, ErrorKind, Value};

const CURRENT: &str = "Current";
const NEXT: &str = "Next";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) current: String,
    /// Kept up together with the current one, until it takes its place.
    pub(super) next: Option<String>,
    etag: Option<ETag>,
}

impl Pointer {
    pub(super) fn tables(&self) -> impl Iterator<Item = &str> {
        [Some(&self.current), self.next.as_ref()].into_iter().flatten().map(String::as_str)
    }
}

fn key() -> EntityKey {
    EntityKey::new("view", "pointer")
}

impl<V: View> MaterializedView<V> {
    /// Makes the tables of the view, unless they are there.
    pub async fn create_if_missing(&self) -> Result<(), Error> {
        self.pointers.create_if_missing().await?;
        if self.pointers.get(&key()).await?.is_some() {
            return Ok(());
        }
        let current = self.table_name(1);
        self.pointers.beside(&current)?.create_if_missing().await?;
        match self.set_pointer(&Pointer { current, next: None, etag: None }).await {
            // Somebody else has made it.
            Err(error) if !crate::patterns::outbox::is_changed(&error) => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn table_name(&self, number: u64) -> String {
        format!("{}{number}", self.pointers.name())
    }

    /// The number of a table of this view.
    pub(super) fn number_of(&self, table: &str) -> u64 {
        table.strip_prefix(self.pointers.name()).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    pub(super) async fn pointer(&self) -> Result<Pointer, Error> {
        let row = self.pointers.get(&key()).await?;
        let row = row.ok_or_else(|| Error::new(ErrorKind::NotFound, "the view was not created"))?;
        let current =
            row.text(CURRENT).ok_or_else(|| Error::decode("the pointer of a view without a table"))?;
        let (current, next) = (current.to_owned(), row.text(NEXT).map(str::to_owned));
        Ok(Pointer { current, next, etag: Some(row.etag.clone()) })
    }

    /// Over the pointer that was read.
    pub(super) async fn set_pointer(&self, pointer: &Pointer) -> Result<(), Error> {
        let mut own: Vec<(&str, Value)> = vec![(CURRENT, pointer.current.as_str().into())];
        own.extend(pointer.next.as_deref().map(|next| (NEXT, next.into())));
        let row = Row::new(key(), &Properties::default(), &own)?;
        match &pointer.etag {
            Some(etag) => self.pointers.replace(&row, etag).await.map(drop),
            None => write(&self.pointers, &row, None).await.map(drop),
        }
    }
}
