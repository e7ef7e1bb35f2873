"""Preparing and reading corpora larger than memory.

    python bench/data.py --data DIR [--pairs 10000000] [--only encode|memory|loader|padding|drift]

DIR holds Multi30k (train.en.gz, train.de.gz), for padding and drift. The large corpus is generated
with two sentences of the built-in grammar per line. Prints a JSON line per measurement and one per
bar. Takes about 20 minutes on two cores.
"""

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SMALL, SAMPLE_PAIRS, BATCH_TOKENS = 1_000_000, 500_000, 4096
MB = 1 << 20


def show(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def bar(name: str, value: float, target: float, *, at_most: bool = False) -> None:
    holds = value <= target if at_most else value >= target
    show(bar=name, value=round(value, 3), target=target, holds=holds)


def write_corpus(folder: Path, n_pairs: int) -> tuple[Path, Path]:
    """Write pairs of two sentences each. All are different until the combinations run out."""
    from transduce.grammar import generate

    some = list(generate("en-it", 20_000, seed=1))
    paths = folder / f"{n_pairs}.en", folder / f"{n_pairs}.it"
    with (
        paths[0].open("w", encoding="utf-8") as source,
        paths[1].open("w", encoding="utf-8") as target,
    ):
        for i in range(n_pairs):
            first, second = some[i % len(some)], some[(i * 7919 + i // len(some)) % len(some)]
            source.write(f"{first.source} {second.source}\n")
            target.write(f"{first.target} {second.target}\n")
    return paths


# Each of these functions runs in a separate process, which prints the measurements.


def prepare(source: str | Path, target: str | Path, folder: Path, log: Any) -> Any:
    """Prepare a corpus of sentence pairs, as `train` does it, and return its setup."""
    from transduce.data.prepared import describe_inputs, text_settings
    from transduce.text.corpus import open_pairs
    from transduce.training.tasks.pairs import PairsTask

    task = PairsTask(open_pairs([source], [target]))
    layers = [task.defaults]
    requested = text_settings(layers)
    inputs = describe_inputs(requested, task.fingerprint())
    manifest = task.encode(folder, inputs, requested, log)
    return task.set_up(manifest, folder, "tiny", layers, log)


def run_prepare(source: str, target: str, folder: str) -> dict[str, Any]:
    """Measure the whole preparation, as `train` does it."""
    import torch  # noqa: F401  # memory is measured with torch loaded, as in training

    marks: list[tuple[str, float]] = []
    started = time.perf_counter()
    ready()
    prepared = prepare(
        source, target, Path(folder), lambda line: marks.append((line, time.perf_counter()))
    )
    encoding = next(when for line, when in marks if line.startswith("encoding"))
    encoded = next(when for line, when in marks if line.startswith("corpus"))
    manifest = json.loads((Path(folder) / "manifest.json").read_text())
    tokens = sum(count_tokens(folder, part) for part in range(len(manifest["parts"])))
    return {
        "pairs": prepared.n_pairs,
        "tokens": tokens,
        "seconds": encoded - started,
        "seconds_encoding": encoded - encoding,
        "tokens_per_second": tokens / (encoded - encoding),
    }


def count_tokens(folder: str, part: int) -> int:
    """Return the number of tokens of a part."""
    import numpy as np

    return sum(
        np.load(f"{folder}/part-{part:05d}.{side}.npy", mmap_mode="r").shape[0]
        for side in ("source", "target")
    )


def run_bare(source: str, target: str, model: str) -> dict[str, Any]:
    """Measure SentencePiece's `encode` alone, on lines in memory."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=model, num_threads=1)
    lines = [
        line
        for path in (source, target)
        for line in Path(path).read_text(encoding="utf-8").split("\n")[:-1]
    ]
    ready()
    started = time.perf_counter()
    n = 0
    for i in range(0, len(lines), 50_000):
        n += sum(map(len, processor.encode(lines[i : i + 50_000])))
    return {"tokens_per_second": n / (time.perf_counter() - started)}


def run_epoch(folder: str) -> dict[str, Any]:
    """Measure reading every batch of an epoch."""
    import torch  # noqa: F401  # memory is measured with torch loaded, as in training

    from transduce.data.order import Position, stream
    from transduce.data.pairs import EncodedPairs
    from transduce.data.shards import open_shards

    examples = EncodedPairs(open_shards(Path(folder)))
    ready()
    started, n = time.perf_counter(), 0
    for _, after in stream(examples, BATCH_TOKENS, 1, Position()):
        n += 1
        if after.epoch:
            break
    return {"batches": n, "batches_per_second": n / (time.perf_counter() - started)}


def run_tiny(folder: str) -> dict[str, Any]:
    """Measure steps of the tiny model on the same batches."""
    import torch

    from transduce.config import ModelConfig, TrainConfig
    from transduce.data.order import Position, stream
    from transduce.data.pairs import EncodedPairs
    from transduce.data.prepared import load_vocabularies
    from transduce.data.shards import open_shards
    from transduce.hardware import keep_freed_memory
    from transduce.model import Transformer
    from transduce.presets import preset
    from transduce.training.step import make_optimizer, update

    keep_freed_memory()
    torch.manual_seed(1)
    size = len(load_vocabularies(Path(folder))[0])
    model = Transformer(ModelConfig(**preset("tiny")["model"], vocab_size=size)).train()
    optimizer, batches = (
        make_optimizer(model),
        stream(EncodedPairs(open_shards(Path(folder))), BATCH_TOKENS, 1, Position()),
    )
    ready()
    seconds = []
    for _ in range(13):
        started = time.perf_counter()
        update(model, optimizer, [next(batches)[0]], 1e-4, TrainConfig())
        seconds.append(time.perf_counter() - started)
    return {"batches_per_second": 1 / statistics.median(seconds[3:])}


RUNS: dict[str, Callable[..., dict[str, Any]]] = {
    "prepare": run_prepare,
    "bare": run_bare,
    "epoch": run_epoch,
    "tiny": run_tiny,
}


def ready() -> None:
    """Tell the parent that everything is imported, and that memory is measured from now on."""
    print("ready", flush=True)


def anonymous_memory(root: int) -> int:
    """Return the anonymous memory (RssAnon) of a process and all its children, in bytes."""
    total, queue = 0, [root]
    while queue:
        pid = queue.pop()
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            queue += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            for task in os.listdir(f"/proc/{pid}/task"):
                if int(task) != pid:
                    queue += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += (
            next(
                (int(line.split()[1]) for line in status.split("\n") if line.startswith("RssAnon")),
                0,
            )
            * 1024
        )
    return total


def child(name: str, *arguments: object) -> dict[str, Any]:
    """Run a measurement in a separate process.

    The result includes the peak of its anonymous memory above that at the start.
    """
    process = subprocess.Popen(
        [sys.executable, __file__, "--run", name, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != "ready":
        pass
    base, peak, done = anonymous_memory(process.pid), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.2):
            peak = max(peak, anonymous_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    answer = process.stdout.read()
    done.set()
    watcher.join()
    if process.wait():
        raise SystemExit(f"{name} failed")
    return {**json.loads(answer), "memory_mb": round(max(0, peak - base) / MB, 1)}


def measure_large(folder: Path, n_pairs: int, only: str | None) -> None:
    """Measure preparation and epochs of a small and a large corpus."""
    prepared: dict[int, dict[str, Any]] = {}
    for n in dict.fromkeys((min(SMALL, n_pairs), n_pairs)):
        files = write_corpus(folder, n)
        prepared[n] = child("prepare", *files, folder / f"data-{n}")
        show(measurement="prepare", **prepared[n])
    small, large = min(prepared), max(prepared)
    if only in (None, "encode"):
        part = write_corpus(folder, SAMPLE_PAIRS)
        model = folder / f"data-{large}" / "sentencepiece.model"
        rounds = []
        for number in range(3):
            again = child("prepare", *part, folder / f"again-{number}")
            bare = bare_speed(part, model)
            show(round=number, prepare=round(again["tokens_per_second"]), bare=round(bare))
            rounds.append(again["tokens_per_second"] / bare)
        bar("preparation vs bare SentencePiece", statistics.median(rounds), 0.8)
    if only in (None, "memory", "loader"):
        epochs = {n: child("epoch", folder / f"data-{n}") for n in prepared}
        for n, epoch in epochs.items():
            show(measurement="epoch", pairs=n, **epoch)
        for what, values in (("preparation", prepared), ("epoch", epochs)):
            bar(f"memory of {what}, MB", values[large]["memory_mb"], 600, at_most=True)
            growth = values[large]["memory_mb"] - values[small]["memory_mb"]
            bar(
                f"memory of {what}: growth from {small:,} to {large:,} pairs, MB",
                growth,
                60,
                at_most=True,
            )
        tiny = child("tiny", folder / f"data-{small}")
        show(measurement="tiny", **tiny)
        bar(
            "loader vs tiny model",
            epochs[large]["batches_per_second"] / tiny["batches_per_second"],
            20,
        )


def bare_speed(files: tuple[Path, Path], model: Path) -> float:
    """Return the total tokens per second of one bare process per core, run in parallel."""
    speeds: list[float] = []
    n = len(os.sched_getaffinity(0))
    threads = [
        threading.Thread(
            target=lambda: speeds.append(child("bare", *files, model)["tokens_per_second"])
        )
        for _ in range(n)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(speeds)


def measure_padding(data: Path, folder: Path) -> None:
    """Measure the padding of an epoch of Multi30k with batches of 4096 tokens, on both sides."""
    from transduce.data.order import Position, stream
    from transduce.text.vocabulary import PAD
    from transduce.training.batches import open_examples

    prepared = prepare(
        data / "train.en.gz", data / "train.de.gz", folder / "multi30k", lambda line: None
    )
    examples = open_examples(folder / "multi30k", prepared.config)
    cells = padding = 0
    for batch, after in stream(examples, BATCH_TOKENS, 1, Position()):
        assert batch.source is not None
        for side in (batch.source, batch.target_out):
            cells += side.numel()
            padding += int((side == PAD).sum())
        if after.epoch:
            break
    bar("padding of Multi30k at 4096 tokens, %", 100 * padding / cells, 8, at_most=True)


def measure_drift(data: Path) -> None:
    """Delete one line of the source and measure how far from it a drift is reported."""
    from transduce.text.drift import likely_drift

    sides = [
        gzip.decompress((data / f"train.{name}.gz").read_bytes()).decode().split("\n")[:-1]
        for name in ("en", "de")
    ]
    lengths = [[len(line) for line in side] for side in sides]
    chooser, errors = random.Random(1), []
    for _ in range(20):
        place = chooser.randrange(1000, len(lengths[0]) - 1000)
        found = likely_drift([*lengths[0][:place], *lengths[0][place + 1 :]], lengths[1])
        errors.append(abs((found or 0) - (place + 1)))
    show(measurement="drift", trials=20, errors=sorted(errors))
    bar("drift on Multi30k, lines off at worst", max(errors), 50, at_most=True)


def iterate(arguments: argparse.Namespace) -> Iterator[Callable[[Path], None]]:
    if arguments.only in (None, "encode", "memory", "loader"):
        yield lambda folder: measure_large(folder, arguments.pairs, arguments.only)
    if arguments.data and arguments.only in (None, "padding"):
        yield lambda folder: measure_padding(arguments.data, folder)
    if arguments.data and arguments.only in (None, "drift"):
        yield lambda folder: measure_drift(arguments.data)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--only", choices=["encode", "memory", "loader", "padding", "drift"])
    parser.add_argument("--run", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(RUNS[arguments.run[0]](*arguments.run[1:])))
        return
    with tempfile.TemporaryDirectory() as temporary:
        for measure in iterate(arguments):
            measure(Path(temporary))


if __name__ == "__main__":
    main()
