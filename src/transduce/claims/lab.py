"""What experiments share: a model to look into, small models that are trained once and kept, and how seeds are compared."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.claims import toy
from transduce.config import ModelConfig, TextConfig, TrainConfig
from transduce.data.batch import Example, encode_pairs
from transduce.data.order import ExampleList, Position, in_order, stream
from transduce.decode.load import load_translator
from transduce.decode.translator import Translator
from transduce.evaluation.metrics import exact_match
from transduce.grammar import generate
from transduce.inspection.edits import Edit
from transduce.inspection.record import compute_logits, instrument
from transduce.model import Transformer
from transduce.model.weights import shared_copy, weights_of
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.corpus import Pair
from transduce.text.vocabulary import PAD, Vocabulary, learn_vocabulary
from transduce.training.schedule import learning_rate
from transduce.training.step import make_optimizer, seed_step, update

SHAPE = ModelConfig(n_layers=2, d_model=64, d_ff=128, n_heads=4, dropout=0.0)
RECIPE = TrainConfig(
    steps=240, warmup_steps=60, learning_rate=0.006, schedule="cosine", precision="float32"
)
BATCH_TOKENS = 512
TRAIN_SEED, TEST_SEED = 1000, 2000
Bend = Callable[[Transformer], None]


class Trained(NamedTuple):
    """A small translator, the loss of each of its steps, and its weights every so many steps."""

    translator: Translator
    losses: tuple[float, ...]
    kept: tuple[dict[str, Tensor], ...]


class Exam(NamedTuple):
    """How well a model does on sentences it has not seen."""

    loss: float  # nats a piece
    pieces: float  # share of pieces that are the likeliest, given the right ones before
    sentences: (
        float  # share of sentences without any wrong piece: greedy search finds exactly these
    )


@dataclass(eq=False)
class Lab:
    """The model that is looked into, and how small ones are trained: `effort` times as many steps as an experiment asks for."""

    path: Path | None = None
    effort: float = 1.0
    _trained: dict[tuple[Any, ...], Trained] = field(default_factory=dict, repr=False)

    @cached_property
    def translator(self) -> Translator:
        """The given model, or the built-in one."""
        return load_translator(self.path)

    @cached_property
    def grammarian(self) -> Translator:
        """The given model if it translates the generated English -> Italian sentences, whose truth is known; else the built-in."""
        found = [
            each.text
            for each in self.translator.translate([pair.source for pair in grammar(50)], beam=1)
        ]
        knows = exact_match(found, [pair.target for pair in grammar(50)]).value > 50
        return self.translator if knows else load_translator(None)

    @cache  # noqa: B019  a lab lives as long as its process
    def answers(self, n: int) -> list[Example]:
        """What the model itself writes, greedily, for sentences of the grammar: any model has answers to compare with."""
        written = self.translator.translate([pair.source for pair in grammar(n)], beam=1)
        pairs = [Pair(each.source, each.text) for each in written if each.text.strip()]
        return encode_pairs(
            pairs, self.translator.source_vocabulary, self.translator.target_vocabulary
        )

    def train(
        self,
        shape: Mapping[str, Any] | None = None,
        recipe: Mapping[str, Any] | None = None,
        seed: int = 1,
        *,
        n_pairs: int = 20_000,
        bend: Bend | None = None,
        keep_every: int = 0,
    ) -> Trained:
        """Train a small model on the little language, or remember that it was. `bend` changes the model before the first step."""
        model, training = (
            SHAPE.model_copy(update=shape or {}),
            RECIPE.model_copy(update=recipe or {}),
        )
        training = training.model_copy(
            update={"steps": max(1, round(training.steps * self.effort))}
        )
        key = (model, training, seed, n_pairs, bend, keep_every)
        if key not in self._trained:
            self._trained[key] = fit(*key)
        return self._trained[key]


def fit(
    shape: ModelConfig,
    recipe: TrainConfig,
    seed: int,
    n_pairs: int,
    bend: Bend | None,
    keep_every: int,
) -> Trained:
    """Train on the little language: weights, order and dropout follow from the seed."""
    vocabulary = words()
    shape = shape.model_copy(update={"vocab_size": len(vocabulary)})
    torch.manual_seed(seed)
    model = Transformer(shape)
    if bend is not None:
        bend(model)
    optimizer = make_optimizer(model)
    losses, kept = [], []
    batches = stream(ExampleList(lessons(n_pairs)), BATCH_TOKENS, seed, Position())
    for step, (batch, _) in zip(range(1, recipe.steps + 1), batches, strict=False):
        seed_step(seed, step, 0)
        losses.append(
            update(model, optimizer, [batch], learning_rate(step, recipe, shape), recipe).loss
        )
        if keep_every and step % keep_every == 0:
            kept.append({name: tensor.clone() for name, tensor in weights_of(model).items()})
    config = FolderConfig(text=TextConfig(kind="unigram"), model=shape)
    return Trained(
        Translator(ModelFolder(config, model.eval(), vocabulary, vocabulary)),
        tuple(losses),
        tuple(kept),
    )


@cache
def words() -> Vocabulary:
    """The pieces of the little language."""
    texts = [text for pair in toy.sentences(2000, seed=0) for text in (pair.source, pair.target)]
    return learn_vocabulary(texts, "unigram", 2000, exact=False)


@cache
def lessons(n: int) -> list[Example]:
    """What small models learn from."""
    return encode_pairs(list(toy.sentences(n, seed=TRAIN_SEED)), words(), words())


@cache
def exam_set(n: int = 400, nested: tuple[int, int] = (0, 1)) -> list[Example]:
    """What small models are examined on: subjects and verbs that never stood together in training."""
    return encode_pairs(
        list(toy.sentences(n, seed=TEST_SEED, split="held-out", nested=nested)), words(), words()
    )


@cache
def grammar(n: int) -> list[Pair]:
    """Held-out sentences of the generated English -> Italian corpus."""
    return list(generate("en-it", n, seed=TEST_SEED, split="held-out"))


def watched(
    model: Transformer, examples: Sequence[Example], edits: Sequence[Edit] = ()
) -> Iterator[dict[str, Tensor]]:
    """Everything a model computes while it reads pairs, by the names of `inspection.trace`, one pair after the other."""
    model = shared_copy(model)
    found: dict[str, Tensor] = {}
    instrument(model, edits, found.__setitem__)
    for source, target in examples:
        found.clear()
        with torch.inference_mode():
            found["logits"] = compute_logits(model, source.tolist(), target[:-1].tolist())
        yield dict(found)


def examine(model: Transformer, examples: Sequence[Example]) -> Exam:
    """Loss and share of right answers, the right pieces before each being given."""
    loss, n_pieces, n_right, n_whole = 0.0, 0, 0, 0
    with torch.inference_mode():
        for batch in in_order(examples, 8 * BATCH_TOKENS):
            logits = model(batch.source, batch.source_mask, batch.target_in)
            loss += float(
                F.cross_entropy(
                    logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="sum"
                )
            )
            is_right = (logits.argmax(dim=-1) == batch.target_out) | (batch.target_out == PAD)
            n_pieces += batch.n_tokens
            n_right += batch.n_tokens - int((~is_right).sum())
            n_whole += int(is_right.all(dim=1).sum())
    return Exam(loss / n_pieces, n_right / n_pieces, n_whole / len(examples))


def apart(low: Sequence[float], high: Sequence[float]) -> bool:
    """Whether every seed of the one lies below every seed of the other: what is called a difference here."""
    return max(low) < min(high)


def mean(values: Sequence[float]) -> float:
    """The mean."""
    return sum(values) / len(values)
