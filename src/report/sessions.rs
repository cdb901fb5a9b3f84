//! Provenance of a run: machine, build and disturbance of every session.

use super::document::{DocBlock, DocCell, strong};
use super::results::Results;
use crate::experiment::{MOST_DISTURBED, RunSession, Status};
use crate::machine::DISTURBED;

/// A paragraph saying that too many blocks were disturbed for any verdict; `None` otherwise.
pub(super) fn alarm(results: &Results) -> Option<DocBlock> {
    Some(DocBlock::Paragraph(strong(&disturbed(results)?)))
}

/// A sentence saying that too many blocks were disturbed for any verdict; `None` otherwise.
pub(super) fn disturbed(results: &Results) -> Option<String> {
    results.is_disturbed().then(|| {
        format!(
            "DISTURBED: {:.0} % of the blocks lost more than {:.0} % of their time to other work. \
             Above {:.0} % of the blocks no verdict is given.",
            100.0 * results.disturbed_share(),
            100.0 * DISTURBED,
            100.0 * MOST_DISTURBED
        )
    })
}

/// The machine and provenance of every session, side by side.
pub(super) fn section(results: &Results) -> Vec<DocBlock> {
    let (plan, manifest) = (&results.plan, &results.manifest);
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
    let number = manifest.sessions.len();
    rows.iter_mut().for_each(|(_, values)| values.resize(number, String::new()));
    let each = |of: &dyn Fn(usize, &RunSession) -> String| {
        manifest.sessions.iter().enumerate().map(|(i, session)| of(i, session)).collect::<Vec<_>>()
    };
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let blocks = |i: usize| {
        let own = || results.blocks.iter().filter(move |block| block.session == i);
        format!("{}, {}", own().count(), own().filter(|block| block.disturbed).count())
    };
    let groups = manifest.groups();
    let counts = |i: usize| if groups[i] == results.group() { "yes" } else { "no" };
    rows.extend([
        ("blocks, disturbed", each(&|i, _| blocks(i))),
        ("its times count", each(&|i, _| counts(i).to_owned())),
        ("processor", each(&|_, s| s.machine.cpu_model.clone())),
        ("instruction set", each(&|_, s| s.machine.isa.clone())),
        ("cores, worker threads", each(&|_, s| format!("{}, {}", s.machine.cores, s.threads))),
        (
            "load average at the start (1, 5, 15 min)",
            each(&|_, s| s.load_average.map(|x| format!("{x:.2}")).join(", ")),
        ),
        ("lost to other work, before the blocks", each(&|_, s| percent(s.lost_before))),
        ("lost to other work, during the blocks", each(&|_, s| percent(s.lost_share))),
        ("target passes (µs)", each(&|_, s| passes(s))),
        ("specdec", each(&|_, s| s.build.describe())),
        ("compiler", each(&|_, s| s.build.rustc.clone())),
        ("command", each(&|_, s| s.command_line.join(" "))),
        ("started", each(&|_, s| s.started.clone())),
        ("ended", each(&|_, s| s.ended.clone().unwrap_or_else(|| "killed".to_owned()))),
    ]);
    let lines = rows.into_iter().map(|(key, values)| {
        [key.to_owned()].into_iter().chain(values).map(DocCell::from).collect::<Vec<_>>()
    });
    let names = (1..=number).map(|i| match number {
        1 => String::new(),
        _ => format!("session {i}"),
    });
    let head = [String::new()].into_iter().chain(names).collect::<Vec<_>>();
    let head = head.iter().map(String::as_str).collect::<Vec<_>>();
    vec![DocBlock::Heading("Machine and provenance"), DocBlock::table(&head, lines.collect())]
}

/// The cost of the target's passes by their number of rows.
fn passes(session: &RunSession) -> String {
    let costs = session.calibration.passes.iter();
    let costs = costs.map(|c| format!("T({}) = {:.0}", c.rows, c.us)).collect::<Vec<_>>();
    let context = session.calibration.context_tokens;
    format!("{}, at a context of {context} tokens", costs.join(", "))
}
