//! Which shard the environment of a task names.

use anyhow::{Result, anyhow, bail};

use crate::run::experiment::Shard;

/// The environment variable with the number of shards, for engines that do not tell a task
/// how many there are.
pub const SHARDS: &str = "SPECDEC_SHARDS";

/// The shard of a task by its environment, read through `variable`.
///
/// A task of HyperQueue or Kubernetes may run inside a job of Slurm, never the other way
/// round, so their variables come first.
///
/// # Errors
/// If no engine's variables are set, or they name no shard.
pub fn shard_of_task(variable: impl Fn(&str) -> Option<String>) -> Result<Shard> {
    let number = |name: &str| -> Result<Option<usize>> {
        let Some(value) = variable(name) else { return Ok(None) };
        let number = value.trim().parse().ok().filter(|number| *number < usize::MAX);
        number.map(Some).ok_or_else(|| anyhow!("{name} = \"{value}\" is no count"))
    };
    let needed = |name: &str, with: &str| {
        let missing =
            || anyhow!("{with} is set, but {name} is not: set it to the number of shards");
        number(name)?.ok_or_else(missing)
    };
    if let Some(task) = number("HQ_TASK_ID")? {
        return named(task, needed(SHARDS, "HQ_TASK_ID")?, &format!("HQ_TASK_ID = {task}"));
    }
    if let Some(index) = number("JOB_COMPLETION_INDEX")? {
        let of = needed(SHARDS, "JOB_COMPLETION_INDEX")?;
        return named(index + 1, of, &format!("JOB_COMPLETION_INDEX = {index}, counted from 0"));
    }
    if let Some(task) = number("SLURM_ARRAY_TASK_ID")? {
        let array = |part: &str| {
            let name = format!("SLURM_ARRAY_TASK_{part}");
            number(&name)?.ok_or_else(|| anyhow!("SLURM_ARRAY_TASK_ID is set, but {name} is not"))
        };
        let (first, last, of) = (array("MIN")?, array("MAX")?, array("COUNT")?);
        let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
        if last < first || (last - first) / step + 1 != of || task < first {
            bail!(
                "the job array {first} to {last} has {of} tasks with gaps between them: submit an \
                 array without gaps, or name the shard by --shard I/N"
            );
        }
        let said = format!("SLURM_ARRAY_TASK_ID = {task} of {first} to {last}");
        return named((task - first) / step + 1, of, &said);
    }
    bail!(
        "--shard auto finds no task: none of SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX and \
         HQ_TASK_ID is set; name the shard, such as --shard 1/4"
    )
}

fn named(index: usize, of: usize, said: &str) -> Result<Shard> {
    Shard::new(index, of).map_err(|error| anyhow!("{said}, and {of} shards: {error}"))
}
