//! `specdec list`: prints the contents of the registries.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde::Serialize;

use super::output;
use crate::core::params::{Param, Params, Value};
use crate::core::registry::{Class, Entry, class_with_word, promise};
use crate::core::sampling::PROCESSORS;
use crate::core::tree::{DraftShape, Siblings};
use crate::method::decode::{Certified, certified};
use crate::method::decode::{STRATEGIES, Strategy};
use crate::method::draft::DRAFTERS;
use crate::method::length::LENGTHS;
use crate::method::verify::{BuildVerifier, VERIFIERS};
use crate::model::zoo::{HEADS, OTHER_VOCABULARIES, TOYS};
use crate::tapes::simulation::{PolicyEntry, policies};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  specdec list
  specdec list --json | jq -r '.verifiers[].name'

--drafter, --verifier, --length and the keys of experiment.toml accept names and aliases.
Every verifier has a guarantee class:
  D (lossless)      the output has the distribution of sampling from the processed target
  G (greedy-exact)  the tokens are those of greedy decoding; every D method at temperature 0
  P (seed-exact)    the same seed gives the tokens of plain decoding
  X (approximate)   no guarantee")]
pub(super) struct ListArgs {
    /// Print one JSON object: drafters, lengths, verifiers, sampling, strategies, policies, toys
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the page docs/methods.md
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Serialize)]
struct Everything {
    drafters: Vec<ListedMethod>,
    lengths: Vec<ListedMethod>,
    verifiers: Vec<ListedMethod>,
    sampling: Vec<ListedProcessor>,
    strategies: &'static [Strategy],
    policies: Vec<PolicyEntry>,
    toys: Vec<ListedToy>,
}

#[derive(Debug, Serialize)]
struct ListedMethod {
    name: &'static str,
    aliases: &'static [&'static str],
    class: Option<Class>,
    certified: Option<Certified>,
    /// For verifiers: the draft shapes for which the verifier is correct.
    drafts: Option<String>,
    params: Vec<ListedSetting>,
    summary: &'static str,
    paper: &'static str,
}

#[derive(Debug, Serialize)]
struct ListedSetting {
    key: &'static str,
    aliases: &'static [&'static str],
    summary: &'static str,
    allowed: String,
    default: Option<Value>,
}

fn setting(param: &Param) -> ListedSetting {
    ListedSetting {
        key: param.key,
        aliases: param.aliases,
        summary: param.summary,
        allowed: param.allowed(),
        default: param.default(),
    }
}

/// A sampling processor, with the value at which it changes nothing.
#[derive(Debug, Serialize)]
struct ListedProcessor {
    name: &'static str,
    summary: &'static str,
    neutral: String,
}

fn processor(setting: &Param) -> ListedProcessor {
    ListedProcessor {
        name: setting.key,
        summary: setting.summary,
        neutral: shown(&setting.default()),
    }
}

/// A value as text; a dash for `None`.
fn shown(value: &Option<Value>) -> String {
    value.as_ref().map_or_else(|| "-".to_owned(), Value::to_string)
}

#[derive(Debug, Serialize)]
struct ListedToy {
    name: String,
    summary: &'static str,
}

fn methods<B>(
    certified: &[Certified],
    kind: &str,
    entries: &[Entry<B>],
    class: impl Fn(&B) -> Option<Class>,
    drafts: impl Fn(&B) -> Option<String>,
) -> Vec<ListedMethod> {
    let found = |name: &str| certified.iter().find(|c| c.kind == kind && c.name == name).cloned();
    entries
        .iter()
        .map(|e| ListedMethod {
            name: e.name,
            aliases: e.aliases,
            class: class(&e.build),
            certified: found(e.name),
            drafts: drafts(&e.build),
            params: e.params.iter().map(setting).collect(),
            summary: e.summary,
            paper: e.paper,
        })
        .collect()
}

pub(super) fn run(args: &ListArgs) -> Result<()> {
    let certified = certified().context("docs/certified.csv")?;
    let everything = Everything {
        drafters: methods(&certified, "drafter", DRAFTERS, |_| None, |_| None),
        lengths: methods(&certified, "length", LENGTHS, |_| None, |_| None),
        verifiers: methods(
            &certified,
            "verifier",
            VERIFIERS,
            |build| Some(build.class),
            |build| Some(drafts(build)),
        ),
        sampling: PROCESSORS.iter().map(|p| processor(&p.setting)).collect(),
        strategies: STRATEGIES,
        policies: policies().collect(),
        toys: TOYS
            .iter()
            .chain(OTHER_VOCABULARIES)
            .chain(HEADS)
            .map(|toy| ListedToy { name: format!("toy:{}", toy.name), summary: toy.summary })
            .collect(),
    };
    if args.json {
        return output::write_json(&everything);
    }
    let mut text = String::new();
    if args.markdown {
        page(&mut text, &everything)?;
        return output::write(&text);
    }
    print(&mut text, &everything)?;
    output::show(&text)
}

fn print(text: &mut String, all: &Everything) -> std::fmt::Result {
    print_methods(text, "Drafters, which propose tokens (--drafter)", &all.drafters)?;
    print_methods(
        text,
        "Draft length policies, which decide how many tokens to draft (--length)",
        &all.lengths,
    )?;
    print_methods(
        text,
        "Verifiers, which decide which drafted tokens are kept (--verifier)",
        &all.verifiers,
    )?;
    writeln!(text, "Sampling processors, in the order in which they are applied")?;
    for processor in &all.sampling {
        let ListedProcessor { name, summary, neutral } = processor;
        writeln!(text, "  {name:<19} {summary} (neutral: {neutral})")?;
    }
    writeln!(text, "\nDecoding strategies (generate, experiments)")?;
    for Strategy { name, options, summary, .. } in all.strategies {
        writeln!(text, "  {name:<19} {summary} ({options})")?;
    }
    writeln!(
        text,
        "\nServer policies, which decide how many tokens each request drafts (simulate)"
    )?;
    for PolicyEntry { name, summary, .. } in &all.policies {
        writeln!(text, "  {name:<19} {summary}")?;
    }
    writeln!(text, "\nToy models (--target): tables of exact probabilities, with a draft each")?;
    for toy in &all.toys {
        writeln!(text, "  {:<19} {}", toy.name, toy.summary)?;
    }
    writeln!(
        text,
        "  {:<19} random distributions over 2 to 4 tokens; N is the seed",
        "toy:random-N"
    )?;
    Ok(())
}

fn page(text: &mut String, all: &Everything) -> std::fmt::Result {
    writeln!(text, "# Methods\n")?;
    writeln!(
        text,
        "Generated from the registries by `specdec list --markdown`; a test compares both."
    )?;
    writeln!(
        text,
        "The column \"certified\" summarises the last full certificate. Distributions are soft if \
         p and q are not one-hot, differ and share tokens \
         ([metrics.md](metrics.md#the-certificate))."
    )?;
    for (title, methods) in [
        ("Drafters, which propose tokens", &all.drafters),
        ("Draft length policies, which decide how many tokens to draft", &all.lengths),
        ("Verifiers, which decide which drafted tokens are kept", &all.verifiers),
    ] {
        writeln!(
            text,
            "\n## {title}\n\n| name | also called | class | certified | what | settings | source |"
        )?;
        writeln!(text, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for m in methods {
            let aliases = m.aliases.iter().map(|a| format!("`{a}`")).collect::<Vec<_>>().join(", ");
            let class =
                m.class.map(|class| format!("{class:?} {}", class.word())).unwrap_or_default();
            let keys = m.params.iter().map(|p| format!("`{}`", p.key)).collect::<Vec<_>>();
            let (ListedMethod { name, summary, paper, .. }, keys) = (m, keys.join(", "));
            let status = status(m);
            let drafts = m.drafts.as_ref().map(|d| format!("; {d}")).unwrap_or_default();
            writeln!(
                text,
                "| `{name}` | {aliases} | {class} | {status} | {summary}{drafts} | {keys} \
                 | {paper} |"
            )?;
        }
    }
    writeln!(text, "\n## Decoding strategies\n")?;
    writeln!(text, "[strategies.md](strategies.md) defines them.\n")?;
    writeln!(
        text,
        "| name | options of `generate` | axes of experiments | what it returns | source |"
    )?;
    writeln!(text, "| --- | --- | --- | --- | --- |")?;
    for Strategy { name, options, axes, summary, source } in all.strategies {
        writeln!(text, "| {name} | `{options}` | `{axes}` | {summary} | {source} |")?;
    }
    writeln!(text, "\n## Server policies, which decide how many tokens each request drafts\n")?;
    writeln!(text, "[simulate.md](simulate.md) defines them.\n\n| name | what it does | source |")?;
    writeln!(text, "| --- | --- | --- |")?;
    for PolicyEntry { name, summary, source, .. } in &all.policies {
        writeln!(text, "| {name} | {summary} | {source} |")?;
    }
    writeln!(text, "\n## Settings\n\n| key | of | what | allowed | default |")?;
    writeln!(text, "| --- | --- | --- | --- | --- |")?;
    let all = [&all.drafters, &all.lengths, &all.verifiers];
    let mut known = Vec::new();
    for ListedSetting { key, summary, allowed, default, .. } in
        all.into_iter().flatten().flat_map(|m| &m.params)
    {
        if known.contains(key) {
            continue;
        }
        known.push(*key);
        let reads = |m: &&ListedMethod| m.params.iter().any(|p| p.key == *key);
        let names = all.into_iter().flatten().filter(reads).map(|m| format!("`{}`", m.name));
        let names = names.collect::<Vec<_>>().join(", ");
        let default = shown(default);
        writeln!(text, "| `{key}` | {names} | {summary} | {allowed} | {default} |")?;
    }
    Ok(())
}

/// The draft shapes for which a verifier is correct, according to its `supports`.
fn drafts(build: &BuildVerifier) -> String {
    let verifier = (build.make)(&Params::default());
    let nodes = DraftShape { certain: true, ..DraftShape::SAMPLED };
    let kinds = Siblings::CHOICES.iter().filter(|kind| verifier.supports(&nodes.with(**kind)));
    match &kinds.map(|kind| kind.name()).collect::<Vec<_>>()[..] {
        [] => "chains".to_owned(),
        kinds if kinds.len() == Siblings::CHOICES.len() => "chains and all trees".to_owned(),
        kinds => format!("chains; trees with siblings {}", kinds.join(", ")),
    }
}

/// The verdict of the committed certificate on a method.
fn status(method: &ListedMethod) -> String {
    method.certified.as_ref().map_or_else(|| "not yet".to_owned(), Certified::words)
}

fn print_methods(text: &mut String, title: &str, methods: &[ListedMethod]) -> std::fmt::Result {
    writeln!(text, "{title}")?;
    for method in methods {
        writeln!(text, "  {:<19} {}", method.name, method.summary)?;
        if let Some(class) = method.class.map(|class| format!("{class:?}")) {
            let named = class_with_word(&class);
            writeln!(text, "  {:19} class {named}: {}", "", promise(&class))?;
        }
        if let Some(drafts) = &method.drafts {
            writeln!(text, "  {:19} for {drafts}", "")?;
        }
        writeln!(text, "  {:19} certified {}", "", status(method))?;
        if !method.aliases.is_empty() {
            writeln!(text, "  {:19} also called {}", "", method.aliases.join(", "))?;
        }
        for ListedSetting { key, summary, default, .. } in &method.params {
            let default = shown(default);
            writeln!(text, "  {:19} {key} ({default}): {summary}", "")?;
        }
        if method.paper != "-" {
            writeln!(text, "  {:19} {}", "", method.paper)?;
        }
    }
    writeln!(text)
}
