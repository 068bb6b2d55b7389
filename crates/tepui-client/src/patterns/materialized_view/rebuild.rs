//! A view is made anew in another table, while the old one is read and kept up.

use super::{MaterializedView, View};
use crate::patterns::outbox::{Followed, Outbox, Row, entity_of, is_changed};
use crate::{EntityKey, Error, ErrorKind, Table};
use std::collections::BTreeSet;

const MAX_TRIES: u32 = 8;

/// What a rebuild has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// Entities that were read.
    pub sources: usize,
    /// Rows of the view.
    pub rows: usize,
    /// The table that the view was in before. Readers may still be at it: delete it later.
    pub former: String,
}

impl<V: View> MaterializedView<V> {
    /// Makes the view anew from all entities, in a new table, and then lets the pointer change over. Meanwhile the old table is read,
    /// and changes go to both. If it ends early, the next call goes on with the same table. It reads all entities of the table.
    pub async fn rebuild(&self, outbox: &Outbox<V::Source>) -> Result<Rebuilt, Error> {
        let next = self.begin_rebuild().await?;
        let table = self.pointers.beside(&next)?;
        let (mut sources, mut keys) = (0, BTreeSet::new());
        let mut rows = outbox.rows().query().scan().stream();
        while let Some(row) = rows.next_entity().await? {
            let is_own = row.key.row_key.starts_with('~') || row.primary().is_some();
            // Rows of other kinds may be in the same table.
            let Some(source) = entity_of::<V::Source>(&row).ok().filter(|_| !is_own) else { continue };
            sources += 1;
            for key in self.view.keys(&source)? {
                self.contribute_as_is(outbox, &table, &row.key, &key).await?;
                keys.insert(key);
            }
        }
        for key in &keys {
            self.refold(&table, key).await?;
        }
        for _ in 0..MAX_TRIES {
            let mut pointer = self.pointer().await?;
            if pointer.next.as_ref() != Some(&next) {
                let message = "the view was rebuilt by somebody else at the same time";
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            let former = std::mem::replace(&mut pointer.current, next.clone());
            pointer.next = None;
            match self.set_pointer(&pointer).await {
                Ok(()) => return Ok(Rebuilt { sources, rows: keys.len(), former }),
                Err(error) if is_changed(&error) => {
                    if self.pointer().await?.current == next {
                        return Ok(Rebuilt { sources, rows: keys.len(), former });
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Contended, "the pointer of the view was changed by others each time"))
    }

    /// From here on all changes go to the new table as well.
    async fn begin_rebuild(&self) -> Result<String, Error> {
        for _ in 0..MAX_TRIES {
            let mut pointer = self.pointer().await?;
            if let Some(next) = pointer.next {
                return Ok(next);
            }
            let mut number = self.number_of(&pointer.current);
            let next = loop {
                number += 1;
                let next = self.table_name(number);
                // One that is there may hold what an earlier rebuild has left.
                if self.pointers.beside(&next)?.create_if_missing().await? {
                    break next;
                }
            };
            pointer.next = Some(next);
            match self.set_pointer(&pointer).await {
                Err(error) if !is_changed(&error) => return Err(error),
                _ => {}
            }
        }
        Err(Error::new(ErrorKind::Contended, "the pointer of the view was changed by others each time"))
    }

    /// Writes the contribution of an entity as it is now. What workers have written of a later version stays.
    async fn contribute_as_is(
        &self,
        outbox: &Outbox<V::Source>,
        table: &Table<Row>,
        source: &EntityKey,
        key: &str,
    ) -> Result<(), Error> {
        let place = self.place(key.to_owned(), source);
        for _ in 0..MAX_TRIES {
            let seen = outbox.see(source).await?;
            match self.contribute(table, &place, &seen).await? {
                Followed::Done | Followed::Later => return Ok(()),
                Followed::Changed => {}
            }
        }
        Err(Error::new(ErrorKind::Contended, "the contribution was changed by others each time"))
    }
}
