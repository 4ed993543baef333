//! Decoding rows to columns, and reading rows of an older schema as ones of the present schema.

use super::plain_type;
use crate::FamilySpec;
use crate::place::Written;
use arrow::array::{Array, ArrayRef, AsArray, StructArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// Decodes and encodes keys or values of a family: Arrow's row format, ascending, nulls first.
#[derive(Debug)]
pub(crate) struct Codec {
    schema: SchemaRef,
    converter: RowConverter,
}

impl Codec {
    /// # Errors
    /// Internal, when a column's type has no row format.
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let field = |data_type| SortField::new(data_type);
        let fields = schema.fields().iter().map(|it| field(it.data_type().clone()));
        let converter =
            RowConverter::new(fields.collect()).map_err(|error| wrong(schema, error))?;
        Ok(Codec { schema: schema.clone(), converter })
    }

    /// The columns of some rows.
    ///
    /// # Errors
    /// Internal, when the rows are not of this schema.
    pub(crate) fn decode<'a>(
        &self,
        rows: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let rows: Vec<_> = rows.map(|row| parser.parse(row)).collect();
        self.converter.convert_rows(rows).map_err(|error| wrong(&self.schema, error))
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A row of nulls, to stand where there is no row.
    pub(crate) fn null_row(&self) -> Result<Box<[u8]>> {
        let nulls = |field: &FieldRef| new_null_array(field.data_type(), 1);
        let columns: Vec<_> = self.schema.fields().iter().map(nulls).collect();
        Ok(self.encode(&columns, 1)?.pop().unwrap_or_default())
    }

    /// The rows of some columns.
    fn encode(&self, columns: &[ArrayRef], count: usize) -> Result<Vec<Box<[u8]>>> {
        if columns.is_empty() {
            return Ok(vec![Box::default(); count]);
        }
        let rows = self.converter.convert_columns(columns);
        let rows = rows.map_err(|error| wrong(&self.schema, error))?;
        Ok(rows.iter().map(|row| row.as_ref().into()).collect())
    }
}

fn wrong(schema: &Schema, error: ArrowError) -> Error {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let text = format!("rows of state with columns ({}) cannot be read", names.join(", "));
    Error::internal(text).because(error)
}

/// Makes values of an old schema ones of a new schema.
#[derive(Debug)]
pub(crate) struct Convert {
    from: Codec,
    to: Codec,
    /// For each new column, the place of the old one.
    columns: Vec<Option<usize>>,
}

impl Convert {
    /// `None` if values of both schemas are the same bytes.
    ///
    /// # Errors
    /// Internal, when a column's type has no row format.
    pub(crate) fn new(old: &FamilySpec, new: &FamilySpec) -> Result<Option<Self>> {
        let plain = |schema: &Schema| -> Vec<_> {
            let column = |name: &String, data_type| (name.clone(), plain_type(data_type));
            schema.fields().iter().map(|field| column(field.name(), field.data_type())).collect()
        };
        if plain(&old.value) == plain(&new.value) {
            return Ok(None);
        }
        let names = new.value.fields().iter().map(|field| field.name());
        let columns = names.map(|name| old.value.index_of(name).ok()).collect();
        let (from, to) = (Codec::new(&old.value)?, Codec::new(&new.value)?);
        Ok(Some(Convert { from, to, columns }))
    }

    /// # Errors
    /// Internal, when the rows are not of the old schema.
    pub(crate) fn apply(&self, rows: &mut [Written]) -> Result<()> {
        let there: Vec<&mut Box<[u8]>> =
            rows.iter_mut().filter_map(|row| row.value.as_mut()).collect();
        let old = self.from.decode(there.iter().map(|value| &***value))?;
        let mut new = Vec::with_capacity(self.columns.len());
        for (field, column) in self.to.schema.fields().iter().zip(&self.columns) {
            let old = column.and_then(|column| old.get(column));
            new.push(match old {
                None => new_null_array(field.data_type(), there.len()),
                Some(old) => widened(old, field.data_type())
                    .map_err(|error| wrong(&self.to.schema, error))?,
            });
        }
        let values = self.to.encode(&new, there.len())?;
        for (slot, value) in there.into_iter().zip(values) {
            *slot = value;
        }
        Ok(())
    }
}

/// A column as one of a wider type; structs field by field, by name.
fn widened(old: &ArrayRef, to: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    let (DataType::Struct(fields), Some(old)) = (to, old.as_struct_opt()) else {
        return cast(old, to);
    };
    let column = |field: &FieldRef| match old.column_by_name(field.name()) {
        Some(column) => widened(column, field.data_type()),
        None => Ok(new_null_array(field.data_type(), old.len())),
    };
    let columns = fields.iter().map(column).collect::<std::result::Result<Vec<_>, _>>()?;
    let nulls = old.nulls().cloned();
    let whole = StructArray::try_new_with_length(fields.clone(), columns, nulls, old.len())?;
    Ok(Arc::new(whole))
}

#[cfg(test)]
mod tests {
    use super::{Codec, Convert};
    use crate::place::Written;
    use crate::{Access, FamilySpec};
    use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array, StringArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use std::sync::Arc;

    fn family(columns: &[(&str, DataType)]) -> FamilySpec {
        let field =
            |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
        FamilySpec {
            name: "default".into(),
            key: Arc::new(Schema::empty()),
            value: Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())),
            access: Access::Point,
            counted: true,
        }
    }

    #[test]
    fn fields_of_a_struct_are_found_by_name() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int32Array::from(vec![7]))),
            ("b", Arc::new(StringArray::from(vec!["seven"]))),
        ];
        let fields =
            columns.iter().map(|(name, it)| Field::new(*name, it.data_type().clone(), true));
        let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
        let old = super::StructArray::try_new(fields.collect(), arrays, None).unwrap();
        let old: ArrayRef = Arc::new(old);
        let wanted = [("b", DataType::Utf8), ("c", DataType::Float64), ("a", DataType::Int64)];
        let fields = wanted.iter().map(|(name, it)| Field::new(*name, it.clone(), true));
        let new = super::widened(&old, &DataType::Struct(fields.collect())).unwrap();
        let new = new.as_struct();
        assert_eq!(new.column(0).as_string::<i32>().value(0), "seven");
        assert!(new.column(1).is_null(0));
        assert_eq!(new.column(2).as_primitive::<Int64Type>().value(0), 7);
    }

    #[test]
    fn old_values_gain_null_columns_and_wider_types_by_name() {
        let old = family(&[("n", DataType::Int32), ("s", DataType::Utf8)]);
        let new =
            family(&[("s", DataType::Utf8), ("x", DataType::Float64), ("n", DataType::Int64)]);
        assert!(Convert::new(&old, &old).unwrap().is_none());
        let convert = Convert::new(&old, &new).unwrap().unwrap();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(7), None])),
            Arc::new(StringArray::from(vec![Some("seven"), Some("")])),
        ];
        let values = convert.from.encode(&columns, 2).unwrap();
        let row = |value: Option<&Box<[u8]>>| Written {
            group: 0,
            key: Box::default(),
            value: value.cloned(),
        };
        let mut rows = vec![row(Some(&values[0])), row(None), row(Some(&values[1]))];
        convert.apply(&mut rows).unwrap();
        assert_eq!(rows[1].value, None);
        let kept = [&rows[0], &rows[2]].map(|row| row.value.as_deref().unwrap());
        let columns = Codec::new(&new.value).unwrap().decode(kept.into_iter()).unwrap();
        assert_eq!(columns[0].as_string::<i32>().value(0), "seven");
        assert_eq!(&columns[1], &(Arc::new(Float64Array::from(vec![None, None])) as ArrayRef));
        assert_eq!(columns[2].as_primitive::<Int64Type>().value(0), 7);
        assert!(columns[2].is_null(1));
    }
}
