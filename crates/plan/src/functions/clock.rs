//! Functions that tell the time, with Spark's types. In a streaming query the batch's time stands
//! in their place; elsewhere they give the time at which the query started.

use super::zone::Zone;
use crate::schema::timestamp;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let function = |name, data_type| {
        let signature = Signature::nullary(Volatility::Stable);
        ScalarUDF::new_from_impl(Clock { name, data_type, signature })
    };
    vec![
        function("now", timestamp()),
        function("current_timestamp", timestamp()),
        function("localtimestamp", DataType::Timestamp(TimeUnit::Microsecond, None)),
        function("current_date", DataType::Date32),
        function("curdate", DataType::Date32),
        function("current_timezone", DataType::Utf8),
    ]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Clock {
    name: &'static str,
    data_type: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Clock {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name, self.data_type.clone(), false)))
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(time) = info.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(arguments));
        };
        let zone = Zone::of(info.config_options())?;
        if self.data_type == DataType::Utf8 {
            let name = ScalarValue::Utf8(Some(zone.name().to_owned()));
            return Ok(ExprSimplifyResult::Simplified(Expr::Literal(name, None)));
        }
        let micros = time.timestamp_micros();
        let time = match &self.data_type {
            DataType::Timestamp(_, Some(utc)) => {
                ScalarValue::TimestampMicrosecond(Some(micros), Some(Arc::clone(utc)))
            }
            _ => ScalarValue::TimestampMicrosecond(Some(zone.local(micros)), None),
        };
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(time.cast_to(&self.data_type)?, None)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.data_type == DataType::Utf8 {
            let zone = Zone::of(&arguments.config_options)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(zone.name().to_owned()))));
        }
        Err(DataFusionError::Internal(format!("{} was not given the time", self.name)))
    }
}
