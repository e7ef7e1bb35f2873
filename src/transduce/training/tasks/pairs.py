"""Training on sentence pairs: an encoder-decoder that translates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from transduce.config import Config, Layer
from transduce.data import prepared
from transduce.data.batch import Example, encode_pairs
from transduce.data.mixing import Mixture, choose_mixture
from transduce.data.order import length
from transduce.data.prepared import Inputs, Manifest, Vocabularies
from transduce.doctor import check_sample
from transduce.errors import DataError
from transduce.log import Log
from transduce.model_folder import WORDS, ModelFolder
from transduce.text.corpus import Pair, PairSource
from transduce.text.files import Fingerprint
from transduce.text.normalize import split_words
from transduce.text.sentences import has_several_sentences, known_language
from transduce.text.survey import Survey, normalize_pairs, survey_pairs
from transduce.text.vocabulary import choose_vocabulary_size, learn_vocabulary
from transduce.training.choices import (
    all_too_long_error,
    choose_for_pairs,
    log_learning_rate,
    log_reasons,
)
from transduce.training.loop import Validate
from transduce.training.tasks.base import TrainingSetup
from transduce.training.validation import make_validate

FEW_PAIRS = 1000  # with fewer, warn that the model will not generalise
# The model folder keeps the distinct words of the source side, to detect unseen words, unless the
# corpus is too large: in words, in strings between spaces, or in pairs.
MAX_WORDS = 100_000
MAX_STRINGS = 4 * MAX_WORDS
MAX_READ = 1_000_000


@dataclass(frozen=True)
class PairsSetup(TrainingSetup):
    """The setup of a training on sentence pairs."""

    n_pairs: int  # training pairs
    n_several: int | None  # of these, with several sentences as source; None: not counted
    valid_examples: list[Example]
    valid_pairs: list[Pair]

    @property
    def card(self) -> Mapping[str, Any]:
        """The numbers of training pairs, and the version of torch."""
        several = {} if self.n_several is None else {prepared.SEVERAL: self.n_several}
        return {"pairs": self.n_pairs, **several, "torch": torch.__version__}

    @property
    def probe(self) -> str:
        """The source of the first validation pair."""
        return self.valid_pairs[0].source

    def make_validate(self, folder: ModelFolder) -> Validate:
        """Return a function that measures loss, BLEU and exact match on the validation pairs."""
        return make_validate(folder, self.valid_pairs, self.valid_examples)


@dataclass(frozen=True, slots=True)
class PairsTask:
    """Train on sentence pairs; without `valid`, the validation set is split off.

    `mix` are other pairs to train on, about as many as `pairs`, but not to validate on.
    """

    pairs: PairSource
    valid: PairSource | None = None
    mix: PairSource | None = None

    @property
    def kind(self) -> str:
        """The setting `model.kind`."""
        return "encoder-decoder"

    @property
    def defaults(self) -> Layer:
        """The languages, if the names of the files show them."""
        return {"text": {"languages": self.pairs.languages}}

    def fingerprint(self) -> Fingerprint:
        """Return names and SHA-256 of all files."""
        valid = self.valid.fingerprint() if self.valid else []
        mixed = self.mix.fingerprint() if self.mix else []
        return [
            *self.pairs.fingerprint(),
            *([f"valid {side}", name, digest] for side, name, digest in valid),
            *([f"mixed {side}", name, digest] for side, name, digest in mixed),
        ]

    def encode(
        self,
        folder: Path,
        inputs: Inputs,
        requested: Config,
        log: Log,
        vocabularies: Vocabularies | None = None,
        n_pairs: int | None = None,
    ) -> Manifest:
        """Read the corpus twice: to count it and learn the vocabularies, then to encode it.

        `n_pairs` is the size of the whole corpus if these pairs are only a part of it. The size of
        the vocabularies depends on it.
        """
        form = requested.text.normalization
        log(f"reading {self.pairs.name}")
        n_valid = 0 if self.valid else requested.data.valid_pairs
        survey = survey_pairs(normalize_pairs(self.pairs.read(), form), n_valid)
        valid_pairs = list(survey.valid)
        if self.valid is not None:
            normalized = normalize_pairs(self.valid.read(), form)
            valid_pairs = [pair for pair in normalized if not pair.is_blank]
        self._check_enough(survey, valid_pairs)

        languages = inputs["text"]["languages"]
        for warning in check_sample(self.pairs.read(), tuple(languages) if languages else None):
            log(f"warning: {warning} (run transduce doctor for details)")

        if vocabularies is None:
            vocabularies = learn_vocabularies(
                survey.sample, n_pairs or survey.n_pairs, requested, log
            )
        survey = replace(survey, sample=())  # free the memory

        folder.mkdir(parents=True, exist_ok=True)
        prepared.save_valid(folder, valid_pairs)
        (folder / WORDS).unlink(missing_ok=True)
        held_out = frozenset(pair.source for pair in valid_pairs)
        words = WordCollector()
        language = known_language(languages[0] if languages else None)
        n_leaked = n_several = 0
        mixture = Mixture()
        if self.mix is not None:
            log(f"mixing in {self.mix.name}")
            others = normalize_pairs(self.mix.read(), form)
            mixture = choose_mixture(others, survey.n_pairs, held_out)
            if not mixture.others:
                raise DataError(f"{self.mix.name}: no pair to mix in; check the files")

        def own_pairs() -> Iterator[Pair]:
            nonlocal n_leaked, n_several
            for pair in normalize_pairs(self.pairs.read(), form):
                if pair.is_blank:
                    continue
                if pair.source in held_out:
                    if self.valid is None:
                        continue
                    n_leaked += 1
                n_several += has_several_sentences(pair.source, language)
                yield pair

        def rows() -> Iterator[tuple[str, str]]:
            for pair in mixture.mix_into(own_pairs()):
                words.add(pair.source)
                yield pair.source, pair.target

        def count() -> dict[str, Any]:
            """Return the counts for the manifest, after all rows were read."""
            found = words.words()
            if found is not None:
                prepared.save_words(folder, found)
            return {
                "pairs": survey.n_pairs,
                "blank": survey.n_blank,
                "split_off": 0 if self.valid else len(valid_pairs),
                "leaked": n_leaked,
                prepared.SEVERAL: n_several,
                **({prepared.MIXED: len(mixture.others)} if mixture.others else {}),
            }

        log(f"encoding {survey.n_pairs:,} pairs")
        return prepared.encode_into(folder, inputs, vocabularies, rows(), count)

    def _check_enough(self, survey: Survey, valid_pairs: Sequence[Pair]) -> None:
        """Raise DataError if there is nothing to train on or nothing to validate on."""
        if not survey.n_pairs:
            raise DataError(
                f"{self.pairs.name}: no training pair; "
                f"all of the {survey.n_blank:,} lines are blank on at least one side; "
                "check the files"
            )
        if self.valid is not None and not valid_pairs:
            raise DataError(
                f"{self.valid.name}: no validation pair; all lines are blank on at least one side; "
                "check the files"
            )
        if self.valid is None and len(valid_pairs) in (0, survey.n_pairs):
            n_sources = f"{survey.n_sources:,}" if survey.n_sources is not None else "many"
            raise DataError(
                f"{survey.n_pairs:,} pairs with {n_sources} different sources are too few to "
                "split off a validation set; give more pairs, or a validation set with "
                "--valid-source and --valid-target"
            )

    def set_up(
        self,
        manifest: Manifest,
        folder: Path,
        preset: str | None,
        settings: Sequence[Layer],
        log: Log,
        *,
        is_fine_tuning: bool = False,
    ) -> PairsSetup:
        """Choose the settings for a prepared corpus and log them; load the validation set."""
        vocabularies = prepared.load_vocabularies(folder)
        n_pairs, n_rows = manifest["pairs"], prepared.total(manifest, "rows")
        choice = choose_for_pairs(
            n_pairs,
            n_rows,
            prepared.total(manifest, "tokens"),
            vocabularies,
            preset,
            settings,
            is_fine_tuning=is_fine_tuning,
            is_mixed=prepared.MIXED in manifest,
        )
        requested, config = choice.requested, choice.config
        log_corpus(log, manifest, vocabularies, requested)
        if not n_rows:
            raise all_too_long_error("pairs", requested)
        valid_pairs = prepared.load_valid(folder)
        valid_examples = drop_too_long(encode_pairs(valid_pairs, *vocabularies), requested, log)

        if preset:
            reason = "as requested"
        elif is_fine_tuning:
            reason = f"the model is fine-tuned on {n_pairs:,} pairs"
        elif any("vocab_size" in layer.get("model", {}) for layer in settings):
            # The layer is a whole run.toml.
            reason = "for the training settings; the shape of the model is given"
        else:
            reason = f"chosen for {n_pairs:,} pairs"
        log(f"preset {choice.preset}: {reason}")
        if n_pairs < FEW_PAIRS and not is_fine_tuning:
            log(
                f"warning: only {n_pairs:,} pairs; "
                "the model will repeat them rather than learn to translate"
            )
        if not is_fine_tuning:
            log_learning_rate(log, config)
        log_reasons(log, choice.proposal, config)

        return PairsSetup(
            config=config,
            preset=choice.preset,
            vocabularies=vocabularies,
            words=prepared.load_words(folder),
            n_pairs=n_rows,
            n_several=manifest.get(prepared.SEVERAL),
            valid_examples=valid_examples,
            valid_pairs=valid_pairs,
        )


class WordCollector:
    """Collects the distinct words of the source side, up to MAX_WORDS."""

    def __init__(self) -> None:
        self._strings: set[str] = set()  # split at white space only
        self._n_read = 0

    def _is_within_limits(self) -> bool:
        return self._n_read < MAX_READ and len(self._strings) <= MAX_STRINGS

    def add(self, text: str) -> None:
        """Add the words of a text."""
        if self._is_within_limits():
            self._strings.update(text.split())
            self._n_read += 1

    def words(self) -> set[str] | None:
        """Return the distinct words, or None if a limit was reached."""
        words = {word for string in self._strings for word in split_words(string)}
        return words if self._is_within_limits() and len(words) <= MAX_WORDS else None


def learn_vocabularies(
    pairs: Sequence[Pair], n_pairs: int, requested: Config, log: Log
) -> Vocabularies:
    """Learn one vocabulary for both languages, or one each, from a sample of the pairs.

    `n_pairs` is the size of the whole corpus; it determines the size of the vocabularies unless
    text.vocab_size is set.
    """
    log(f"learning the vocabulary from {len(pairs):,} pairs")
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    is_joint, size = requested.text.joint, requested.text.vocab_size
    n_lines = 2 * n_pairs if is_joint else n_pairs
    target_size = size or choose_vocabulary_size(n_lines)
    sides = [[*sources, *targets]] if is_joint else [sources, targets]
    learned = [
        learn_vocabulary(lines, requested.text.kind, target_size, exact=size is not None)
        for lines in sides
    ]
    if len(learned[0]) < target_size:
        log(f"vocabulary: the text yields fewer than {target_size:,} tokens")
    return Vocabularies(learned[0], learned[-1])


def drop_too_long(examples: list[Example], requested: Config, log: Log) -> list[Example]:
    """Return the validation examples within data.max_length; raise DataError if there is none."""
    kept = [example for example in examples if length(example) <= requested.data.max_length]
    log_too_long(log, len(examples) - len(kept), "validation pairs", requested)
    if not kept:
        raise all_too_long_error("validation pairs", requested)
    return kept


def log_too_long(log: Log, n: int, what: str, requested: Config) -> None:
    """Log how many pairs were dropped because they are too long."""
    if n:
        limit = requested.data.max_length
        log(f"dropped: {n:,} {what} longer than {limit} tokens (data.max_length)")


def log_corpus(log: Log, manifest: Manifest, vocabularies: Vocabularies, requested: Config) -> None:
    """Log the size of the corpus, what was dropped, and the vocabularies."""
    n_pairs = manifest["pairs"]
    blank = f", {manifest['blank']:,} dropped (blank on one side)" if manifest["blank"] else ""
    log(f"corpus: {n_pairs:,} pairs{blank}")
    if n_mixed := manifest.get(prepared.MIXED, 0):
        log(f"mixed in: {n_mixed:,} other pairs; your own pairs are repeated as often")
    if n_several := manifest.get(prepared.SEVERAL, 0):
        log(f"{n_several:,} of the sources have several sentences")
    if manifest["split_off"]:
        log(
            f"validation: {manifest['split_off']:,} of the pairs "
            "(use --valid-source and --valid-target for your own set)"
        )
    if manifest["leaked"]:
        log(
            f"warning: {manifest['leaked']:,} training pairs have the source of a validation pair; "
            "validation scores will be too high"
        )
    log_too_long(log, prepared.total(manifest, "too_long"), "pairs", requested)

    kind = "BPE" if requested.text.kind == "bpe" else requested.text.kind
    sizes = " and ".join(f"{len(each):,}" for each in dict.fromkeys(vocabularies))
    sharing = "shared by both languages" if requested.text.joint else "one vocabulary per language"
    is_as_requested = requested.text.vocab_size in {len(each) for each in vocabularies}
    reason = "as requested" if is_as_requested else f"chosen for {n_pairs:,} pairs"
    log(f"vocabulary: {sizes} {kind} tokens, {sharing} ({reason})")
