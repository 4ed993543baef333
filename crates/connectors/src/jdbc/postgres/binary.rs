//! Values in PostgreSQL's binary format, as COPY and the extended protocol have them.

use super::{array, numeric};
use crate::jdbc::cell::Cell;
use crate::jdbc::decimal::Decimal;
use crate::jdbc::times;
use bytes::{Buf, BufMut, BytesMut};
use tokio_postgres::types::{Kind, Type};
use uuid::Uuid;

/// Days from 1970-01-01 to PostgreSQL's 2000-01-01.
const DAYS: i32 = 10_957;
/// The same in microseconds.
const MICROS: i64 = 946_684_800_000_000;

/// Whether values of a type travel in binary; others travel as text.
pub(super) fn is_known(ty: &Type) -> bool {
    match ty.kind() {
        Kind::Array(item) => !matches!(item.kind(), Kind::Array(_)) && is_known(item),
        Kind::Domain(inner) => is_known(inner),
        Kind::Enum(_) => true,
        _ => {
            [
                Type::BOOL,
                Type::INT2,
                Type::INT4,
                Type::INT8,
                Type::OID,
                Type::FLOAT4,
                Type::FLOAT8,
                Type::NUMERIC,
                Type::JSON,
                Type::JSONB,
                Type::BYTEA,
                Type::DATE,
                Type::TIMESTAMP,
                Type::TIMESTAMPTZ,
                Type::UUID,
            ]
            .contains(ty)
                || is_text(ty)
        }
    }
}

fn is_text(ty: &Type) -> bool {
    [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::UNKNOWN].contains(ty)
        || matches!(ty.name(), "citext")
}

pub(super) fn unfit(cell: &Cell, ty: &Type) -> String {
    let mut shown = format!("{cell:?}");
    if let Some((end, _)) = shown.char_indices().nth(80) {
        shown.truncate(end);
        shown.push('…');
    }
    format!("{shown} is no value of type {}", ty.name())
}

/// Text of a value, for columns that travel as text.
fn text(cell: &Cell, ty: &Type) -> Result<String, String> {
    Ok(match cell {
        Cell::Text(text) => text.clone(),
        Cell::Bool(value) => value.to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::UInt(value) => value.to_string(),
        Cell::Float(value) => value.to_string(),
        Cell::Double(value) => value.to_string(),
        Cell::Decimal(value) => value.to_string(),
        Cell::Date(days) => times::date(*days),
        Cell::Timestamp(micros) => times::timestamp(*micros),
        Cell::Interval(months, days, micros) => times::interval(*months, *days, *micros),
        Cell::Null | Cell::Bytes(_) | Cell::List(_) => return Err(unfit(cell, ty)),
    })
}

fn put_text(text: &str, out: &mut BytesMut) -> Result<(), String> {
    if text.contains('\0') {
        return Err(
            "the text has a NUL character (U+0000), which PostgreSQL does not store; take it \
                    out with replace(), or store it as binary"
                .to_owned(),
        );
    }
    out.put_slice(text.as_bytes());
    Ok(())
}

fn whole<T: TryFrom<i128>>(cell: &Cell, ty: &Type) -> Result<T, String> {
    let value = match cell {
        Cell::Int(value) => Some(i128::from(*value)),
        Cell::UInt(value) => Some(i128::from(*value)),
        Cell::Bool(value) => Some(i128::from(*value)),
        Cell::Decimal(value) => value.rescaled(0, 38).filter(|whole| {
            Decimal::new(*whole, 0).rescaled(value.scale.max(0), 38) == Some(value.digits)
        }),
        Cell::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| unfit(cell, ty))
}

fn double(cell: &Cell, ty: &Type) -> Result<f64, String> {
    match cell {
        Cell::Double(value) => Ok(*value),
        Cell::Float(value) => Ok(f64::from(*value)),
        Cell::Int(_) | Cell::UInt(_) | Cell::Decimal(_) | Cell::Text(_) => {
            text(cell, ty)?.trim().parse().map_err(|_| unfit(cell, ty))
        }
        _ => Err(unfit(cell, ty)),
    }
}

/// Writes a value without its length. The value is not null.
///
/// # Errors
/// Text: the value does not fit the type.
pub(super) fn write(cell: &Cell, ty: &Type, out: &mut BytesMut) -> Result<(), String> {
    match ty.kind() {
        Kind::Domain(inner) => return write(cell, inner, out),
        Kind::Array(item) => return array::write(cell, item, ty, out),
        Kind::Enum(_) => return put_text(&text(cell, ty)?, out),
        _ => {}
    }
    match *ty {
        Type::BOOL => match cell {
            Cell::Bool(value) => out.put_u8((*value).into()),
            _ => out.put_u8(u8::from(whole::<i64>(cell, ty)? != 0)),
        },
        Type::INT2 => out.put_i16(whole(cell, ty)?),
        Type::INT4 => out.put_i32(whole(cell, ty)?),
        Type::INT8 => out.put_i64(whole(cell, ty)?),
        Type::OID => out.put_u32(whole(cell, ty)?),
        #[expect(clippy::cast_possible_truncation, reason = "the column has 32 bits")]
        Type::FLOAT4 => out.put_f32(double(cell, ty)? as f32),
        Type::FLOAT8 => out.put_f64(double(cell, ty)?),
        Type::NUMERIC => match cell {
            Cell::Double(value) if !value.is_finite() => numeric::write_odd(*value, out),
            Cell::Float(value) if !value.is_finite() => numeric::write_odd((*value).into(), out),
            Cell::Decimal(value) => numeric::write(*value, out),
            _ => {
                let value = Decimal::parse(&text(cell, ty)?).ok_or_else(|| unfit(cell, ty))?;
                numeric::write(value, out);
            }
        },
        Type::JSONB => {
            out.put_u8(1);
            put_text(&text(cell, ty)?, out)?;
        }
        Type::JSON => put_text(&text(cell, ty)?, out)?,
        Type::BYTEA => match cell {
            Cell::Bytes(bytes) => out.put_slice(bytes),
            Cell::Text(text) => out.put_slice(text.as_bytes()),
            _ => return Err(unfit(cell, ty)),
        },
        Type::DATE => match cell {
            Cell::Date(days) => {
                out.put_i32(days.checked_sub(DAYS).ok_or_else(|| unfit(cell, ty))?);
            }
            _ => return Err(unfit(cell, ty)),
        },
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let micros = match cell {
                Cell::Timestamp(micros) => Some(*micros),
                Cell::Date(days) => Some(i64::from(*days) * 86_400_000_000),
                _ => None,
            };
            let micros = micros.and_then(|micros| micros.checked_sub(MICROS));
            out.put_i64(micros.ok_or_else(|| unfit(cell, ty))?);
        }
        Type::UUID => {
            let id = match cell {
                Cell::Bytes(bytes) => Uuid::from_slice(bytes).ok(),
                Cell::Text(text) => Uuid::parse_str(text.trim()).ok(),
                _ => None,
            };
            out.put_slice(id.ok_or_else(|| unfit(cell, ty))?.as_bytes());
        }
        _ => put_text(&text(cell, ty)?, out)?,
    }
    Ok(())
}

/// Writes a value with its length before it.
///
/// # Errors
/// Text: the value does not fit the type.
pub(super) fn write_field(cell: &Cell, ty: &Type, out: &mut BytesMut) -> Result<(), String> {
    if *cell == Cell::Null {
        out.put_i32(-1);
        return Ok(());
    }
    let at = out.len();
    out.put_i32(0);
    write(cell, ty, out)?;
    let length = i32::try_from(out.len() - at - 4)
        .map_err(|_| "the value has more than 1 GiB, which PostgreSQL does not store".to_owned())?;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// Reads a value.
///
/// # Errors
/// Text: the bytes are none of the type, or it has no such value here.
pub(super) fn read(ty: &Type, mut bytes: &[u8]) -> Result<Cell, String> {
    match ty.kind() {
        Kind::Domain(inner) => return read(inner, bytes),
        Kind::Array(item) => return array::read(item, bytes),
        _ => {}
    }
    let size = match *ty {
        Type::BOOL => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::OID | Type::FLOAT4 | Type::DATE => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::UUID => 16,
        Type::JSONB => bytes.len().max(1),
        _ => bytes.len(),
    };
    if bytes.len() != size {
        return Err(format!("{} bytes are no value of type {}", bytes.len(), ty.name()));
    }
    let infinite = || {
        format!(
            "the {} is infinity, which has no place here; replace it in option `query`",
            ty.name()
        )
    };
    Ok(match *ty {
        Type::BOOL => Cell::Bool(bytes.get_u8() != 0),
        Type::INT2 => Cell::Int(bytes.get_i16().into()),
        Type::INT4 => Cell::Int(bytes.get_i32().into()),
        Type::INT8 => Cell::Int(bytes.get_i64()),
        Type::OID => Cell::Int(bytes.get_u32().into()),
        Type::FLOAT4 => Cell::Float(bytes.get_f32()),
        Type::FLOAT8 => Cell::Double(bytes.get_f64()),
        Type::NUMERIC => {
            let text = numeric::read(bytes)?;
            Decimal::parse(&text).map_or(Cell::Text(text), Cell::Decimal)
        }
        Type::DATE => match bytes.get_i32() {
            i32::MAX | i32::MIN => return Err(infinite()),
            days => Cell::Date(days.checked_add(DAYS).ok_or_else(infinite)?),
        },
        Type::TIMESTAMP | Type::TIMESTAMPTZ => match bytes.get_i64() {
            i64::MAX | i64::MIN => return Err(infinite()),
            micros => Cell::Timestamp(micros.checked_add(MICROS).ok_or_else(infinite)?),
        },
        Type::BYTEA => Cell::Bytes(bytes.to_vec()),
        Type::UUID => {
            Cell::Text(Uuid::from_slice(bytes).map_err(|error| error.to_string())?.to_string())
        }
        Type::JSONB => {
            bytes.advance(1);
            utf8(bytes)?
        }
        _ => utf8(bytes)?,
    })
}

fn utf8(bytes: &[u8]) -> Result<Cell, String> {
    String::from_utf8(bytes.to_vec()).map(Cell::Text).map_err(|_| "the text is no UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(cell: &Cell, ty: &Type) -> Cell {
        let mut out = BytesMut::new();
        write(cell, ty, &mut out).unwrap();
        read(ty, &out).unwrap()
    }

    #[test]
    fn values_come_back_from_their_bytes() {
        let list = |items: &[Cell]| Cell::List(items.to_vec());
        let row = list(&[Cell::Int(1), Cell::Null]);
        let id = Cell::text("6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69");
        for (cell, ty) in [
            (Cell::Bool(true), Type::BOOL),
            (Cell::Int(-2), Type::INT2),
            (Cell::Int(i64::MIN), Type::INT8),
            (Cell::Double(f64::NEG_INFINITY), Type::FLOAT8),
            (Cell::Decimal(Decimal::new(-1250, 2)), Type::NUMERIC),
            (Cell::text("é"), Type::TEXT),
            (Cell::text("{\"a\":1}"), Type::JSONB),
            (Cell::Bytes(vec![0, 1]), Type::BYTEA),
            (Cell::Date(0), Type::DATE),
            (Cell::Timestamp(-1), Type::TIMESTAMPTZ),
            (id, Type::UUID),
            (row.clone(), Type::INT4_ARRAY),
            (list(&[row.clone(), row]), Type::INT4_ARRAY),
            (list(&[]), Type::TEXT_ARRAY),
        ] {
            assert_eq!(there_and_back(&cell, &ty), cell);
        }
    }

    #[test]
    fn values_that_do_not_fit_say_so() {
        let no = |cell: Cell, ty: Type| write(&cell, &ty, &mut BytesMut::new()).unwrap_err();
        assert!(no(Cell::text("a\0b"), Type::TEXT).contains("NUL"));
        assert!(no(Cell::Int(70_000), Type::INT2).contains("int2"));
        assert!(no(Cell::text("x"), Type::UUID).contains("uuid"));
        let jagged = Cell::List(vec![
            Cell::List(vec![Cell::Int(1)]),
            Cell::List(vec![Cell::Int(1), Cell::Int(2)]),
        ]);
        assert!(no(jagged, Type::INT4_ARRAY).contains("same length"));
        let infinity = i64::MAX.to_be_bytes();
        assert!(read(&Type::TIMESTAMPTZ, &infinity).unwrap_err().contains("infinity"));
    }
}
