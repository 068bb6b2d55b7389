//! Links: the keys of another entity as a property.

use crate::entity::ValueRef;
use crate::entity::typed::PropertyValue;
use crate::{EdmType, Entity, EntityKey, Error, Table, Versioned};
use std::fmt;
use std::marker::PhantomData;

/// The keys of an entity of type `T`, as a property of another: a String with both as JSON, `["Sales","empid_000223"]`. What
/// it points to may be gone.
pub struct Link<T> {
    key: EntityKey,
    /// As it is stored.
    text: String,
    target: PhantomData<fn() -> T>,
}

impl<T> Link<T> {
    /// To whatever has this key.
    pub fn to_key(key: EntityKey) -> Self {
        let text = serde_json::json!([key.partition_key, key.row_key]).to_string();
        Self { key, text, target: PhantomData }
    }

    pub fn key(&self) -> &EntityKey {
        &self.key
    }
}

impl<T: Entity> Link<T> {
    pub fn to(entity: &T) -> Result<Self, Error> {
        Ok(Self::to_key(entity.entity_key()?))
    }
}

impl<E: Entity> Table<E> {
    /// What a link points to; `None` if it is gone.
    pub async fn follow(&self, link: &Link<E>) -> Result<Option<Versioned<E>>, Error> {
        self.get(link.key()).await
    }
}

impl<T> PropertyValue for Link<T> {
    const TYPE: EdmType = EdmType::String;

    fn to_value(&self) -> ValueRef<'_> {
        ValueRef::string(&self.text)
    }

    fn from_value(value: ValueRef<'_>) -> Option<Self> {
        let ValueRef::String(text) = value else { return None };
        let (partition_key, row_key): (String, String) = serde_json::from_str(text.as_str()).ok()?;
        Some(Self::to_key(EntityKey { partition_key, row_key }))
    }
}

impl<T> Clone for Link<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), text: self.text.clone(), target: PhantomData }
    }
}

impl<T> PartialEq for Link<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Link<T> {}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Link").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_there_and_back() {
        for (partition_key, row_key) in
            [("Sales", "empid_000223"), ("", ""), ("a\"b,", "é😀]"), ("[\"a\"", "'")]
        {
            let link = Link::<()>::to_key(EntityKey::new(partition_key, row_key));
            assert_eq!(Link::from_value(link.to_value()), Some(link));
        }
        for text in ["", "Sales", "[]", "[\"a\"]", "[\"a\",\"b\",\"c\"]", "[1,2]"] {
            assert_eq!(Link::<()>::from_value(ValueRef::string(text)), None, "{text}");
        }
    }
}
