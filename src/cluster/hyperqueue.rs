//! HyperQueue: a job definition file, whose last task depends on the parts.

use anyhow::{Result, bail};
use serde::Serialize;

use super::job::{ClusterJob, CommandWords, quoted};

/// How often a task may be lost with its worker.
const CRASHES: u32 = 5;

/// A job of `hq job submit-file`.
#[derive(Debug, Serialize)]
struct HqJob {
    name: String,
    task: Vec<HqTask>,
}

#[derive(Debug, Serialize)]
struct HqTask {
    id: usize,
    command: CommandWords,
    cwd: String,
    crash_limit: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deps: Vec<usize>,
    request: Vec<HqRequest>,
}

#[derive(Debug, Serialize)]
struct HqRequest {
    resources: HqResources,
}

#[derive(Debug, Serialize)]
struct HqResources {
    cpus: String,
}

/// The job as TOML. A part asks for all cores of its worker, so that nothing else runs there
/// at the same time. The words of commands stand in lists, which no shell reads.
///
/// # Errors
/// If a word cannot be written.
pub(super) fn script(job: &ClusterJob) -> Result<String> {
    if job.folder.contains("%{") {
        bail!("HyperQueue takes %{{ in {} for a placeholder: name it otherwise", job.folder);
    }
    let task = |id: usize, command: CommandWords, deps: Vec<usize>, cpus: &str| HqTask {
        id,
        command,
        cwd: job.folder.clone(),
        crash_limit: CRASHES,
        deps,
        request: vec![HqRequest { resources: HqResources { cpus: cpus.to_owned() } }],
    };
    let (name, shards) = (job.name(), job.shards);
    let parts = 1..=shards;
    let mut tasks = parts
        .clone()
        .map(|part| task(part, job.part_named(&format!("{part}/{shards}")), Vec::new(), "all"))
        .collect::<Vec<_>>();
    tasks.push(task(shards + 1, job.merging(), parts.collect(), "1"));
    tasks.push(task(shards + 2, job.reporting(), vec![shards + 1], "1"));
    let text = toml::to_string(&HqJob { name: name.clone(), task: tasks })?;
    let file = quoted(&[format!("{name}.toml")]);
    Ok(format!(
        "# {name}: {shards} parts, then the merge and the report.\n# Save as {file}, and: hq job \
         submit-file {file}\n{text}"
    ))
}
