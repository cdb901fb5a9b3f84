//! Kubernetes: an Indexed Job, and a suspended Job for the merge.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::job::{ClusterJob, CommandWords};
use super::task::SHARDS;
use crate::measure::machine::HOST;

/// How often a part is tried.
const TRIES: usize = 4;

/// What only Kubernetes needs to know.
#[derive(Debug, Clone, Default)]
pub struct KubernetesSettings {
    /// The image that has the program.
    pub image: String,
    /// The claim of the volume with the job's folder.
    pub volume: String,
}

/// Both jobs as a List in JSON, which is YAML, after comments that say how to use it. Commands
/// are lists of words, which no shell reads.
///
/// A Job waits for no other Job: the one for the merge is suspended until somebody resumes it.
pub(super) fn script(job: &ClusterJob, settings: &KubernetesSettings) -> Result<String> {
    let (name, shards) = (job.name(), job.shards);
    let parts = labelled(
        &name,
        json!({
            "completions": shards,
            "parallelism": shards,
            "completionMode": "Indexed",
            "backoffLimit": shards * TRIES,
            "template": pod(job, settings, "OnFailure", vec![("part", job.part_named("auto"))]),
        }),
    );
    let merge = labelled(
        &format!("{name}-merge"),
        json!({
            "suspend": true,
            "backoffLimit": 0,
            "template": pod(job, settings, "Never", vec![("merge", job.merging()), ("report", job.reporting())]),
        }),
    );
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [parts, merge] });
    let text = serde_json::to_string_pretty(&list).context("the jobs cannot be written")?;
    let resume = resume(job);
    Ok(format!(
        "# {name}: an Indexed Job of {shards} parts, and a suspended Job for the merge and the \
         report.\n# Apply it, and resume the second Job once the first is complete:\n#   {resume}\n{text}\n"
    ))
}

/// The command that starts the merge once all parts are complete.
pub(super) fn resume(job: &ClusterJob) -> String {
    let name = job.name();
    format!(
        "kubectl wait --for=condition=complete --timeout=-1s job/{name} && kubectl patch \
         job/{name}-merge --type=merge --patch='{{\"spec\":{{\"suspend\":false}}}}'"
    )
}

fn labelled(name: &str, spec: Value) -> Value {
    let metadata = json!({ "name": name, "labels": { "app": "specdec" } });
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec })
}

/// A pod that runs commands one after another.
fn pod(
    job: &ClusterJob,
    settings: &KubernetesSettings,
    restart: &str,
    commands: Vec<(&str, CommandWords)>,
) -> Value {
    let container = |(name, words): (&str, CommandWords)| {
        json!({
            "name": name,
            "image": settings.image,
            // Kubernetes expands $(NAME) in commands, and $$ is a dollar sign.
            "command": words.iter().map(|word| word.replace('$', "$$")).collect::<Vec<_>>(),
            "workingDir": job.folder,
            "env": [
                { "name": SHARDS, "value": job.shards.to_string() },
                // A pod has a host name of its own: times belong to its node.
                { "name": HOST, "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
            ],
            "volumeMounts": [{ "name": "work", "mountPath": job.folder }],
        })
    };
    let mut containers = commands.into_iter().map(container).collect::<Vec<_>>();
    let last = containers.pop();
    json!({
        "spec": {
            "restartPolicy": restart,
            "initContainers": containers,
            "containers": Vec::from_iter(last),
            "volumes": [
                { "name": "work", "persistentVolumeClaim": { "claimName": settings.volume } },
            ],
        },
    })
}
