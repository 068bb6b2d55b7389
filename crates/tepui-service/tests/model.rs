//! The service against a plain model: random operations get the same answers, on every engine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
// Futures of gRPC are deep, where tepui-tikv compiles this.
#![recursion_limit = "256"]

#[path = "shared/engine.rs"]
mod engine;
#[path = "shared/store.rs"]
mod store;

use engine::{Fault, TestEngine};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Course, FaultyEngine, Nodes, Settle, repeat, repeat_unless_open, repeat_until_done};
use tepui_local::{DiskEngine, EngineOptions};
use tepui_model::condition::Condition;
use tepui_model::grant::KeyBounds;
use tepui_model::table::{
    Action, Change, ChangeSet, Comparison, Continuation, EntityKey, EntitySink, EntityView, Filter, Literal,
    Operation, PageSize, Properties, PropertiesBuilder, QueryEntities, Reply, TableName, ValueRef, Written,
};
use tepui_model::time::{ManualClock, NodeNumber};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_service::{GarbageCollector, TableOptions, TableService};
use tepui_storage::Engine;

#[test]
fn all_of_it_on_a_faulty_store() {
    Course::Faulty.run();
}

#[test]
fn all_of_it_with_two_nodes_on_a_faulty_store() {
    Course::TwoNodes.run();
}

#[test]
fn all_of_it_with_two_nodes_on_a_database() {
    Course::Database.run();
}

const ACCOUNT: &str = "account";
const TABLE: &str = "People";
const MINUTE: Duration = Duration::from_secs(60);

/// What a test does to the service. Keys and values come from small sets, so that they meet.
#[derive(Debug, Clone)]
enum Step {
    Change(SmallChange),
    Batch(Vec<SmallChange>),
    Query { filter: Option<Filter>, page_size: usize },
    Recreate,
}

#[derive(Debug, Clone)]
struct SmallChange {
    partition: u8,
    row: u8,
    verb: u8,
    /// Whether a condition names the current version, if the verb has a condition at all.
    condition: SmallCondition,
    values: Vec<(u8, i32)>,
}

#[derive(Debug, Clone, Copy)]
enum SmallCondition {
    Any,
    Current,
    Stale,
}

/// The model: every entity's timestamp and properties by its keys.
type Model = BTreeMap<(String, String), (Timestamp, BTreeMap<String, i32>)>;

fn partition_text(partition: u8) -> String {
    ["", "a", "b", "é"][usize::from(partition % 4)].to_owned()
}

fn row_text(row: u8) -> String {
    format!("{:02}", row % 12)
}

fn packed(values: &[(u8, i32)]) -> (Properties, BTreeMap<String, i32>) {
    let map: BTreeMap<String, i32> =
        values.iter().map(|(name, value)| (format!("P{}", name % 4), *value)).collect();
    let mut builder = PropertiesBuilder::new();
    for (name, value) in &map {
        builder.push(name, ValueRef::Int32(*value)).unwrap();
    }
    (builder.finish(), map)
}

/// The expected result of a change: the entity's new properties, `None` for a deletion.
fn expected(
    model: &Model,
    change: &Change,
    values: &BTreeMap<String, i32>,
) -> Result<Option<BTreeMap<String, i32>>, ErrorCode> {
    let stored = model.get(&(change.key.partition_key.clone(), change.key.row_key.clone()));
    let existing = |condition: &Condition| {
        let (timestamp, properties) = stored.ok_or(ErrorCode::ResourceNotFound)?;
        let fits = match condition {
            Condition::Any => true,
            Condition::WrittenAt(at) => at == timestamp,
            Condition::Never => false,
        };
        if fits { Ok(properties) } else { Err(ErrorCode::UpdateConditionNotSatisfied) }
    };
    let merged = |old: &BTreeMap<String, i32>| {
        let mut merged = old.clone();
        merged.extend(values.clone());
        Some(merged)
    };
    Ok(match &change.action {
        Action::Insert(_) if stored.is_some() => return Err(ErrorCode::EntityAlreadyExists),
        Action::Insert(_) | Action::InsertOrReplace(_) => Some(values.clone()),
        Action::Update(condition, _) => existing(condition).map(|_| Some(values.clone()))?,
        Action::Merge(condition, _) => merged(existing(condition)?),
        Action::InsertOrMerge(_) => match stored {
            Some((_, properties)) => merged(properties),
            None => Some(values.clone()),
        },
        Action::Delete(condition) => existing(condition).map(|_| None)?,
    })
}

fn apply(model: &mut Model, change: &Change, outcome: Option<BTreeMap<String, i32>>, written: Written) {
    let key = (change.key.partition_key.clone(), change.key.row_key.clone());
    match (outcome, written) {
        (Some(properties), Written::Stored(timestamp)) => {
            if let Some((before, _)) = model.get(&key) {
                assert!(timestamp > *before, "an entity's timestamp must rise");
            }
            model.insert(key, (timestamp, properties));
        }
        (None, Written::Deleted) => drop(model.remove(&key)),
        (outcome, written) => panic!("{written:?} for {outcome:?}"),
    }
}

fn concrete(model: &Model, small: &SmallChange, partition: u8) -> (Change, BTreeMap<String, i32>) {
    let key = EntityKey::new(partition_text(partition), row_text(small.row));
    let current =
        model.get(&(key.partition_key.clone(), key.row_key.clone())).map(|(timestamp, _)| *timestamp);
    let condition = match (small.condition, current) {
        (SmallCondition::Any, _) => Condition::Any,
        (SmallCondition::Current, Some(timestamp)) => Condition::WrittenAt(timestamp),
        (SmallCondition::Current | SmallCondition::Stale, _) => Condition::WrittenAt(Timestamp::MIN),
    };
    let (properties, values) = packed(&small.values);
    let action = match small.verb % 6 {
        0 => Action::Insert(properties),
        1 => Action::Update(condition, properties),
        2 => Action::Merge(condition, properties),
        3 => Action::InsertOrReplace(properties),
        4 => Action::InsertOrMerge(properties),
        _ => Action::Delete(condition),
    };
    (Change { key, action }, values)
}

/// Collects what a query finds.
#[derive(Default)]
struct Found(Vec<(String, String, Timestamp, BTreeMap<String, i32>)>);

impl EntitySink for Found {
    fn accept(&mut self, entity: &EntityView<'_>) {
        let properties =
            tepui_model::table::properties::iter(entity.packed).map(|(name, value)| match value {
                ValueRef::Int32(number) => (name.to_owned(), number),
                other => panic!("{other:?}"),
            });
        let (partition_key, row_key) = (entity.partition_key.to_owned(), entity.row_key.to_owned());
        self.0.push((partition_key, row_key, entity.timestamp, properties.collect()));
    }

    fn bytes(&self) -> usize {
        self.0.len() * 64
    }
}

struct World<E> {
    engine: Arc<E>,
    nodes: Nodes<TableService<E>>,
    model: Model,
}

/// What the caller is told of an error.
fn told(error: ServiceError) -> (ErrorCode, Option<usize>) {
    (error.code, error.change)
}

fn created() -> Reply {
    Reply::TableCreated { name: TableName::parse(TABLE).unwrap() }
}

impl<E: Engine + Settle> World<E> {
    async fn new(engine: E) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::parse_iso("2026-03-10").unwrap()));
        let engine = Arc::new(engine);
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let node = |_| {
            let (engine, collector) = (Arc::clone(&engine), Arc::clone(&collector));
            TableService::new(engine, Arc::<ManualClock>::clone(&clock), collector, TableOptions::default())
        };
        let nodes = Nodes::new(store::nodes(), node);
        let world = Self { engine, nodes, model: Model::new() };
        world.create().await;
        world
    }

    async fn try_run(&self, operation: &Operation) -> Result<Reply, ServiceError> {
        self.nodes.next().execute(ACCOUNT, operation, &KeyBounds::EVERYTHING).await
    }

    /// Something that only reads.
    async fn run(&self, operation: &Operation) -> Result<Reply, (ErrorCode, Option<usize>)> {
        repeat(|| async { self.try_run(operation).await }).await.answer.map_err(told)
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Change(small) => {
                let (change, values) = concrete(&self.model, small, small.partition);
                let outcome = expected(&self.model, &change, &values);
                let bounds = &KeyBounds::EVERYTHING;
                let attempt =
                    || async { self.nodes.next().change_entity(ACCOUNT, "PEOPLE", &change, bounds).await };
                match (repeat_unless_open(attempt).await.map_err(told), outcome) {
                    (Err((ErrorCode::InternalError, None)), Ok(outcome)) => {
                        self.settle(&[(change, outcome)]).await;
                    }
                    (Ok(written), Ok(outcome)) => apply(&mut self.model, &change, outcome, written),
                    (Err((code, None)), Err(wanted)) => assert_eq!(code, wanted),
                    (reply, outcome) => panic!("{change:?}: {reply:?}, expected {outcome:?}"),
                }
            }
            Step::Batch(smalls) => self.batch(smalls).await,
            Step::Query { filter, page_size } => self.query(filter.as_ref(), *page_size).await,
            Step::Recreate => {
                let delete = Operation::DeleteTable { table: TABLE.to_lowercase() };
                let done = (ErrorCode::ResourceNotFound, Reply::TableDeleted);
                assert_eq!(self.run_surely(&delete, done).await, Ok(Reply::TableDeleted));
                let gone = Operation::GetEntity { table: TABLE.to_owned(), key: EntityKey::new("a", "01") };
                assert_eq!(self.run(&gone).await, Err((ErrorCode::TableNotFound, None)));
                self.create().await;
                self.model.clear();
            }
        }
    }

    async fn batch(&mut self, smalls: &[SmallChange]) {
        let partition = smalls.first().map_or(0, |small| small.partition);
        let mut rows = std::collections::HashSet::new();
        let distinct = smalls.iter().filter(|small| rows.insert(row_text(small.row)));
        let changes: Vec<_> = distinct.map(|small| concrete(&self.model, small, partition)).collect();
        let set = changes.iter().map(|(change, _)| (TABLE.to_owned(), change.clone())).collect();
        let set = ChangeSet::new(set).unwrap();
        let attempt = || async { self.nodes.next().transact(ACCOUNT, &set, &KeyBounds::EVERYTHING).await };
        let reply = repeat_unless_open(attempt).await.map_err(told);
        // Every change is judged on what was there before the batch: each entity is in it once.
        let outcomes: Result<Vec<_>, _> = changes
            .iter()
            .enumerate()
            .map(|(index, (change, values))| {
                expected(&self.model, change, values).map_err(|code| (code, Some(index)))
            })
            .collect();
        match (reply, outcomes) {
            (Err((ErrorCode::InternalError, None)), Ok(outcomes)) => {
                let changes = changes.into_iter().map(|(change, _)| change);
                self.settle(&changes.zip(outcomes).collect::<Vec<_>>()).await;
            }
            (Ok(all), Ok(outcomes)) => {
                assert_eq!(all.len(), outcomes.len());
                for (((change, _), outcome), written) in changes.iter().zip(outcomes).zip(all) {
                    apply(&mut self.model, change, outcome, written);
                }
            }
            (Err(error), Err(wanted)) => assert_eq!(error, wanted),
            (reply, outcomes) => panic!("{reply:?}, expected {outcomes:?}"),
        }
    }

    /// Finds out whether changes were made whose answer left it open: all or none.
    async fn settle(&mut self, changes: &[(Change, Option<BTreeMap<String, i32>>)]) {
        assert_ne!(Course::current(), Course::Memory, "nothing is open there");
        self.engine.settle().await;
        let mut made = Vec::new();
        for (change, outcome) in changes {
            let get = Operation::GetEntity { table: TABLE.to_owned(), key: change.key.clone() };
            let found = match self.run(&get).await {
                Ok(Reply::Entity(entity)) => Some(entity.timestamp),
                Err((ErrorCode::ResourceNotFound, None)) => None,
                other => panic!("{other:?}"),
            };
            let key = (change.key.partition_key.clone(), change.key.row_key.clone());
            let before = self.model.get(&key).map(|(timestamp, _)| *timestamp);
            made.push(found != before);
            match (found, outcome) {
                _ if found == before => {}
                (Some(timestamp), Some(properties)) => {
                    self.model.insert(key, (timestamp, properties.clone()));
                }
                (None, None) => drop(self.model.remove(&key)),
                other => panic!("{other:?}"),
            }
        }
        assert!(made.iter().all(|one| *one == made[0]), "made in part: {made:?}");
    }

    /// Repeats an operation whose answer leaves open what became of it. `done` says that it had been done.
    async fn run_surely(&self, operation: &Operation, done: (ErrorCode, Reply)) -> Result<Reply, ErrorCode> {
        let answer = repeat(|| async { self.try_run(operation).await }).await;
        answer.unless_done(|code| (code == done.0).then_some(done.1)).map_err(|error| error.code)
    }

    async fn create(&self) {
        let create = Operation::CreateTable { name: TableName::parse(TABLE).unwrap() };
        let done = (ErrorCode::TableAlreadyExists, created());
        assert_eq!(self.run_surely(&create, done).await, Ok(created()));
    }

    /// Follows a query page by page and compares all it found with the model.
    async fn query(&self, filter: Option<&Filter>, page_size: usize) {
        let mut all = Found::default();
        let mut from: Option<Continuation> = None;
        loop {
            let query = QueryEntities {
                table: TABLE.to_owned(),
                filter: filter.cloned(),
                page_size: PageSize::new(page_size).unwrap(),
                from,
            };
            let before = all.0.len();
            let (all, bounds) = (RefCell::new(&mut all), &KeyBounds::EVERYTHING);
            let attempt = || async {
                let mut found = Found::default();
                let page =
                    self.nodes.next().query_entities(ACCOUNT, &query, bounds, MINUTE, &mut found).await?;
                all.borrow_mut().0.extend(found.0);
                Ok(page)
            };
            let page = repeat_until_done(attempt).await;
            let all = all.into_inner();
            assert!(all.0.len() - before <= page_size);
            assert_eq!(page.cost.returned as usize, all.0.len() - before);
            assert!(
                page.next.is_none() || all.0.len() - before == page_size,
                "only a full page has a next one"
            );
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let matching = self.model.iter().filter(|((partition_key, row_key), (timestamp, values))| {
            let pairs: Vec<_> = values.iter().map(|(name, value)| (name.clone(), *value)).collect();
            let mut builder = PropertiesBuilder::new();
            pairs.iter().for_each(|(name, value)| builder.push(name, ValueRef::Int32(*value)).unwrap());
            let properties = builder.finish();
            let packed = properties.bytes();
            filter.is_none_or(|filter| {
                filter.matches(&EntityView { partition_key, row_key, timestamp: *timestamp, packed })
            })
        });
        let expected: Vec<_> = matching
            .map(|((partition, row), (timestamp, values))| {
                (partition.clone(), row.clone(), *timestamp, values.clone())
            })
            .collect();
        assert_eq!(all.0, expected, "{filter:?}");
    }
}

fn any_change() -> impl Strategy<Value = SmallChange> {
    let condition =
        prop_oneof![Just(SmallCondition::Any), Just(SmallCondition::Current), Just(SmallCondition::Stale)];
    (any::<u8>(), any::<u8>(), any::<u8>(), condition, prop::collection::vec((any::<u8>(), 0..5i32), 0..4))
        .prop_map(|(partition, row, verb, condition, values)| SmallChange {
            partition,
            row,
            verb,
            condition,
            values,
        })
}

fn any_filter() -> impl Strategy<Value = Filter> {
    use Comparison::*;
    let how = || prop::sample::select(vec![Equal, NotEqual, Greater, GreaterOrEqual, Less, LessOrEqual]);
    let key = |name: &'static str, texts: Vec<String>| {
        (how(), prop::sample::select(texts)).prop_map(move |(how, text)| Filter::Compare {
            property: name.to_owned(),
            how,
            value: Literal::String(text),
        })
    };
    let value = (0..4u8, how(), 0..5i32).prop_map(|(name, how, value)| Filter::Compare {
        property: format!("P{name}"),
        how,
        value: Literal::Int32(value),
    });
    let leaf = prop_oneof![
        key("PartitionKey", (0..4).map(partition_text).collect()),
        key("RowKey", (0..12).map(row_text).collect()),
        value,
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Filter::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Filter::Or),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => any_change().prop_map(Step::Change),
        4 => prop::collection::vec(any_change(), 1..6).prop_map(Step::Batch),
        4 => (prop::option::of(any_filter()), 1..8usize)
            .prop_map(|(filter, page_size)| Step::Query { filter, page_size }),
        1 => Just(Step::Recreate),
    ]
}

fn run<E: Engine + Settle>(engine: E, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(engine).await;
        for step in steps {
            world.step(step).await;
        }
        world.query(None, 7).await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(store::cases(200)))]
    #[test]
    fn in_memory(steps in prop::collection::vec(any_step(), 1..60)) {
        run(store::with_open_outcomes(store::tested()), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn on_an_engine_that_forgets(steps in prop::collection::vec(any_step(), 1..60), seed in any::<u64>()) {
        run(TestEngine::forgetful(seed), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn on_disk(steps in prop::collection::vec(any_step(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let engine = DiskEngine::open(EngineOptions::new(folder.path())).unwrap();
        run(store::with_open_outcomes(engine), &steps);
    }
}

/// Two nodes create or delete the same table at the same instant of their clocks, and the answer to one of them is lost. That the table is there,
/// or gone, does not prove that it was that one.
#[tokio::test]
async fn a_lost_change_of_a_table_is_not_taken_for_that_of_another_node() {
    let engine = Arc::new(TestEngine::new());
    let control = engine.control().clone();
    let now = Timestamp::parse_iso("2026-03-10").unwrap();
    let [first, second] = [1, 2].map(|number| {
        let clock = Arc::new(ManualClock::at(now).of_node(NodeNumber::new(number).unwrap()));
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        Arc::new(TableService::new(Arc::clone(&engine), clock, collector, TableOptions::default()))
    });
    let create = Operation::CreateTable { name: TableName::parse(TABLE).unwrap() };
    let delete = Operation::DeleteTable { table: TABLE.to_owned() };
    for operation in [create, delete] {
        let (other, same) = (Arc::clone(&second), operation.clone());
        *control.meanwhile.lock().unwrap() = Some(Box::pin(async move {
            other.execute(ACCOUNT, &same, &KeyBounds::EVERYTHING).await.unwrap();
        }));
        *control.fault.lock().unwrap() = Some(Fault::UnknownOvertaken);
        let lost = first.execute(ACCOUNT, &operation, &KeyBounds::EVERYTHING).await;
        assert_eq!(
            lost.map(drop).map_err(|error| error.code),
            Err(ErrorCode::InternalError),
            "{operation:?}"
        );
    }
}

/// One node drops the table and makes it again while another writes to it. What is acknowledged after the table was made again is
/// there; nothing is left of what was there before.
#[tokio::test]
async fn a_table_is_dropped_on_one_node_and_written_on_another() {
    let engine = Arc::new(store::for_many(store::tested()));
    let now = Timestamp::parse_iso("2026-03-10").unwrap();
    let nodes = [1, 2].map(|number| {
        let clock = Arc::new(ManualClock::at(now).of_node(NodeNumber::new(number).unwrap()));
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        TableService::new(Arc::clone(&engine), clock, collector, TableOptions::default())
    });
    let [first, second] = &nodes;
    let run = async |node: &TableService<FaultyEngine>, operation: Operation| {
        let attempt = || node.execute(ACCOUNT, &operation, &KeyBounds::EVERYTHING);
        repeat(attempt).await.answer.map_err(|error| error.code)
    };
    let create = || Operation::CreateTable { name: TableName::parse(TABLE).unwrap() };
    let drop_table = || Operation::DeleteTable { table: TABLE.to_owned() };
    run(first, create()).await.unwrap();
    for round in 0..40 {
        // Numbers of the entities that were acknowledged, and whether the table was there again when they were begun.
        let (acknowledged, is_new) = (RefCell::new(Vec::new()), Cell::new(false));
        let writer = async {
            for number in 0..60 {
                let begun_new = is_new.get();
                let (key, action) =
                    (EntityKey::new("p", row_name(number)), Action::Insert(Properties::default()));
                let change = Change { key, action };
                let attempt = || second.change_entity(ACCOUNT, TABLE, &change, &KeyBounds::EVERYTHING);
                match repeat(attempt).await.answer.map_err(|error| error.code) {
                    Ok(_) => acknowledged.borrow_mut().push((number, begun_new)),
                    Err(ErrorCode::TableNotFound) => assert!(!begun_new, "{round}"),
                    Err(code) => panic!("{code:?}"),
                }
            }
        };
        let before = Cell::new(0);
        let dropper = async {
            run(first, drop_table()).await.unwrap();
            before.set(acknowledged.borrow().len());
            run(first, create()).await.unwrap();
            is_new.set(true);
        };
        tokio::join!(writer, dropper);
        for (position, (number, begun_new)) in acknowledged.into_inner().into_iter().enumerate() {
            let get =
                Operation::GetEntity { table: TABLE.to_owned(), key: EntityKey::new("p", row_name(number)) };
            let found = run(first, get).await;
            if begun_new {
                assert!(found.is_ok(), "{round}: {number} is lost: {found:?}");
            }
            // Acknowledged before the answer to the drop, and all but the last begun before it.
            if position + 1 < before.get() {
                assert_eq!(found, Err(ErrorCode::ResourceNotFound), "{round}: {number} is still there");
            }
        }
        run(first, drop_table()).await.unwrap();
        run(second, create()).await.unwrap();
    }
}

fn row_name(number: u32) -> String {
    format!("{number:03}")
}
