"""Language-model training: ours compared with a plain PyTorch loop in the style of nanoGPT.

    python bench/lm.py --data DIR

DIR holds tinyshakespeare.txt; without it a generated text is used. Both sides have the same shape
and batch size. In each round each side runs in a new process, so that settings of one cannot affect
the other. Prints a JSON line per measurement; the bar is the median of the rounds' ratios.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

LAYERS, HEADS, WIDTH, WINDOW, BATCH = 4, 4, 128, 64, 12
WARMUP_STEPS, TARGET = 20, 1.3


def read(data: Path | None) -> str:
    if data is not None:
        return (data / "tinyshakespeare.txt").read_text(encoding="utf-8")
    from transduce.grammar import generate

    return "".join(f"{pair.source}\n" for pair in generate("en-it", 20_000, seed=1))


def measure_ours(text: str, steps: int) -> float:
    """Return the tokens per second of our loop: window_stream, LanguageModel, update."""
    import os

    os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # as the command line does
    import torch

    from transduce.config import ModelConfig, TrainConfig
    from transduce.data.order import Position
    from transduce.data.windows import encode_text, window_stream
    from transduce.hardware import keep_freed_memory
    from transduce.model import LanguageModel
    from transduce.text.vocabulary import learn_vocabulary
    from transduce.training.step import make_optimizer, update

    keep_freed_memory()
    torch.manual_seed(1)
    vocabulary = learn_vocabulary(text.split("\n"), "char", 256_000, exact=False, is_text=True)
    config = ModelConfig(
        kind="decoder-only",
        vocab_size=len(vocabulary),
        n_layers=LAYERS,
        n_heads=HEADS,
        d_model=WIDTH,
        d_ff=4 * WIDTH,
        dropout=0.0,
        norm="pre",
        window=WINDOW,
    )
    model = LanguageModel(config).train()
    optimizer, train = make_optimizer(model), TrainConfig(label_smoothing=0.0)
    batches = window_stream(encode_text([text], vocabulary), WINDOW, BATCH * WINDOW, 1, Position())
    for step in range(WARMUP_STEPS + steps):
        if step == WARMUP_STEPS:
            started = time.perf_counter()
        update(model, optimizer, [next(batches)[0]], 1e-3, train)
    return steps * BATCH * WINDOW / (time.perf_counter() - started)


def measure_plain(text: str, steps: int) -> float:
    """Return the tokens per second of a plain loop.

    It has a character table, random windows, a fused q-k-v projection, GELU and AdamW.
    """
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.manual_seed(1)
    characters = sorted(set(text))
    table = {character: i for i, character in enumerate(characters)}
    ids = np.array([table[character] for character in text], dtype=np.uint16)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm_1, self.norm_2 = (
                nn.LayerNorm(WIDTH, bias=False),
                nn.LayerNorm(WIDTH, bias=False),
            )
            self.qkv, self.out = (
                nn.Linear(WIDTH, 3 * WIDTH, bias=False),
                nn.Linear(WIDTH, WIDTH, bias=False),
            )
            self.up, self.down = (
                nn.Linear(WIDTH, 4 * WIDTH, bias=False),
                nn.Linear(4 * WIDTH, WIDTH, bias=False),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm_1(x)).split(WIDTH, dim=2)
            q, k, v = (each.view(b, t, HEADS, c // HEADS).transpose(1, 2) for each in (q, k, v))
            heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(heads.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.down(F.gelu(self.up(self.norm_2(x))))

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.positions = (
                nn.Embedding(len(characters), WIDTH),
                nn.Embedding(WINDOW, WIDTH),
            )
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH, bias=False)
            self.head = nn.Linear(WIDTH, len(characters), bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            hidden = self.norm(
                self.blocks(self.embedding(x) + self.positions(torch.arange(x.shape[1])))
            )
            return F.cross_entropy(self.head(hidden).view(-1, len(characters)), y.view(-1))

    model = Plain().train()
    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    for step in range(WARMUP_STEPS + steps):
        if step == WARMUP_STEPS:
            started = time.perf_counter()
        places = torch.randint(len(ids) - WINDOW, (BATCH,)).tolist()
        x = torch.stack([torch.from_numpy(ids[i : i + WINDOW].astype(np.int64)) for i in places])
        y = torch.stack(
            [torch.from_numpy(ids[i + 1 : i + 1 + WINDOW].astype(np.int64)) for i in places]
        )
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        assert math.isfinite(loss.item())
    return steps * BATCH * WINDOW / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", choices=["train"], help="the only part")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--side", choices=["ours", "plain"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        measure = measure_ours if arguments.side == "ours" else measure_plain
        print(measure(read(arguments.data), arguments.steps))
        return
    ratios = []
    for number in range(arguments.rounds):
        speed = {}
        for side in ("ours", "plain") if number % 2 else ("plain", "ours"):
            command = [sys.executable, __file__, "--side", side, "--steps", str(arguments.steps)]
            command += ["--data", str(arguments.data)] if arguments.data else []
            speed[side] = float(
                subprocess.run(command, capture_output=True, text=True, check=True).stdout
            )
            print(
                json.dumps(
                    {"round": number, "side": side, "tokens_per_second": round(speed[side])}
                ),
                flush=True,
            )
        ratios.append(speed["ours"] / speed["plain"])
    value = statistics.median(ratios)
    bar = {
        "bar": "language model vs plain loop",
        "value": round(value, 3),
        "target": TARGET,
        "holds": value >= TARGET,
    }
    print(json.dumps(bar))


if __name__ == "__main__":
    main()
