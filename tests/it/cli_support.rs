//! Running the `specdec` command in tests.

use assert_cmd::Command;

/// The command with these arguments and without the NO_COLOR of the test environment.
pub(crate) fn specdec(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("specdec"));
    command.env_remove("NO_COLOR").args(args);
    command
}

/// Standard output of a run that must succeed.
pub(crate) fn stdout(args: &[&str]) -> String {
    let output = specdec(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Standard output of a run that must succeed, as JSON on one line.
pub(crate) fn json(args: &[&str]) -> serde_json::Value {
    let line = stdout(args);
    assert!(line.ends_with('\n') && line.lines().count() == 1, "{line:?} is one line");
    serde_json::from_str(&line).unwrap()
}

/// Checks that a run fails with one sentence that contains `part`.
pub(crate) fn refuses(args: &[&str], part: &str) {
    let output = specdec(args).write_stdin("").output().unwrap();
    let stderr = text(&output.stderr);
    assert!(!output.status.success(), "{args:?} must fail");
    assert!(output.stdout.is_empty(), "{args:?} prints nothing");
    assert!(stderr.starts_with("error: "), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(stderr.contains(part), "{args:?}: {stderr:?} does not say {part:?}");
}

/// Bytes as text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
