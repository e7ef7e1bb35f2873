"""What a training will be and what it will cost here: the proposal of `train`, and a measurement of some seconds."""

import itertools
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
from transduce.data.prepared import load_vocabularies, text_settings, total
from transduce.hardware import keep_freed_memory
from transduce.log import Log
from transduce.text.corpus import PairList, PairSource
from transduce.training.prepare import inputs_of, make_prepared, none_fits, open_examples, settle
from transduce.training.run import make_model, settle_precision
from transduce.training.step import Model, make_optimizer, update

MOST_PAIRS = 200_000  # that are encoded for a plan; the rest is only counted
WARM_STEPS = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """A few seconds of training."""

    tokens_per_second: float
    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be trained, why, and what it costs on this machine."""

    pairs: int
    blank: int
    tokens: int  # target pieces of an epoch
    is_estimate: bool  # the tokens were counted in a part of the corpus
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
        """For people."""
        train, data, text = self.settings["train"], self.settings["data"], self.settings["text"]
        about = "about " if self.is_estimate else ""
        blank = f" ({self.blank:,} blank ones are left out)" if self.blank else ""
        rows = [
            ("pairs", f"{self.pairs:,}{blank}"),
            ("target pieces", f"{about}{self.tokens:,} an epoch"),
            ("preset", f"{self.preset}: {self.parameters:,} parameters"),
            (
                "text.vocab_size",
                f"{text['vocab_size'] or self.settings['model']['vocab_size']} {text['kind']} pieces",
            ),
            ("data.batch_tokens", f"{data['batch_tokens']:,}"),
            ("train.steps", f"{train['steps']:,}"),
        ]
        rows = [
            (name, value + (f": {self.reasons[name]}" if name in self.reasons else ""))
            for name, value in rows
        ]
        speed = f"{self.tokens_per_second:,.0f} target pieces a second"
        rows += [
            ("memory", f"{self.memory_bytes / 1e6:,.0f} MB at its peak while measuring"),
            (
                "speed here",
                f"{speed}, measured for {self.measured_seconds:.0f} s with {self.threads} threads",
            ),
            ("processes", self._about_processes()),
            ("an epoch", spell_time(self.seconds_per_epoch)),
            (
                "to the end",
                f"{spell_time(self.seconds_to_the_end)}, less if validation stops improving",
            ),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _about_processes(self) -> str:
        together = self.threads * self.one_thread_tokens_per_second
        if self.threads == 1 or together < 1.05 * self.tokens_per_second:
            return "one is as fast as several here"
        return (
            f"{self.threads} of one thread each would make up to {together:,.0f} pieces a second if nothing else runs: "
            f"--processes {self.threads}, with data.batch_tokens / {self.threads} for the same steps"
        )


def make_plan(
    pairs: PairSource, preset: str | None, settings: Sequence[Layer], seconds: float, log: Log
) -> Plan:
    """The proposal `train` would make for a corpus, and a measurement of about so many seconds of it.

    Of a large corpus only the beginning is encoded; its pieces are multiplied. Nothing that was measured changes a setting.
    """
    log(f"counting {pairs.name}")
    n_pairs = sum(not pair.is_blank for pair in pairs.read())
    head = PairList([*itertools.islice(pairs.read(), MOST_PAIRS)], pairs.languages, pairs.name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        inputs = inputs_of(head, None, settings)
        manifest = make_prepared(head, None, text_settings(settings), folder, inputs, log, n_pairs)
        del head  # no longer needed, and large
        vocabularies = load_vocabularies(folder)
        scale = n_pairs / manifest["pairs"]
        n_rows, n_tokens = (round(total(manifest, name) * scale) for name in ("rows", "tokens"))
        languages: Layer = {"text": {"languages": inputs["text"]["languages"]}}
        shape, asked, proposal, config = settle(
            n_pairs, n_rows, n_tokens, vocabularies, preset, [languages, *settings]
        )
        if not n_rows:
            raise none_fits("pairs", asked)
        model = make_model(config)
        log(f"measuring for about {seconds:.0f} seconds")
        settled = settle_precision(config, log)
        examples = open_examples(folder, config)
        measured = measure(model, examples, settled, 2 / 3 * seconds)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            alone = measure(model, examples, settled, seconds / 3) if threads > 1 else measured
        finally:
            torch.set_num_threads(threads)
    steps_of_epoch = -(
        -n_tokens // (config.data.batch_tokens * config.train.accumulate)
    )  # if batches were full
    per_step = n_tokens / max(1, steps_of_epoch) / measured.tokens_per_second
    return Plan(
        pairs=n_pairs,
        blank=round(manifest["blank"] * scale),
        tokens=n_tokens,
        is_estimate=scale > 1,
        preset=shape,
        reasons=dict(proposal.reasons),
        settings=config.model_dump(mode="json"),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        memory_bytes=measured.memory_bytes,
        tokens_per_second=measured.tokens_per_second,
        measured_seconds=measured.seconds,
        threads=threads,
        one_thread_tokens_per_second=alone.tokens_per_second,
        seconds_per_epoch=n_tokens / measured.tokens_per_second,
        seconds_to_the_end=config.train.steps * per_step,
    )


def measure(model: Model, examples: Examples, config: Config, seconds: float) -> Measured:
    """Train for some seconds and throw the result away."""
    keep_freed_memory()
    torch.manual_seed(config.train.seed)
    model.train()
    optimizer = make_optimizer(model)
    batches = stream(examples, config.data.batch_tokens, config.train.seed, Position())
    n_tokens, started, steps = 0, time.monotonic(), 0
    while True:
        together = [next(batches)[0] for _ in range(config.train.accumulate)]
        update(model, optimizer, together, 1e-9, config.train)
        steps += 1
        n_tokens += sum(batch.n_tokens for batch in together)
        passed = time.monotonic() - started
        if passed > seconds:
            break
        if steps == WARM_STEPS and passed < seconds / 2:  # the first steps are slower
            n_tokens, started, seconds = 0, time.monotonic(), seconds - passed
    unit = 1 if sys.platform == "darwin" else 1024
    return Measured(
        n_tokens / passed, passed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    )


def spell_time(seconds: float) -> str:
    """A span of time as people say it."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"about {seconds / size:,.0f} {unit}"
    return f"about {seconds:,.0f} seconds"
