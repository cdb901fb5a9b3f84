//! HyperQueue: a job definition file, whose last task depends on the parts.

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::job::{ClusterJob, CommandWords, quoted};

/// How often a task may be lost with its worker.
const CRASHES: u32 = 5;

/// The job of `hq job submit-file`, as TOML. A part asks for all cores of its worker, so that
/// nothing else runs there at the same time. The words of commands stand in lists, which no shell
/// reads.
pub(super) fn script(job: &ClusterJob) -> Result<String> {
    if job.folder.contains("%{") {
        bail!("HyperQueue takes %{{ in {} for a placeholder: name it otherwise", job.folder);
    }
    let (name, shards) = (job.name(), job.shards);
    let parts = (1..=shards).collect::<Vec<_>>();
    let part = |&id: &usize| task(job, id, job.part_named(&format!("{id}/{shards}")), &[], "all");
    let mut tasks = parts.iter().map(part).collect::<Vec<_>>();
    tasks.push(task(job, shards + 1, job.merging(), &parts, "1"));
    tasks.push(task(job, shards + 2, job.reporting(), &[shards + 1], "1"));
    let text = toml::to_string(&json!({ "name": name, "task": tasks }))?;
    let file = quoted(&[format!("{name}.toml")]);
    Ok(format!(
        "# {name}: {shards} parts, then the merge and the report.\n# Save as {file}, and: hq job \
         submit-file {file}\n{text}"
    ))
}

fn task(job: &ClusterJob, id: usize, command: CommandWords, deps: &[usize], cpus: &str) -> Value {
    let mut task = json!({
        "id": id,
        "command": command,
        "cwd": job.folder,
        "crash_limit": CRASHES,
    });
    if !deps.is_empty() {
        task["deps"] = json!(deps);
    }
    task["request"] = json!([{ "resources": { "cpus": cpus } }]);
    task
}
