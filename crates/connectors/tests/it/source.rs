//! The sources through their contract: what they read, and what a restart finds.

mod choice;
mod content;
mod log;
mod packed;
#[allow(dead_code, reason = "the next tests use it")]
mod rig;
