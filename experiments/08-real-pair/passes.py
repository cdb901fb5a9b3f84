"""Times passes of real models in specdec and llama.cpp in turns, from the same GGUF files.

    python experiments/08-real-pair/passes.py

Passes are timed as in experiments/90-engine, which see.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import start  # noqa: E402, F401

import argparse
import contextlib
import csv
import json
from collections.abc import Iterator

import real  # makes the modules below importable
import gguf
import machine
import rows
import summary
from common import CONTEXT, PeerError
from llamacpp import LlamaCpp
from peers import OURS, Engine, Setup, open_specdec
from rows import Row
from run import Sampling
from spread import spread

LLAMA_CPP = "llama.cpp"
# T(m) ÷ the time in which the weights of the engine could be read, with quartiles.
OVER_READ = ["over_read", "over_read_q1", "over_read_q3"]


def main() -> None:
    args = arguments()
    chosen = real.models(args.models)
    try:
        out, isa = real.place(args)
        file = out / "passes.csv"
        done = {row.shape for row in rows.load(file)}
        for model in chosen:
            if model.name in done:
                print(f"{model.name}: already measured", flush=True)
                continue
            with opened(args, model) as engines:
                machine.record(out / "machine.json", isa, model.name, engines)
                sampling = Sampling(args, model.name, model.dtype, CONTEXT, engines)
                rows.append(file, sampling.rounds())
    except PeerError as error:
        sys.exit(f"{error}")
    write(rows.load(file), out)


def arguments() -> argparse.Namespace:
    """The command-line options."""
    parser = real.options(__doc__)
    real.add_models(parser)
    parser.add_argument("--rounds", type=real.count, default=9)
    return parser.parse_args()


@contextlib.contextmanager
def opened(args: argparse.Namespace, model: real.Model) -> Iterator[list[Engine]]:
    """Opens a model in both engines, and closes it at the end."""
    setup = Setup(args.work, args.specdec, args.specdec, args.threads)
    with contextlib.ExitStack() as stack:
        ours = open_specdec(model.file, "stored", setup)
        stack.callback(ours.close)
        theirs = LlamaCpp(LLAMA_CPP, model.file, args.threads, CONTEXT - 1, exact_cache=False)
        stack.callback(theirs.close)
        theirs.about["bytes_per_token"] = matrix_bytes(model.file)
        yield [ours, theirs]


def matrix_bytes(file: Path) -> int:
    """Bytes of the matrices of a file that a pass multiplies by: those of all layers and the head.

    A head that has no matrix of its own is that of the embedding, of which a pass otherwise reads
    only a few rows.
    """
    tensors = gguf.GGUFReader(file).tensors
    sizes = {tensor.name: tensor.n_bytes for tensor in tensors if len(tensor.shape) == 2}
    if "output.weight" in sizes:
        del sizes["token_embd.weight"]
    return int(sum(sizes.values()))


def write(measured: list[Row], out: Path) -> None:
    """Writes `passes-summary.csv`."""
    about = json.loads((out / "machine.json").read_text())["engines"]

    def size(row: Row) -> int:
        return about[row.engine][row.shape]["bytes_per_token"]

    grouped = summary.cells(measured)
    with (out / "passes-summary.csv").open("w", newline="") as file:
        columns = summary.COLUMNS + OVER_READ
        writer = csv.DictWriter(file, columns, lineterminator="\n", restval="")
        writer.writeheader()
        for record in summary.records(measured, size):
            shape, dtype, kind, m, context = (
                record[name] for name in ("shape", "dtype", "kind", "m", "context")
            )
            reading = grouped[shape, dtype, "read", 0, context][OURS]
            if kind == "pass":
                cell = grouped[shape, dtype, kind, m, context][record["engine"]]
                # specdec reads as many bytes as it has of weights.
                more = size(cell.rows[0]) / size(reading.rows[0])
                record |= over_read([ratio / more for ratio in cell.ratios(reading)])
            writer.writerow(record)


def over_read(ratios: list[float]) -> dict[str, str]:
    """The columns of some times ÷ the time of reading; none without a common round."""
    if not ratios:
        return {}
    low, middle, high = spread(ratios)
    return dict(zip(OVER_READ, (f"{ratio:.3f}" for ratio in (middle, low, high)), strict=True))


if __name__ == "__main__":
    main()
