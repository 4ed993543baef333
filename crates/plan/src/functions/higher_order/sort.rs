//! `array_sort(list, (x, y) -> …)`: the lambda says which of two elements comes first.
//!
//! Each list is sorted by binary insertion. Of all lists of a batch the comparisons that are next
//! are evaluated together.

use super::elements::{Elements, evaluated, place};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::LambdaArgument;

/// A list that is being sorted: a part that is in order, and where the next one may go.
#[derive(Debug)]
struct Sorting {
    row: u32,
    done: Vec<u32>,
    waiting: std::vec::IntoIter<u32>,
    next: Option<u32>,
    low: usize,
    high: usize,
}

impl Sorting {
    fn of(row: u32, places: Vec<u32>) -> Self {
        let mut sorting = Sorting {
            row,
            done: Vec::with_capacity(places.len()),
            waiting: places.into_iter(),
            next: None,
            low: 0,
            high: 0,
        };
        sorting.begin();
        sorting
    }

    fn begin(&mut self) {
        self.next = self.waiting.next();
        (self.low, self.high) = (0, self.done.len());
        // The first one has its place without any question.
        if self.done.is_empty()
            && let Some(first) = self.next
        {
            self.done.push(first);
            self.begin();
        }
    }

    /// The two elements to compare, or none when all are in order.
    fn question(&self) -> Option<(u32, u32)> {
        Some((self.next?, *self.done.get(usize::midpoint(self.low, self.high))?))
    }

    /// Takes how they compare; equal ones keep their order.
    fn answer(&mut self, compared: i64) {
        let middle = usize::midpoint(self.low, self.high);
        if compared < 0 {
            self.high = middle
        } else {
            self.low = middle + 1
        }
        if self.low >= self.high {
            if let Some(next) = self.next {
                self.done.insert(self.low.min(self.done.len()), next);
            }
            self.begin();
        }
    }
}

pub(super) fn sorted(list: &ArrayRef, lambda: &LambdaArgument) -> Result<ArrayRef> {
    let elements = Elements::of(list)?;
    let mut at = 0_usize;
    let mut all = Vec::with_capacity(elements.lengths.len());
    for (row, length) in elements.lengths.iter().enumerate() {
        let places = (at..at + length).map(place).collect::<Result<Vec<u32>>>()?;
        all.push(Sorting::of(place(row)?, places));
        at += length;
    }
    loop {
        let (mut left, mut right, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for sorting in &all {
            if let Some((one, other)) = sorting.question() {
                left.push(one);
                right.push(other);
                rows.push(sorting.row);
            }
        }
        if rows.is_empty() {
            break;
        }
        let parameters = [
            take(&elements.values, &UInt32Array::from(left), None)?,
            take(&elements.values, &UInt32Array::from(right), None)?,
        ];
        let compared = compared(&evaluated(lambda, &parameters, &UInt32Array::from(rows))?)?;
        let mut answers = compared.values().iter();
        for sorting in &mut all {
            if sorting.question().is_some()
                && let Some(answer) = answers.next()
            {
                sorting.answer(*answer);
            }
        }
    }
    let order: UInt32Array = all.iter().flat_map(|sorting| sorting.done.iter().copied()).collect();
    elements.list(take(&elements.values, &order, None)?, list.data_type())
}

fn compared(answers: &ArrayRef) -> Result<Int64Array> {
    if answers.null_count() > 0 {
        return Err(DataFusionError::Execution(
            "[COMPARATOR_RETURNS_NULL] the function that compares two elements gave NULL"
                .to_owned(),
        ));
    }
    Ok(crate::functions::typed::as_type(answers, &DataType::Int64)?
        .as_primitive::<Int64Type>()
        .clone())
}

#[cfg(test)]
mod tests {
    use super::Sorting;

    #[test]
    fn a_list_is_sorted_by_answers_and_equal_elements_keep_their_order() {
        let values = [3, 1, 2, 3, 1, 0];
        let mut sorting = Sorting::of(0, (0..6).collect());
        let mut questions = 0;
        while let Some((one, other)) = sorting.question() {
            questions += 1;
            sorting.answer(i64::from(values[one as usize]) - i64::from(values[other as usize]));
        }
        assert_eq!(sorting.done, [5, 1, 4, 2, 0, 3]);
        assert!(questions <= 13, "{questions} questions");
        assert!(Sorting::of(0, Vec::new()).question().is_none());
    }
}
