"""Functions that a model completes, and whether they parse.

The embedded pair writes Rust and nothing else, so the parser must be one of Rust. It is that of
rustfmt, which is the compiler's own: it is neither lenient, as grammars for editors are, nor does
it ask whether names and types exist, which a model of this size cannot know.
"""

import subprocess

# A method ends with this; run.py stops there.
CLOSE = "\n    }"
RUSTFMT = ("rustfmt", "--edition", "2021", "--emit", "stdout")


def available() -> bool:
    """Whether rustfmt can be called."""
    try:
        return subprocess.run([RUSTFMT[0], "--version"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def parses(source: str) -> bool:
    """Whether Rust source has no syntax errors: rustfmt writes nothing if it has any."""
    done = subprocess.run(RUSTFMT, input=source, capture_output=True, text=True)
    return done.returncode == 0 or bool(done.stdout.strip())


def complete(heading: str, text: str, stop_reason: str) -> bool:
    """Whether a continuation closes the method that the heading opens, and all of it parses.

    A method without a body is none: it would be the easiest to parse.
    """
    closed = stop_reason == "stop_string" and bool(text.strip())
    return closed and parses(f"{heading}{text}{CLOSE}\n}}\n")
