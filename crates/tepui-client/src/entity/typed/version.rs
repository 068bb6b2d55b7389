//! Versions of a kind of entity, as the property `EntityType` says them: `Employee/2`.
//!
//! An entity without the property was written before it had one: it is version 1, of the kind that its keys tell.

use super::{PropertiesBuilder, TypedEntity};
use crate::{Error, StoredEntity};
use tepui_model::table::{Properties, ValueRef};

/// The property that says what an entity is, and in which version.
pub const ENTITY_TYPE: &str = "EntityType";

/// What `EntityType` says.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredVersion<'a> {
    Of { kind: &'a str, version: u32 },
    Unsaid,
    Unreadable,
}

#[doc(hidden)]
pub fn stored_version(properties: &Properties) -> StoredVersion<'_> {
    let text = match properties.get(ENTITY_TYPE) {
        None => return StoredVersion::Unsaid,
        Some(ValueRef::String(text)) => text.as_str(),
        Some(_) => return StoredVersion::Unreadable,
    };
    // Others write only what it is: that is its first version.
    let Some((kind, version)) = text.rsplit_once('/') else {
        return StoredVersion::Of { kind: text, version: 1 };
    };
    match version.parse() {
        Ok(version) if version > 0 => StoredVersion::Of { kind, version },
        _ => StoredVersion::Unreadable,
    }
}

#[doc(hidden)]
pub fn put_version<E: TypedEntity>(to: &mut PropertiesBuilder) -> Result<(), Error> {
    let text = format!("{}/{}", E::KIND, E::VERSION);
    Ok(to.push(ENTITY_TYPE, ValueRef::string(&text))?)
}

/// The version to read the properties as: that of the type, or an older one.
#[doc(hidden)]
pub fn check_version<E: TypedEntity>(properties: &Properties) -> Result<u32, Error> {
    match stored_version(properties) {
        StoredVersion::Unsaid => Ok(1),
        StoredVersion::Unreadable => Err(Error::decode("the property says no kind of entity: EntityType")),
        StoredVersion::Of { kind, .. } if kind != E::KIND => {
            Err(Error::decode(format!("the entity is of another kind than {}: {kind}", E::KIND)))
        }
        StoredVersion::Of { kind, version } if version > E::VERSION => Err(Error::decode(format!(
            "the entity was written by a newer program, which has version {version} of {kind}: this one has {}",
            E::VERSION
        ))),
        StoredVersion::Of { version, .. } => Ok(version),
    }
}

/// A projection reads the version that its entity has, because it cannot upgrade what it did not read.
#[doc(hidden)]
pub fn check_projected<E: TypedEntity>(stored: &StoredEntity) -> Result<(), Error> {
    if E::KIND.is_empty() || check_version::<E>(&stored.properties)? == E::VERSION {
        return Ok(());
    }
    Err(Error::decode(format!("an older version of {} has to be read whole, to be upgraded", E::KIND)))
}

/// All properties that a projection has to read.
#[doc(hidden)]
pub fn projected<E: TypedEntity>(own: &[&[&'static str]]) -> Vec<&'static str> {
    let kind = (!E::KIND.is_empty()).then_some(ENTITY_TYPE);
    own.iter().copied().flatten().copied().chain(kind).collect()
}

/// Whether `B` follows `A`.
#[doc(hidden)]
pub const fn is_next_version<A: TypedEntity, B: TypedEntity>() -> bool {
    !A::KIND.is_empty() && !super::is_different_kind::<A, B>() && A::VERSION + 1 == B::VERSION
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DynamicEntity, Entity as _};

    #[test]
    fn what_entity_type_says() {
        for (text, expected) in [
            ("Employee/2", StoredVersion::Of { kind: "Employee", version: 2 }),
            ("Employee", StoredVersion::Of { kind: "Employee", version: 1 }),
            ("a/b/3", StoredVersion::Of { kind: "a/b", version: 3 }),
            ("Employee/", StoredVersion::Unreadable),
            ("Employee/0", StoredVersion::Unreadable),
            ("Employee/99999999999", StoredVersion::Unreadable),
        ] {
            let properties =
                DynamicEntity::new("", "").with(ENTITY_TYPE, text).to_properties().unwrap_or_default();
            assert_eq!(stored_version(&properties), expected, "{text}");
        }
    }
}
