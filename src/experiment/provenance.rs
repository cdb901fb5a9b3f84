//! Which build made a result. Everything is embedded at build time, because the folder in
//! which the program runs says nothing about its sources.

use serde::{Deserialize, Serialize};

/// What this program was built from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Version of specdec.
    pub specdec: String,
    /// Commit of its sources, or `unknown` where they were in no repository.
    pub git_commit: String,
    /// Whether the sources differed from that commit.
    pub git_dirty: bool,
    /// The compiler.
    pub rustc: String,
    /// Libraries that can change results, as `name=version`.
    pub libraries: Vec<String>,
    /// Enabled features of the crate.
    pub features: Vec<String>,
}

impl Build {
    /// The build that is running.
    pub fn this() -> Self {
        let features = [("cuda", cfg!(feature = "cuda")), ("metal", cfg!(feature = "metal"))];
        let enabled = features.into_iter().filter(|(_, on)| *on);
        Self {
            specdec: env!("CARGO_PKG_VERSION").to_owned(),
            git_commit: env!("SPECDEC_COMMIT").to_owned(),
            git_dirty: env!("SPECDEC_DIRTY") == "true",
            rustc: env!("SPECDEC_RUSTC").to_owned(),
            libraries: env!("SPECDEC_VERSIONS").split(' ').map(str::to_owned).collect(),
            features: enabled.map(|(name, _)| name.to_owned()).collect(),
        }
    }

    /// Version and commit, in words.
    pub fn describe(&self) -> String {
        let changed = if self.git_dirty { ", changed" } else { "" };
        format!("{}, commit {}{changed}", self.specdec, self.git_commit)
    }
}

/// When and from which sources something was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Provenance {
    /// UTC, RFC 3339.
    pub date: String,
    /// Version of specdec.
    pub specdec: String,
    /// Commit of the sources of this program, or `unknown`.
    pub git_commit: String,
    /// Whether the sources differed from that commit.
    pub git_dirty: bool,
}

impl Provenance {
    /// The provenance of something made now.
    pub fn now() -> Self {
        let Build { specdec, git_commit, git_dirty, .. } = Build::this();
        Self { date: utc_now(), specdec, git_commit, git_dirty }
    }
}

/// The current time in UTC, RFC 3339 to the second; a time after the year 9999 becomes
/// the last second that the format can hold.
pub(super) fn utc_now() -> String {
    let format =
        time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    let last = time::macros::datetime!(9999-12-31 23:59:59 UTC);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = now.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
    let now = time::OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(last).min(last);
    now.format(&format).unwrap_or_default()
}
