//! Runs: experiments from the plan to the report, their prompts, comparisons of runs, and runs on
//! several machines.

pub mod check;
pub mod cluster;
pub mod compare;
pub mod experiment;
pub mod prompt;
pub mod report;
