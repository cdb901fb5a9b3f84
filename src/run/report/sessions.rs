//! Provenance of a run: machine, build and disturbance of every session.

use super::document::{DocBlock, TableCell};
use super::run::Run;
use super::validity::SpeedVerdict;
use crate::run::experiment::{RunSession, Status};

/// The most sessions that stand side by side.
const MOST_SESSIONS: usize = 8;

/// What the draft was trained on, if its folder said so.
pub(super) fn training(run: &Run) -> Vec<DocBlock> {
    let record = run.plan.draft.iter().flat_map(|draft| draft.training.iter().flatten());
    let rows =
        record.map(|(key, value)| [key, value].map(|text| TableCell::from(text.as_str())).to_vec());
    DocBlock::section(
        "Training of the draft",
        "As training.json states it, which is next to the weights.",
        &["", ""],
        rows.collect(),
    )
}

/// The machine and provenance of every session, side by side.
pub(super) fn section(run: &Run) -> Vec<DocBlock> {
    let (plan, manifest) = (&run.plan, &run.manifest);
    let status = match manifest.status {
        Status::Measured | Status::Finished => "finished",
        Status::Interrupted => "interrupted",
        Status::Running => "running",
    };
    let mut rows = vec![
        ("status", vec![status.to_owned()]),
        ("clock", vec![plan.clock.clone()]),
        ("plan", vec![plan.hash.clone()]),
        ("prompts SHA-256", vec![plan.prompts_sha256.clone()]),
    ];
    let groups = manifest.groups();
    let counts = |i: usize| groups[i] == run.session;
    // A report of a hundred machines shows the sessions whose times it is about.
    let all = manifest.sessions.len();
    let listed = (0..all).filter(|&i| all <= MOST_SESSIONS || counts(i));
    let listed = listed.take(MOST_SESSIONS).collect::<Vec<_>>();
    let number = listed.len();
    for (_, values) in &mut rows {
        values.resize(number, String::new());
    }
    let each = |of: &dyn Fn(usize, &RunSession) -> String| {
        listed.iter().map(|&i| of(i, &manifest.sessions[i])).collect::<Vec<_>>()
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let blocks = |i: usize| {
        let own = || run.blocks.iter().filter(move |block| block.session == i);
        format!("{}, {}", own().count(), own().filter(|block| block.disturbed).count())
    };
    let withheld = run.times.withheld();
    let counted = |i: usize| match (counts(i), withheld) {
        (true, None) => "yes",
        (true, Some(SpeedVerdict::Set)) => "no: they are set",
        (true, Some(_)) => "no: disturbed",
        (false, _) => "no",
    };
    rows.extend([
        ("blocks, disturbed", each(&|i, _| blocks(i))),
        ("its times count", each(&|i, _| counted(i).to_owned())),
        ("machine", each(&|_, s| s.host.clone().unwrap_or_default())),
        ("processor", each(&|_, s| s.machine.cpu_model.clone())),
        ("instruction set", each(&|_, s| s.machine.isa.clone())),
        ("cores, worker threads", each(&|_, s| format!("{}, {}", s.machine.cores, s.threads))),
        (
            "load average at the start (1, 5, 15 min)",
            each(&|_, s| s.load_average.map(|x| format!("{x:.2}")).join(", ")),
        ),
        ("time lost before the blocks", each(&|_, s| percent(s.lost_before))),
        ("time lost during the blocks", each(&|_, s| percent(s.lost_share))),
        ("target passes (µs)", each(&|_, s| passes(s))),
        ("specdec", each(&|_, s| s.build.describe())),
        ("compiler", each(&|_, s| s.build.rustc.clone())),
        ("command", each(&|_, s| s.command_line.join(" "))),
        ("started", each(&|_, s| s.started.clone())),
        ("ended", each(&|_, s| s.ended.clone().unwrap_or_else(|| "killed".to_owned()))),
    ]);
    // Only runs of several machines name them.
    rows.retain(|(key, values)| *key != "machine" || values.iter().any(|name| !name.is_empty()));
    let lines = rows.into_iter().map(|(key, values)| {
        [key.to_owned()].into_iter().chain(values).map(TableCell::from).collect::<Vec<_>>()
    });
    let names = listed.iter().map(|i| match all {
        1 => String::new(),
        _ => format!("session {}", i + 1),
    });
    let head = [String::new()].into_iter().chain(names).collect::<Vec<_>>();
    let head = head.iter().map(String::as_str).collect::<Vec<_>>();
    let table = DocBlock::table(&head, lines.collect());
    let mut blocks = vec![DocBlock::Heading("Machine and provenance"), table];
    if number < all {
        blocks.push(DocBlock::paragraph(&format!("manifest.json describes all {all} sessions.")));
    }
    blocks
}

/// The cost of the target's passes by their number of rows.
fn passes(session: &RunSession) -> String {
    let costs = session.calibration.passes.iter();
    let costs = costs.map(|c| format!("T({}) = {:.0}", c.rows, c.us)).collect::<Vec<_>>();
    let context = session.calibration.context_tokens;
    format!("{}, at a context of {context} tokens", costs.join(", "))
}
