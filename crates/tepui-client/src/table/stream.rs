//! The pages and the entities of a query as streams.

use super::query::{Page, Query};
use crate::entity::ReadEntity;
use crate::{Error, Versioned};
use futures_core::Stream;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::vec;

type PageFuture<E> = Pin<Box<dyn Future<Output = (Query<E>, Result<Page<E>, Error>)> + Send>>;

/// The pages of a query, each asked for when it is wanted. Ends after an error; to go on, resume from the page before.
///
/// ```
/// # tepui_client_testing::run_with_table(async |people| {
/// # let staff = (0..250).map(|id| tepui_client::DynamicEntity::new("Sales", format!("{id:06}")));
/// # people.bulk().insert(staff).await;
/// let mut pages = people.partition("Sales").page_size(100).pages(); // There are 250.
/// let mut lengths = Vec::new();
/// while let Some(page) = pages.next_page().await? {
///     lengths.push(page.entities.len());
/// }
/// assert_eq!(lengths, [100, 100, 50]);
/// # Ok(()) });
/// ```
#[must_use]
pub struct Pages<E> {
    state: State<E>,
}

enum State<E> {
    Ready(Query<E>),
    Asked(PageFuture<E>),
    Done,
}

impl<E: ReadEntity + 'static> Pages<E> {
    /// The next page; `None` after the last.
    pub async fn next_page(&mut self) -> Result<Option<Page<E>>, Error> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl<E> Pages<E> {
    pub(super) fn new(query: Query<E>) -> Self {
        Self { state: State::Ready(query) }
    }
}

impl<E: ReadEntity + 'static> Stream for Pages<E> {
    type Item = Result<Page<E>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return Poll::Ready(None),
                State::Ready(query) if query.left() == Some(0) => return Poll::Ready(None),
                State::Ready(query) => {
                    self.state = State::Asked(Box::pin(async move {
                        let page = query.page().await;
                        (query, page)
                    }));
                }
                State::Asked(mut asked) => {
                    let Poll::Ready((mut query, page)) = asked.as_mut().poll(context) else {
                        self.state = State::Asked(asked);
                        return Poll::Pending;
                    };
                    if let Ok(page) = &page
                        && let Some(next) = &page.next
                    {
                        query.advance(page.entities.len(), next.clone());
                        self.state = State::Ready(query);
                    }
                    return Poll::Ready(Some(page));
                }
            }
        }
    }
}

/// The entities of a query, page by page as they are needed.
///
/// ```
/// # tepui_client_testing::run_with_table(async |log| {
/// # let entries = (0..25).map(|id| tepui_client::DynamicEntity::new("Log", format!("{id:06}")));
/// # log.bulk().insert(entries).await;
/// let mut newest = log.partition("Log").take(3).stream();
/// let mut rows = Vec::new();
/// while let Some(entry) = newest.next_entity().await? {
///     rows.push(entry.entity.key.row_key);
/// }
/// assert_eq!(rows, ["000000", "000001", "000002"]);
/// # Ok(()) });
/// ```
#[must_use]
pub struct EntityStream<E> {
    pages: Pages<E>,
    page: vec::IntoIter<Versioned<E>>,
}

impl<E> EntityStream<E> {
    pub(super) fn new(pages: Pages<E>) -> Self {
        Self { pages, page: Vec::new().into_iter() }
    }
}

/// Nothing in it is ever pinned in place.
impl<E> Unpin for EntityStream<E> {}
impl<E> Unpin for Pages<E> {}

impl<E: ReadEntity + 'static> EntityStream<E> {
    /// The next entity; `None` after the last.
    pub async fn next_entity(&mut self) -> Result<Option<Versioned<E>>, Error> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl<E: ReadEntity + 'static> Stream for EntityStream<E> {
    type Item = Result<Versioned<E>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(entity) = self.page.next() {
                return Poll::Ready(Some(Ok(entity)));
            }
            match ready!(Pin::new(&mut self.pages).poll_next(context)) {
                Some(Ok(page)) => self.page = page.entities.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}
