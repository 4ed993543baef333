//! All elements of a column of lists or maps, one behind the other, and the way back.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, MapArray, StructArray,
    UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{take, take_arrays};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LambdaArgument;
use std::sync::Arc;

/// The elements of the lists that are not NULL.
#[derive(Debug, Clone)]
pub(super) struct Elements {
    pub(super) values: ArrayRef,
    /// The row of each element.
    pub(super) rows: UInt32Array,
    /// How many elements each row has.
    pub(super) lengths: Vec<usize>,
    pub(super) nulls: Option<NullBuffer>,
}

fn internal(text: &str) -> DataFusionError {
    DataFusionError::Internal(text.to_owned())
}

pub(super) fn place(number: usize) -> Result<u32> {
    u32::try_from(number)
        .map_err(|_| DataFusionError::Execution("lists are too long together".to_owned()))
}

/// Offsets, elements and NULLs of a column of lists, or of maps (as structs of key and value).
pub(in crate::functions) fn laid_out(
    column: &ArrayRef,
) -> Option<(OffsetBuffer<i32>, ArrayRef, Option<NullBuffer>)> {
    match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            Some((list.offsets().clone(), Arc::clone(list.values()), list.nulls().cloned()))
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            Some((map.offsets().clone(), entries, map.nulls().cloned()))
        }
        _ => None,
    }
}

impl Elements {
    /// Of a column of lists, or of maps (as structs of key and value).
    pub(super) fn of(column: &ArrayRef) -> Result<Self> {
        if column.data_type() == &DataType::Null {
            return Ok(Elements {
                values: arrow::array::new_null_array(&DataType::Null, 0),
                rows: UInt32Array::from(Vec::<u32>::new()),
                lengths: vec![0; column.len()],
                nulls: Some(NullBuffer::new_null(column.len())),
            });
        }
        let (offsets, values, nulls) = laid_out(column)
            .ok_or_else(|| internal(&format!("{} has no elements", column.data_type())))?;
        let (mut rows, mut places) = (Vec::new(), Vec::new());
        let mut lengths = Vec::with_capacity(column.len());
        for (row, pair) in offsets.windows(2).enumerate() {
            let [from, to] = pair else { return Err(internal("offsets come in pairs")) };
            if column.is_null(row) {
                lengths.push(0);
                continue;
            }
            let (from, to) = (*from as usize, *to as usize);
            lengths.push(to - from);
            for at in from..to {
                places.push(place(at)?);
                rows.push(place(row)?);
            }
        }
        let places = UInt32Array::from(places);
        let values = take(&values, &places, None)?;
        Ok(Elements { values, rows: UInt32Array::from(rows), lengths, nulls })
    }

    /// The elements, and the place of each in its list.
    pub(super) fn with_places(&self) -> [ArrayRef; 2] {
        let places = self.lengths.iter().flat_map(|&length| 0..length);
        let places = places.map(|at| i32::try_from(at).unwrap_or(i32::MAX));
        [Arc::clone(&self.values), Arc::new(Int32Array::from_iter_values(places))]
    }

    /// The keys and the values of maps.
    pub(super) fn entries(&self) -> Result<(ArrayRef, ArrayRef)> {
        let entries = self.values.as_struct_opt().ok_or_else(|| internal("no map"))?;
        match entries.columns() {
            [keys, values] => Ok((Arc::clone(keys), Arc::clone(values))),
            _ => Err(internal("no map")),
        }
    }

    /// The same lists with only some of their elements; the values are those of `self`.
    pub(super) fn kept(&self, keeps: &BooleanArray) -> Elements {
        let mut at = 0_usize;
        let lengths = self
            .lengths
            .iter()
            .map(|length| {
                let own = at..at + length;
                at = own.end;
                own.filter(|&place| keeps.is_valid(place) && keeps.value(place)).count()
            })
            .collect();
        Elements { lengths, ..self.clone() }
    }

    fn offsets(&self) -> OffsetBuffer<i32> {
        OffsetBuffer::from_lengths(self.lengths.iter().copied())
    }

    /// Lists of these values, as many in each row as there are.
    pub(super) fn list(&self, values: ArrayRef, returns: &DataType) -> Result<ArrayRef> {
        let DataType::List(field) = returns else {
            return Ok(arrow::array::new_null_array(returns, self.lengths.len()));
        };
        let values = fitted(values, field.data_type())?;
        let list =
            ListArray::try_new(Arc::clone(field), self.offsets(), values, self.nulls.clone())?;
        Ok(Arc::new(list))
    }

    /// Maps of these keys and values. A key that is NULL or that comes twice is an error.
    pub(super) fn map(
        &self,
        keys: ArrayRef,
        values: ArrayRef,
        returns: &DataType,
    ) -> Result<ArrayRef> {
        let DataType::Map(field, sorted) = returns else { return Err(internal("no map")) };
        let DataType::Struct(fields) = field.data_type() else { return Err(internal("no map")) };
        let [key, value] = fields.as_ref() else { return Err(internal("no map")) };
        if keys.null_count() > 0 {
            return Err(DataFusionError::Execution(
                "[NULL_MAP_KEY] a key of a map cannot be NULL".to_owned(),
            ));
        }
        let keys = fitted(keys, key.data_type())?;
        self.check_keys(&keys)?;
        let values = fitted(values, value.data_type())?;
        let entries = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        let map = MapArray::try_new(
            Arc::clone(field),
            self.offsets(),
            entries,
            self.nulls.clone(),
            *sorted,
        )?;
        Ok(Arc::new(map))
    }

    fn check_keys(&self, keys: &ArrayRef) -> Result<()> {
        let rows = by_bytes(&[keys])?;
        let mut seen = std::collections::HashSet::new();
        let mut at = 0_usize;
        for length in &self.lengths {
            seen.clear();
            for place in at..at + length {
                if !seen.insert(rows.row(place)) {
                    return Err(DataFusionError::Execution(
                        "[DUPLICATED_MAP_KEY] a key comes twice in a map; set \
                         spark.sql.mapKeyDedupPolicy to keep the last one"
                            .to_owned(),
                    ));
                }
            }
            at += length;
        }
        Ok(())
    }
}

/// Values of several columns of one type in a form that compares.
pub(in crate::functions) fn by_bytes(columns: &[&ArrayRef]) -> Result<arrow::row::Rows> {
    let data_type = columns.first().map_or(&DataType::Null, |column| column.data_type());
    let converter =
        arrow::row::RowConverter::new(vec![arrow::row::SortField::new(data_type.clone())])?;
    let mut rows = converter.empty_rows(0, 0);
    for column in columns {
        converter.append(&mut rows, &[Arc::clone(column)])?;
    }
    Ok(rows)
}

fn fitted(values: ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    if values.data_type() == wanted {
        Ok(values)
    } else {
        crate::functions::typed::as_type(&values, wanted)
    }
}

/// What a lambda gives for parameters, each of which stands for one row of `rows`.
pub(super) fn evaluated(
    lambda: &LambdaArgument,
    parameters: &[ArrayRef],
    rows: &UInt32Array,
) -> Result<ArrayRef> {
    let given: Vec<_> = parameters.iter().map(|column| move || Ok(Arc::clone(column))).collect();
    let given: Vec<&dyn Fn() -> Result<ArrayRef>> =
        given.iter().map(|it| it as &dyn Fn() -> Result<ArrayRef>).collect();
    let result = lambda.evaluate(&given, |captured| Ok(take_arrays(captured, rows, None)?))?;
    result.into_array(rows.len())
}

/// The types of key and value.
pub(super) fn pair_of(entries: &Field) -> Option<(DataType, DataType)> {
    let DataType::Struct(fields) = entries.data_type() else { return None };
    match fields.as_ref() {
        [key, value] => Some((key.data_type().clone(), value.data_type().clone())),
        _ => None,
    }
}

pub(super) fn map_of(key: &DataType, value: &DataType) -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", key.clone(), false),
        Field::new("value", value.clone(), true),
    ]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

/// Elements of two columns of lists.
pub(super) struct Both {
    pub(super) left: ArrayRef,
    pub(super) right: ArrayRef,
    pub(super) shape: Elements,
}

/// The elements of two columns in pairs; the shorter list of a row goes on with NULL, and a row
/// without one of the lists has none.
pub(super) fn side_by_side(left: &Elements, right: &Elements) -> Result<Both> {
    let (mut lefts, mut rights, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let mut lengths = Vec::with_capacity(left.lengths.len());
    let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
    let (mut at_left, mut at_right) = (0_usize, 0_usize);
    for (row, (own, other)) in left.lengths.iter().zip(&right.lengths).enumerate() {
        let longest = match nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            true => 0,
            false => *own.max(other),
        };
        for step in 0..longest {
            lefts.push((step < *own).then(|| place(at_left + step)).transpose()?);
            rights.push((step < *other).then(|| place(at_right + step)).transpose()?);
            rows.push(place(row)?);
        }
        lengths.push(longest);
        at_left += own;
        at_right += other;
    }
    Ok(Both {
        left: take(&left.values, &UInt32Array::from(lefts), None)?,
        right: take(&right.values, &UInt32Array::from(rights), None)?,
        shape: Elements {
            values: Arc::clone(&left.values),
            rows: UInt32Array::from(rows),
            lengths,
            nulls,
        },
    })
}
