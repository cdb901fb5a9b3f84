//! Runs on many machines: which task of which engine this process is, and scripts that start
//! a run's parts, merge them and report.

mod engine;
mod hyperqueue;
mod job;
mod kubernetes;
mod parallel;
mod slurm;
mod task;

pub use engine::ClusterEngine;
pub use job::{ClusterJob, CommandWords, quoted};
pub use kubernetes::KubernetesSettings;
pub use task::{SHARDS, shard_of_task};
