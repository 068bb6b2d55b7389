//! Writes of entities as pure decisions: the stored entity, the change and the time give what to store, or an error.

use crate::record::StoredEntity;
use std::borrow::Cow;
use tepui_model::condition::Condition;
use tepui_model::table::{Action, Change, Properties};
use tepui_model::{ErrorCode, Timestamp};

/// What to do with an entity.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision<'a> {
    Store(Timestamp, Cow<'a, Properties>),
    Delete,
}

/// Decides a change. `now` is later than every timestamp that this process used before.
pub(super) fn decide<'a>(
    stored: Option<&StoredEntity>,
    change: &'a Change,
    now: Timestamp,
) -> Result<Decision<'a>, ErrorCode> {
    let kept = match &change.action {
        Action::Insert(new) => match stored {
            None => Cow::Borrowed(new),
            Some(_) => return Err(ErrorCode::EntityAlreadyExists),
        },
        Action::Update(condition, new) => {
            existing(stored, *condition)?;
            Cow::Borrowed(new)
        }
        Action::Merge(condition, new) => merged(existing(stored, *condition)?, new),
        Action::InsertOrReplace(new) => Cow::Borrowed(new),
        Action::InsertOrMerge(new) => match stored {
            None => Cow::Borrowed(new),
            Some(stored) => merged(stored, new),
        },
        Action::Delete(condition) => {
            existing(stored, *condition)?;
            return Ok(Decision::Delete);
        }
    };
    kept.check_entity(&change.key.partition_key, &change.key.row_key)?;
    // Timestamps rise even if the clock was set back, or that of another node is ahead.
    let timestamp = stored.map_or(now, |stored| now.later_than(stored.timestamp));
    Ok(Decision::Store(timestamp, kept))
}

/// The entity, if it exists and meets the condition.
fn existing(stored: Option<&StoredEntity>, condition: Condition) -> Result<&StoredEntity, ErrorCode> {
    // Fidelity: a missing entity answers 404 even when If-Match is given. scenario: update-missing-entity
    let stored = stored.ok_or(ErrorCode::ResourceNotFound)?;
    if condition.accepts(stored.timestamp) { Ok(stored) } else { Err(ErrorCode::UpdateConditionNotSatisfied) }
}

fn merged<'a>(stored: &StoredEntity, new: &Properties) -> Cow<'a, Properties> {
    Cow::Owned(stored.properties.merged_with(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_model::table::{EntityKey, PropertiesBuilder, ValueRef};

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    fn properties(pairs: &[(&str, i32)]) -> Properties {
        let mut builder = PropertiesBuilder::new();
        for (name, value) in pairs {
            builder.push(name, ValueRef::Int32(*value)).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn every_action_on_every_state() {
        use Action::*;
        use ErrorCode::*;
        let (before, now) = (at("2026-03-10"), at("2026-03-11"));
        let stored = StoredEntity { timestamp: before, properties: properties(&[("A", 1), ("B", 2)]) };
        let new = || properties(&[("B", 3), ("C", 4)]);
        let replaced = || Ok(vec![("B", 3), ("C", 4)]);
        let merged = || Ok(vec![("A", 1), ("B", 3), ("C", 4)]);
        let (any, fresh, stale) = (Condition::Any, Condition::WrittenAt(before), Condition::WrittenAt(now));
        let deleted = || Ok(vec![]);
        for (case, exists, action, expected) in [
            ("insert", false, Insert(new()), replaced()),
            ("insert twice", true, Insert(new()), Err(EntityAlreadyExists)),
            ("update", true, Update(any, new()), replaced()),
            ("update, fresh", true, Update(fresh, new()), replaced()),
            ("update, stale", true, Update(stale, new()), Err(UpdateConditionNotSatisfied)),
            ("update, never", true, Update(Condition::Never, new()), Err(UpdateConditionNotSatisfied)),
            ("update, missing", false, Update(stale, new()), Err(ResourceNotFound)),
            ("merge", true, Merge(any, new()), merged()),
            ("merge, fresh", true, Merge(fresh, new()), merged()),
            ("merge, stale", true, Merge(stale, new()), Err(UpdateConditionNotSatisfied)),
            ("merge, missing", false, Merge(any, new()), Err(ResourceNotFound)),
            ("insert or replace, exists", true, InsertOrReplace(new()), replaced()),
            ("insert or replace, missing", false, InsertOrReplace(new()), replaced()),
            ("insert or merge, exists", true, InsertOrMerge(new()), merged()),
            ("insert or merge, missing", false, InsertOrMerge(new()), replaced()),
            ("delete", true, Delete(any), deleted()),
            ("delete, fresh", true, Delete(fresh), deleted()),
            ("delete, stale", true, Delete(stale), Err(UpdateConditionNotSatisfied)),
            ("delete, missing", false, Delete(any), Err(ResourceNotFound)),
        ] {
            let change = Change { key: EntityKey::new("p", "r"), action };
            let outcome = decide(exists.then_some(&stored), &change, now).map(|decision| match decision {
                Decision::Delete => vec![],
                Decision::Store(timestamp, properties) => {
                    assert_eq!(timestamp, now, "{case}");
                    let number = |value| match value {
                        ValueRef::Int32(number) => number,
                        other => panic!("{other:?}"),
                    };
                    let pairs = properties.iter().map(|(name, value)| (name.to_owned(), number(value)));
                    pairs.collect::<Vec<_>>()
                }
            });
            let expected = expected.map(|pairs| {
                pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>()
            });
            assert_eq!(outcome, expected, "{case}");
        }
    }

    #[test]
    fn timestamps_rise_even_when_the_clock_was_set_back() {
        let stored = StoredEntity { timestamp: at("2026-03-10"), properties: Properties::default() };
        let change =
            Change { key: EntityKey::new("p", "r"), action: Action::InsertOrReplace(Properties::default()) };
        let now = at("2020-01-01");
        let decision = decide(Some(&stored), &change, now);
        let expected = Decision::Store(now.later_than(stored.timestamp), Cow::Owned(Properties::default()));
        assert_eq!(decision, Ok(expected));
    }

    #[test]
    fn a_merge_is_measured_as_a_whole() {
        let many = |prefix: &str, count: i32| {
            let names: Vec<_> = (0..count).map(|index| format!("{prefix}{index}")).collect();
            properties(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>())
        };
        let stored = StoredEntity { timestamp: at("2026-03-10"), properties: many("A", 200) };
        let merge =
            |count| Change { key: EntityKey::new("p", "r"), action: Action::InsertOrMerge(many("B", count)) };
        assert!(decide(Some(&stored), &merge(52), at("2026-03-11")).is_ok());
        assert_eq!(decide(Some(&stored), &merge(53), at("2026-03-11")), Err(ErrorCode::TooManyProperties));
    }
}
