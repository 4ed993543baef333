//! logical plan to streaming plan; SQL pipelines; Spark schemas and functions.
