//! Slurm: a job array, and a job for the merge that depends on it.

use super::job::{ClusterJob, quoted};

/// How often a task that was killed is put into the queue again.
const REQUEUES: u32 = 3;

/// A script for bash that submits both jobs.
///
/// A task whose process was killed by a signal is requeued, a few times, and continues where
/// it ended; one that ended with an error of its own is not. Slurm requeues the tasks of a node
/// that failed. Heredocs are quoted, so nothing in them is expanded when they are submitted.
pub(super) fn script(job: &ClusterJob) -> String {
    let (name, shards) = (job.name(), job.shards);
    let folder = quoted(std::slice::from_ref(&job.folder));
    // The last word is the only one that the task's shell expands.
    let part = format!("{} \"$SLURM_ARRAY_TASK_ID/{shards}\"", quoted(&job.part()));
    let with = if job.with.is_empty() { String::new() } else { format!(" {}", quoted(&job.with)) };
    let (merging, reporting) = (quoted(&job.merging()), quoted(&job.reporting()));
    format!(
        r#"#!/bin/bash
# Submits {name}: {shards} parts, then the merge and the report.
# Times are worth as much as a task has its cores for itself: --exclusive, or --cpus-per-task
# with cores that are bound, helps; add such options by --with.
set -euo pipefail
cd {folder}

array=$(sbatch --parsable --job-name={name} --array=1-{shards} --requeue --open-mode=append \
  --output={name}-%A_%a.log{with} <<'TASK'
#!/bin/bash
status=0
{part} || status=$?
if [ "$status" -gt 128 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {REQUEUES} ]; then
  echo "ended by signal $((status - 128)): requeued" >&2
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
  sleep 60
fi
exit "$status"
TASK
)
array=${{array%%;*}}

merge=$(sbatch --parsable --job-name={name}-merge --dependency="afterok:$array" \
  --kill-on-invalid-dep=yes --requeue --open-mode=append --output={name}-merge-%j.log{with} <<'TASK'
#!/bin/bash
set -e
{merging}
{reporting}
TASK
)
echo "array $array, merge ${{merge%%;*}}"
"#
    )
}
