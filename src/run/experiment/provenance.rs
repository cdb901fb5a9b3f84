//! Which build made a result. Everything is embedded at build time, because the folder in
//! which the program runs says nothing about its sources.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::model::ChatDate;

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

/// The current time in UTC, RFC 3339 to the second.
pub(super) fn utc_now() -> String {
    utc(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// The time that begins this many seconds after 1970; one after the year 9999 becomes the last
/// second that the format can hold.
fn utc(seconds: u64) -> String {
    const LAST: u64 = 253_402_300_799;
    let seconds = seconds.min(LAST);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let day = ChatDate::from_days(u32::try_from(hours / 24).unwrap_or_default());
    format!("{day}T{:02}:{:02}:{:02}Z", hours % 24, minutes % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_by_rfc_3339() {
        for (seconds, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(seconds), written);
        }
    }
}
