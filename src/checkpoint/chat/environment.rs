//! The environment in which `transformers` renders chat templates.

use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind};

use super::json::tojson;
use super::python;
use crate::model::date::ChatDate;

/// The steps that a rendering may take: a template that repeats something without end is
/// refused. Templates of models take a few thousand.
pub(super) const MAX_STEPS: u64 = 2_000_000;

/// What a template says when it refuses a conversation.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) String);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// An environment without templates and without a date.
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_debug(false);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_unknown_method_callback(python::method);
    environment.add_filter("tojson", tojson);
    environment.add_filter("trim", python::trim);
    environment.add_test("iterable", python::is_iterable);
    environment.add_test("sequence", python::is_sequence);
    environment.add_test("number", python::is_number);
    environment.add_function("raise_exception", |message: String| {
        let refused = Error::new(ErrorKind::InvalidOperation, "raise_exception");
        Err::<(), _>(refused.with_source(Refusal(message)))
    });
    environment.remove_global("debug");
    Ok(environment)
}

/// Gives the environment the day that `strftime_now` is asked for.
pub(super) fn set_today(environment: &mut Environment<'_>, today: Option<ChatDate>) {
    environment.add_function("strftime_now", move |format: &str| {
        let fail = |why: String| Error::new(ErrorKind::InvalidOperation, why);
        let Some(today) = today else { return Err(fail(NO_DATE.to_owned())) };
        today.format(format).map_err(fail)
    });
}

/// The error of a template that asks for the date when none is set.
const NO_DATE: &str = "the template asks for the date, so that the prompts would be others every \
                       day: set chat_date to a day, YYYY-MM-DD";
