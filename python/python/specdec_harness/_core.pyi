from collections.abc import Callable
from typing import Any, Optional, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Audit",
    "Rng",
    "TapeLines",
    "certify",
    "forecast_columns",
    "forecast_tape",
    "tape_sequences",
    "verifiers",
    "verify",
]

_Rows = tuple[NDArray[np.float64], float]

@final
class Audit:
    def __new__(cls, ks: list[int]) -> Audit: ...
    def read(
        self,
        sequence: tuple[str, int, Optional[str]],
        drawn: NDArray[np.int64],
        p: _Rows,
        others: tuple[Optional[_Rows], ...],
    ) -> None: ...
    def verdict(self, level: float, plain: Optional[Audit]) -> dict[str, Any]: ...

@final
class Rng:
    """The source of all random decisions of a verifier."""

    def choose(self, weights: ArrayLike) -> int:
        """An index, drawn with probability proportional to its weight (weights of any sum, none
        negative). A verifier that uses nothing else is enumerated.
        """

    def uniform(self) -> float:
        """A uniform number in [0, 1). A verifier that uses one is sampled."""

    @property
    def generator(self) -> np.random.Generator:
        """A `numpy.random.Generator`. A verifier that uses it is sampled."""

@final
class TapeLines:
    def __new__(cls, first: str) -> TapeLines: ...
    @staticmethod
    def read(file: str, bytes: bytes) -> tuple[TapeLines, int]: ...
    def add(self, line: str) -> str: ...
    def counts(self) -> tuple[int, int]: ...
    def sequence(self, number: int) -> tuple[int, list[int], list[int], list[int]]: ...
    def log_probs(
        self,
        settings: tuple[int, Optional[int]],
        logits: NDArray[np.float64],
        known: tuple[NDArray[np.int64], int, int],
    ) -> list[float]: ...
    def compared(
        self, place: tuple[int, int], p: NDArray[np.float64], q: NDArray[np.float64]
    ) -> str: ...

def certify(
    function: Callable[..., Any],
    tokens: Callable[[Any], list[int]],
    generator: np.random.Generator,
    *,
    vocab: int,
    k: int,
    single: bool,
    detect: float,
    rounds: Optional[int],
    seed: int,
) -> tuple[str, str, str]: ...
def verifiers() -> list[tuple[str, str, list[tuple[str, str]], str, str]]: ...
def verify(
    name: str,
    p: _Rows,
    q: Optional[_Rows],
    draft: NDArray[np.int64],
    seed: int,
    settings: dict[str, Any],
) -> tuple[list[int], int]: ...
def forecast_columns(
    logs: tuple[NDArray[np.float64], NDArray[np.float64]],
    race: Optional[NDArray[np.float64]],
    lengths: list[int],
    max_tokens: list[int],
    ks: list[int],
    rules: list[str],
) -> dict[str, Any]: ...
def forecast_tape(
    file: str, bytes: bytes, ks: list[int], rules: list[str]
) -> tuple[dict[str, Any], list[str], list[str]]: ...
def tape_sequences(
    file: str, bytes: bytes
) -> tuple[list[tuple[str, int, int, list[int], list[int]]], list[str]]: ...
