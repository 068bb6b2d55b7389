//! Which operations are carried out though the disk is nearly full: those that free space, and what is needed to get there.

use tepui_model::condition::Condition;
use tepui_model::table::{Action, Change, ChangeSet, EntityKey, Properties};
use tepui_model::{blob, queue, table};

fn change(row: &str, action: Action) -> Change {
    Change { key: EntityKey::new("p", row), action }
}

#[test]
fn tables() {
    let delete = || Action::Delete(Condition::Any);
    let insert = || Action::Insert(Properties::default());
    let one = |action| table::Operation::ChangeEntity { table: "People".into(), change: change("1", action) };
    let several = |actions: Vec<Action>| {
        let changes = actions.into_iter().enumerate();
        let set =
            changes.map(|(row, action)| ("People".to_owned(), change(&row.to_string(), action))).collect();
        table::Operation::EntityGroupTransaction(ChangeSet::new(set).expect("they fit together"))
    };
    for (case, operation, expected) in [
        ("delete a table", table::Operation::DeleteTable { table: "People".into() }, true),
        ("get a table", table::Operation::GetTable { table: "People".into() }, false),
        ("delete an entity", one(delete()), true),
        ("insert an entity", one(insert()), false),
        ("delete several", several(vec![delete(), delete()]), true),
        ("delete one and insert one", several(vec![delete(), insert()]), false),
    ] {
        assert_eq!(operation.frees_space(), expected, "{case}");
    }
}

#[test]
fn queues() {
    let queue = || queue::QueueName::parse("jobs").expect("a name");
    let visibility = std::time::Duration::ZERO;
    let put =
        queue::Operation::PutMessage { queue: queue(), text: Default::default(), visibility, lifetime: None };
    for (case, operation, expected) in [
        ("put", put, false),
        ("take", queue::Operation::GetMessages { queue: queue(), count: 1, visibility }, true),
        ("delete", queue::Operation::DeleteMessage { queue: queue(), id: None, receipt: None }, true),
        ("clear", queue::Operation::ClearMessages { queue: queue() }, true),
        ("delete a queue", queue::Operation::DeleteQueue { queue: queue() }, true),
    ] {
        assert_eq!(operation.frees_space(), expected, "{case}");
    }
}

#[test]
fn blobs() {
    let container = || blob::ContainerName::parse("pictures").expect("a name");
    let preconditions = blob::Preconditions::default;
    let create = blob::Operation::CreateContainer {
        container: container(),
        metadata: Default::default(),
        public_access: None,
        encryption: Default::default(),
    };
    let delete = blob::Operation::DeleteContainer { container: container(), preconditions: preconditions() };
    for (case, operation, expected) in [
        ("create a container", create, false),
        ("delete a container", delete, true),
        ("read settings", blob::Operation::GetServiceProperties, false),
        ("end retention", blob::Operation::SetServiceProperties(Default::default()), true),
    ] {
        assert_eq!(operation.frees_space(), expected, "{case}");
    }
}
