//! Parses the loads and policies of the command line.

use std::str::FromStr;

use super::{MAX, draft_length};
use crate::tapes::simulation::{PolicyEntry, policies};

/// A policy, and the K that was given.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedPolicy {
    pub(super) entry: PolicyEntry,
    pub(super) k: Option<usize>,
}

impl FromStr for NamedPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, k) = match text.split_once(':') {
            Some((name, k)) => (name, Some(draft_length(k)?)),
            None => (text, None),
        };
        let entry = policies().find(|entry| entry.name == name).ok_or_else(|| {
            let names = policies().map(|entry| entry.name).collect::<Vec<_>>();
            format!("allowed are {}, each alone or followed by :K", names.join(", "))
        })?;
        Ok(Self { entry, k })
    }
}

/// Parses requests per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0);
    rate.ok_or_else(|| "allowed is a number above 0, or inf".to_owned())
}

/// Maximum number of rows of a step; `None` if each prompt is read as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepRows(pub(super) Option<usize>);

/// Parses the maximum number of rows of a step.
pub(super) fn step_rows(text: &str) -> Result<StepRows, String> {
    if text == "whole" {
        return Ok(StepRows(None));
    }
    let rows = text.parse().ok().filter(|rows| (1..=MAX).contains(rows));
    rows.map(|rows| StepRows(Some(rows)))
        .ok_or_else(|| format!("allowed is whole, or a whole number from 1 to {MAX}"))
}
