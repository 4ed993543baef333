//! `onefold explain`: the plan of each table and who promises what, without running anything.

use crate::args::ExplainArgs;
use crate::exit::Failure;
use crate::pipeline_file::PipelineFile;
use crate::terminal;

/// Explains a pipeline.
///
/// # Errors
/// Usage, when it does not parse or cannot be planned.
pub fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let pipeline = PipelineFile::read(&args.pipeline)?;
    let session = pipeline.session()?;
    let explanations = pipeline.explain(&session)?;
    if args.json {
        terminal::json(&explanations);
        return Ok(());
    }
    for (position, explanation) in explanations.iter().enumerate() {
        if position > 0 {
            terminal::line("");
        }
        if let Some(name) = &explanation.name {
            terminal::line(&format!("table {name}"));
        }
        terminal::line(&explanation.to_string());
    }
    Ok(())
}
