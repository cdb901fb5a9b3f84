//! The engines that can start a run in parts.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::job::ClusterJob;
use super::kubernetes::{self, KubernetesSettings};
use super::{hyperqueue, parallel, slurm};

/// Where a run in parts is started.
#[derive(Debug, Clone)]
pub enum ClusterEngine {
    /// A job array of Slurm.
    Slurm,
    /// An Indexed Job of Kubernetes.
    Kubernetes(KubernetesSettings),
    /// A job of HyperQueue.
    HyperQueue,
    /// GNU parallel.
    Parallel,
}

impl ClusterEngine {
    /// The script that starts the job.
    ///
    /// # Errors
    /// If a word of it cannot be said in a script.
    pub fn script(&self, job: &ClusterJob) -> Result<String> {
        job.check()?;
        match self {
            Self::Slurm => Ok(slurm::script(job)),
            Self::Kubernetes(settings) => kubernetes::script(job, settings),
            Self::HyperQueue => hyperqueue::script(job),
            Self::Parallel => Ok(parallel::script(job)),
        }
    }

    /// The program that must be there to send it, the command that takes the script from its
    /// standard input, and whether that is a shell.
    fn sender(&self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Slurm => ("sbatch", &["bash", "-s"]),
            Self::Kubernetes(_) => ("kubectl", &["kubectl", "apply", "-f", "-"]),
            Self::HyperQueue => ("hq", &["hq", "job", "submit-file", "/dev/stdin"]),
            Self::Parallel => ("parallel", &["bash", "-s"]),
        }
    }

    /// Sends the script, and returns what is left to do, if anything is.
    ///
    /// # Errors
    /// If the engine's program is not found, or fails.
    pub fn send(&self, job: &ClusterJob) -> Result<Option<String>> {
        let script = self.script(job)?;
        let (program, words) = self.sender();
        if found(program).is_none() {
            bail!(
                "{program} is not on the PATH: send the printed script from where it is, or leave \
                 out --send"
            );
        }
        let cannot = || format!("cannot run {}", words[0]);
        let mut child = Command::new(words[0]);
        let mut child =
            child.args(&words[1..]).stdin(Stdio::piped()).spawn().with_context(cannot)?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(script.as_bytes()).with_context(cannot)?;
        }
        let status = child.wait().with_context(cannot)?;
        if !status.success() {
            bail!("{program} refused the job ({status}): its message is above");
        }
        Ok(matches!(self, Self::Kubernetes(_)).then(|| kubernetes::resume(job)))
    }
}

/// Where a program is on the PATH.
fn found(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file())
}
