//! Benchmarks whose rows hold what is asked under a key of their own.

use serde_json::Value;

use super::fields::{optional, text};
use super::{Asked, PromptFormat};

/// MATH-500 (Lightman et al. 2023, arXiv 2305.20050) and AIME: a problem.
pub(super) const MATH: PromptFormat = PromptFormat {
    name: "MATH-500 and AIME",
    key: "problem",
    summary: "`problem`",
    context: &[],
    read: |row| Ok(Asked::once(text(row, "problem")?)),
};

/// MBPP (Austin et al. 2021, arXiv 2108.07732): a task and the tests that its solution must pass.
pub(super) const MBPP: PromptFormat = PromptFormat {
    name: "MBPP",
    key: "test_list",
    summary: "`text` or `prompt`, and the lines of `test_list` after an empty line",
    context: &[],
    read: |row| {
        let task = if row.contains_key("text") { text(row, "text") } else { text(row, "prompt") };
        let tests = row.get("test_list").and_then(Value::as_array);
        let tests = tests.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
        Ok(joined([task?, tests.join("\n")]))
    },
};

/// LongBench (Bai et al. 2023, arXiv 2308.14508): a long text, and mostly a question about it.
pub(super) const LONG_BENCH: PromptFormat = PromptFormat {
    name: "LongBench",
    key: "all_classes",
    summary: "`context`, and `input` after an empty line",
    context: &["context", "input"],
    read: |row| Ok(joined([text(row, "context")?, optional(row, "input")?])),
};

/// SWE-bench (Jimenez et al. 2023, arXiv 2310.06770): the description of an issue.
pub(super) const SWE_BENCH: PromptFormat = PromptFormat {
    name: "SWE-bench",
    key: "problem_statement",
    summary: "`problem_statement`",
    context: &[],
    read: |row| Ok(Asked::once(text(row, "problem_statement")?)),
};

/// LiveCodeBench (Jain et al. 2024, arXiv 2403.07974): a task, and mostly a program to complete.
pub(super) const LIVE_CODE_BENCH: PromptFormat = PromptFormat {
    name: "LiveCodeBench",
    key: "question_content",
    summary: "`question_content`, and `starter_code` after an empty line",
    context: &[],
    read: |row| Ok(joined([text(row, "question_content")?, optional(row, "starter_code")?])),
};

/// CNN/DailyMail (See et al. 2017, arXiv 1704.04368): an article to summarise.
pub(super) const CNN_DAILY_MAIL: PromptFormat = PromptFormat {
    name: "CNN/DailyMail",
    key: "article",
    summary: "`article`",
    context: &[],
    read: |row| Ok(Asked::once(text(row, "article")?)),
};

/// GPQA (Rein et al. 2023, arXiv 2311.12022): a question.
pub(super) const GPQA: PromptFormat = PromptFormat {
    name: "GPQA",
    key: "Question",
    summary: "`Question`, without the answers to choose from",
    context: &[],
    read: |row| Ok(Asked::once(text(row, "Question")?)),
};

/// Inputs of AIPerf with one turn.
pub(super) const AIPERF: PromptFormat = PromptFormat {
    name: "AIPerf",
    key: "text",
    summary: "`text`",
    context: &[],
    read: |row| Ok(Asked::once(text(row, "text")?)),
};

/// Parts with an empty line between them; the last one may be empty.
fn joined([first, last]: [String; 2]) -> Asked {
    Asked::once(if last.is_empty() { first } else { format!("{first}\n\n{last}") })
}
