"""What the experiments share: models to examine, small models to train, measurements."""

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

# Defaults of the small models that experiments train.
SHAPE = ModelConfig(n_layers=2, d_model=64, d_ff=128, n_heads=4, dropout=0.0)
RECIPE = TrainConfig(
    steps=240, warmup_steps=60, learning_rate=0.006, schedule="cosine", precision="float32"
)
BATCH_TOKENS = 512
TRAIN_SEED, TEST_SEED = 1000, 2000
ModelChange = Callable[[Transformer], None]  # changes a model in place, before its first step


class SmallModel(NamedTuple):
    """A small trained translator, the loss of each step, and its checkpoints."""

    translator: Translator
    losses: tuple[float, ...]
    checkpoints: tuple[dict[str, Tensor], ...]


class Evaluation(NamedTuple):
    """How well a model predicts sentences it has not seen (teacher forcing)."""

    loss: float  # nats per token
    token_accuracy: float  # share of correct tokens that are the most probable ones
    exact_accuracy: float  # share of sentences that greedy search translates exactly


@dataclass(eq=False)
class Lab:
    """Provides the model that experiments examine, and trains small models for them.

    `path` is the model to examine, by default the built-in one. Small models are trained for
    `effort` times the steps an experiment requests, each only once.
    """

    path: Path | None = None
    effort: float = 1.0
    _trained: dict[tuple[Any, ...], SmallModel] = field(default_factory=dict, repr=False)

    @cached_property
    def translator(self) -> Translator:
        """The given model, or the built-in one."""
        return load_translator(self.path, engine="torch")

    @cached_property
    def grammar_translator(self) -> Translator:
        """The given model if it translates the generated sentences, else the built-in one.

        The correct translations and alignments of generated English -> Italian sentences are known.
        """
        pairs = grammar_pairs(50)
        found = self.translator.translate([pair.source for pair in pairs], beam=1)
        accuracy = exact_match([each.text for each in found], [pair.target for pair in pairs])
        if accuracy.value > 50:
            return self.translator
        return load_translator(None, engine="torch")

    @cache  # noqa: B019  a lab lives as long as its process
    def own_translations(self, n: int) -> list[Example]:
        """Return `n` generated sentences with the model's own greedy translations.

        Experiments that need no correct translation use these, so that they work for any model.
        """
        found = self.translator.translate([pair.source for pair in grammar_pairs(n)], beam=1)
        pairs = [Pair(each.source, each.text) for each in found if each.text.strip()]
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
        change: ModelChange | None = None,
        keep_every: int = 0,
    ) -> SmallModel:
        """Train a small model on the toy language, or return it if it was trained before.

        `shape` and `recipe` override SHAPE and RECIPE. `change` modifies the model before the first
        step. A checkpoint is kept every `keep_every` steps; 0 keeps none.
        """
        model_config = SHAPE.model_copy(update=shape or {})
        train_config = RECIPE.model_copy(update=recipe or {})
        n_steps = max(1, round(train_config.steps * self.effort))
        train_config = train_config.model_copy(update={"steps": n_steps})
        key = (model_config, train_config, seed, n_pairs, change, keep_every)
        if key not in self._trained:
            self._trained[key] = train_small_model(*key)
        return self._trained[key]


def train_small_model(
    shape: ModelConfig,
    recipe: TrainConfig,
    seed: int,
    n_pairs: int,
    change: ModelChange | None,
    keep_every: int,
) -> SmallModel:
    """Train on the toy language. The seed determines weights, order and dropout."""
    vocabulary = toy_vocabulary()
    shape = shape.model_copy(update={"vocab_size": len(vocabulary)})
    torch.manual_seed(seed)
    model = Transformer(shape)
    if change is not None:
        change(model)
    optimizer = make_optimizer(model)
    losses, checkpoints = [], []
    batches = stream(ExampleList(training_set(n_pairs)), BATCH_TOKENS, seed, Position())
    for step, (batch, _) in zip(range(1, recipe.steps + 1), batches, strict=False):
        seed_step(seed, step, 0)
        rate = learning_rate(step, recipe, shape)
        losses.append(update(model, optimizer, [batch], rate, recipe).loss)
        if keep_every and step % keep_every == 0:
            checkpoints.append({name: tensor.clone() for name, tensor in weights_of(model).items()})
    config = FolderConfig(text=TextConfig(kind="unigram"), model=shape)
    folder = ModelFolder(config, model.eval(), vocabulary, vocabulary)
    return SmallModel(Translator(folder), tuple(losses), tuple(checkpoints))


@cache
def toy_vocabulary() -> Vocabulary:
    """Return the vocabulary of the toy language, for both sides."""
    texts = [text for pair in toy.sentences(2000, seed=0) for text in (pair.source, pair.target)]
    return learn_vocabulary(texts, "unigram", 2000, exact=False)


@cache
def training_set(n: int) -> list[Example]:
    """Return toy sentences to train on."""
    pairs = list(toy.sentences(n, seed=TRAIN_SEED))
    return encode_pairs(pairs, toy_vocabulary(), toy_vocabulary())


@cache
def held_out_set(n: int = 400, nested: tuple[int, int] = (0, 1)) -> list[Example]:
    """Return held-out toy sentences: subjects and verbs that are never together in training."""
    pairs = list(toy.sentences(n, seed=TEST_SEED, split="held-out", nested=nested))
    return encode_pairs(pairs, toy_vocabulary(), toy_vocabulary())


@cache
def grammar_pairs(n: int) -> list[Pair]:
    """Return held-out sentence pairs of the generated English -> Italian corpus."""
    return list(generate("en-it", n, seed=TEST_SEED, split="held-out"))


def record_each(
    model: Transformer, examples: Sequence[Example], edits: Sequence[Edit] = ()
) -> Iterator[dict[str, Tensor]]:
    """Run a model on each pair and yield all tensors it computes, by the names of a trace."""
    model = shared_copy(model)
    found: dict[str, Tensor] = {}
    instrument(model, edits, found.__setitem__)
    for source, target in examples:
        found.clear()
        with torch.inference_mode():
            found["logits"] = compute_logits(model, source.tolist(), target[:-1].tolist())
        yield dict(found)


def evaluate(model: Transformer, examples: Sequence[Example]) -> Evaluation:
    """Measure the loss and accuracy of a model, given the correct previous tokens."""
    loss, n_tokens, n_correct, n_exact = 0.0, 0, 0, 0
    with torch.inference_mode():
        for batch in in_order(examples, 8 * BATCH_TOKENS):
            logits = model(batch.source, batch.source_mask, batch.target_in)
            loss += float(
                F.cross_entropy(
                    logits.transpose(1, 2), batch.target_out, ignore_index=PAD, reduction="sum"
                )
            )
            is_correct = (logits.argmax(dim=-1) == batch.target_out) | (batch.target_out == PAD)
            n_tokens += batch.n_tokens
            n_correct += batch.n_tokens - int((~is_correct).sum())
            n_exact += int(is_correct.all(dim=1).sum())
    return Evaluation(
        loss=loss / n_tokens,
        token_accuracy=n_correct / n_tokens,
        exact_accuracy=n_exact / len(examples),
    )


def is_clearly_lower(low: Sequence[float], high: Sequence[float]) -> bool:
    """Return whether every value of `low` is below every value of `high`: a clear difference."""
    return max(low) < min(high)


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean."""
    return sum(values) / len(values)
