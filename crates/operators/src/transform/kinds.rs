//! Kinds of variables.

use super::context::{ProcessorContext, damaged, read_user_key, user_key};
use crate::numbers::{NUMBER, number, push_number};
use crate::rows::{Value, typed, untyped};
use onefold_types::{Error, Result};
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
        context.read(self.place, &[])?.map(|value| typed(value, "a variable")).transpose()
    }

    /// Whether there is a value.
    ///
    /// # Errors
    /// What the state gives.
    pub fn exists(&self, context: &mut ProcessorContext<'_>) -> Result<bool> {
        Ok(context.read(self.place, &[])?.is_some())
    }

    /// Sets the value.
    ///
    /// # Errors
    /// Invalid: it does not fit the declared type; what the state gives.
    pub fn update(&self, context: &mut ProcessorContext<'_>, value: &T) -> Result<()> {
        context.write(self.place, &[], untyped(value, "a variable")?)
    }

    /// Removes the value.
    ///
    /// # Errors
    /// What the state gives.
    pub fn clear(&self, context: &mut ProcessorContext<'_>) -> Result<()> {
        context.remove(self.place, &[]).map(|_| ())
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
        let elements = context.read_all(self.place)?.into_iter();
        elements.map(|(_, value)| typed(value, "an element of a list")).collect()
    }

    /// Whether there is an element.
    ///
    /// # Errors
    /// What the state gives.
    pub fn exists(&self, context: &mut ProcessorContext<'_>) -> Result<bool> {
        Ok(!context.read_all(self.place)?.is_empty())
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
        let sizes = self.sizes(context)?;
        let mut size = Size::read(context, sizes)?.unwrap_or(Size { next: 0, size: 0 });
        for element in elements {
            let value = untyped(element, "an element of a list")?;
            let mut position = Vec::with_capacity(NUMBER);
            push_number(&mut position, size.next);
            context.write(self.place, &position, value)?;
            size.next += 1;
            size.size += 1;
        }
        size.write(context, sizes)
    }

    /// Removes all elements.
    ///
    /// # Errors
    /// What the state gives.
    pub fn clear(&self, context: &mut ProcessorContext<'_>) -> Result<()> {
        let sizes = self.sizes(context)?;
        context.remove_all(self.place)?;
        context.state.remove(sizes, context.group, context.key)
    }

    fn sizes(&self, context: &ProcessorContext<'_>) -> Result<usize> {
        let slot = context.slot(self.place)?;
        slot.sizes.ok_or_else(|| Error::invalid(format!("the variable {} is no list", slot.name)))
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
        context.read(self.place, &key)?.map(|value| typed(value, "a value of a map")).transpose()
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`MapState::get`].
    pub fn contains(&self, context: &mut ProcessorContext<'_>, key: &K) -> Result<bool> {
        let key = self.key(context, key)?;
        Ok(context.read(self.place, &key)?.is_some())
    }

    /// Whether the map has an entry.
    ///
    /// # Errors
    /// What the state gives.
    pub fn exists(&self, context: &mut ProcessorContext<'_>) -> Result<bool> {
        Ok(!context.read_all(self.place)?.is_empty())
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// Invalid: key or value do not fit the declared types; what the state gives.
    pub fn update(&self, context: &mut ProcessorContext<'_>, key: &K, value: &T) -> Result<()> {
        let key = self.key(context, key)?;
        context.write(self.place, &key, untyped(value, "a value of a map")?)
    }

    /// Removes a key with its value.
    ///
    /// # Errors
    /// As [`MapState::get`].
    pub fn remove(&self, context: &mut ProcessorContext<'_>, key: &K) -> Result<()> {
        let key = self.key(context, key)?;
        context.remove(self.place, &key).map(|_| ())
    }

    /// All entries, in the order of the keys.
    ///
    /// # Errors
    /// Invalid: one cannot be read as `K` and `T`; what the state gives.
    pub fn entries(&self, context: &mut ProcessorContext<'_>) -> Result<Vec<(K, T)>> {
        let mut entries = Vec::new();
        for (key, value) in context.read_all(self.place)? {
            let key = read_user_key(context.slot(self.place)?, &key)?;
            entries.push((typed(key, "a key of a map")?, typed(value, "a value of a map")?));
        }
        Ok(entries)
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// What the state gives.
    pub fn clear(&self, context: &mut ProcessorContext<'_>) -> Result<()> {
        context.remove_all(self.place)
    }

    fn key(&self, context: &ProcessorContext<'_>, key: &K) -> Result<Vec<u8>> {
        match untyped(key, "a key of a map")? {
            Value::Null => Err(Error::invalid("a key of a map is NULL")),
            key => user_key(context.slot(self.place)?, key),
        }
    }
}
