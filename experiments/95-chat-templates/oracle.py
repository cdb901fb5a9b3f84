"""Renders chat templates as transformers does, by jinja2."""

import datetime
import json

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# The day on which everything is rendered.
TODAY = datetime.datetime(2026, 11, 23)


class Generation(Extension):
    """`{% generation %}`: marks what the assistant wrote, and opens a scope."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def compiled(source: str) -> jinja2.Template:
    """A template, compiled with the settings of transformers."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = TODAY.strftime
    return environment.from_string(source)


def rendered(source: str, values: dict) -> tuple[str | None, str | None]:
    """The text that a template makes of some values, or why it refuses them."""
    try:
        return compiled(source).render(**values), None
    except Exception as why:  # Templates raise exceptions of all kinds.
        return None, f"{type(why).__name__}: {why}"
