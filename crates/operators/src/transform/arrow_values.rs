//! Variables as Arrow: what typed handles and code of other languages go through.
//!
//! A variable is given by its number in the order of declaration. Values, elements and keys are
//! arrays of the declared type.

use super::context::{ProcessorContext, no_map, read_user_keys, user_key};
use super::kinds::Size;
use crate::numbers::{NUMBER, push_number};
use arrow::array::{Array, ArrayRef};
use onefold_types::{Error, Result};

impl ProcessorContext<'_> {
    /// The value of a value variable, if there is one: an array of one.
    ///
    /// # Errors
    /// Invalid: no such variable; what the state gives. So for all that follow.
    pub fn value(&mut self, variable: usize) -> Result<Option<ArrayRef>> {
        self.plain(variable)?;
        self.read(variable, &[])
    }

    /// Sets a value variable to the value in an array of one.
    ///
    /// # Errors
    /// Invalid: the value does not have the declared type.
    pub fn set_value(&mut self, variable: usize, value: &ArrayRef) -> Result<()> {
        self.plain(variable)?;
        self.fits(variable, value)?;
        self.write(variable, &[], value)
    }

    /// The elements of a list variable, in the order in which they were appended.
    ///
    /// # Errors
    /// As [`ProcessorContext::value`].
    pub fn elements(&mut self, variable: usize) -> Result<ArrayRef> {
        self.sizes(variable)?;
        Ok(self.read_all(variable)?.1)
    }

    /// Adds elements to a list variable.
    ///
    /// # Errors
    /// Invalid: they do not have the declared type.
    pub fn append(&mut self, variable: usize, elements: &ArrayRef) -> Result<()> {
        let sizes = self.sizes(variable)?;
        let mut size = Size::read(self, sizes)?.unwrap_or(Size { next: 0, size: 0 });
        for place in 0..elements.len() {
            let element = elements.slice(place, 1);
            self.fits(variable, &element)?;
            let mut position = Vec::with_capacity(NUMBER);
            push_number(&mut position, size.next);
            self.write(variable, &position, &element)?;
            size.next += 1;
            size.size += 1;
        }
        size.write(self, sizes)
    }

    /// The value of a key in a map variable, if there is one; key and value are arrays of one.
    ///
    /// # Errors
    /// Invalid: the key is NULL or does not have the declared type.
    pub fn entry(&mut self, variable: usize, key: &ArrayRef) -> Result<Option<ArrayRef>> {
        let key = user_key(self.slot(variable)?, key)?;
        self.read(variable, &key)
    }

    /// Sets the value of a key in a map variable.
    ///
    /// # Errors
    /// Invalid: the key is NULL, or key or value do not have the declared types.
    pub fn put_entry(&mut self, variable: usize, key: &ArrayRef, value: &ArrayRef) -> Result<()> {
        let key = user_key(self.slot(variable)?, key)?;
        self.fits(variable, value)?;
        self.write(variable, &key, value)
    }

    /// Removes a key from a map variable; says whether it was there.
    ///
    /// # Errors
    /// As [`ProcessorContext::entry`].
    pub fn remove_entry(&mut self, variable: usize, key: &ArrayRef) -> Result<bool> {
        let key = user_key(self.slot(variable)?, key)?;
        self.remove(variable, &key)
    }

    /// The keys and values of a map variable, in the order of the keys.
    ///
    /// # Errors
    /// As [`ProcessorContext::value`].
    pub fn entries(&mut self, variable: usize) -> Result<(ArrayRef, ArrayRef)> {
        if self.slot(variable)?.user_key.is_none() {
            return Err(no_map(self.slot(variable)?));
        }
        let (keys, values) = self.read_all(variable)?;
        Ok((read_user_keys(self.slot(variable)?, &keys)?, values))
    }

    /// Whether a variable of any kind holds something.
    ///
    /// # Errors
    /// As [`ProcessorContext::value`].
    pub fn exists(&mut self, variable: usize) -> Result<bool> {
        let slot = self.slot(variable)?;
        if slot.sizes.is_none() && slot.user_key.is_none() {
            return Ok(self.read(variable, &[])?.is_some());
        }
        Ok(!self.read_all(variable)?.0.is_empty())
    }

    /// Empties a variable of any kind.
    ///
    /// # Errors
    /// As [`ProcessorContext::value`].
    pub fn clear(&mut self, variable: usize) -> Result<()> {
        let (sizes, is_map) = {
            let slot = self.slot(variable)?;
            (slot.sizes, slot.user_key.is_some())
        };
        match sizes {
            Some(sizes) => {
                self.remove_all(variable)?;
                self.state.remove(sizes, self.group, self.key)
            }
            None if is_map => self.remove_all(variable),
            None => self.remove(variable, &[]).map(|_| ()),
        }
    }

    fn plain(&self, variable: usize) -> Result<()> {
        let slot = self.slot(variable)?;
        if slot.sizes.is_none() && slot.user_key.is_none() {
            return Ok(());
        }
        Err(Error::invalid(format!("the variable {} holds more than one value", slot.name)))
    }

    fn sizes(&self, variable: usize) -> Result<usize> {
        let slot = self.slot(variable)?;
        slot.sizes.ok_or_else(|| Error::invalid(format!("the variable {} is no list", slot.name)))
    }

    fn fits(&self, variable: usize, value: &ArrayRef) -> Result<()> {
        let slot = self.slot(variable)?;
        if value.len() == 1 && *value.data_type() == slot.value {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the variable {} takes one value of type {}, but was given {} of type {}",
            slot.name,
            slot.value,
            value.len(),
            value.data_type()
        )))
    }
}
