"""Training on running text: a decoder-only language model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from transduce.config import Config, Layer
from transduce.data import prepared
from transduce.data.prepared import Inputs, Manifest, Vocabularies
from transduce.data.shards import TokenStream, open_shards
from transduce.data.windows import Text
from transduce.decode.generator import Generator
from transduce.decode.options import Sampling
from transduce.errors import DataError
from transduce.evaluation.likelihood import text_loss
from transduce.log import Log
from transduce.model import LanguageModel
from transduce.model_folder import ModelFolder
from transduce.text.files import Fingerprint
from transduce.text.running_text import TextSource, read_normalized_lines, survey_text
from transduce.text.vocabulary import choose_vocabulary_size, learn_vocabulary
from transduce.training.batches import split_text
from transduce.training.callbacks.base import Validation
from transduce.training.choices import choose_for_text, log_reasons
from transduce.training.loop import Validate
from transduce.training.tasks.base import TrainingSetup

DEFAULTS: Layer = {
    "model": {"kind": "decoder-only", "norm": "pre"},
    "train": {"label_smoothing": 0.0},
}
SAMPLE_TOKENS = 60  # tokens generated at each validation
PROBE_TOKENS = 16  # tokens of the text that the film shows
ALL_CHARACTERS = 256_000  # vocabulary size with room for every character


@dataclass(frozen=True)
class TextSetup(TrainingSetup):
    """The setup of a training on running text."""

    n_tokens: int
    valid_ids: Text

    @property
    def card(self) -> Mapping[str, Any]:
        """The number of tokens of the text."""
        return {"pieces": self.n_tokens}

    @property
    def probe(self) -> str:
        """The beginning of the validation text."""
        return self.vocabularies.source.decode(self.valid_ids[:PROBE_TOKENS].tolist())

    def make_validate(self, folder: ModelFolder) -> Validate:
        """Return a function that measures loss, perplexity and bits per byte."""
        return partial(validate_text, folder, self.valid_ids)


@dataclass(frozen=True, slots=True)
class TextTask:
    """Train on documents. The end of the text is the validation set."""

    source: TextSource

    @property
    def kind(self) -> str:
        """The setting `model.kind`."""
        return "decoder-only"

    @property
    def defaults(self) -> Layer:
        """Pre-norm and no label smoothing."""
        return DEFAULTS

    def fingerprint(self) -> Fingerprint:
        """Return names and SHA-256 of all files."""
        return self.source.fingerprint()

    def encode(
        self,
        folder: Path,
        inputs: Inputs,
        requested: Config,
        log: Log,
        vocabularies: Vocabularies | None = None,
    ) -> Manifest:
        """Read the text twice: to learn the vocabulary unless it is given, then to encode it."""
        text = requested.text
        survey = survey_text(self.source, text.normalization)
        if vocabularies is not None:
            vocabulary = vocabularies.source
        else:
            if text.vocab_size:
                size = text.vocab_size
            elif text.kind == "char":
                size = ALL_CHARACTERS
            else:
                size = choose_vocabulary_size(survey.n_lines)
            log(f"learning the vocabulary from {len(survey.sample):,} lines")
            vocabulary = learn_vocabulary(
                survey.sample, text.kind, size, exact=text.vocab_size is not None, is_text=True
            )
        counts = {"documents": survey.n_documents, "characters": survey.n_characters}
        lines = read_normalized_lines(self.source, text.normalization)
        return prepared.encode_into(folder, inputs, [vocabulary], lines, lambda: counts)

    def set_up(
        self,
        manifest: Manifest,
        folder: Path,
        preset: str | None,
        settings: Sequence[Layer],
        log: Log,
        *,
        is_fine_tuning: bool = False,
    ) -> TextSetup:
        """Choose the settings for a prepared text and log them; load the validation text."""
        vocabularies = prepared.load_vocabularies(folder)
        n_tokens, n_characters = prepared.total(manifest, "tokens"), manifest["characters"]
        vocab_size = len(vocabularies.source)
        choice = choose_for_text(n_characters, n_tokens, vocab_size, preset, settings)
        config = choice.config

        n_documents = manifest["documents"]
        documents = f"{n_documents:,} document{'s' if n_documents != 1 else ''}"
        kind = "BPE" if config.text.kind == "bpe" else config.text.kind
        log(f"text: {documents}, {n_characters:,} characters; {vocab_size:,} {kind} tokens")
        reason = "as requested" if preset else f"chosen for {n_characters:,} characters"
        log(f"preset {choice.preset}: {reason}")
        log_reasons(log, choice.proposal, config)

        ids = TokenStream(open_shards(folder))
        window = config.model.window
        train_ids, valid_ids = split_text(ids, window)
        if len(train_ids) < window + 1:
            raise DataError(
                f"a text of {len(ids):,} tokens is too short for model.window = {window}; expected "
                f"at least {2 * (window + 1):,} tokens, one window for training and one for "
                "validation; give more text or set a smaller model.window"
            )
        log(f"validation: the last {len(valid_ids):,} of {len(ids):,} tokens")
        return TextSetup(
            config=config,
            preset=choice.preset,
            vocabularies=vocabularies,
            words=None,
            n_tokens=n_tokens,
            valid_ids=valid_ids,
        )


def validate_text(folder: ModelFolder, ids: Text) -> Validation:
    """Measure loss, perplexity and bits per byte, and generate a sample."""
    assert isinstance(folder.model, LanguageModel), "a text task trains a language model"
    loss, *scores = text_loss(folder.model, ids, folder.source_vocabulary)
    if not math.isfinite(loss.value):
        return Validation(loss.value, {}, "", ("", ""))
    [sample] = Generator(folder).generate("", SAMPLE_TOKENS, Sampling(temperature=0.8))
    return Validation(
        loss.value,
        {score.name: score.value for score in scores},
        loss.signature,
        sample=("[SOS]", sample.text),
    )
