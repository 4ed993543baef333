//! Kinds of variables.

use super::context::{ProcessorContext, damaged, no_map};
use crate::numbers::{NUMBER, number, push_number};
use crate::rows::{column_of_values, typed, untyped, value_at};
use arrow::array::{Array, ArrayRef};
use onefold_types::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// Stands for a variable that was not declared.
const UNDECLARED: usize = usize::MAX;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident<$($of:ident),*>) => {
        $(#[$doc])*
        ///
        /// The default stands for no variable, until `init` sets one that it declared.
        pub struct $name<$($of),*> {
            place: usize,
            of: PhantomData<fn() -> ($($of,)*)>,
        }

        impl<$($of),*> $name<$($of),*> {
            pub(super) fn at(place: usize) -> Self {
                $name { place, of: PhantomData }
            }
        }

        impl<$($of),*> Default for $name<$($of),*> {
            fn default() -> Self {
                Self::at(UNDECLARED)
            }
        }

        impl<$($of),*> Clone for $name<$($of),*> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($of),*> Copy for $name<$($of),*> {}

        impl<$($of),*> std::fmt::Debug for $name<$($of),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({})", stringify!($name), self.place)
            }
        }
    };
}

handle! {
    /// One value for each key.
    ValueState<T>
}

handle! {
    /// A list for each key.
    ListState<T>
}

handle! {
    /// A map for each key.
    MapState<K, T>
}

impl<T: Serialize + DeserializeOwned> ValueState<T> {
    /// The value, if there is one.
    ///
    /// # Errors
    /// Invalid: it cannot be read as `T`; what the state gives.
    pub fn get(&self, context: &mut ProcessorContext<'_>) -> Result<Option<T>> {
        context.value(self.place)?.map(|value| one(&value, "a variable")).transpose()
    }

    /// Whether there is a value.
    ///
    /// # Errors
    /// What the state gives.
    pub fn exists(&self, context: &mut ProcessorContext<'_>) -> Result<bool> {
        context.exists(self.place)
    }

    /// Sets the value.
    ///
    /// # Errors
    /// Invalid: it does not fit the declared type; what the state gives.
    pub fn update(&self, context: &mut ProcessorContext<'_>, value: &T) -> Result<()> {
        let value = array(context, self.place, value, "a variable")?;
        context.set_value(self.place, &value)
    }

    /// Removes the value.
    ///
    /// # Errors
    /// What the state gives.
    pub fn clear(&self, context: &mut ProcessorContext<'_>) -> Result<()> {
        context.clear(self.place)
    }
}

/// The next position and the number of elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) next: i64,
    pub(super) size: i64,
}

impl Size {
    pub(super) fn read(context: &mut ProcessorContext<'_>, family: usize) -> Result<Option<Size>> {
        let found = context.state.get(family, &[(context.group, context.key)])?;
        let Some(bytes) = found.into_iter().next().flatten() else { return Ok(None) };
        let size = bytes.get(NUMBER..).and_then(number);
        let (next, size) = number(&bytes).zip(size).ok_or_else(damaged)?;
        Ok(Some(Size { next, size }))
    }

    pub(super) fn write(self, context: &mut ProcessorContext<'_>, family: usize) -> Result<()> {
        if self.size <= 0 {
            return context.state.remove(family, context.group, context.key);
        }
        let mut bytes = Vec::with_capacity(2 * NUMBER);
        push_number(&mut bytes, self.next);
        push_number(&mut bytes, self.size);
        context.state.put(family, context.group, context.key, &bytes)
    }
}

impl<T: Serialize + DeserializeOwned> ListState<T> {
    /// The elements, in the order in which they were appended.
    ///
    /// # Errors
    /// Invalid: one cannot be read as `T`; what the state gives.
    pub fn get(&self, context: &mut ProcessorContext<'_>) -> Result<Vec<T>> {
        all(&context.elements(self.place)?, "an element of a list")
    }

    /// Whether there is an element.
    ///
    /// # Errors
    /// What the state gives.
    pub fn exists(&self, context: &mut ProcessorContext<'_>) -> Result<bool> {
        context.exists(self.place)
    }

    /// Puts elements in place of all there are.
    ///
    /// # Errors
    /// As [`ListState::append`].
    pub fn put(&self, context: &mut ProcessorContext<'_>, elements: &[T]) -> Result<()> {
        self.clear(context)?;
        self.append_all(context, elements)
    }

    /// Adds an element at the end.
    ///
    /// # Errors
    /// Invalid: it does not fit the declared type; what the state gives.
    pub fn append(&self, context: &mut ProcessorContext<'_>, element: &T) -> Result<()> {
        self.append_all(context, std::slice::from_ref(element))
    }

    /// Adds elements at the end.
    ///
    /// # Errors
    /// As [`ListState::append`].
    pub fn append_all(&self, context: &mut ProcessorContext<'_>, elements: &[T]) -> Result<()> {
        let values = elements.iter().map(|element| untyped(element, "an element of a list"));
        let values = values.collect::<Result<Vec<_>>>()?;
        let slot = context.slot(self.place)?;
        let elements = column_of_values(&slot.value, values, &slot.name)?;
        context.append(self.place, &elements)
    }

    /// Removes all elements.
    ///
    /// # Errors
    /// What the state gives.
    pub fn clear(&self, context: &mut ProcessorContext<'_>) -> Result<()> {
        context.clear(self.place)
    }
}

impl<K, T> MapState<K, T>
where
    K: Serialize + DeserializeOwned,
    T: Serialize + DeserializeOwned,
{
    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// Invalid: the key does not fit the declared type, or the value cannot be read as `T`; what
    /// the state gives.
    pub fn get(&self, context: &mut ProcessorContext<'_>, key: &K) -> Result<Option<T>> {
        let key = self.key(context, key)?;
        context.entry(self.place, &key)?.map(|value| one(&value, "a value of a map")).transpose()
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`MapState::get`].
    pub fn contains(&self, context: &mut ProcessorContext<'_>, key: &K) -> Result<bool> {
        let key = self.key(context, key)?;
        Ok(context.entry(self.place, &key)?.is_some())
    }

    /// Whether the map has an entry.
    ///
    /// # Errors
    /// What the state gives.
    pub fn exists(&self, context: &mut ProcessorContext<'_>) -> Result<bool> {
        context.exists(self.place)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// Invalid: key or value do not fit the declared types; what the state gives.
    pub fn update(&self, context: &mut ProcessorContext<'_>, key: &K, value: &T) -> Result<()> {
        let key = self.key(context, key)?;
        let value = array(context, self.place, value, "a value of a map")?;
        context.put_entry(self.place, &key, &value)
    }

    /// Removes a key with its value.
    ///
    /// # Errors
    /// As [`MapState::get`].
    pub fn remove(&self, context: &mut ProcessorContext<'_>, key: &K) -> Result<()> {
        let key = self.key(context, key)?;
        context.remove_entry(self.place, &key).map(|_| ())
    }

    /// All entries, in the order of the keys.
    ///
    /// # Errors
    /// Invalid: one cannot be read as `K` and `T`; what the state gives.
    pub fn entries(&self, context: &mut ProcessorContext<'_>) -> Result<Vec<(K, T)>> {
        let (keys, values) = context.entries(self.place)?;
        let (keys, values) = (all(&keys, "a key of a map")?, all(&values, "a value of a map")?);
        Ok(keys.into_iter().zip(values).collect())
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// What the state gives.
    pub fn clear(&self, context: &mut ProcessorContext<'_>) -> Result<()> {
        context.clear(self.place)
    }

    fn key(&self, context: &ProcessorContext<'_>, key: &K) -> Result<ArrayRef> {
        let slot = context.slot(self.place)?;
        let (kind, _) = slot.user_key.as_ref().ok_or_else(|| no_map(slot))?;
        column_of_values(kind, vec![untyped(key, "a key of a map")?], &slot.name)
    }
}

/// A value as an array of one, of the variable's type; `what` names it in errors.
fn array<T: Serialize>(
    context: &ProcessorContext<'_>,
    place: usize,
    value: &T,
    what: &str,
) -> Result<ArrayRef> {
    let slot = context.slot(place)?;
    column_of_values(&slot.value, vec![untyped(value, what)?], &slot.name)
}

fn one<T: DeserializeOwned>(value: &ArrayRef, what: &str) -> Result<T> {
    typed(value_at(value.as_ref(), 0)?.into_owned(), what)
}

fn all<T: DeserializeOwned>(values: &ArrayRef, what: &str) -> Result<Vec<T>> {
    let each = 0..values.len();
    each.map(|place| typed(value_at(values.as_ref(), place)?.into_owned(), what)).collect()
}
