//! Calls of variables.

use super::{NOTHING, StateServer, asks_nothing, done, said};
use crate::python::state_messages::{
    EntriesResponse, KeyAndValue, ListCall, ManyRows, MapCall, RowsResponse, ValueCall,
    VariableRequest, list_call, map_call, value_call, variable_request,
};
use crate::python::state_rows::StateRows;
use arrow::array::ArrayRef;
use onefold_types::{Error, Result};
use prost::Message;

use super::declare::Kind;

fn uninitialised(kind: &str, name: &str) -> Error {
    Error::invalid(format!("{kind} state {name} is not initialized."))
}

fn whether(there: bool) -> Vec<u8> {
    if there { done(Vec::new()) } else { said(NOTHING, "there is no value") }
}

/// Which columns of an entry an iterator gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Keys,
    Values,
    Both,
}

impl StateServer<'_, '_> {
    pub(super) fn variable(&mut self, request: VariableRequest) -> Result<Vec<u8>> {
        match request.method.ok_or_else(asks_nothing)? {
            variable_request::Method::Value(call) => self.value(call),
            variable_request::Method::List(call) => self.list(call),
            variable_request::Method::Map(call) => self.map(call),
        }
    }

    /// A variable's place, and the form of its rows.
    fn place(&self, kind: &str, name: &str) -> Result<(usize, StateRows, Kind)> {
        let place = self.known.get(name).copied().flatten();
        let place = place.ok_or_else(|| uninitialised(kind, name))?;
        let variable = self.declared.variable(place);
        let variable = variable.ok_or_else(|| uninitialised(kind, name))?;
        Ok((place, variable.rows.clone(), variable.kind.clone()))
    }

    fn value(&mut self, call: ValueCall) -> Result<Vec<u8>> {
        let (place, rows, _) = self.place("Value", &call.state_name)?;
        let mut context = self.keys.context()?;
        match call.method.ok_or_else(asks_nothing)? {
            value_call::Method::Exists(_) => return Ok(whether(context.exists(place)?)),
            value_call::Method::Get(_) => {
                return Ok(match context.value(place)? {
                    Some(value) => done(rows.write(&value, 0)?),
                    None => done(Vec::new()),
                });
            }
            value_call::Method::Update(row) => {
                context.set_value(place, &rows.read(&[row.row])?)?;
            }
            value_call::Method::Clear(_) => context.clear(place)?,
        }
        Ok(done(Vec::new()))
    }

    fn list(&mut self, call: ListCall) -> Result<Vec<u8>> {
        let (place, rows, _) = self.place("List", &call.state_name)?;
        let mut context = self.keys.context()?;
        match call.method.ok_or_else(asks_nothing)? {
            list_call::Method::Exists(_) => return Ok(whether(context.exists(place)?)),
            list_call::Method::Get(get) => {
                if !self.pages.has(&get.iterator_id) {
                    let elements = context.elements(place)?;
                    self.pages.begin(get.iterator_id.clone(), vec![elements]);
                }
                return self.rows(&get.iterator_id, &rows, 0);
            }
            list_call::Method::Put(put) => {
                let elements = elements(&rows, put)?;
                context.clear(place)?;
                context.append(place, &elements)?;
            }
            list_call::Method::AppendValue(row) => {
                context.append(place, &rows.read(&[row.row])?)?;
            }
            list_call::Method::AppendList(list) => {
                context.append(place, &elements(&rows, list)?)?;
            }
            list_call::Method::Clear(_) => context.clear(place)?,
        }
        Ok(done(Vec::new()))
    }

    fn map(&mut self, call: MapCall) -> Result<Vec<u8>> {
        let (place, rows, kind) = self.place("Map", &call.state_name)?;
        let Kind::Map(key_rows) = kind else { return Err(uninitialised("Map", &call.state_name)) };
        let mut context = self.keys.context()?;
        match call.method.ok_or_else(asks_nothing)? {
            map_call::Method::Exists(_) => return Ok(whether(context.exists(place)?)),
            map_call::Method::GetValue(key) => {
                let key = key_rows.read(&[key.row])?;
                return Ok(match context.entry(place, &key)? {
                    Some(value) => done(rows.write(&value, 0)?),
                    None => done(Vec::new()),
                });
            }
            map_call::Method::ContainsKey(key) => {
                let key = key_rows.read(&[key.row])?;
                return Ok(whether(context.entry(place, &key)?.is_some()));
            }
            map_call::Method::UpdateValue(entry) => {
                let (key, value) = (key_rows.read(&[entry.key])?, rows.read(&[entry.value])?);
                context.put_entry(place, &key, &value)?;
            }
            map_call::Method::RemoveKey(key) => {
                context.remove_entry(place, &key_rows.read(&[key.row])?)?;
            }
            map_call::Method::Clear(_) => context.clear(place)?,
            map_call::Method::Iterator(it) => {
                return self.entries(place, it.iterator_id, Part::Both, &key_rows, &rows);
            }
            map_call::Method::Keys(it) => {
                return self.entries(place, it.iterator_id, Part::Keys, &key_rows, &rows);
            }
            map_call::Method::Values(it) => {
                return self.entries(place, it.iterator_id, Part::Values, &key_rows, &rows);
            }
        }
        Ok(done(Vec::new()))
    }

    fn entries(
        &mut self,
        place: usize,
        iterator: String,
        part: Part,
        key_rows: &StateRows,
        rows: &StateRows,
    ) -> Result<Vec<u8>> {
        if !self.pages.has(&iterator) {
            let (keys, values) = self.keys.context()?.entries(place)?;
            self.pages.begin(iterator.clone(), vec![keys, values]);
        }
        match part {
            Part::Keys => self.rows(&iterator, key_rows, 0),
            Part::Values => self.rows(&iterator, rows, 1),
            Part::Both => {
                let (columns, range, more) = self.pages.next(&iterator);
                let [keys, values] = columns.as_slice() else { return Err(asks_nothing()) };
                if range.is_empty() {
                    return Ok(said(NOTHING, "the map has no further entry"));
                }
                let mut kv_pair = Vec::with_capacity(range.len());
                for row in range {
                    let (key, value) = (key_rows.write(keys, row)?, rows.write(values, row)?);
                    kv_pair.push(KeyAndValue { key, value });
                }
                let page =
                    EntriesResponse { kv_pair, require_next_fetch: more, ..Default::default() };
                Ok(page.encode_to_vec())
            }
        }
    }

    /// The next rows of an iterator, of one of its columns.
    fn rows(&mut self, iterator: &str, rows: &StateRows, column: usize) -> Result<Vec<u8>> {
        let (columns, range, more) = self.pages.next(iterator);
        let column = columns.get(column).ok_or_else(asks_nothing)?;
        if range.is_empty() {
            return Ok(said(NOTHING, "there is no further row"));
        }
        let value = range.map(|row| rows.write(column, row)).collect::<Result<Vec<_>>>()?;
        Ok(RowsResponse { value, require_next_fetch: more, ..Default::default() }.encode_to_vec())
    }
}

fn elements(rows: &StateRows, list: ManyRows) -> Result<ArrayRef> {
    if list.fetch_with_arrow {
        return Err(Error::invalid("rows of a list in Arrow are not taken: use pyspark 4.2"));
    }
    rows.read(&list.value)
}
