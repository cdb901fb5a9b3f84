"""LaTeX of captions and tables."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

#: What LaTeX does not take as it is.
ESCAPED = {letter: f"\\{letter}" for letter in "&%$#_{}"}
ESCAPED |= {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
ESCAPED |= {"α": "$\\alpha$", "τ": "$\\tau$", "×": "$\\times$", "–": "--"}


def text(plain: str) -> str:
    """The text, escaped."""
    return "".join(ESCAPED.get(letter, letter) for letter in plain)


def tabular(table: pandas.DataFrame) -> str:
    """The table with the rules of booktabs."""
    names = [text(str(key)) for key in table.index.names]
    left, heads = len(names), [_tuple(head) for head in table.columns]
    lines = [f"\\begin{{tabular}}{{{'l' * left}{'r' * len(heads)}}}", "\\toprule"]
    for level in range(len(heads[0])):
        last = level == len(heads[0]) - 1
        cells, rules, at = names if last else [""] * left, "", left + 1
        for head, group in groupby(heads, key=lambda head: head[: level + 1]):
            wide, word = len(list(group)), text(str(head[-1]))
            cells = [*cells, word if wide == 1 else f"\\multicolumn{{{wide}}}{{c}}{{{word}}}"]
            rules += f"\\cmidrule(lr){{{at}-{at + wide - 1}}}"
            at += wide
        lines += [" & ".join(cells) + " \\\\", "\\midrule" if last else rules]
    for key, values in zip(table.index, table.to_numpy().tolist()):
        lines.append(" & ".join(text(str(cell)) for cell in [*_tuple(key), *values]) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)
