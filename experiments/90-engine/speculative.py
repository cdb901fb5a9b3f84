"""Builds llama.cpp's own example of speculative decoding, and runs it with a pair."""

import re
import subprocess
from pathlib import Path

from common import PeerError, package_version
from decoding import EMBEDDED, GGUF, Decoded, Entry, Pair, output
from ggufs import gguf_file

TARGET = "llama-speculative-simple"
# Compiled for this processor, like the library that runs the passes, and nothing but the example.
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DGGML_OPENMP=OFF",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_TOOLS=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_OPENSSL=OFF",
)
# It writes its messages in a thread of their own, and may end before the last ones.
ATTEMPTS = 10
# What the example reports at its end.
ENCODED = re.compile(r"encoded +(\d+) tokens in ")
DECODED = re.compile(r"decoded +(\d+) tokens in +[\d.]+ seconds, speed: +([\d.]+) t/s")
DRAFTED = re.compile(r"n_drafted += (\d+)")
ACCEPTED = re.compile(r"n_accept +=\s*(\d+)")


def sources(work: Path) -> Path | None:
    """llama.cpp in the unpacked source distribution of llama-cpp-python; None if it is missing."""
    version = package_version("llama-cpp-python")
    place = work / f"llama_cpp_python-{version}" / "vendor" / "llama.cpp"
    return place if (place / "examples" / "speculative-simple").is_dir() else None


def built(work: Path, jobs: int) -> Path:
    """The example; built if it does not exist. Raises PeerError if that is impossible."""
    place = work / "llama-build"
    program = place / "bin" / TARGET
    if program.exists():
        return program
    source = sources(work)
    if not source:
        raise PeerError(f"the sources of llama.cpp are not in {work}")
    configure = ["cmake", "-S", str(source), "-B", str(place), *OPTIONS]
    build = ["cmake", "--build", str(place), "--target", TARGET, "-j", str(jobs)]
    for command in (configure, build):
        try:
            ended = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        except OSError as error:
            raise PeerError(f"cmake: {error.strerror}") from error
        if ended.returncode != 0:
            raise PeerError(f"{' '.join(command[:2])} ended with status {ended.returncode}")
    return program


class Speculative:
    """Generates texts with the example, which loads the models anew for each."""

    def __init__(
        self,
        program: Path,
        work: Path,
        threads: int,
        pair: Pair = EMBEDDED,
        *,
        least_probability: float = 0,
    ) -> None:
        self._program = program
        self._work = work
        self._threads = threads
        self._pair = pair
        # The draft ends before a token that is less probable.
        self._least_probability = least_probability
        self.version = package_version("llama-cpp-python")

    def decode(self, entry: Entry, prompt: str, most: int, seed: int) -> Decoded:
        """Continues a prompt with about `most` tokens: the last round may exceed them."""
        target = self._file(self._pair.target, entry.dtype)
        draft = self._file(self._pair.draft, entry.draft_dtype)
        command = [str(self._program), "-m", str(target), "-md", str(draft), "-c", "1024"]
        command += ["--spec-type", "draft-simple", "--spec-draft-n-max", str(entry.k)]
        command += ["--spec-draft-p-min", str(self._least_probability), "-t", str(self._threads)]
        command += ["-td", str(entry.draft_threads), "--temp", str(entry.temperature)]
        # The models have a pool of threads each. With its default setting, the one that is idle
        # polls and keeps the other from the cores.
        command += ["--poll", "0", "--spec-draft-poll", "0"]
        # It stops once it has more tokens than it was asked for.
        command += ["-s", str(seed), "-n", str(most - 1), "--no-escape", "-p", prompt]
        for _ in range(ATTEMPTS):
            if decoded := parsed(output(command, merged=True)):
                return decoded
        raise PeerError(f"{TARGET} printed no statistics")

    def rest(self) -> None:
        """Does nothing: the process has ended."""

    def close(self) -> None:
        """Does nothing: every text has its own process."""

    def _file(self, model: Path, dtype: str) -> Path:
        """A model as a GGUF file; converted if it is a folder."""
        return model if model.suffix == GGUF else gguf_file(model, dtype, self._work)


def parsed(text: str) -> Decoded | None:
    """What the example reports at the end of its output, if it does."""
    encoded, decoded, drafted, accepted = (
        expression.findall(text) for expression in (ENCODED, DECODED, DRAFTED, ACCEPTED)
    )
    if not (encoded and decoded and drafted and accepted):
        return None
    count, speed = decoded[-1]
    return Decoded(
        prompt_tokens=int(encoded[-1]),
        tokens=[],
        new_tokens=int(count),
        micros=int(count) / float(speed) * 1e6,
        drafted=int(drafted[-1]),
        accepted=int(accepted[-1]),
    )
