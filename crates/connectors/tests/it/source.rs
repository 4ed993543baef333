//! The sources through their contract: what they read, and what a restart finds.

mod bad;
mod choice;
mod content;
mod infer;
mod log;
mod made;
mod order;
mod packed;
pub(crate) mod rig;
mod s3;
