//! A frame that is grouped and waits for its aggregates.

use crate::frame::DataFrame;
use onefold_plan::sql;
use onefold_types::Result;

/// A frame that is grouped, as Spark's `RelationalGroupedDataset`.
#[derive(Debug, Clone)]
pub struct GroupedData {
    frame: DataFrame,
    group: Vec<String>,
}

impl GroupedData {
    pub(crate) fn new(frame: DataFrame, group: &[&str]) -> Self {
        GroupedData { frame, group: group.iter().map(|&item| item.to_owned()).collect() }
    }

    pub(crate) fn frame(&self) -> &DataFrame {
        &self.frame
    }

    pub(crate) fn group(&self) -> &[String] {
        &self.group
    }

    /// The columns of the group, then these aggregates: `count(*) AS n`, `sum(v)`.
    ///
    /// # Errors
    /// Invalid, when an expression does not parse, names no column, or is neither an aggregate nor
    /// made of the group.
    pub fn agg(&self, aggregates: &[&str]) -> Result<DataFrame> {
        let group: Vec<&str> = self.group.iter().map(String::as_str).collect();
        let session = self.frame.session();
        let input = self.frame.logical_plan().clone();
        let plan = sql::group_by(session.context(), input, &group, aggregates)?;
        Ok(DataFrame::new(session.clone(), plan))
    }

    /// The columns of the group, and `count`: how many rows each has.
    ///
    /// # Errors
    /// As [`GroupedData::agg`].
    pub fn count(&self) -> Result<DataFrame> {
        self.agg(&["count(*) AS count"])
    }

    /// The sum of each of these columns, named `sum(COLUMN)`.
    ///
    /// # Errors
    /// As [`GroupedData::agg`].
    pub fn sum(&self, columns: &[&str]) -> Result<DataFrame> {
        self.each("sum", columns)
    }

    /// The average of each of these columns, named `avg(COLUMN)`.
    ///
    /// # Errors
    /// As [`GroupedData::agg`].
    pub fn avg(&self, columns: &[&str]) -> Result<DataFrame> {
        self.each("avg", columns)
    }

    /// The least value of each of these columns, named `min(COLUMN)`.
    ///
    /// # Errors
    /// As [`GroupedData::agg`].
    pub fn min(&self, columns: &[&str]) -> Result<DataFrame> {
        self.each("min", columns)
    }

    /// The greatest value of each of these columns, named `max(COLUMN)`.
    ///
    /// # Errors
    /// As [`GroupedData::agg`].
    pub fn max(&self, columns: &[&str]) -> Result<DataFrame> {
        self.each("max", columns)
    }

    fn each(&self, function: &str, columns: &[&str]) -> Result<DataFrame> {
        let items: Vec<String> = columns
            .iter()
            .map(|column| format!("{function}(`{}`)", column.replace('`', "``")))
            .collect();
        self.agg(&items.iter().map(String::as_str).collect::<Vec<_>>())
    }
}
