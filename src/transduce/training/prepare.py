"""From pairs to what a training needs: a validation set, vocabularies, settings that suit the corpus, ids."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transduce.config import Config, Layer, resolve
from transduce.data import prepared
from transduce.data.batch import Example, encode_pairs
from transduce.data.order import Examples, length
from transduce.data.pairs import EncodedPairs, SampledPairs
from transduce.data.prepared import Inputs, Vocabularies
from transduce.data.resampling import Sampler
from transduce.data.shards import open_shards
from transduce.doctor import check_sample
from transduce.errors import ConfigError, DataError
from transduce.log import Log
from transduce.model_folder import WORDS
from transduce.presets import Proposal, propose, shape_for
from transduce.presets import preset as preset_settings
from transduce.storage import sha256, to_json
from transduce.text.corpus import Pair, PairSource
from transduce.text.normalize import split_words
from transduce.text.survey import Survey, normalize_pairs, survey_pairs
from transduce.text.vocabulary import choose_vocabulary_size, learn_vocabulary
from transduce.training.loop import peak
from transduce.training.schedule import paper_peak

FEW_PAIRS = 1000
MOST_WORDS = 100_000  # of the source side, kept in the model folder to tell unseen words
MOST_SPELT, MOST_READ = 4 * MOST_WORDS, 1_000_000  # of a larger corpus the words are not collected


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a training depends on."""

    config: Config
    preset: str
    vocabularies: Vocabularies
    n_pairs: int  # to learn from
    valid_examples: list[Example]
    valid_pairs: list[Pair]
    words: frozenset[str] | None
    fingerprint: str  # SHA-256 of all that the corpus was prepared from


def prepare(
    pairs: PairSource,
    valid: PairSource | None,
    preset: str | None,
    settings: Sequence[Layer],
    folder: Path,
    log: Log,
    inputs: Inputs | None = None,
    vocabularies: Vocabularies | None = None,
) -> Prepared:
    """Encode the corpus into `folder`; choose what was not asked for, from the corpus alone, and say what was chosen and why."""
    inputs = inputs or inputs_of(pairs, valid, settings)
    manifest = prepared.find_prepared(folder, inputs)
    if manifest is None:
        manifest = make_prepared(
            pairs,
            valid,
            prepared.text_settings(settings),
            folder,
            inputs,
            log,
            vocabularies=vocabularies,
        )
    else:
        log(f"data: {folder} was made from the same files and is used again")
    return choose(manifest, folder, preset, settings, log)


def inputs_of(
    pairs: PairSource, valid: PairSource | None, settings: Sequence[Layer]
) -> dict[str, Any]:
    """All that the prepared corpus depends on."""
    asked = prepared.text_settings([{"text": {"languages": pairs.languages}}, *settings])
    return prepared.describe_inputs(
        asked, pairs.fingerprint(), valid.fingerprint() if valid else []
    )


def make_prepared(
    pairs: PairSource,
    valid: PairSource | None,
    asked: Config,
    folder: Path,
    inputs: Inputs,
    log: Log,
    n_pairs: int | None = None,
    vocabularies: Vocabularies | None = None,
) -> dict[str, Any]:
    """Read the corpus twice: to count, choose and learn the pieces unless they are given, then to encode it.

    `n_pairs` is how many there are in all, if these are only some of them: the size of the vocabulary depends on it.
    """
    form = asked.text.normalization
    log(f"reading {pairs.name}")
    found = survey_pairs(
        normalize_pairs(pairs.read(), form), 0 if valid else asked.data.valid_pairs
    )
    valid_pairs = list(found.valid)
    if valid is not None:
        valid_pairs = [pair for pair in normalize_pairs(valid.read(), form) if not pair.is_blank]
    check_enough(pairs, valid, found, valid_pairs)
    for warning in check_sample(
        pairs.read(), inputs["text"]["languages"] and tuple(inputs["text"]["languages"])
    ):
        log(f"warning: {warning} (transduce doctor tells more)")
    vocabularies = vocabularies or learn_vocabularies(
        found.sample, n_pairs or found.n_pairs, asked, log
    )
    found = replace(found, sample=())  # no longer needed, and large
    held_out = frozenset(pair.source for pair in valid_pairs)
    spelt: set[str] = set()  # words as they stand between spaces
    n_leaked = n_read = 0

    def rows() -> Iterator[tuple[str, str]]:
        nonlocal n_leaked, n_read
        for pair in normalize_pairs(pairs.read(), form):
            if pair.is_blank:
                continue
            if pair.source in held_out:
                if valid is None:
                    continue
                n_leaked += 1
            if n_read < MOST_READ and len(spelt) <= MOST_SPELT:
                spelt.update(pair.source.split())
                n_read += 1
            yield pair.source, pair.target

    folder.mkdir(parents=True, exist_ok=True)
    prepared.save_valid(folder, valid_pairs)
    (folder / WORDS).unlink(missing_ok=True)

    def counted() -> dict[str, Any]:
        words = {word for each in spelt for word in split_words(each)}
        if n_read < MOST_READ and len(spelt) <= MOST_SPELT and len(words) <= MOST_WORDS:
            prepared.save_words(folder, words)
        split_off = 0 if valid else len(valid_pairs)
        return {
            "pairs": found.n_pairs,
            "blank": found.n_blank,
            "split_off": split_off,
            "leaked": n_leaked,
        }

    log(f"encoding {found.n_pairs:,} pairs")
    return prepared.encode_into(folder, inputs, vocabularies, rows(), counted)


def check_enough(
    pairs: PairSource, valid: PairSource | None, found: Survey, valid_pairs: Sequence[Pair]
) -> None:
    """There must be something to learn from and something to validate on."""
    if not found.n_pairs:
        raise DataError(
            f"{pairs.name} hold no pair to learn from: {found.n_blank:,} lines, all blank on a side"
        )
    if valid is not None and not valid_pairs:
        raise DataError(f"{valid.name} hold no pair to validate on: all lines are blank on a side")
    if valid is None and len(valid_pairs) in (0, found.n_pairs):
        sources = f"{found.n_sources:,}" if found.n_sources is not None else "many"
        raise DataError(
            f"{found.n_pairs:,} pairs with {sources} different sources are too few to split some off for validation: "
            "give more, or a validation set by --valid-source and --valid-target"
        )


def learn_vocabularies(
    pairs: Sequence[Pair], n_pairs: int, asked: Config, log: Log
) -> Vocabularies:
    """One vocabulary for both sides, or one each, learnt from some of so many pairs."""
    log(f"learning the vocabulary from {len(pairs):,} pairs")
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    size = asked.text.vocab_size
    wanted = size or choose_vocabulary_size((1 + asked.text.joint) * n_pairs)
    sides = [[*sources, *targets]] if asked.text.joint else [sources, targets]
    learnt = [
        learn_vocabulary(lines, asked.text.kind, wanted, exact=size is not None) for lines in sides
    ]
    if len(learnt[0]) < wanted:
        log(f"the vocabulary has all the pieces this text gives ({wanted:,} would suit its size)")
    return Vocabularies(learnt[0], learnt[-1])


def choose(
    manifest: Mapping[str, Any],
    folder: Path,
    preset: str | None,
    settings: Sequence[Layer],
    log: Log,
) -> Prepared:
    """Settings that suit a prepared corpus, and the corpus itself, opened."""
    n_pairs, n_tokens, n_rows = (
        manifest["pairs"],
        prepared.total(manifest, "tokens"),
        prepared.total(manifest, "rows"),
    )
    vocabularies = prepared.load_vocabularies(folder)
    languages: Layer = {"text": {"languages": manifest["inputs"]["text"]["languages"]}}
    shape, asked, proposal, config = settle(
        n_pairs, n_rows, n_tokens, vocabularies, preset, [languages, *settings]
    )
    say_corpus(log, manifest, vocabularies, asked)
    if not n_rows:
        raise none_fits("pairs", asked)
    valid_pairs = prepared.load_valid(folder)
    valid_examples = fitting(
        "validation pairs", encode_pairs(valid_pairs, *vocabularies), asked, log
    )
    is_given = any(
        "vocab_size" in layer.get("model", {}) for layer in settings
    )  # by a whole model or a whole run.toml
    why = (
        "its recipe; the shape is given"
        if is_given
        else f"the shape for a corpus of {n_pairs:,} pairs"
    )
    why = "as asked" if preset else why
    say_choices(log, proposal, f"preset {shape}: {why}", config, n_pairs)
    words, fingerprint = prepared.load_words(folder), sha256(to_json(manifest["inputs"]))
    return Prepared(
        config, shape, vocabularies, n_rows, valid_examples, valid_pairs, words, fingerprint
    )


def settle(
    n_pairs: int,
    n_rows: int,
    n_tokens: int,
    vocabularies: Vocabularies,
    preset: str | None,
    settings: Sequence[Layer],
) -> tuple[str, Config, Proposal, Config]:
    """The shape for a corpus of so many pairs, what was asked for, what is proposed and why, and the settings that result."""
    shape = preset or shape_for(n_pairs)
    asked = resolve(preset_settings(shape), *settings)
    proposal = propose(n_rows, n_tokens, shape, settings)
    config = resolve(proposal.settings, *settings, vocabulary_sizes(vocabularies, asked))
    check_asked(asked, config)
    return shape, asked, proposal, config


def open_examples(folder: Path, config: Config) -> Examples:
    """The pairs to learn from: as they were encoded, or cut into pieces anew in each epoch."""
    shards = open_shards(folder)
    if not config.text.dropout:
        return EncodedPairs(shards)
    sampler = Sampler(
        folder, prepared.vocabulary_files(folder), config.text.dropout, config.data.max_length
    )
    return SampledPairs(shards, sampler, config.train.seed)


def fitting(what: str, examples: list[Example], asked: Config, log: Log) -> list[Example]:
    """The examples that are not too long; the others are counted."""
    kept = [example for example in examples if length(example) <= asked.data.max_length]
    say_too_long(log, len(examples) - len(kept), what, asked)
    if not kept:
        raise none_fits(what, asked)
    return kept


def none_fits(what: str, asked: Config) -> DataError:
    """The error of a corpus that has only long sentences."""
    return DataError(
        f"none of the {what} has {asked.data.max_length} pieces or fewer: set a larger data.max_length"
    )


def say_too_long(log: Log, n: int, what: str, asked: Config) -> None:
    """Print how many were too long."""
    if n:
        log(f"left out: {n:,} {what} longer than {asked.data.max_length} pieces (data.max_length)")


def say_corpus(
    log: Log, manifest: Mapping[str, Any], vocabularies: Vocabularies, asked: Config
) -> None:
    """Print what was read, what was left out, and what the pieces are."""
    blank = f", {manifest['blank']:,} left out (blank on a side)" if manifest["blank"] else ""
    log(f"corpus: {manifest['pairs']:,} pairs{blank}")
    if manifest["split_off"]:
        log(
            f"validation: {manifest['split_off']:,} of them split off (--valid-source and --valid-target give your own)"
        )
    if manifest["leaked"]:
        log(
            f"warning: {manifest['leaked']:,} training pairs have the source of a validation pair: its scores will flatter"
        )
    say_too_long(log, prepared.total(manifest, "too_long"), "pairs", asked)
    sizes = " and ".join(f"{len(each):,}" for each in dict.fromkeys(vocabularies))
    sharing = "joint" if asked.text.joint else "one for each side"
    is_as_asked = asked.text.vocab_size in {len(each) for each in vocabularies}
    why = "as asked" if is_as_asked else "small corpora want small vocabularies"
    log(f"text.vocab_size {sizes} {asked.text.kind} pieces, {sharing}: {why}")


def vocabulary_sizes(vocabularies: Vocabularies, asked: Config) -> Layer:
    """What the settings must say of the vocabularies that were learnt."""
    sizes = len(vocabularies.source), len(vocabularies.target)
    if asked.text.joint:
        return {
            "text": {"vocab_size": sizes[0]},
            "model": {"vocab_size": sizes[0], "target_vocab_size": None},
        }
    return {"model": {"vocab_size": sizes[0], "target_vocab_size": sizes[1]}}


def check_asked(asked: Config, config: Config) -> None:
    """Refuse what sentence pairs cannot give, rather than overrule it in silence."""
    if asked.model.kind != "encoder-decoder":
        raise ConfigError(
            f"model.kind is {asked.model.kind!r}: sentence pairs train an encoder-decoder"
        )
    for name in ("vocab_size", "target_vocab_size"):
        wanted, found = getattr(asked.model, name), getattr(config.model, name)
        if wanted is not None and wanted != found:
            raise ConfigError(
                f"model.{name} is {wanted}, but the vocabulary gives {found}: set text.vocab_size instead"
            )


def say_choices(log: Log, proposal: Proposal, shape: str, config: Config, n_pairs: int) -> None:
    """Print what was chosen and why."""
    log(shape)
    if n_pairs < FEW_PAIRS:
        log(
            f"warning: {n_pairs:,} pairs are few: expect a model that repeats them rather than one that translates"
        )
    rate = peak(config.train, config.model)
    paper = paper_peak(config.model.d_model, config.train.warmup_steps)
    log(
        f"train.learning_rate {rate:.2g} at its peak"
        + (f" (Eq. 3 would give {paper:.2g})" if rate != paper else ": Eq. 3")
    )
    say_reasons(log, proposal, config)


def say_reasons(log: Log, proposal: Proposal, config: Config) -> None:
    """Print each setting that was proposed, and why."""
    for name, reason in proposal.reasons.items():
        section, _, key = name.partition(".")
        log(f"{name} {getattr(getattr(config, section), key):,}: {reason}")
