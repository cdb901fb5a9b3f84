//! Text from outside is made harmless where it is shown, and kept as it is in data.

use std::fs;
use std::path::{Path, PathBuf};

use specdec::io::shown::{self, cell};
use specdec::measure::rows::{GenerationRow, RoundRow, TextRow};
use specdec::run::experiment::read_plan;
use specdec::run::report;

use crate::experiment_support::rows;
use crate::run_support::{specdec, succeed};
use crate::well_formed::well_formed;

#[test]
fn control_and_direction_characters_are_replaced() {
    let text = "a\u{1b}[31mb\u{7}\u{9b}c\td\ne\u{202e}f\u{2066}g\u{7f}";
    assert_eq!(
        shown::line(text),
        "a\u{fffd}[31mb\u{fffd}\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}f\u{fffd}g\u{fffd}"
    );
    assert_eq!(shown::lines("a\tb\nc\r"), "a\tb\nc\u{fffd}");
    assert_eq!(shown::line("héllo 日本 👩\u{200d}💻"), "héllo 日本 👩\u{200d}💻");
}

#[test]
fn markup_in_text_is_escaped_for_markdown() {
    for (text, escaped) in [
        ("prompt_lookup + rejection, tree = 2,2", "prompt_lookup + rejection, tree = 2,2"),
        ("1.10 [1.02, 1.18]", "1.10 [1.02, 1.18]"),
        ("G~", "G~"),
        ("a & b", "a & b"),
        ("~~a~~", "\\~\\~a\\~\\~"),
        ("a|b", "a\\|b"),
        ("`a` *b* _c_", "\\`a\\` \\*b\\* \\_c\\_"),
        ("<b>&lt;&#60;", "&lt;b>&amp;lt;&amp;#60;"),
        ("![x](http://a)", "![x\\](http://a)"),
        ("[x]: y", "[x\\]: y"),
        ("C:\\d", "C:\\\\d"),
        ("$5 and $x$", "\\$5 and \\$x\\$"),
        ("one\ntwo", "one\u{fffd}two"),
    ] {
        assert_eq!(shown::markdown(text), escaped, "{text}");
    }
    let block = [("# a", "\\# a"), ("- a", "\\- a"), ("12. a", "12\\. a"), ("12 a", "12 a")];
    for (text, escaped) in block {
        assert_eq!(shown::markdown_block(text), escaped, "{text}");
    }
}

#[test]
fn markup_in_text_is_escaped_for_html() {
    let text = "<a href=\"x\" b='y'>&amp;\u{1b}\n\u{202e}";
    let escaped = "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;\u{fffd}\n\u{fffd}";
    assert_eq!(shown::html(text), escaped);
}

#[test]
fn formulas_in_csv_cells_are_guarded_and_read_back_unchanged() {
    let guarded = [
        ("=1+1", "'=1+1"),
        ("-1", "'-1"),
        ("@a", "'@a"),
        ("\t=1", "'\t=1"),
        ("'=1", "''=1"),
        ("''+1", "'''+1"),
    ];
    for (text, written) in guarded {
        assert_eq!((&*cell::guarded(text), cell::original(written)), (written, text));
    }
    for text in ["", "a", "'", "'a", "a=1", "''", "1-2"] {
        assert_eq!((&*cell::guarded(text), cell::original(text)), (text, text));
    }
    // Rows that were written before cells were guarded can be read, too.
    assert_eq!(cell::original("-1"), "-1");
}

/// Ids and categories that act as formulas, markup or control sequences unless they are
/// treated as text.
const HOSTILE: [(&str, &str); 6] = [
    ("=HYPERLINK(\"http://a\")", "+cat|egory"),
    ("\u{1b}[31mred\u{7}", "-\u{1b}]0;title\u{7}"),
    ("<script>alert(1)</script>", "<b>&amp;\"'"),
    ("'=1 | `code` **bold**", "@[link](http://a)"),
    ("\u{202e}desrever\u{9b}31m", "]]>\u{ffff}"),
    ("$x$ \\ ![i](http://a)", "日本語"),
];

/// The results folder of an experiment whose texts are all hostile, and what the run
/// printed.
fn hostile(place: &Path) -> (PathBuf, String) {
    let line = |(id, category): &(&str, &str)| {
        let row = serde_json::json!({"id": id, "category": category, "prompt": format!("{id}x")});
        format!("{row}\n")
    };
    fs::write(place.join("prompts.jsonl"), HOSTILE.iter().map(line).collect::<String>()).unwrap();
    fs::write(place.join("=\u{1b}[2Jtext.txt"), "fn main() {}").unwrap();
    let experiment = r##"
        question = "# <b>Why</b>\n| `now` | \u001b[31m?"
        target = "embedded-target"
        prompts = "prompts.jsonl"
        max_tokens = 6
        warmup = 0
        [sweep]
        drafter = "ngram_lm"
        ngram_text = "=\u001b[2Jtext.txt"
        num_speculative_tokens = [1, 2]
        temperature = [0, 1]
    "##;
    fs::write(place.join("-\u{1b}[31m*name*.toml"), experiment).unwrap();
    let mut command = specdec(&["run", "./-\u{1b}[31m*name*.toml", "--clock", "virtual"]);
    let output = command.args(["--out", "out"]).current_dir(place).output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let path = String::from_utf8(output.stdout.clone()).unwrap();
    succeed(output);
    (place.join(path.trim_end()).parent().unwrap().to_owned(), said)
}

/// Whether a text holds characters that control how it is shown.
fn has_controls(text: &str) -> bool {
    text.chars().any(|c| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{ffff}'))
}

#[test]
fn hostile_names_are_harmless_where_they_are_shown() {
    let place = tempfile::tempdir().unwrap();
    let (folder, said) = hostile(place.path());
    assert!(!has_controls(&said), "{said:?}");
    let page = fs::read_to_string(folder.join("report.md")).unwrap();
    assert!(!has_controls(&page), "{page:?}");
    assert!(page.starts_with("# -\u{fffd}[31m\\*name\\*\n") || page.starts_with("# \\-\u{fffd}"));
    for (id, category) in HOSTILE {
        for text in [id, category] {
            // A text with markup never appears unescaped.
            let markup = ["<", "`", "**", "](", "$x$"].iter().any(|mark| text.contains(mark));
            assert!(!markup || !page.contains(text), "{text}");
        }
    }
    let html = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(!has_controls(&html));
    assert!(html.contains("<title>-\u{fffd}[31m*name*</title>"));
    for text in ["<script>alert", "<b>", "http://a)\"", "]]>"] {
        assert!(!html.contains(text), "{text}");
    }
    let tables = page.lines().filter(|line| line.starts_with("| "));
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut before = None;
    for line in page.lines() {
        let own = line.starts_with("| ").then(|| columns(line));
        assert!(before.is_none() || own.is_none() || before == own, "{line}");
        before = own;
    }
    assert!(tables.count() > 10);
    let mut figures = 0;
    for entry in fs::read_dir(folder.join("figures")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "svg") {
            let svg = fs::read_to_string(&path).unwrap();
            well_formed(&svg).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
            assert!(!has_controls(&svg) && !svg.contains("<script"), "{}", path.display());
            figures += 1;
        }
    }
    assert!(figures > 2);
}

#[test]
fn hostile_names_are_kept_unchanged_in_data_files() {
    let place = tempfile::tempdir().unwrap();
    let (folder, _) = hostile(place.path());
    let expected = HOSTILE.map(|(id, category)| (id.to_owned(), category.to_owned()));
    assert_eq!(read_plan(&folder).unwrap().prompts, HOSTILE.map(|(id, _)| id));
    let generations = rows::<GenerationRow>(&folder, "generations.csv");
    for pair in &expected {
        assert!(generations.iter().any(|g| (&g.prompt, &g.category) == (&pair.0, &pair.1)));
    }
    assert!(generations.iter().all(|g| expected.iter().any(|pair| pair.0 == g.prompt)));
    assert!(rows::<RoundRow>(&folder, "rounds.csv").iter().any(|r| r.prompt == HOSTILE[0].0));
    let texts = fs::read_to_string(folder.join("generations.jsonl")).unwrap();
    let texts = texts.lines().map(|line| serde_json::from_str::<TextRow>(line).unwrap());
    assert!(texts.clone().any(|text| text.prompt == HOSTILE[1].0));
    // No cell begins like a formula, unless it is a number.
    for name in ["rounds.csv", "generations.csv", "blocks.csv", "summary.csv"] {
        let mut reader = csv::Reader::from_path(folder.join(name)).unwrap();
        for record in reader.records() {
            for cell in &record.unwrap() {
                let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
                assert!(!formula || cell.parse::<f64>().is_ok(), "{name}: {cell:?}");
            }
        }
    }
    let results = report::load(&folder).unwrap();
    assert!(results.notes.is_empty(), "{:?}", results.notes);
    assert_eq!(results.samples().count(), generations.len());
}

#[test]
fn results_of_a_file_named_by_dots_stay_in_the_output_folder() {
    let place = tempfile::tempdir().unwrap();
    let smoke = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/00-smoke/experiment.toml");
    for name in ["...toml", "..toml"] {
        let (file, out) = (place.path().join(name), place.path().join("a/b/out"));
        fs::copy(smoke, &file).unwrap();
        let mut command = specdec(&["run", "--quick", "--clock", "virtual", "--out"]);
        succeed(command.arg(&out).arg(&file).output().unwrap());
        let found = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(found.collect::<Vec<_>>(), ["experiment"], "{name}");
        assert_eq!(fs::read_dir(place.path().join("a/b")).unwrap().count(), 1);
        fs::remove_dir_all(&out).unwrap();
    }
}

/// Catches: a digit is cut instead of rounded; whole numbers lose their zeros.
#[test]
fn numbers_have_six_digits_or_all_of_a_larger_one() {
    let found =
        [0.0, 1.0, -0.5, 0.123_456_7, 999_999.5, 12_345_678.9, 1500.0, 1e-9].map(shown::exact);
    let expected = ["0", "1", "-0.5", "0.123457", "1000000", "12345679", "1500", "0.000000001"];
    assert_eq!(found, expected);
}
