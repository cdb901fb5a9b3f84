//! GNU parallel: one command line.

use super::job::{ClusterJob, quoted};

/// A command line for bash.
///
/// The commands come to parallel as lines of its input, and it is given none itself, so that
/// braces in a path mean nothing to it. `--jobs 1`: of two parts that run on one machine at the
/// same time, each would disturb the times of the other.
pub(super) fn script(job: &ClusterJob) -> String {
    let command = quoted(&job.part());
    let folder = std::slice::from_ref(&job.folder);
    let line = quoted(&[format!("cd {} && {command}", quoted(folder))]);
    let with = job.with.iter().map(|word| quoted(std::slice::from_ref(word)) + " ");
    let with = with.collect::<String>();
    let shards = job.shards;
    let (merging, reporting) = (quoted(&job.merging()), quoted(&job.reporting()));
    let folder = quoted(folder);
    format!(
        "cd {folder} && for i in $(seq {shards}); do printf '%s %s/{shards}\\n' {line} \"$i\"; done \
         | parallel --jobs 1 --halt soon,fail=1 {with}&& {merging} && {reporting}\n"
    )
}
