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
    let one = |action| change("1", action).frees_space();
    let several = |actions: Vec<Action>| {
        let changes = actions.into_iter().enumerate();
        let set =
            changes.map(|(row, action)| ("People".to_owned(), change(&row.to_string(), action))).collect();
        ChangeSet::new(set).expect("they fit together").frees_space()
    };
    let table = || "People".to_owned();
    for (case, frees_space, expected) in [
        ("delete a table", table::Operation::DeleteTable { table: table() }.frees_space(), true),
        ("get a table", table::Operation::GetTable { table: table() }.frees_space(), false),
        ("delete an entity", one(delete()), true),
        ("insert an entity", one(insert()), false),
        ("delete several", several(vec![delete(), delete()]), true),
        ("delete one and insert one", several(vec![delete(), insert()]), false),
    ] {
        assert_eq!(frees_space, expected, "{case}");
    }
}

#[test]
fn queues() {
    let queue = || queue::QueueName::parse("jobs").expect("a name");
    let visibility = std::time::Duration::ZERO;
    let put = queue::SequencedOperation::PutMessage {
        queue: queue(),
        text: Default::default(),
        visibility,
        lifetime: None,
    };
    for (case, operation, expected) in [
        ("put", put, false),
        ("take", queue::SequencedOperation::GetMessages { queue: queue(), count: 1, visibility }, true),
        (
            "delete",
            queue::SequencedOperation::DeleteMessage { queue: queue(), id: None, receipt: None },
            true,
        ),
        ("clear", queue::SequencedOperation::ClearMessages { queue: queue() }, true),
        ("delete a queue", queue::SequencedOperation::DeleteQueue { queue: queue() }, true),
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
