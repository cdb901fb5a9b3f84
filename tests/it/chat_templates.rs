//! Chat templates have the bytes that Python's jinja2 gives them with the settings of
//! `transformers`. `experiments/95-chat-templates/fixtures.py` writes the expected texts; the
//! experiment compares the templates of real models.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use specdec::checkpoint::ChatTemplate;
use specdec::model::ChatDate;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/chat")
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new("model.jinja".as_ref(), source, Map::new()).unwrap()
}

fn day(text: &str) -> ChatDate {
    text.parse().unwrap()
}

/// The text of a template without values.
fn text(source: &str) -> String {
    template(source).render(&Map::new(), Some(day("2024-02-29"))).unwrap()
}

/// The sentence with which a template is refused or refuses.
#[track_caller]
fn refused(source: &str) -> String {
    let made = ChatTemplate::new("model.jinja".as_ref(), source, Map::new());
    let error = made.and_then(|t| t.render(&Map::new(), None)).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error.strip_prefix("model.jinja: ").expect("the file is named").to_owned()
}

#[test]
fn every_fixture_has_the_bytes_of_jinja2() {
    let expected = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    let expected = serde_json::from_str::<Value>(&expected).unwrap();
    let today = expected["today"].as_str().unwrap().parse().unwrap();
    let (mut equal, mut both_refuse) = (0, 0);
    for (name, texts) in expected["texts"].as_object().unwrap() {
        let file = fixtures().join(name).with_extension("jinja");
        let source = std::fs::read_to_string(&file).unwrap();
        let tokens = expected["tokens"].as_object().unwrap().clone();
        let template = ChatTemplate::new(&file, &source, tokens).unwrap();
        let cases = expected["cases"].as_array().unwrap();
        for (case, text) in cases.iter().zip(texts.as_array().unwrap()) {
            let rendered = template.render(case[1].as_object().unwrap(), Some(today));
            match text.as_str() {
                Some(text) => {
                    assert_eq!(rendered.as_deref(), Ok(text), "{name}, {}", case[0]);
                    equal += 1;
                }
                None => {
                    assert!(rendered.is_err(), "{name}, {}: {rendered:?}", case[0]);
                    both_refuse += 1;
                }
            }
        }
    }
    assert_eq!((equal, both_refuse), (90, 6));
}

#[test]
fn refusals_are_one_sentence_with_the_reason() {
    let own = "{{ raise_exception('Only user\\nand assistant!') }}";
    let file = "a.jinja".as_ref();
    let error = ChatTemplate::new(file, own, Map::new()).unwrap().render(&Map::new(), None);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("the chat template refuses the conversation: Only user"), "{error}");
    for (source, said) in [
        ("a\n{% if %}", "the chat template fails in line 2: "),
        ("{% for m in messages %}", "the chat template fails"),
        ("\n\n{{ messages[0].content }}", "the chat template fails in line 3: "),
        ("{{ 'a' | frobnicate }}", "frobnicate"),
        ("{{ 'a'.frobnicate() }}", "the chat template fails in line 1: "),
        ("{{ [1].append(2) }}", "the chat template fails in line 1: "),
        ("{{ {1: 2} | tojson(colour=3) }}", "colour"),
        ("{{ [1] | tojson(indent=101) }}", "a number from 0 to 100"),
        ("{{ range | tojson }}", "no JSON stands for"),
        ("{{ missing | tojson }}", "no JSON stands for this undefined"),
        ("{{ strftime_now('%Y') }}", "set chat_date to a day, YYYY-MM-DD"),
        ("{% include 'other' %}", "the chat template fails"),
    ] {
        let error = refused(source);
        assert!(error.contains(said), "{source}: {error:?} does not say {said:?}");
    }
}

#[test]
fn a_template_without_end_is_stopped() {
    for source in [
        "{% for a in range(100000) %}{% for b in range(100000) %}{{ a }}{% endfor %}{% endfor %}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
        "{% set ns = namespace(s='xxxxxxxxxx') %}{% for i in range(60) %}\
         {% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s | length }}",
        "{{ ('x' * 100000) * 100000 }}",
        "{{ [[]] | tojson(indent='x' * 100000000) }}",
        "{{ '{:>100000000000}'.format('a') }}",
        "{{ '{:>{}}'.format('a', 100000000) }}",
        "{{ 'a'.ljust(10000000000) }}",
        "{% for i in range(9999) %}{{ 'x' * 1000 }}{% endfor %}",
        &" ".repeat(300_000),
    ] {
        assert!(refused(source).starts_with("the chat template fails"), "{source}");
    }
}

/// minijinja follows nesting by recursion.
#[test]
fn deep_nesting_needs_no_stack_of_the_caller() {
    assert_eq!(text(&format!("{{{{ {}1 }}}}", "1+".repeat(100_000))), "100001");
    let nested = "{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% for j in range(10) %}\
                  {% set ns.a = [ns.a] %}{% endfor %}{% endfor %}{{ ns.a }}";
    assert_eq!(text(nested).len(), 2 * 99_991);
}

#[test]
fn json_is_that_of_python() {
    let value = json!({"z": [1, 2.5, true, null], "a": "é\u{1}\"\\/</b>\u{7f}😀"});
    let render = |filter: &str| {
        let values = Map::from_iter([("v".to_owned(), value.clone())]);
        template(&format!("{{{{ v | {filter} }}}}")).render(&values, None).unwrap()
    };
    let plain = "{\"z\": [1, 2.5, true, null], \"a\": \"é\\u0001\\\"\\\\/</b>\u{7f}😀\"}";
    assert_eq!(render("tojson"), plain);
    let ascii =
        "{\"a\":\"\\u00e9\\u0001\\\"\\\\/</b>\\u007f\\ud83d\\ude00\",\"z\":[1,2.5,true,null]}";
    let compact = "tojson(ensure_ascii=True, separators=(',', ':'), sort_keys=True)";
    assert_eq!(render(compact), ascii);
    let lines = "{\n  \"z\": [\n    1,\n    2.5,\n    true,\n    null\n  ],";
    assert!(render("tojson(indent=2)").starts_with(lines));
    assert_eq!(text("{{ [] | tojson(indent=2) }}{{ {} | tojson(indent=2) }}"), "[]{}");
}

#[test]
fn dates_are_those_of_the_calendar() {
    // By `datetime.date(…).strftime("%A %a %d %e %B %b %m %y %Y %j")`.
    for (date, written) in [
        ("2024-02-29", "Thursday Thu 29 29 February Feb 02 24 2024 060"),
        ("2000-01-01", "Saturday Sat 01  1 January Jan 01 00 2000 001"),
        ("1999-12-31", "Friday Fri 31 31 December Dec 12 99 1999 365"),
        ("1900-03-01", "Thursday Thu 01  1 March Mar 03 00 1900 060"),
        ("2026-11-23", "Monday Mon 23 23 November Nov 11 26 2026 327"),
        ("9999-12-31", "Friday Fri 31 31 December Dec 12 99 9999 365"),
    ] {
        let format = "%A %a %d %e %B %b %m %y %Y %j";
        assert_eq!(day(date).format(format).unwrap(), written);
        assert_eq!(day(date).to_string(), date);
    }
    assert_eq!(
        day("2024-02-29").format("%H:%M:%S %I %p %% %F").unwrap(),
        "00:00:00 12 AM % 2024-02-29"
    );
    for bad in [
        "2023-02-29",
        "1900-02-29",
        "2024-13-01",
        "2024-00-10",
        "2024-1-1",
        "0999-01-01",
        "24-01-01",
        "2024-01-01-01",
        "+024-01-01",
        "",
    ] {
        let error = bad.parse::<ChatDate>().unwrap_err().to_string();
        assert_eq!(error, format!("{bad:?} is no date: write YYYY-MM-DD"));
    }
    for unknown in ["%Q", "%", "%-d"] {
        assert!(day("2024-02-29").format(unknown).unwrap_err().contains("strftime_now knows %Y"));
    }
    // Every day of four centuries follows the one before.
    let days = (0..146_097).map(|n| ChatDate::from_days(n).to_string());
    let days = days.collect::<Vec<_>>();
    assert!(days.is_sorted() && days.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(
        (&*days[0], &*days[19_782], &*days[146_096]),
        ("1970-01-01", "2024-02-29", "2369-12-31")
    );
    assert!(days.iter().all(|text| day(text).to_string() == *text));
}
