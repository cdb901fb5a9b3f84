"""What the scripts of the experiments do first: `--help` works without optional packages.

With `--help`, packages that are missing have stand-ins, so that argparse gets to print it; of a
script without argparse, the docstring is printed. Otherwise a missing package ends the script
with the command that installs it.
"""

import ast
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

HERE = Path(__file__).resolve().parent
SCRIPT = Path(sys.argv[0]).resolve()


class Missing(MetaPathFinder, Loader):
    """The last finder: it knows every module."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec:
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return MagicMock(name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def requirements() -> Path:
    """The nearest list of packages, from the script's folder upwards."""
    folders = [folder for folder in SCRIPT.parents if folder.is_relative_to(HERE)]
    lists = [folder / "requirements.txt" for folder in folders]
    return next(file for file in lists if file.is_file()).relative_to(HERE.parent)


def explain(kind: type[BaseException], error: BaseException, trace: object) -> None:
    if isinstance(error, ModuleNotFoundError):
        print(f"no {error.name}: pip install -r {requirements()}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if {"-h", "--help"} & set(sys.argv[1:]):
    source = SCRIPT.read_text(encoding="utf-8")
    if "argparse" not in source:
        print(ast.get_docstring(ast.parse(source)))
        sys.exit()
    sys.meta_path.append(Missing())
else:
    sys.excepthook = explain
