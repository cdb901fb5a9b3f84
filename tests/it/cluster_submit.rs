//! Scripts that start a run in parts: what each engine would do is done here, with names that
//! no shell leaves alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use specdec::run::experiment::Manifest;

use crate::cluster_support::same_tables;
use crate::run_support::{fail, succeed};

/// A name with everything that a shell, parallel, Kubernetes or TOML may take for its own.
const NASTY: &str = "it's \"so\" $HOME `x` {} {.} {#} $(SPECDEC_SHARDS) $$ \\n & ; * ~ é #1";

/// A folder with an experiment, a program and a place for what stands in for engines, all of
/// whose paths are nasty.
struct Site {
    _kept: tempfile::TempDir,
    folder: PathBuf,
    program: PathBuf,
    bin: PathBuf,
}

impl Site {
    fn new() -> Self {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().join(NASTY);
        let experiment = folder.join(format!("my {NASTY}"));
        fs::create_dir_all(&experiment).unwrap();
        let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments/00-smoke");
        let text = fs::read_to_string(smoke.join("experiment.toml")).unwrap();
        fs::write(experiment.join("experiment.toml"), text).unwrap();
        let program = folder.join("spec dec's");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_specdec"), &program).unwrap();
        let bin = kept.path().join("bin");
        fs::create_dir(&bin).unwrap();
        Self { _kept: kept, folder, program, bin }
    }

    /// A program on the PATH.
    fn stand_in(&self, name: &str, script: &str) {
        let path = self.bin.join(name);
        fs::write(&path, format!("#!/bin/bash\n{script}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// `specdec submit` with more arguments.
    fn submit(&self, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_specdec"));
        command.current_dir(&self.folder).arg("submit").arg(format!("my {NASTY}"));
        command.args(["--clock", "virtual", "--set", "question='a b' \"c\" $d"]);
        let (out, merged) = (format!("out {NASTY}"), format!("all {NASTY}"));
        for (option, value) in [("--shards", "3"), ("--out", &*out), ("--merged", &*merged)] {
            if !more.iter().any(|word| word.starts_with(option)) {
                command.args([option, value]);
            }
        }
        command.arg("--program").arg(&self.program).args(more);
        let path = format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).output().unwrap()
    }

    /// What it prints.
    #[track_caller]
    fn script(&self, more: &[&str]) -> String {
        let output = self.submit(more);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        succeed(output);
        text
    }

    /// Runs a script in bash, from another folder.
    #[track_caller]
    fn bash(&self, script: &str) {
        let file = self.bin.join("script");
        fs::write(&file, script).unwrap();
        let path = format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        let command = command.arg(&file).current_dir("/").env("PATH", path).stdin(Stdio::null());
        succeed(command.output().unwrap());
    }

    /// Asserts that the merged run is that of one machine, and made from `parts` parts.
    #[track_caller]
    fn check(&self, parts: usize) {
        let merged = self.folder.join(format!("all {NASTY}"));
        let manifest = Manifest::read(&merged).unwrap();
        assert_eq!(manifest.merged.len(), parts);
        assert!(merged.join("report.md").exists());
        let whole = self.folder.join("whole");
        let mut command = Command::new(env!("CARGO_BIN_EXE_specdec"));
        command.current_dir(&self.folder).args(["run", &format!("my {NASTY}"), "--out", "whole"]);
        command.args(["--clock", "virtual", "--set", "question='a b' \"c\" $d"]);
        succeed(command.output().unwrap());
        let whole = fs::read_dir(whole).unwrap().next().unwrap().unwrap().path();
        let whole = fs::read_dir(whole).unwrap().flatten().map(|entry| entry.path());
        let whole = whole.into_iter().find(|path| path.is_dir()).unwrap();
        same_tables(&merged, &whole);
    }
}

/// Runs arrays and jobs at once, one task after another, and remembers the options.
const SBATCH: &str = r#"
here=$(dirname "$0"); printf '%s\n' "$*" >> "$here/sbatch.log"
task=$(mktemp); cat > "$task"; array=
for word in "$@"; do case $word in --array=*) array=${word#--array=};; esac; done
if [ -n "$array" ]; then
  for i in $(seq "${array%-*}" "${array#*-}"); do
    SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$i bash "$task" >&2 || exit 1
  done
  echo "7;cluster"
else
  bash "$task" >&2 && echo 8
fi
"#;

/// Catches: a quote in a name ends its word.
#[test]
fn the_script_for_slurm_runs_all_parts_the_merge_and_the_report() {
    let site = Site::new();
    site.stand_in("sbatch", SBATCH);
    assert!(site.script(&["--slurm", "--threads", "1"]).contains("--threads=1"));
    let script = site.script(&["--slurm", "--with=--comment=it's", "--with=--exclusive"]);
    site.bash(&script);
    site.check(3);
    let log = fs::read_to_string(site.bin.join("sbatch.log")).unwrap();
    let lines = log.lines().collect::<Vec<_>>();
    assert!(
        lines[0].contains("--array=1-3 --requeue")
            && lines[0].ends_with("--comment=it's --exclusive")
    );
    assert!(lines[1].contains("--dependency=afterok:7 ") && lines.len() == 2, "{log}");

    // --send runs what is printed.
    let site = Site::new();
    site.stand_in("sbatch", SBATCH);
    let output = site.submit(&["--slurm", "--send"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("array 7, merge 8"));
    succeed(output);
    site.check(3);
}

/// Catches: a task that failed by itself is requeued.
#[test]
fn a_killed_task_is_requeued_and_a_failed_one_is_not() {
    let site = Site::new();
    site.stand_in("sbatch", "cat > \"$(dirname \"$0\")/task.$#\"; echo 7");
    site.stand_in("scontrol", "echo \"$*\" >> \"$(dirname \"$0\")/scontrol.log\"");
    site.stand_in("sleep", "exit 0");
    for (program, restarts, code, requeued) in [
        ("kill -9 $$", "0", 137, true),
        ("kill -9 $$", "2", 137, true),
        ("kill -9 $$", "3", 137, false),
        ("exit 1", "0", 1, false),
        ("exit 0", "0", 0, false),
    ] {
        fs::remove_file(&site.program).unwrap();
        let _ = fs::remove_file(site.bin.join("scontrol.log"));
        fs::write(&site.program, format!("#!/bin/bash\n{program}\n")).unwrap();
        fs::set_permissions(&site.program, fs::Permissions::from_mode(0o755)).unwrap();
        site.bash(&site.script(&["--slurm"]));
        let tasks = fs::read_dir(&site.bin).unwrap().flatten().map(|entry| entry.path());
        let task =
            |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("--shard"));
        let task = tasks.into_iter().filter(|p| p.to_string_lossy().contains("task.")).find(task);
        let mut command = Command::new("bash");
        let path = format!("{}:{}", site.bin.display(), std::env::var("PATH").unwrap());
        command.arg(task.unwrap()).env("PATH", path).env("SLURM_RESTART_COUNT", restarts);
        command.env("SLURM_ARRAY_JOB_ID", "7").env("SLURM_ARRAY_TASK_ID", "2");
        let status = command.stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{program}");
        let log = fs::read_to_string(site.bin.join("scontrol.log")).ok();
        assert_eq!(log.as_deref(), requeued.then_some("requeue 7_2\n"), "{program}, {restarts}");
    }
}

#[test]
fn the_line_for_parallel_runs_parts_merge_and_report() {
    let site = Site::new();
    // Like parallel without a command: a line is one.
    site.stand_in(
        "parallel",
        "echo \"$*\" > \"$0.log\"; while IFS= read -r line; do sh -c \"$line\" || exit; done",
    );
    let script = site.script(&["--parallel", "--with=--tag"]);
    assert_eq!(script.lines().count(), 1);
    site.bash(&script);
    site.check(3);
    let log = fs::read_to_string(site.bin.join("parallel.log")).unwrap();
    assert_eq!(log, "--jobs 1 --halt soon,fail=1 --tag\n");
    // The real one.
    let found = Command::new("parallel").arg("--version").output().ok();
    if found.is_some_and(|output| output.stdout.starts_with(b"GNU parallel")) {
        let site = Site::new();
        site.bash(&site.script(&["--parallel"]));
        site.check(3);
    }
}

#[test]
fn the_file_for_hyperqueue_has_parts_and_dependencies() {
    let site = Site::new();
    let script = site.script(&["--hyperqueue"]);
    let job: toml::Table = script.parse().unwrap();
    let tasks = job["task"].as_array().unwrap();
    let mut ended = Vec::new();
    for task in tasks {
        let list =
            |key: &str| task.get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default();
        assert!(list("deps").iter().all(|id| ended.contains(&id.as_integer().unwrap())));
        let words = list("command");
        let words = words.iter().map(|word| word.as_str().unwrap()).collect::<Vec<_>>();
        let mut command = Command::new(words[0]);
        succeed(
            command.args(&words[1..]).current_dir(task["cwd"].as_str().unwrap()).output().unwrap(),
        );
        ended.push(task["id"].as_integer().unwrap());
    }
    assert_eq!(ended, [1, 2, 3, 4, 5]);
    assert_eq!(tasks[3]["deps"].as_array().unwrap().len(), 3);
    assert_eq!(tasks[4]["deps"].as_array().unwrap()[0].as_integer(), Some(4));
    assert_eq!(job["name"].as_str().unwrap(), script[2..].split(':').next().unwrap());
    site.check(3);
}

/// What Kubernetes makes of a word of a command: it expands `$(NAME)` if it knows the variable,
/// and `$$` is a dollar sign.
fn expanded(word: &str, variables: &BTreeMap<&str, &str>) -> String {
    let (mut out, mut rest) = (String::new(), word);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let name = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let known = name.and_then(|(name, after)| Some((variables.get(name)?, after)));
        if let Some((value, after)) = known {
            out.push_str(value);
            rest = after;
        } else {
            out.push('$');
            rest = rest.strip_prefix('$').unwrap_or(rest);
        }
    }
    out + rest
}

/// Runs a container of a pod as Kubernetes would.
#[track_caller]
fn contain(container: &Value, index: usize) {
    let variables = container["env"].as_array().unwrap().iter().map(|variable| {
        (variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap_or("the node"))
    });
    let variables = variables.collect::<BTreeMap<_, _>>();
    let words = container["command"].as_array().unwrap().iter();
    let words = words.map(|word| expanded(word.as_str().unwrap(), &variables)).collect::<Vec<_>>();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(container["workingDir"].as_str().unwrap());
    command.env("JOB_COMPLETION_INDEX", index.to_string()).envs(variables);
    succeed(command.output().unwrap());
}

/// Catches: Kubernetes expands dollar signs in names.
#[test]
fn the_jobs_for_kubernetes_have_parts_and_a_waiting_merge() {
    let site = Site::new();
    let more = ["--kubernetes", "--image", "registry/specdec:1", "--volume", "results"];
    let script = site.script(&more);
    let json = script.lines().filter(|line| !line.starts_with('#')).collect::<String>();
    let list: Value = serde_json::from_str(&json).unwrap();
    let (parts, merge) = (&list["items"][0], &list["items"][1]);
    let spec = |job: &'_ Value, key: &str| job["spec"][key].clone();
    assert_eq!(
        (spec(parts, "completionMode"), spec(parts, "completions")),
        ("Indexed".into(), 3.into())
    );
    assert_eq!((spec(merge, "suspend"), spec(merge, "backoffLimit")), (true.into(), 0.into()));
    let name = parts["metadata"]["name"].as_str().unwrap();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(name.len() < 64 && name.chars().all(allowed) && !name.ends_with('-'), "{name}");
    let pod = |job: &'_ Value, kind: &str| job["spec"]["template"]["spec"][kind].clone();
    assert_eq!(pod(parts, "restartPolicy"), "OnFailure");
    let claim = &pod(parts, "volumes")[0]["persistentVolumeClaim"]["claimName"];
    assert_eq!(
        (claim, &pod(parts, "containers")[0]["image"]),
        (&"results".into(), &"registry/specdec:1".into())
    );
    (0..3).for_each(|index| contain(&pod(parts, "containers")[0], index));
    contain(&pod(merge, "initContainers")[0], 0);
    contain(&pod(merge, "containers")[0], 0);
    site.check(3);
    let merged = Manifest::read(&site.folder.join(format!("all {NASTY}"))).unwrap();
    assert!(merged.merged.iter().all(|part| part.machines == ["the node"]));
    let sent = BTreeMap::from([("kubectl", "cat > \"$0.in\"; echo \"$*\" > \"$0.log\"")]);
    sent.iter().for_each(|(name, script)| site.stand_in(name, script));
    fs::remove_dir_all(site.folder.join(format!("all {NASTY}"))).unwrap();
    let output = site.submit(&[&more[..], &["--send"]].concat());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("kubectl wait --for=condition=complete")
    );
    succeed(output);
    assert_eq!(fs::read_to_string(site.bin.join("kubectl.in")).unwrap(), script);
    assert_eq!(fs::read_to_string(site.bin.join("kubectl.log")).unwrap(), "apply -f -\n");
}

#[test]
fn what_cannot_be_submitted_is_refused_in_one_sentence() {
    let site = Site::new();
    fail(site.submit(&["--slurm", "--shards=0"]), &["--shards = 0 is not allowed: from 1 to"]);
    fail(site.submit(&["--slurm", "--out", "a\nb"]), &["control character"]);
    site.stand_in("sbatch", "echo refused >&2; exit 3");
    fail(site.submit(&["--slurm", "--send"]), &["sbatch refused the job"]);
    let many = site.submit(&["--parallel", "--shards=99"]);
    assert!(String::from_utf8_lossy(&many.stdout).contains("seq 12"));
    assert!(String::from_utf8_lossy(&many.stderr).contains("the run has 12 blocks"));
    let wrong: [(&[&str], &str); 4] = [
        (&[], "--slurm"),
        (&["--slurm", "--parallel"], "cannot be used with"),
        (&["--kubernetes", "--image", "a"], "--volume"),
        (&["--hyperqueue", "--with=-x"], "cannot be used with"),
    ];
    for (more, said) in wrong {
        let output = site.submit(more);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{said}");
    }
    let merged = site.folder.join(format!("all {NASTY}"));
    fs::create_dir(&merged).unwrap();
    fs::write(merged.join("x"), "").unwrap();
    fail(site.submit(&["--slurm"]), &["is not empty: name another folder with --merged"]);
    fs::remove_file(merged.join("x")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_specdec"));
    command.args(["submit", "experiments/00-smoke", "--slurm", "--send"]);
    let nowhere = command.current_dir(env!("CARGO_MANIFEST_DIR")).env("PATH", "/nowhere");
    fail(nowhere.output().unwrap(), &["sbatch is not on the PATH"]);
}
