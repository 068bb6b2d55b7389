//! Eventually consistent transactions: what follows from entities, in other partitions and tables.

use crate::support::TestServer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tepui_client::patterns::copies::{Copies, CopyRow};
use tepui_client::patterns::outbox::{BoxFuture, Followed, Follower, Outbox, Place, Seen, Worker};
use tepui_client::{DynamicEntity, Entity, EntityKey, Error, ErrorKind, Match, Queue, Retry, Table};
use tokio::time::sleep;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", closed, rename_all = "PascalCase")]
#[key(partition = "{department}", row = "empid_{id:06}")]
pub(crate) struct Employee {
    pub(crate) department: String,
    pub(crate) id: u32,
    pub(crate) email: String,
    pub(crate) phone: Option<String>,
}

/// By address in another partition, by telephone in another table, by address in the same partition.
impl Copies for Employee {
    fn copies(&self) -> Result<Vec<CopyRow>, Error> {
        let copy = |table: Option<&str>, partition: &str, row: &str| CopyRow {
            table: table.map(str::to_owned),
            key: EntityKey::new(partition, row),
            properties: DynamicEntity::new("", "").with("Id", self.id).to_properties().unwrap_or_default(),
        };
        let mut copies = vec![
            copy(None, "email", &self.email),
            copy(None, &self.department, &format!("email_{}", self.email)),
        ];
        copies.extend(self.phone.as_deref().map(|phone| copy(Some("Phones"), "phone", phone)));
        Ok(copies)
    }
}

fn employee(id: u32, email: &str) -> Employee {
    Employee { department: "Sales".to_owned(), id, email: email.to_owned(), phone: None }
}

fn key(id: u32) -> EntityKey {
    Employee::key("Sales", id).unwrap()
}

struct Bench {
    server: TestServer,
    table: Table<Employee>,
    phones: Table,
    queue: Queue,
}

impl Bench {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let account = server.account();
        let table = account.table_of::<Employee>().unwrap();
        let phones = account.table("Phones").unwrap();
        let queue = account.queue("staff").unwrap();
        table.create().await.unwrap();
        phones.create().await.unwrap();
        queue.create_if_missing().await.unwrap();
        Self { server, table, phones, queue }
    }

    fn outbox(&self) -> Outbox<Employee> {
        Outbox::new(self.table.clone(), self.queue.clone())
    }

    fn worker(&self) -> Worker {
        Worker::of(&self.outbox()).delay(Duration::ZERO)
    }

    /// The row keys and ids of live copies by address, or else tombstones.
    async fn emails(&self, partition: &str, are_live: bool) -> Vec<String> {
        let rows = self.table.of::<DynamicEntity>().query().partition(partition).all().await.unwrap();
        let is_live = |row: &DynamicEntity| row.get("Id").is_some();
        let rows = rows.into_iter().map(|row| row.entity).filter(|row| is_live(row) == are_live);
        rows.map(|row| row.key.row_key).filter(|row| !row.starts_with("empid")).collect()
    }

    async fn is_quiet(&self) -> bool {
        self.queue.approximate_count().await.unwrap() == 0
    }
}

#[tokio::test]
async fn copies_follow_every_change() {
    let bench = Bench::start().await;
    let outbox = bench.outbox();
    let first = outbox.insert(&Employee { phone: Some("1".to_owned()), ..employee(1, "a") }).await.unwrap();
    assert!(first.pending.is_none());
    assert_eq!(bench.emails("email", true).await, ["a"]);
    assert_eq!(bench.emails("Sales", true).await, ["email_a"]);
    assert!(bench.phones.get(&EntityKey::new("phone", "1")).await.unwrap().is_some());
    assert_eq!(outbox.insert(&employee(1, "x")).await.unwrap_err().kind(), ErrorKind::AlreadyExists);

    let second = outbox.replace(&employee(1, "b"), first.etag.as_ref().unwrap()).await.unwrap();
    assert_eq!(second.version, first.version + 1);
    assert_eq!(
        (bench.emails("email", true).await, bench.emails("email", false).await),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    assert_eq!(bench.emails("Sales", true).await, ["email_b"]);
    let stale = outbox.replace(&employee(1, "c"), first.etag.unwrap()).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict);
    outbox.modify(&key(1), |one| one.email = "c".to_owned()).await.unwrap();
    outbox.merge(&employee(1, "d"), Match::Any).await.unwrap();
    assert_eq!(bench.emails("email", true).await, ["d"]);
    // Plain readers see the entity, and nothing of the outbox.
    assert_eq!(bench.table.get(&key(1)).await.unwrap().unwrap().entity, employee(1, "d"));

    let deleted = outbox.delete(&key(1), Match::Any).await.unwrap();
    assert_eq!(bench.table.get(&key(1)).await.unwrap(), None);
    assert_eq!(bench.emails("email", true).await, [""; 0]);
    assert_eq!(bench.emails("Sales", false).await, ["~deleted_empid_000001"]);
    assert_eq!(outbox.delete(&key(1), Match::Any).await.unwrap_err().kind(), ErrorKind::NotFound);
    // It begins where the other has ended, and takes its tombstones.
    let again = outbox.upsert_replace(&employee(1, "a")).await.unwrap();
    assert_eq!(again.version, deleted.version + 1);
    assert_eq!(bench.emails("email", true).await, ["a"]);
    assert_eq!(bench.emails("Sales", false).await, [""; 0], "no markers, no tombstone");
    assert!(bench.is_quiet().await);
}

#[tokio::test]
async fn workers_do_what_authors_leave() {
    let bench = Bench::start().await;
    let outbox = bench.outbox().leave_it_to_workers();
    for id in 0..40 {
        outbox.insert(&employee(id, &format!("a{id:02}"))).await.unwrap();
    }
    assert_eq!(bench.emails("email", true).await, [""; 0]);
    let worked = bench.worker().drain().await.unwrap();
    assert_eq!((worked.done, worked.total()), (40, 40));
    assert_eq!(bench.emails("email", true).await.len(), 40);
    assert_eq!(bench.emails("Sales", false).await, [""; 0], "no markers");
    assert!(bench.is_quiet().await);
}

#[tokio::test]
async fn an_author_that_is_too_late_begins_anew() {
    let bench = Bench::start().await;
    let delay = r#"{"operation":"EntityGroupTransaction","delayMs":2500,"count":1}"#;
    bench.server.fault(delay).await;
    let late = bench.outbox().hidden_for(Duration::from_secs(1));
    let author = tokio::spawn(async move { late.insert(&employee(1, "a")).await });
    sleep(Duration::from_millis(1500)).await;
    let worked = bench.worker().drain().await.unwrap();
    assert_eq!((worked.dropped, worked.total()), (1, 1), "there was no marker");
    author.await.unwrap().unwrap();
    assert_eq!(bench.emails("email", true).await, ["a"]);
    assert_eq!(bench.emails("Sales", false).await.len(), 1, "the marker of the attempt that was aborted");
    assert!(bench.is_quiet().await);
}

#[tokio::test]
async fn lost_answers_are_settled_by_the_marker() {
    let bench = Bench::start().await;
    let outbox = bench.outbox();
    for operation in ["PutMessage", "EntityGroupTransaction", "InsertEntity", "DeleteEntity", "DeleteMessage"]
    {
        bench
            .server
            .fault(&format!(r#"{{"operation":"{operation}","when":"after","cut":true,"count":1}}"#))
            .await;
    }
    let inserted = outbox.insert(&employee(1, "a")).await.unwrap();
    assert!(inserted.etag.is_some() && inserted.pending.is_none(), "{inserted:?}");
    assert_eq!(bench.emails("email", true).await, ["a"]);
    // Also where no attempt is repeated.
    let account = bench.server.builder().retry(Retry::never()).build().unwrap();
    let outbox = Outbox::new(account.table_of::<Employee>().unwrap(), bench.queue.clone());
    for (email, when) in [("b", "after"), ("c", "before")] {
        bench.server.clear_faults().await;
        let fault =
            format!(r#"{{"operation":"EntityGroupTransaction","when":"{when}","cut":true,"count":1}}"#);
        bench.server.fault(&fault).await;
        outbox.modify(&key(1), |one| one.email = email.to_owned()).await.unwrap();
        assert_eq!(bench.emails("email", true).await, [email]);
    }
}

#[tokio::test]
async fn a_key_passes_from_one_entity_to_another() {
    let bench = Bench::start().await;
    let outbox = bench.outbox();
    let slow = bench.outbox().leave_it_to_workers();
    outbox.insert(&employee(1, "a")).await.unwrap();
    outbox.insert(&employee(2, "b")).await.unwrap();
    // The second takes the address before the first one's copy is gone.
    slow.modify(&key(1), |one| one.email = "x".to_owned()).await.unwrap();
    let taken = outbox.modify(&key(2), |two| two.email = "a".to_owned()).await.unwrap();
    assert!(taken.pending.is_none(), "{taken:?}");
    bench.worker().drain().await.unwrap();
    let copy = bench.table.of::<DynamicEntity>().get(&EntityKey::new("email", "a")).await.unwrap().unwrap();
    assert_eq!(copy.get("Id"), Some(&2_u32.into()));
    assert_eq!(bench.emails("email", true).await, ["a", "x"]);
    // And back again.
    outbox.modify(&key(2), |two| two.email = "b".to_owned()).await.unwrap();
    outbox.modify(&key(1), |one| one.email = "a".to_owned()).await.unwrap();
    let copy = bench.table.of::<DynamicEntity>().get(&EntityKey::new("email", "a")).await.unwrap().unwrap();
    assert_eq!(copy.get("Id"), Some(&1_u32.into()));
}

#[tokio::test]
async fn two_entities_that_want_the_same_copy_are_told() {
    let bench = Bench::start().await;
    let outbox = bench.outbox();
    outbox.insert(&employee(1, "a")).await.unwrap();
    let other = Employee { department: "Admin".to_owned(), ..employee(2, "a") };
    let second = outbox.insert(&other).await.unwrap();
    assert_eq!(second.pending.map(|error| error.kind()), Some(ErrorKind::Conflict));
    // In the same partition it is refused at once.
    assert_eq!(outbox.insert(&employee(3, "a")).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(bench.table.get(&key(3)).await.unwrap(), None);

    bench.server.advance(61).await;
    let worker = bench.worker().attempts(3);
    let worked = worker.drain().await.unwrap();
    assert_eq!((worked.failed, worked.poisoned), (3, 1));
    let poisoned = worker.poisoned(Duration::from_secs(60)).await.unwrap();
    assert_eq!(poisoned.len(), 1);
    assert_eq!(poisoned[0].reason, "it was tried 3 times and never done");
    assert!(poisoned[0].first_error.as_deref().unwrap().contains("two entities want the same copy"));
    // Once the reason is gone it can go back.
    outbox.modify(&key(1), |one| one.email = "b".to_owned()).await.unwrap();
    worker.requeue(&poisoned[0]).await.unwrap();
    assert_eq!(worker.drain().await.unwrap().done, 1);
    let copy = bench.table.of::<DynamicEntity>().get(&EntityKey::new("email", "a")).await.unwrap().unwrap();
    assert_eq!(copy.get("Id"), Some(&2_u32.into()));
    assert!(worker.poisoned(Duration::from_secs(1)).await.unwrap().is_empty());
}

#[tokio::test]
async fn messages_of_others_are_put_aside() {
    let bench = Bench::start().await;
    bench.queue.put("hello").await.unwrap();
    bench.queue.put("x".repeat(64 * 1024).as_str()).await.unwrap();
    let poison = bench.server.account().queue("elsewhere").unwrap();
    let worker = bench.worker().poison_queue(poison.clone());
    assert_eq!(worker.drain().await.unwrap().poisoned, 2);
    let mut texts: Vec<_> = worker
        .poisoned(Duration::from_secs(60))
        .await
        .unwrap()
        .into_iter()
        .map(|one| one.text.len())
        .collect();
    texts.sort_unstable();
    assert_eq!(texts, [5, 64 * 1024]);
    assert_eq!(poison.approximate_count().await.unwrap(), 2);
}

#[tokio::test]
async fn poison_whose_answer_was_lost_is_there_once() {
    let bench = Bench::start().await;
    bench.queue.put("hello").await.unwrap();
    bench.server.account().queue("staff-poison").unwrap().create_if_missing().await.unwrap();
    bench
        .server
        .fault(r#"{"operation":"PutMessage","resource":"staff-poison","when":"after","cut":true,"count":1}"#)
        .await;
    let worker = bench.worker().lease(Duration::from_secs(2));
    assert_eq!(worker.drain().await.unwrap().poisoned, 0);
    bench.server.advance(3).await;
    assert_eq!(worker.drain().await.unwrap().poisoned, 1);
    assert_eq!(worker.poisoned(Duration::from_secs(1)).await.unwrap().len(), 1);
    assert!(bench.is_quiet().await);
}

#[tokio::test]
async fn entities_move_to_other_partitions_and_tables() {
    let bench = Bench::start().await;
    let account = bench.server.account();
    let archive = account.table("Former").unwrap();
    archive.create().await.unwrap();
    let archive = Outbox::without_copies(archive.of::<Employee>(), bench.queue.clone());
    let outbox = bench.outbox().archive_to(archive.clone());
    outbox.insert(&employee(1, "a")).await.unwrap();
    let to = Employee::key("Admin", 1).unwrap();
    let moved = outbox.move_to(&key(1), Match::Any, &to).await.unwrap();
    assert!(moved.pending.is_none(), "{moved:?}");
    assert_eq!(bench.table.get(&key(1)).await.unwrap(), None);
    let there = Employee { department: "Admin".to_owned(), ..employee(1, "a") };
    assert_eq!(bench.table.get(&to).await.unwrap().unwrap().entity, there);
    assert_eq!(bench.emails("email", true).await, ["a"]);
    assert_eq!(bench.emails("Admin", true).await, ["email_a"]);
    assert_eq!(bench.emails("Sales", true).await, [""; 0]);
    let within = outbox.move_to(&to, Match::Any, &Employee::key("Admin", 2).unwrap()).await.unwrap_err();
    assert_eq!(within.kind(), ErrorKind::Refused);

    // By a worker, over something that is there.
    archive.upsert_replace(&Employee { department: "Admin".to_owned(), ..employee(1, "old") }).await.unwrap();
    outbox.clone().leave_it_to_workers().archive(&to, Match::Any).await.unwrap();
    assert!(bench.table.get(&to).await.unwrap().is_some());
    assert_eq!(Worker::of(&outbox).drain().await.unwrap().done, 1);
    assert_eq!(bench.table.get(&to).await.unwrap(), None);
    assert_eq!(archive.table().get(&to).await.unwrap().unwrap().entity, there);
    assert_eq!(bench.emails("email", true).await, [""; 0]);
    assert_eq!(bench.outbox().archive(&to, Match::Any).await.unwrap_err().kind(), ErrorKind::Configuration);

    // Whoever meets an entity that moves helps it on its way.
    outbox.insert(&employee(2, "b")).await.unwrap();
    outbox.clone().leave_it_to_workers().archive(&key(2), Match::Any).await.unwrap();
    assert_eq!(outbox.modify(&key(2), |_| ()).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(archive.table().get(&key(2)).await.unwrap().is_some());
    Worker::of(&outbox).drain().await.unwrap();
    assert!(bench.is_quiet().await);
}

#[tokio::test]
async fn two_entities_do_not_wait_for_each_other_without_end() {
    let bench = Bench::start().await;
    let outbox = bench.outbox().leave_it_to_workers();
    outbox.insert(&employee(1, "a")).await.unwrap();
    let there = Employee::key("Admin", 1).unwrap();
    outbox.insert(&Employee { department: "Admin".to_owned(), ..employee(1, "b") }).await.unwrap();
    bench.worker().drain().await.unwrap();
    outbox.move_to(&key(1), Match::Any, &there).await.unwrap();
    let back = outbox.move_to(&there, Match::Any, &key(1)).await.unwrap_err();
    assert_eq!(back.kind(), ErrorKind::Conflict);
    // As if both had been put on their way at the same time.
    let moving = DynamicEntity::new("Admin", "empid_000001");
    let moving = moving.with("_MovingTo", r#"[false,"Sales","empid_000001"]"#).with("_Move", "00");
    bench.table.of::<DynamicEntity>().merge(&moving, Match::Any).await.unwrap();
    let worker = bench.worker().attempts(2);
    assert_eq!(worker.drain().await.unwrap().poisoned, 1);
    assert!(
        bench.table.get(&key(1)).await.unwrap().is_some() && bench.table.get(&there).await.unwrap().is_some()
    );
    // The way out that is documented.
    bench
        .table
        .replace(&Employee { department: "Admin".to_owned(), ..employee(1, "b") }, Match::Any)
        .await
        .unwrap();
    let poisoned = worker.poisoned(Duration::from_secs(60)).await.unwrap();
    worker.requeue(&poisoned[0]).await.unwrap();
    assert_eq!(worker.drain().await.unwrap().done, 1);
    assert_eq!(bench.table.get(&key(1)).await.unwrap(), None);
    assert_eq!(bench.table.get(&there).await.unwrap().unwrap().email, "a");
    assert_eq!(bench.emails("email", true).await, ["a"]);
}

#[tokio::test]
async fn what_is_left_behind_is_swept_by_the_age_of_the_service() {
    let bench = Bench::start().await;
    let outbox = bench.outbox();
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    outbox.insert(&employee(1, "a")).await.unwrap();
    outbox.modify(&key(1), |one| one.email = "b".to_owned()).await.unwrap();
    outbox.insert(&employee(2, "a")).await.unwrap();
    let deleted = outbox.delete(&key(1), Match::Any).await.unwrap();
    assert_eq!(outbox.sweep(week).await.unwrap().tombstones, 0, "too young");
    assert_eq!(outbox.sweep(Duration::from_secs(60)).await.unwrap_err().kind(), ErrorKind::Refused);
    bench.server.advance(8 * 24 * 60 * 60).await;
    // The clock of this machine has not moved.
    let swept = outbox.sweep(week).await.unwrap();
    assert_eq!((swept.tombstones, swept.former, swept.markers), (2, 1, 0));
    assert_eq!(bench.emails("email", true).await, ["a"]);
    // An entity that comes back begins with a later version than it ever had.
    let again = outbox.insert(&employee(1, "b")).await.unwrap();
    assert!(again.version > deleted.version);
    assert_eq!(bench.emails("email", true).await, ["a", "b"]);
}

#[tokio::test]
async fn entities_that_were_written_without_the_outbox_get_a_version() {
    let bench = Bench::start().await;
    let outbox = bench.outbox();
    outbox.insert(&employee(1, "a")).await.unwrap();
    // Loses the version.
    bench.table.replace(&employee(1, "b"), Match::Any).await.unwrap();
    outbox.modify(&key(1), |one| one.email = "c".to_owned()).await.unwrap();
    assert_eq!(bench.emails("email", true).await, ["a", "c"], "nobody has told of the change to b");
    bench.table.insert(&employee(2, "x")).await.unwrap();
    outbox.modify(&key(2), |two| two.email = "y".to_owned()).await.unwrap();
    assert_eq!(bench.emails("email", true).await, ["a", "c", "y"]);
    // A delete that leaves no tombstone, while there is a message.
    bench.outbox().leave_it_to_workers().modify(&key(2), |two| two.email = "z".to_owned()).await.unwrap();
    bench.table.delete(&key(2), Match::Any).await.unwrap();
    assert_eq!(bench.worker().drain().await.unwrap().done, 1);
    assert_eq!(bench.emails("email", true).await, ["a", "c"]);
}

/// Takes its time, or fails.
struct Slow {
    runs: Arc<AtomicUsize>,
    time: Duration,
}

impl Follower<Employee> for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn places(&self, entity: &Employee) -> Result<Vec<Place>, Error> {
        Ok(vec![Place { table: None, key: entity.entity_key()? }])
    }

    fn follow<'a>(&'a self, _: &'a Place, _: &'a Seen<Employee>) -> BoxFuture<'a, Result<Followed, Error>> {
        Box::pin(async {
            self.runs.fetch_add(1, Ordering::Relaxed);
            sleep(self.time).await;
            Ok(Followed::Done)
        })
    }
}

#[tokio::test]
async fn long_work_keeps_its_message_and_a_worker_stops_when_told() {
    let bench = Bench::start().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let follower = Slow { runs: Arc::clone(&runs), time: Duration::from_millis(3500) };
    let outbox = Outbox::without_copies(bench.table.clone(), bench.queue.clone()).with(follower);
    outbox.clone().leave_it_to_workers().insert(&employee(1, "a")).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let worker = Worker::of(&outbox).lease(Duration::from_secs(2));
    let until = |stop: Arc<AtomicBool>| async move {
        while !stop.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (worker, stop) = (worker.clone(), until(Arc::clone(&stop)));
            tokio::spawn(async move { worker.run(stop).await })
        })
        .collect();
    sleep(Duration::from_millis(200)).await;
    // Told while one of them is at work, which it ends.
    sleep(Duration::from_millis(2500)).await;
    stop.store(true, Ordering::Relaxed);
    let mut done = 0;
    for worker in workers {
        done += worker.await.unwrap().unwrap().done;
    }
    assert_eq!((done, runs.load(Ordering::Relaxed)), (1, 1));
    assert!(bench.is_quiet().await);
}

#[tokio::test]
async fn one_worker_serves_several_outboxes() {
    let bench = Bench::start().await;
    let first = bench.outbox();
    assert!(Worker::of(&first).and(&first).is_err());
    let second = first.clone().named("second");
    second.clone().leave_it_to_workers().insert(&employee(1, "a")).await.unwrap();
    let alone = Worker::of(&first).delay(Duration::ZERO).attempts(1);
    assert_eq!(alone.drain().await.unwrap().poisoned, 1);
    let poisoned = alone.poisoned(Duration::from_secs(60)).await.unwrap();
    assert!(poisoned[0].first_error.as_deref().unwrap().contains("second"));
    let both = alone.and(&second).unwrap();
    both.requeue(&poisoned[0]).await.unwrap();
    assert_eq!(both.drain().await.unwrap().done, 1);
}
