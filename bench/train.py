"""Training a translator: ours compared with torch.nn.Transformer and Hugging Face Marian.

    python bench/train.py --data DIR [--only tiny|small|base] [--rounds 5]

DIR holds train.en.gz and train.de.gz of Multi30k; without it generated pairs are used. Every side
trains on the same batches. Each is a separate process that makes one step on request, in turn with
the others, so that noise affects all sides alike.

A peer *as it comes* is the library with its defaults and torch.optim.Adam. *Tuned* means that glibc
keeps freed memory, Adam is fused, and autocast is used if the processor supports bfloat16. Ours
runs as one process, as one single-threaded process, and as two single-threaded processes that take
a batch each and add their gradients (`train --processes 2`).

Prints a JSON line per measurement and one per bar.
"""

import argparse
import gzip
import json
import os
import pickle
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH_TOKENS, VOCAB_SIZE, SMOOTHING = 4096, 8000, 0.1
STEPS = {"tiny": 4, "small": 3, "base": 2}  # steps per round
# Targets of the ratio to the faster peer as it comes, and to the best tuned peer.
BARS = {"tiny": (3.0, 1.3), "small": (2.2, 1.2), "base": (1.8, 1.1)}
SINGLE, TWO = "ours, 1 thread", "ours, 2 processes"
PEERS = ("torch", "marian eager", "marian sdpa")
Step = Callable[[int], None]


def show(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def bar(name: str, value: float, target: float, *, at_most: bool = False) -> None:
    holds = value <= target if at_most else value >= target
    show(bar=name, value=round(value, 3), target=target, holds=holds)


def make_batches(data: Path | None, path: Path) -> None:
    """Write some batches of the corpus as ids, on which every side trains."""
    from transduce.data.batch import encode_pairs
    from transduce.data.order import ExampleList, Position, batches_of_examples
    from transduce.grammar import generate
    from transduce.text.corpus import Pair
    from transduce.text.vocabulary import learn_vocabulary

    if data is None:
        pairs = [Pair(pair.source, pair.target) for pair in generate("en-it", 29_000, seed=1)]
    else:
        texts = [
            gzip.decompress((data / f"train.{side}.gz").read_bytes()).decode()
            for side in ("en", "de")
        ]
        sides = [text.split("\n")[:-1] for text in texts]
        pairs = [Pair(*pair) for pair in zip(*sides, strict=True)]
    vocabulary = learn_vocabulary(
        [text for pair in pairs for text in (pair.source, pair.target)],
        "bpe",
        VOCAB_SIZE,
        exact=False,
    )
    examples = ExampleList(encode_pairs(pairs, vocabulary, vocabulary))
    found = batches_of_examples(examples, BATCH_TOKENS, 1, Position())
    batches = [
        [(row.source.tolist(), row.target.tolist()) for row in next(found)[0]] for _ in range(32)
    ]
    path.write_bytes(pickle.dumps((len(vocabulary), batches)))


def read_batches(path: Path) -> tuple[int, list[Any]]:
    import numpy as np

    from transduce.data.batch import Example, collate

    size, batches = pickle.loads(path.read_bytes())  # written by `make_batches`
    rows = [
        [Example(np.array(source), np.array(target)) for source, target in batch]
        for batch in batches
    ]
    return size, [collate(batch) for batch in rows]


# The sides. Each function returns a function that makes one step.


def ours(shape: Any, size: int, batches: list[Any]) -> Step:
    """Return the step of `train`; of two processes the second uses the next batch."""
    from transduce.config import ModelConfig, TrainConfig
    from transduce.hardware import keep_freed_memory
    from transduce.model import Transformer
    from transduce.training.distributed import join
    from transduce.training.step import make_optimizer, update

    keep_freed_memory()
    ranks = join()
    model = Transformer(ModelConfig(**shape, vocab_size=size)).train()
    precision = "bfloat16" if has_bfloat16() else "float32"
    optimizer, config = (
        make_optimizer(model),
        TrainConfig(label_smoothing=SMOOTHING, precision=precision),
    )

    def step(number: int) -> None:
        update(
            model,
            optimizer,
            [batches[(number + ranks.rank) % len(batches)]],
            1e-4,
            config,
            ranks=ranks,
        )

    return step


def tuned_step(
    model: Any, loss_of: Callable[[Any], Any], batches: list[Any], is_tuned: bool
) -> Step:
    """Return the step of a peer, with its loss function."""
    import contextlib

    import torch

    if is_tuned:
        from transduce.hardware import keep_freed_memory

        keep_freed_memory()
    optimizer = torch.optim.Adam(
        model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=is_tuned
    )
    products = (
        torch.autocast("cpu", torch.bfloat16)
        if is_tuned and has_bfloat16()
        else contextlib.nullcontext()
    )

    def step(number: int) -> None:
        with products:
            loss = loss_of(batches[number])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step


def torch_transformer(shape: Any, size: int, batches: list[Any], is_tuned: bool) -> Step:
    import torch
    from torch import nn
    from torch.nn import functional as F

    from transduce.model.positions import sinusoids

    width = shape["d_model"]

    class Peer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.dropout = (
                nn.Embedding(size, width, padding_idx=0),
                nn.Dropout(shape["dropout"]),
            )
            self.body = nn.Transformer(
                width,
                shape["n_heads"],
                shape["n_layers"],
                shape["n_layers"],
                shape["d_ff"],
                shape["dropout"],
                batch_first=True,
            )
            self.head = nn.Linear(width, size, bias=False)
            self.head.weight = self.embedding.weight

        def embed(self, ids: torch.Tensor) -> torch.Tensor:
            return self.dropout(
                self.embedding(ids) * width**0.5 + sinusoids(0, ids.shape[1], width, ids.device)
            )

        def forward(self, batch: Any) -> torch.Tensor:
            hidden = self.body(
                self.embed(batch.source),
                self.embed(batch.target_in),
                tgt_mask=nn.Transformer.generate_square_subsequent_mask(batch.target_in.shape[1]),
                src_key_padding_mask=~batch.source_mask,
                memory_key_padding_mask=~batch.source_mask,
                tgt_is_causal=True,
            )
            logits = self.head(hidden).flatten(end_dim=1)
            return F.cross_entropy(
                logits, batch.target_out.flatten(), ignore_index=0, label_smoothing=SMOOTHING
            )

    model = Peer().train()
    return tuned_step(model, model, batches, is_tuned)


def marian(shape: Any, size: int, batches: list[Any], is_tuned: bool, attention: str) -> Step:
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.MarianConfig(
        vocab_size=size,
        d_model=shape["d_model"],
        encoder_layers=shape["n_layers"],
        decoder_layers=shape["n_layers"],
        encoder_attention_heads=shape["n_heads"],
        decoder_attention_heads=shape["n_heads"],
        encoder_ffn_dim=shape["d_ff"],
        decoder_ffn_dim=shape["d_ff"],
        activation_function="relu",
        dropout=shape["dropout"],
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        pad_token_id=0,
        decoder_start_token_id=2,
        max_position_embeddings=512,
        attn_implementation=attention,
        use_cache=False,
    )
    model = transformers.MarianMTModel(config).train()

    def loss_of(batch: Any) -> Any:
        labels = batch.target_out.masked_fill(batch.target_out == 0, -100)
        return model(
            input_ids=batch.source,
            attention_mask=batch.source_mask,
            decoder_input_ids=batch.target_in,
            labels=labels,
        ).loss

    return tuned_step(model, loss_of, batches, is_tuned)


def has_bfloat16() -> bool:
    """Return whether the processor supports matrix products in bfloat16."""
    import torch

    from transduce import hardware

    return hardware.has_bfloat16(torch.device("cpu"))


def serve(side: str, shape_name: str, path: Path) -> None:
    """Run one side: for each batch number on stdin make a step.

    Print its seconds and the peak memory in MB.
    """
    if side.startswith("ours"):
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # as the command line does
    import torch

    from transduce.presets import preset

    torch.manual_seed(1)
    shape = preset(shape_name)["model"]
    size, batches = read_batches(path)
    peer, is_tuned = side.removesuffix(" tuned"), side.endswith(" tuned")
    if peer.startswith("ours"):
        step = ours(shape, size, batches)
    elif peer == "torch":
        step = torch_transformer(shape, size, batches, is_tuned)
    else:
        step = marian(shape, size, batches, is_tuned, peer.split()[1])
    for line in sys.stdin:
        started = time.perf_counter()
        step(int(line))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(json.dumps([time.perf_counter() - started, memory]), flush=True)


class Side:
    """One or two processes that make steps on request."""

    def __init__(self, name: str, shape: str, path: Path) -> None:
        self.name, self.memory = name, 0
        self.n_processes = 2 if name == TWO else 1
        environment = dict(os.environ)
        if name in (TWO, SINGLE):
            environment |= {"OMP_NUM_THREADS": "1"}
        if name == TWO:
            from transduce.training.launch import free_port

            environment |= {
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(free_port()),
            }
            environment |= {"GLOO_SOCKET_IFNAME": "lo"}
        command = [
            sys.executable,
            __file__,
            "--side",
            name,
            "--only",
            shape,
            "--batches",
            str(path),
        ]
        self._processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**environment, "RANK": str(rank)},
            )
            for rank in range(self.n_processes)
        ]

    def step(self, number: int) -> float:
        """Make a step and return its seconds, those of the slower process."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
        answers = [
            json.loads(process.stdout.readline()) for process in self._processes if process.stdout
        ]
        self.memory = max(memory for _, memory in answers)
        return max(float(seconds) for seconds, _ in answers)

    def end(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            process.wait()


def products_peak() -> float:
    """Return the floating-point operations per second of large matrix products.

    In the fastest precision of the processor, no training step can exceed them.
    """
    import torch

    n = 2048
    a = torch.randn(n, n, dtype=torch.bfloat16 if has_bfloat16() else torch.float32)
    best = 0.0
    for _ in range(5):
        started = time.perf_counter()
        a @ a
        best = max(best, 2 * n**3 / (time.perf_counter() - started))
    return best


def products_of(shape_name: str, path: Path, numbers: list[int]) -> float:
    """Return the floating-point operations of the matrix products of one of our steps.

    Forward and backward are included; the result is the mean over some batches.
    """
    from torch.utils.flop_counter import FlopCounterMode

    from transduce.presets import preset

    size, batches = read_batches(path)
    step = ours({**preset(shape_name)["model"]}, size, batches)
    with FlopCounterMode(display=False) as counter:
        for number in numbers:
            step(number)
    return counter.get_total_flops() / len(numbers)


def compare(shape: str, path: Path, rounds: int) -> None:
    """Measure all sides on a shape and print the results and bars."""
    _, batches = read_batches(path)
    names = ["ours", SINGLE, TWO, *PEERS, *(f"{peer} tuned" for peer in PEERS)]
    n = STEPS[shape]
    rates: dict[str, list[float]] = {name: [] for name in names}
    memory: dict[str, int] = {}
    # All sides run at once and make steps in turn. With the largest shape they do not fit into
    # memory together, so they run one after the other in each round.
    groups = [[name] for name in names] * rounds if shape == "base" else [names]
    for group in groups:
        sides = [Side(name, shape, path) for name in group]
        for side in sides:
            side.step(0)
        for number in range(1 if shape == "base" else rounds):
            seconds = dict.fromkeys(group, 0.0)
            numbers = [(number * n + i) % len(batches) for i in range(n)]
            for k in numbers:
                for side in sides if number % 2 else reversed(sides):
                    seconds[side.name] += side.step(k)
            for side in sides:
                taken = [(k + i) % len(batches) for k in numbers for i in range(side.n_processes)]
                rates[side.name].append(
                    sum(batches[k].n_tokens for k in taken) / seconds[side.name]
                )
        for side in sides:
            memory[side.name] = side.memory
            side.end()
    for name in names:
        speed = statistics.median(rates[name])
        show(shape=shape, side=name, tokens_per_second=round(speed), peak_memory_mb=memory[name])

    def ratio(mine: str, other: str) -> float:
        """Return the median over the rounds of the ratio of two sides."""
        return statistics.median(a / b for a, b in zip(rates[mine], rates[other], strict=True))

    def fastest(some: list[str]) -> str:
        return max(some, key=lambda name: statistics.median(rates[name]))

    as_it_comes, tuned = BARS[shape]
    peer, best_peer = (
        fastest(list(PEERS)),
        fastest([name for name in names if not name.startswith("ours")]),
    )
    show(
        shape=shape,
        faster_peer=peer,
        best_tuned_peer=best_peer,
        one_process_vs_peer=round(ratio("ours", peer), 3),
    )
    bar(
        f"train {shape} vs faster peer as it comes",
        max(ratio("ours", peer), ratio(TWO, peer)),
        as_it_comes,
    )
    bar(f"train {shape} vs best tuned peer", ratio("ours", best_peer), tuned)
    if shape == "tiny":
        bar("two single-thread processes vs one, tiny", ratio(TWO, SINGLE), 1.8)
    peak, per_step = products_peak(), products_of(shape, path, [0, 1])
    tokens = statistics.mean(batches[k].n_tokens for k in (0, 1))
    for name in ("ours", TWO):
        bar(
            f"{name}, {shape}: share of the product peak",
            statistics.median(rates[name]) / tokens * per_step / peak,
            0.6,
        )
    if shape == "tiny":
        least = min(memory[name] for name in names if not name.startswith("ours"))
        bar("memory tiny vs best peer", memory["ours"] / least, 1.0, at_most=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", choices=list(STEPS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--batches", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        serve(arguments.side, arguments.only, arguments.batches)
        return
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "batches"
        make_batches(arguments.data, path)
        for shape in [arguments.only] if arguments.only else STEPS:
            compare(shape, path, arguments.rounds)


if __name__ == "__main__":
    main()
