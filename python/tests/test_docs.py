"""The examples in the documents."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["docs/python.md", "python/README.md"])
def test_examples(document, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / document).read_text(encoding="utf-8")
    # The output of an example ends at the fence.
    text = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    examples = doctest.DocTestParser().get_doctest(text, {}, document, document, 0)
    assert len(examples.examples) > 2
    shown = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed = doctest.DocTestRunner(optionflags=flags).run(examples, out=shown.append).failed
    assert failed == 0, "".join(shown)
