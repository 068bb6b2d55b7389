//! The entities of several tables, one table after the other.

use crate::{Entity, Error, ErrorKind, Page, Query, Versioned};
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;
use tokio::sync::mpsc;

/// How many tables are asked at a time. Each of them has at most two pages in memory.
const TABLES_AHEAD: usize = 4;

/// `None` is the end of a table. Without it, the task that reads the table has failed.
type Pages<E> = mpsc::Receiver<Result<Option<Page<E>>, Error>>;

/// The entities of the tables of a span, in the order of the tables. Ends after an error.
#[must_use]
pub struct SeriesStream<E> {
    /// Not asked yet.
    waiting: VecDeque<Query<E>>,
    asked: VecDeque<Pages<E>>,
    page: vec::IntoIter<Versioned<E>>,
}

impl<E: Entity + 'static> SeriesStream<E> {
    pub(super) fn new(queries: VecDeque<Query<E>>) -> Self {
        Self { waiting: queries, asked: VecDeque::new(), page: Vec::new().into_iter() }
    }

    /// The next entity; `None` after the last.
    pub async fn next_entity(&mut self) -> Result<Option<Versioned<E>>, Error> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }

    fn ask_ahead(&mut self) {
        while self.asked.len() < TABLES_AHEAD
            && let Some(query) = self.waiting.pop_front()
        {
            self.asked.push_back(ask(query));
        }
    }
}

/// Reads the pages of a table as they are taken. Ends when nobody takes them any more.
fn ask<E: Entity + 'static>(query: Query<E>) -> Pages<E> {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut pages = query.pages();
        loop {
            let page = match pages.next_page().await {
                // It was deleted after it was listed: its time is over.
                Err(error) if error.code() == Some("TableNotFound") => Ok(None),
                page => page,
            };
            let is_last = !matches!(page, Ok(Some(_)));
            if send.send(page).await.is_err() || is_last {
                return;
            }
        }
    });
    receive
}

/// Nothing in it is ever pinned in place.
impl<E> Unpin for SeriesStream<E> {}

impl<E: Entity + 'static> Stream for SeriesStream<E> {
    type Item = Result<Versioned<E>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(entity) = self.page.next() {
                return Poll::Ready(Some(Ok(entity)));
            }
            self.ask_ahead();
            let Some(first) = self.asked.front_mut() else { return Poll::Ready(None) };
            let ended = || Error::new(ErrorKind::Transport, "a task of the client has ended");
            match ready!(first.poll_recv(context)).unwrap_or_else(|| Err(ended())) {
                Ok(Some(page)) => self.page = page.entities.into_iter(),
                Ok(None) => drop(self.asked.pop_front()),
                Err(error) => {
                    self.waiting.clear();
                    self.asked.clear();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<E> fmt::Debug for SeriesStream<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.waiting.len() + self.asked.len();
        f.debug_struct("SeriesStream").field("tables_left", &tables).finish_non_exhaustive()
    }
}
