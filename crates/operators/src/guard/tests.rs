use super::*;
use crate::side::side_rows;
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use onefold_types::Error;
use proptest::prelude::*;

/// The number of the record and what was wrong.
#[derive(Debug)]
struct Plain;

impl LetterShape for Plain {
    fn shape(&self, records: &StructArray, errors: Vec<DataFusionError>) -> Result<RecordBatch> {
        let errors: Vec<String> = errors.iter().map(DataFusionError::strip_backtrace).collect();
        let errors: ArrayRef = Arc::new(StringArray::from(errors));
        let columns = [("v", Arc::clone(records.column(0))), ("_error", errors)];
        Ok(RecordBatch::try_from_iter(columns)?)
    }
}

fn input(numbers: &[i64], per_batch: usize) -> Arc<dyn ExecutionPlan> {
    let field = Arc::new(Field::new("v", DataType::Int64, false));
    let record = Field::new("record", DataType::Struct(vec![Arc::clone(&field)].into()), false);
    let schema = Arc::new(Schema::new(vec![field.as_ref().clone(), record]));
    let batches: Vec<RecordBatch> = numbers
        .chunks(per_batch)
        .map(|part| {
            let numbers: ArrayRef = Arc::new(Int64Array::from(part.to_vec()));
            let record = StructArray::from(vec![(Arc::clone(&field), Arc::clone(&numbers))]);
            RecordBatch::try_new(Arc::clone(&schema), vec![numbers, Arc::new(record)]).unwrap()
        })
        .collect();
    MemorySourceConfig::try_new_exec(&[batches], schema, None).unwrap()
}

/// `100 / v`, which fails for 0.
fn quotient(schema: &Schema) -> PhysicalExprRef {
    binary(lit(100_i64), Operator::Divide, col("v", schema).unwrap(), schema).unwrap()
}

/// The numbers of dead letters, and what was wrong.
type Dead = Vec<(i64, String)>;

/// Runs a step; gives what came out (column 0) and the letters.
fn run(
    numbers: &[i64],
    per_batch: usize,
    step: impl FnOnce(&Schema) -> (GuardedStep, SchemaRef),
) -> Result<(Vec<i64>, Dead)> {
    let input = input(numbers, per_batch);
    let (to, mut letters) = side_rows();
    let outlet = LetterOutlet { shape: Arc::new(Plain), to };
    let (step, schema) = step(&input.schema());
    let plan = Guard::over(input, step, 1, outlet, schema);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move {
        let rows = tokio::spawn(collect(plan, SessionContext::new().task_ctx()));
        let mut dead = Vec::new();
        while let Some(batch) = letters.recv().await {
            let errors = batch.column(1).as_string::<i32>().iter();
            let numbers = batch.column(0).as_primitive::<Int64Type>().values().iter();
            dead.extend(numbers.copied().zip(errors.map(|it| it.unwrap_or_default().to_owned())));
        }
        let rows = rows.await.unwrap()?;
        let first = rows.iter().flat_map(|it| it.column(0).as_primitive::<Int64Type>().values());
        Ok((first.copied().collect(), dead))
    })
}

fn project(schema: &Schema) -> (GuardedStep, SchemaRef) {
    let out = Schema::new(vec![Field::new("q", DataType::Int64, true)]);
    (GuardedStep::Project(vec![quotient(schema)]), Arc::new(out))
}

fn filter(schema: &Schema) -> (GuardedStep, SchemaRef) {
    let stays = binary(quotient(schema), Operator::Gt, lit(10_i64), schema).unwrap();
    (GuardedStep::Filter(stays), Arc::new(schema.clone()))
}

proptest! {
    #[test]
    fn each_row_comes_out_in_its_order_or_is_a_dead_letter(
        numbers in prop::collection::vec(0..5_i64, 0..70),
        per_batch in 1..40_usize,
    ) {
        let (rows, dead) = run(&numbers, per_batch, project).unwrap();
        let wanted: Vec<i64> = numbers.iter().filter(|it| **it != 0).map(|it| 100 / it).collect();
        prop_assert_eq!(rows, wanted);
        prop_assert_eq!(dead.len(), numbers.iter().filter(|it| **it == 0).count());
        prop_assert!(dead.iter().all(|(number, error)| *number == 0 && error.contains("zero")));
    }

    #[test]
    fn a_filter_keeps_drops_or_sends_away(
        numbers in prop::collection::vec(0..30_i64, 0..70),
        per_batch in 1..40_usize,
    ) {
        let (rows, dead) = run(&numbers, per_batch, filter).unwrap();
        let stays = |it: &&i64| **it != 0 && 100 / **it > 10;
        prop_assert_eq!(rows, numbers.iter().filter(stays).copied().collect::<Vec<_>>());
        prop_assert_eq!(dead.len(), numbers.iter().filter(|it| **it == 0).count());
    }
}

#[test]
fn a_condition_that_is_null_drops_the_row() {
    let known = known(&BooleanArray::from(vec![Some(true), None, Some(false)]));
    assert_eq!(known.null_count(), 0);
    assert_eq!(known.iter().map(Option::unwrap).collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn trouble_outside_makes_no_dead_letter() {
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
    use datafusion::physical_expr::ScalarFunctionExpr;
    let away = |_: &[ColumnarValue]| -> Result<ColumnarValue> {
        Err(DataFusionError::External(Box::new(Error::unavailable("the registry is away"))))
    };
    let types = (vec![DataType::Int64], DataType::Int64);
    let udf = create_udf("away", types.0, types.1, Volatility::Immutable, Arc::new(away));
    let failed = run(&[1, 2, 3], 3, |schema| {
        let call = ScalarFunctionExpr::try_new(
            Arc::new(udf),
            vec![col("v", schema).unwrap()],
            schema,
            Arc::default(),
        );
        let out = Schema::new(vec![Field::new("q", DataType::Int64, true)]);
        (GuardedStep::Project(vec![Arc::new(call.unwrap())]), Arc::new(out))
    });
    assert_eq!(kind_of(&failed.unwrap_err()), ErrorKind::Unavailable);
}
