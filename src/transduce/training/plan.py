"""`transduce plan`: the settings `train` would choose, and a short measurement of their cost."""

import itertools
import math
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from transduce.config import Config, Layer
from transduce.data.order import Examples, Position, stream
from transduce.data.prepared import describe_inputs, load_vocabularies, text_settings, total
from transduce.hardware import keep_freed_memory
from transduce.log import Log
from transduce.text.corpus import PairList, PairSource
from transduce.training.batches import open_examples
from transduce.training.choices import all_too_long_error, choose_for_pairs, choose_precision
from transduce.training.start import make_model
from transduce.training.step import Model, make_optimizer, update
from transduce.training.tasks.pairs import PairsTask

MAX_PAIRS = 200_000  # pairs that are encoded for a plan; the others are only counted
WARMUP_STEPS = 3  # not measured: the first steps are slower
MIN_GAIN = 1.05  # minimum speed-up for which several processes are recommended


@dataclass(frozen=True, slots=True)
class Measurement:
    """Throughput and peak memory of a few seconds of training."""

    tokens_per_second: float
    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The settings of a training, the reasons for them, and its cost on this machine."""

    pairs: int
    blank: int
    tokens: int  # target tokens per epoch
    is_estimate: bool  # `tokens` was extrapolated from a part of the corpus
    preset: str
    reasons: dict[str, str]
    settings: dict[str, dict[str, object]]
    parameters: int
    memory_bytes: int
    tokens_per_second: float
    measured_seconds: float
    threads: int
    one_thread_tokens_per_second: float
    seconds_per_epoch: float
    seconds_to_the_end: float

    def as_text(self) -> str:
        """Return the plan as a table for people."""
        train, data, text = self.settings["train"], self.settings["data"], self.settings["text"]
        about = "about " if self.is_estimate else ""
        blank = f" ({self.blank:,} more are blank on one side)" if self.blank else ""
        vocab_size = text["vocab_size"] or self.settings["model"]["vocab_size"]
        rows = [
            ("pairs", f"{self.pairs:,}{blank}"),
            ("target tokens", f"{about}{self.tokens:,} per epoch"),
            ("preset", f"{self.preset}: {self.parameters:,} parameters"),
            ("text.vocab_size", f"{vocab_size} {text['kind']} tokens"),
            ("data.batch_tokens", f"{data['batch_tokens']:,}"),
            ("train.steps", f"{train['steps']:,}"),
        ]
        rows = [
            (name, f"{value}: {self.reasons[name]}" if name in self.reasons else value)
            for name, value in rows
        ]
        rows += [
            ("memory", f"{self.memory_bytes / 1e6:,.0f} MB at its peak while measuring"),
            (
                "speed",
                f"{self.tokens_per_second:,.0f} target tokens per second, "
                f"measured for {self.measured_seconds:.0f} s with {self.threads} threads",
            ),
            ("processes", self._advice_on_processes()),
            ("one epoch", format_duration(self.seconds_per_epoch)),
            (
                "all steps",
                f"{format_duration(self.seconds_to_the_end)}; less if validation stops improving",
            ),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _advice_on_processes(self) -> str:
        possible = self.threads * self.one_thread_tokens_per_second
        if self.threads == 1 or possible < MIN_GAIN * self.tokens_per_second:
            return "one process is as fast as several here"
        return (
            f"--processes {self.threads} with data.batch_tokens / {self.threads} takes the same "
            f"steps at up to {possible:,.0f} tokens per second if nothing else is running"
        )


def make_plan(
    pairs: PairSource, preset: str | None, settings: Sequence[Layer], seconds: float, log: Log
) -> TrainingPlan:
    """Return what `train` would choose for a corpus, and measure it for about `seconds`.

    Of a large corpus only the first `MAX_PAIRS` are encoded and their tokens extrapolated. The
    measurement does not change any setting.
    """
    log(f"counting {pairs.name}")
    n_pairs = sum(not pair.is_blank for pair in pairs.read())
    head = PairList([*itertools.islice(pairs.read(), MAX_PAIRS)], pairs.languages, pairs.name)
    task = PairsTask(head)
    layers = [task.defaults, *settings]
    requested = text_settings(layers)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        inputs = describe_inputs(requested, task.fingerprint())
        manifest = task.encode(folder, inputs, requested, log, n_pairs=n_pairs)
        del head, task  # large, and no longer needed

        scale = n_pairs / manifest["pairs"]
        n_rows, n_tokens = (round(total(manifest, name) * scale) for name in ("rows", "tokens"))
        choice = choose_for_pairs(
            n_pairs, n_rows, n_tokens, load_vocabularies(folder), preset, layers
        )
        config = choice.config
        if not n_rows:
            raise all_too_long_error("pairs", choice.requested)
        model = make_model(config)
        log(f"measuring for about {seconds:.0f} seconds")
        config_here = choose_precision(config, log)
        examples = open_examples(folder, config)
        measured = measure(model, examples, config_here, 2 / 3 * seconds)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            one_thread = (
                measure(model, examples, config_here, seconds / 3) if threads > 1 else measured
            )
        finally:
            torch.set_num_threads(threads)

    tokens_per_step = config.data.batch_tokens * config.train.accumulate
    steps_per_epoch = max(1, math.ceil(n_tokens / tokens_per_step))  # with full batches
    seconds_per_step = n_tokens / steps_per_epoch / measured.tokens_per_second
    return TrainingPlan(
        pairs=n_pairs,
        blank=round(manifest["blank"] * scale),
        tokens=n_tokens,
        is_estimate=scale > 1,
        preset=choice.preset,
        reasons=dict(choice.proposal.reasons),
        settings=config.model_dump(mode="json"),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        memory_bytes=measured.memory_bytes,
        tokens_per_second=measured.tokens_per_second,
        measured_seconds=measured.seconds,
        threads=threads,
        one_thread_tokens_per_second=one_thread.tokens_per_second,
        seconds_per_epoch=n_tokens / measured.tokens_per_second,
        seconds_to_the_end=config.train.steps * seconds_per_step,
    )


def measure(model: Model, examples: Examples, config: Config, seconds: float) -> Measurement:
    """Train for about `seconds` and measure it. The learning rate is practically zero."""
    keep_freed_memory()
    torch.manual_seed(config.train.seed)
    model.train()
    optimizer = make_optimizer(model)
    batches = stream(examples, config.data.batch_tokens, config.train.seed, Position())
    n_tokens, started, n_steps = 0, time.monotonic(), 0
    while True:
        step_batches = [next(batches)[0] for _ in range(config.train.accumulate)]
        update(model, optimizer, step_batches, 1e-9, config.train)
        n_steps += 1
        n_tokens += sum(batch.n_tokens for batch in step_batches)
        elapsed = time.monotonic() - started
        if elapsed > seconds:
            break
        if n_steps == WARMUP_STEPS and elapsed < seconds / 2:
            n_tokens, started, seconds = 0, time.monotonic(), seconds - elapsed
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per_unit
    return Measurement(n_tokens / elapsed, elapsed, memory_bytes)


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit of which there are at least two."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"about {seconds / size:,.0f} {unit}"
    return f"about {seconds:,.0f} seconds"
