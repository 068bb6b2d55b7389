//! Bounds, refusals, and how long signatures are kept.

use super::cache::MAX_CACHED;
use super::*;
use crate::patterns::copies::CopyRow;
use crate::{Account, DynamicEntity, Entity, StoredEntity};

fn notes() -> Table {
    Account::from_connection_string("UseDevelopmentStorage=true").unwrap().table("Notes").unwrap()
}

#[test]
fn last_rows_of_ranges() {
    for (end, expected) in [
        ("email_b", "email_a\u{FFFF}"),
        ("a0", "a.\u{FFFF}"),
        ("empid_00019:", "empid_000199\u{FFFF}"),
        ("ab ", "ab"),
        ("\u{A0}", "~\u{FFFF}"),
        ("x\u{E000}", "x\u{10FFFF}\u{FFFF}"),
        ("x\u{10000}", "x\u{D7FF}\u{FFFF}"),
        (" ", ""),
        ("", ""),
    ] {
        assert_eq!(last_before(end), expected, "{end:?}");
    }
}

#[test]
fn what_no_signature_can_be_for() {
    let life = Duration::from_secs(60);
    let all = || notes().sas().partition("user1").read();
    assert!(all().for_(life).is_ok());
    for (case, sas, kind) in [
        ("no rights", notes().sas().partition("user1"), ErrorKind::Refused),
        ("an empty partition", notes().sas().partition("").read(), ErrorKind::KeyInvalid),
        ("no rows", all().rows(KeyRange { start: "b".into(), end: Some("b".into()) }), ErrorKind::KeyInvalid),
        (
            "reversed",
            all().rows(KeyRange { start: "b".into(), end: Some("a".into()) }),
            ErrorKind::KeyInvalid,
        ),
        ("nothing", all().rows(KeyRange { start: "".into(), end: Some(" ".into()) }), ErrorKind::KeyInvalid),
    ] {
        assert_eq!(sas.for_(life).unwrap_err().kind(), kind, "{case}");
    }
    assert!(notes().sas().partition("a\nb").read().for_(life).is_err(), "no character of keys");
    assert_eq!(all().for_(Duration::ZERO).unwrap_err().kind(), ErrorKind::Refused);
    let account = Account::at("http://127.0.0.1/acct").sas("sig=x").build().unwrap();
    let sas = account.table("Notes").unwrap().sas().partition("user1").read();
    assert_eq!(sas.for_(life).unwrap_err().kind(), ErrorKind::Configuration);
}

/// A note, and the rows that follow from it.
struct Note(EntityKey, Vec<(Option<&'static str>, EntityKey)>);

impl Entity for Note {
    fn entity_key(&self) -> Result<EntityKey, Error> {
        Ok(self.0.clone())
    }
    fn to_properties(&self) -> Result<crate::entity::Properties, Error> {
        DynamicEntity::new("", "").to_properties()
    }
    fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
        Ok(Self(stored.key.clone(), Vec::new()))
    }
}

impl Copies for Note {
    fn copies(&self) -> Result<Vec<CopyRow>, Error> {
        let properties = self.to_properties()?;
        let row = |(table, key): &(Option<&str>, EntityKey)| CopyRow {
            table: table.map(str::to_owned),
            key: key.clone(),
            properties: properties.clone(),
        };
        Ok(self.1.iter().map(row).collect())
    }
}

#[test]
fn copies_elsewhere_are_listed() {
    let sas = || notes().sas().partition("user1").rows(KeyRange::prefix("note_")).read();
    let own = EntityKey::new("user1", "note_1");
    let near = (None, EntityKey::new("user1", "note_by_title"));
    assert!(sas().reaching(&Note(own.clone(), vec![near.clone()])).is_ok());
    for (case, other, expected) in [
        ("other rows", (None, EntityKey::new("user1", "title_a")), "\"note_1\" to \"title_a\""),
        (
            "another partition",
            (None, EntityKey::new("titles", "a")),
            "Notes, \"titles\", \"a\"; and Notes, \"user1\"",
        ),
        (
            "another table",
            (Some("Titles"), EntityKey::new("user1", "note_1")),
            "; and Titles, \"user1\", \"note_1\"",
        ),
    ] {
        let error = sas().reaching(&Note(own.clone(), vec![near.clone(), other])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{case}");
        assert!(error.to_string().contains(expected), "{case}: {error}");
    }
}

#[test]
fn signatures_are_handed_out_for_half_their_life() {
    let table = notes();
    let cache = table.sas_cache(Duration::from_secs(60));
    let now = Timestamp::parse_iso("2026-11-18T09:00:00Z").unwrap();
    let after = |seconds| now.saturating_add(Duration::from_secs(seconds));
    let get = |sas: UserSas<_>, at| cache.get_at(&sas, at).unwrap();
    let wanted = || table.sas().partition("user1").read();
    let first = get(wanted(), now);
    assert_eq!(get(wanted(), after(29)), first);
    let second = get(wanted(), after(30));
    assert_ne!(second, first, "half of its life has passed");
    assert_eq!(second.expires(), after(90));
    assert_ne!(get(wanted(), now), second, "the clock was set back");
    for other in [
        table.sas().partition("user10").read(),
        wanted().add(),
        wanted().rows(KeyRange::prefix("a")),
        wanted().rows(KeyRange { start: "a".into(), end: None }),
    ] {
        assert_ne!(get(other, now).as_str(), first.as_str());
    }
    assert!(cache.get(notes().sas().partition("user1").read()).is_err(), "another account");
    assert!(!format!("{first:?} {cache:?}").contains("sig="));
}

#[test]
fn a_cache_does_not_grow_for_ever() {
    let table = notes();
    let cache = table.sas_cache(Duration::from_secs(60));
    let now = Timestamp::parse_iso("2026-11-18T09:00:00Z").unwrap();
    for user in 0..MAX_CACHED + 10 {
        cache.get_at(&table.sas().partition(format!("user{user}")).read(), now).unwrap();
    }
    assert!(cache.len() <= MAX_CACHED);
}
