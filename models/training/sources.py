"""Locates crate sources on this machine and reads their checksums from Cargo.lock."""

import json
import subprocess
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def locked_packages(lock: Path = PROJECT / "Cargo.lock") -> dict[tuple[str, str], str]:
    """Return ``(name, version) -> checksum`` for every registry package in the lock file."""
    packages = tomllib.loads(lock.read_text())["package"]
    return {(p["name"], p["version"]): p["checksum"] for p in packages if "checksum" in p}


def cargo_packages() -> dict[tuple[str, str], dict]:
    """Return ``(name, version) -> cargo metadata entry``; run ``cargo fetch --locked`` first."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    output = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True).stdout
    return {(p["name"], p["version"]): p for p in json.loads(output)["packages"]}


def source_folder(package: dict) -> Path:
    """Return the folder of one ``cargo metadata`` package."""
    return Path(package["manifest_path"]).parent
