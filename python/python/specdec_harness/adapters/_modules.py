"""Packages that only adapters need."""

from __future__ import annotations

import importlib
from typing import Any


def module(name: str) -> Any:
    """A module of torch, transformers or safetensors, none of which the package requires."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        package = name.split(".")[0]
        raise ModuleNotFoundError(f"adapters need {package}: pip install {package}") from missing
