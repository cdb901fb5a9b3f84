"""Converts GGUF files to the dtypes that only llama.cpp has, by llama.cpp's own quantiser."""

import ctypes
from pathlib import Path

import llama_cpp

from common import PeerError
from llamacontext import silence


def quantise(source: Path, file_type: int, file: Path) -> None:
    """Writes a file in another dtype; the source must be in f32."""
    silence()
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = int(file_type)
    status = llama_cpp.llama_model_quantize(
        str(source).encode(), str(file).encode(), ctypes.byref(params)
    )
    if status != 0:
        raise PeerError(f"llama.cpp cannot quantise {source.name}: status {status}")
