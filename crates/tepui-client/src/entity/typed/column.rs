//! Properties in filters.

use super::PropertyValue;
use crate::Filter;
use crate::filter::property;
use std::marker::PhantomData;

/// A property of an entity, with its type. Its methods make filters of constants, so that a value can never be read as part of
/// the filter's text.
pub struct Column<E, T> {
    name: &'static str,
    types: PhantomData<fn() -> (E, T)>,
}

impl<E, T> Column<E, T> {
    #[doc(hidden)]
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<E, T: PropertyValue> Column<E, T> {
    pub fn eq(&self, value: impl Into<T>) -> Filter {
        property(self.name).eq(value.into().to_value())
    }

    /// Not met by entities that lack the property.
    pub fn ne(&self, value: impl Into<T>) -> Filter {
        property(self.name).ne(value.into().to_value())
    }

    pub fn gt(&self, value: impl Into<T>) -> Filter {
        property(self.name).gt(value.into().to_value())
    }

    pub fn ge(&self, value: impl Into<T>) -> Filter {
        property(self.name).ge(value.into().to_value())
    }

    pub fn lt(&self, value: impl Into<T>) -> Filter {
        property(self.name).lt(value.into().to_value())
    }

    pub fn le(&self, value: impl Into<T>) -> Filter {
        property(self.name).le(value.into().to_value())
    }
}
