//! Which blocks of a plan a process runs, as one of n shards, and which part of a run a folder
//! holds.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::core::error::Error;

/// The most shards of a run.
pub const MOST_SHARDS: usize = 100_000;

/// One of n parts of a plan's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// Which one, from 1 to `of`.
    pub index: usize,
    /// How many there are.
    pub of: usize,
}

impl Shard {
    /// The shard number `index` of `of`.
    ///
    /// # Errors
    /// If there is no such shard.
    pub fn new(index: usize, of: usize) -> Result<Self, Error> {
        if !(1..=MOST_SHARDS).contains(&of) || !(1..=of).contains(&index) {
            return Err(Error::setting(format!(
                "there is no shard {index}/{of}: in I/N, shards are numbered from 1 to N, and N is \
                 from 1 to {MOST_SHARDS}"
            )));
        }
        Ok(Self { index, of })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let numbers = text.split_once('/').and_then(|(index, of)| {
            let number = |part: &str| {
                let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                digits.then(|| part.parse().ok()).flatten()
            };
            Some((number(index)?, number(of)?))
        });
        let Some((index, of)) = numbers else {
            return Err(Error::setting(format!(
                "\"{text}\" is no shard: write I/N with I from 1 to N, such as 1/4"
            )));
        };
        Self::new(index, of)
    }
}

/// The part of a run that a results folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Share {
    /// The blocks that are dealt to a shard.
    Shard(Shard),
    /// The blocks that a process took one by one from those that were left. Only former versions
    /// divided runs so; their folders are read and merged like those of shards.
    Claims,
}

/// The word for [`Share::Claims`].
const CLAIMS: &str = "claims";

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shard(shard) => shard.fmt(f),
            Self::Claims => f.write_str(CLAIMS),
        }
    }
}

impl From<Share> for String {
    fn from(share: Share) -> Self {
        share.to_string()
    }
}

impl TryFrom<String> for Share {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        if text == CLAIMS { Ok(Self::Claims) } else { text.parse().map(Self::Shard) }
    }
}
