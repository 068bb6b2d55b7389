//! Messages that cannot be done: they are in the poison queue, once, whatever becomes of the worker that puts them there.

use crate::copies::{Employee, employee};
use crate::scenario::Scenario;
use crate::site::Site;
use std::time::Duration;
use tepui_client::patterns::outbox::{Outbox, Worker};
use tepui_client::{Account, Error};

pub(crate) struct Poison;

fn outbox(account: &Account) -> Outbox<Employee> {
    Outbox::new(account.table_of().unwrap(), account.queue("staff").unwrap()).leave_it_to_workers()
}

impl Scenario for Poison {
    const NAME: &str = "poison";

    /// Two employees with the same address, and a message of somebody else.
    async fn set_up(account: &Account) -> Result<(), Error> {
        for table in ["Staff", "Names"] {
            account.table(table)?.create().await?;
        }
        let queue = account.queue("staff")?;
        queue.create_if_missing().await?;
        queue.put("hello").await?;
        let first = Employee { department: "Admin".to_owned(), ..employee(1, "same", "Jones") };
        outbox(account).insert(&first).await?;
        Worker::of(&outbox(account)).drain().await?;
        account.queue("staff-poison")?.clear().await?;
        queue.put("hello").await?;
        outbox(account).insert(&employee(2, "same", "Cao")).await.map(drop)
    }

    /// The changes are made already.
    async fn author(_: &Account, _: bool) -> Result<(), Error> {
        Ok(())
    }

    fn worker(account: &Account) -> Worker {
        Worker::of(&outbox(account)).attempts(4).delay(Duration::ZERO).lease(Duration::from_secs(10))
    }

    async fn check(site: &Site) {
        assert_eq!(site.queue("staff").approximate_count().await.unwrap(), 0);
        let poisoned = Self::worker(&site.account).poisoned(Duration::from_secs(1)).await.unwrap();
        let count = site.queue("staff-poison").approximate_count().await.unwrap();
        let mut ids: Vec<_> = poisoned.iter().map(|one| one.original_id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), poisoned.len(), count), (2, 2, 2), "{poisoned:?}");
        for one in &poisoned {
            let is_foreign = one.text == "hello";
            let names_the_error = one
                .first_error
                .as_deref()
                .is_some_and(|error| error.contains("two entities want the same copy"));
            assert!(is_foreign != names_the_error && !one.reason.is_empty(), "{one:?}");
        }
    }
}
