//! The program in README.md compiles as it stands there.

/// Between the marks stands README's program, line by line; the test below compares them.
#[allow(dead_code, reason = "it is there to be compiled: its folders are a user's")]
fn program() -> onefold::types::Result<()> {
    // BEGIN
    let session = onefold::session().build()?;
    let orders = session
        .read_stream()
        .format("json")
        .schema("id BIGINT, customer STRING, amount DOUBLE, ts TIMESTAMP")
        .load("/data/incoming")?;
    let query = orders
        .filter("amount > 0")?
        .write_stream()
        .format("parquet")
        .option("checkpointLocation", "/data/checkpoints/orders")
        .trigger(onefold::Trigger::AvailableNow)
        .start("/data/orders")?;
    query.await_termination(None)?;
    // END
    Ok(())
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    let (_, rest) = text.split_once(begin).unwrap();
    let (inside, _) = rest.split_once(end).unwrap();
    inside.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_program_of_the_readme_is_the_one_that_is_compiled_here() {
    let shown = between(include_str!("../../../../README.md"), "```rust\n", "```\n");
    let compiled = between(include_str!("readme.rs"), "// BEGIN\n", "    // END\n");
    let compiled: Vec<&str> = compiled.iter().map(|line| &line[4..]).collect();
    assert!(shown.len() > 10, "{shown:?}");
    assert_eq!(shown, compiled);
}
