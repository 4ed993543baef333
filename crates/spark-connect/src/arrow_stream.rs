//! Whether a stream of Arrow that anyone may have sent can be read.
//!
//! A reader makes room for what lengths in the stream announce before it sees whether that much
//! follows, and room that the machine does not have ends the process. So the lengths are looked at
//! first.

use arrow::ipc::{MessageHeader, RecordBatch, root_as_message};

/// Rows of a batch at most: those of columns of NULL take no bytes, however many they are.
const ROWS_MAX: i64 = 1 << 26;
/// What compressed buffers may be in all when they are not, in bytes.
const PLAIN_MAX: i64 = 1 << 31;
/// Stands before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Looks at all messages of a stream.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    let mut rest = bytes;
    let mut plain = 0;
    while let Some(mut length) = four(&mut rest) {
        if length == CONTINUATION {
            length = four(&mut rest).ok_or("it ends in the length of a message")?;
        }
        let length = i32::from_le_bytes(length);
        if length == 0 {
            break;
        }
        let message = part(&mut rest, length.into())
            .ok_or_else(|| format!("a message of {length} bytes does not fit in it"))?;
        let message = root_as_message(message)
            .map_err(|error| format!("a message of it does not parse: {error}"))?;
        let length = message.bodyLength();
        let body = part(&mut rest, length)
            .ok_or_else(|| format!("a message with {length} bytes of rows does not fit in it"))?;
        let batch = match message.header_type() {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            MessageHeader::DictionaryBatch => {
                message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
            }
            _ => None,
        };
        if let Some(batch) = batch {
            check_batch(&batch, body, &mut plain)?;
        }
    }
    Ok(())
}

fn check_batch(batch: &RecordBatch<'_>, body: &[u8], plain: &mut i64) -> Result<(), String> {
    let rows = batch.length();
    if !(0..=ROWS_MAX).contains(&rows) {
        return Err(format!("a batch has {rows} rows, and may have {ROWS_MAX}"));
    }
    // Elements of lists may be more than rows, each at least a bit.
    let bits = i64::try_from(body.len()).unwrap_or(i64::MAX).saturating_mul(8).max(ROWS_MAX);
    for node in batch.nodes().into_iter().flatten() {
        if !(0..=bits).contains(&node.length()) || !(0..=node.length()).contains(&node.null_count())
        {
            return Err(format!("a column has {} values", node.length()));
        }
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let mut from = body;
        let found = part(&mut from, buffer.offset()).and_then(|_| part(&mut from, buffer.length()));
        let mut found = found.ok_or("a column reaches out of its batch")?;
        if batch.compression().is_none() || found.is_empty() {
            continue;
        }
        // What it is when it is not compressed; -1 if it is as it is.
        let length = part(&mut found, 8).and_then(|length| length.try_into().ok());
        let length = length.map(i64::from_le_bytes).ok_or("a compressed column is damaged")?;
        *plain = plain.saturating_add(length.max(0));
        if *plain > PLAIN_MAX {
            return Err(format!("its columns are more than {PLAIN_MAX} bytes, not compressed"));
        }
    }
    Ok(())
}

/// So many bytes, off the front.
fn part<'a>(rest: &mut &'a [u8], length: i64) -> Option<&'a [u8]> {
    let (part, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some(part)
}

fn four(rest: &mut &[u8]) -> Option<[u8; 4]> {
    part(rest, 4)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::check;
    use arrow::array::{Int64Array, NullArray, StringArray};
    use arrow::ipc::writer::StreamWriter;
    use arrow::record_batch::RecordBatch;
    use std::sync::Arc;

    fn stream() -> Vec<u8> {
        let numbers = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let texts = Arc::new(StringArray::from(vec!["a", "", "ccc"]));
        let nothing = Arc::new(NullArray::new(3));
        let columns: [(_, arrow::array::ArrayRef); 3] =
            [("n", numbers), ("t", texts), ("z", nothing)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch.slice(1, 2)).unwrap();
        writer.finish().unwrap();
        drop(writer);
        bytes
    }

    #[test]
    fn whole_streams_pass_and_cut_ones_do_not() {
        let bytes = stream();
        check(&bytes).unwrap();
        let end = bytes.len() - 8;
        // A stream may lack its end mark; what is cut elsewhere is damaged or ends early.
        check(&bytes[..end]).unwrap();
        assert!(check(&bytes[..end - 8]).is_err());
        assert!(check(&bytes[..40]).is_err());
    }

    #[test]
    fn no_length_is_believed_that_the_stream_does_not_have() {
        let whole = stream();
        let mut refused = 0;
        for place in (0..whole.len() - 8).step_by(8) {
            for huge in [i64::MAX, i64::MIN, 1 << 40] {
                let mut bytes = whole.clone();
                bytes[place..place + 8].copy_from_slice(&huge.to_le_bytes());
                refused += usize::from(check(&bytes).is_err());
            }
        }
        assert!(refused > 60, "{refused}");
    }

    #[test]
    fn rows_that_take_no_bytes_are_bounded() {
        let rows = usize::try_from(super::ROWS_MAX).unwrap();
        for (rows, fine) in [(rows, true), (rows + 1, false)] {
            let column: arrow::array::ArrayRef = Arc::new(NullArray::new(rows));
            let batch = RecordBatch::try_from_iter([("z", column)]).unwrap();
            let mut bytes = Vec::new();
            let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
            writer.write(&batch).unwrap();
            drop(writer);
            assert_eq!(check(&bytes).is_ok(), fine, "{rows}");
        }
    }
}
