"""From pairs to what a training needs: a validation set, vocabularies, settings that suit the corpus, ids."""

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from transduce.config import Config, Layer, resolve
from transduce.data.batch import Example, encode_pairs
from transduce.data.stream import length
from transduce.errors import ConfigError, DataError
from transduce.presets import Proposal, propose, shape_for
from transduce.presets import preset as preset_settings
from transduce.text.corpus import Corpus, Pair
from transduce.text.vocabulary import Vocabulary, choose_size, learn
from transduce.training.loop import peak
from transduce.training.schedule import paper_peak

Say = Callable[[str], None]
FEW_PAIRS = 1000


class Vocabularies(NamedTuple):
    """The source's and the target's: one and the same where they are joint."""

    source: Vocabulary
    target: Vocabulary


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a training depends on."""

    config: Config
    preset: str
    vocabularies: Vocabularies
    examples: list[Example]
    valid_examples: list[Example]
    train_pairs: list[Pair]
    valid_pairs: list[Pair]
    fingerprint: str  # SHA-256 of all pairs


def prepare(corpus: Corpus, valid: Corpus | None, preset: str | None, settings: Sequence[Layer], say: Say) -> Prepared:
    """Choose what was not asked for, from the corpus alone, and say what was chosen and why."""
    shape = preset or shape_for(len(corpus))
    asked = resolve(preset_settings(shape), *settings)
    train_pairs, valid_pairs = divide(corpus, valid, asked, say)
    vocabularies = learn_vocabularies(train_pairs, asked, say)
    examples = fitting("pairs", encode_pairs(train_pairs, vocabularies.source, vocabularies.target), asked, say)
    valid_examples = fitting("validation pairs", encode_pairs(valid_pairs, *vocabularies), asked, say)
    proposal = propose(len(examples), sum(len(example.target) - 1 for example in examples), shape, settings)
    config = resolve(proposal.settings, *settings, vocabulary_sizes(vocabularies, asked))
    check_asked(asked, config)
    say_choices(say, proposal, shape, config, len(corpus), asked_for=preset)
    return Prepared(
        config,
        shape,
        vocabularies,
        examples=examples,
        valid_examples=valid_examples,
        train_pairs=train_pairs,
        valid_pairs=valid_pairs,
        fingerprint=fingerprint_of(train_pairs, valid_pairs),
    )


def divide(corpus: Corpus, valid: Corpus | None, asked: Config, say: Say) -> tuple[list[Pair], list[Pair]]:
    """The pairs to learn from and the pairs to validate on: the ones given, or some split off."""
    blank = f", {corpus.n_blank:,} left out (blank on a side)" if corpus.n_blank else ""
    say(f"corpus: {len(corpus):,} pairs{blank}")
    if valid is not None:
        return corpus.pairs, valid.pairs
    wanted = asked.data.valid_pairs or max(1, min(1000, len(corpus) // 20))
    train_pairs, valid_pairs = split_off(corpus.pairs, wanted)
    if not train_pairs or not valid_pairs:
        raise DataError(
            f"{len(corpus)} pairs with {len({pair.source for pair in corpus.pairs})} different sources are too few to split "
            f"{wanted} off for validation: give more, or a validation set by --valid-source and --valid-target"
        )
    say(f"validation: {len(valid_pairs):,} of them split off (--valid-source and --valid-target give your own)")
    return train_pairs, valid_pairs


def split_off(pairs: Sequence[Pair], n: int) -> tuple[list[Pair], list[Pair]]:
    """Split at most n pairs off for validation; pairs with the same source stay together, so nothing is on both sides."""
    count = Counter(pair.source for pair in pairs)
    chosen: set[str] = set()
    left = n
    for source in sorted(count, key=lambda text: (zlib.crc32(text.encode()), text)):
        if count[source] <= left:
            chosen.add(source)
            left -= count[source]
        if not left:
            break
    return [pair for pair in pairs if pair.source not in chosen], [pair for pair in pairs if pair.source in chosen]


def fitting(what: str, examples: list[Example], asked: Config, say: Say) -> list[Example]:
    """The examples that are not too long; the others are counted."""
    most = asked.data.max_length
    kept = [example for example in examples if length(example) <= most]
    if len(kept) < len(examples):
        say(f"left out: {len(examples) - len(kept):,} {what} longer than {most} pieces (data.max_length)")
    if not kept:
        raise DataError(f"none of the {what} has {most} pieces or fewer: set a larger data.max_length")
    return kept


def learn_vocabularies(pairs: Sequence[Pair], asked: Config, say: Say) -> Vocabularies:
    """One vocabulary for both sides, or one each."""
    say(f"learning the vocabulary from {len(pairs):,} pairs")
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    size = asked.text.vocab_size
    wanted = size or choose_size(2 * len(pairs) if asked.text.joint else len(pairs))
    sides = [[*sources, *targets]] if asked.text.joint else [sources, targets]
    found = [learn(lines, asked.text.kind, wanted, exact=size is not None) for lines in sides]
    sizes = " and ".join(f"{len(vocabulary):,}" for vocabulary in found)
    sharing = "joint" if asked.text.joint else "one for each side"
    why = "as asked" if size else f"for {len(pairs):,} pairs; small corpora want small vocabularies"
    if len(found[0]) < wanted:
        why = f"all the pieces this text has ({wanted:,} would suit its size)"
    say(f"text.vocab_size {sizes} {asked.text.kind} pieces, {sharing}: {why}")
    return Vocabularies(found[0], found[-1])


def vocabulary_sizes(vocabularies: Vocabularies, asked: Config) -> Layer:
    """What the settings must say of the vocabularies that were learnt."""
    sizes = len(vocabularies.source), len(vocabularies.target)
    if asked.text.joint:
        return {"text": {"vocab_size": sizes[0]}, "model": {"vocab_size": sizes[0], "target_vocab_size": None}}
    return {"model": {"vocab_size": sizes[0], "target_vocab_size": sizes[1]}}


def check_asked(asked: Config, config: Config) -> None:
    """Refuse what sentence pairs cannot give, rather than overrule it in silence."""
    if asked.model.kind != "encoder-decoder":
        raise ConfigError(f"model.kind is {asked.model.kind!r}: sentence pairs train an encoder-decoder")
    for name in ("vocab_size", "target_vocab_size"):
        wanted, found = getattr(asked.model, name), getattr(config.model, name)
        if wanted is not None and wanted != found:
            raise ConfigError(
                f"model.{name} is {wanted}, but the vocabulary gives {found}: set text.vocab_size instead"
            )


def say_choices(say: Say, proposal: Proposal, shape: str, config: Config, n_pairs: int, asked_for: str | None) -> None:
    """Print what was chosen and why."""
    say(f"preset {shape}: {'as asked' if asked_for else f'the shape for a corpus of {n_pairs:,} pairs'}")
    if n_pairs < FEW_PAIRS:
        say(f"warning: {n_pairs:,} pairs are few: expect a model that repeats them rather than one that translates")
    rate = peak(config.train, config.model)
    paper = paper_peak(config.model.d_model, config.train.warmup_steps)
    say(
        f"train.learning_rate {rate:.2g} at its peak"
        + (f" (Eq. 3 would give {paper:.2g})" if rate != paper else ": Eq. 3")
    )
    say_reasons(say, proposal, config)


def say_reasons(say: Say, proposal: Proposal, config: Config) -> None:
    """Print each setting that was proposed, and why."""
    for name, reason in proposal.reasons.items():
        section, _, key = name.partition(".")
        say(f"{name} {getattr(getattr(config, section), key):,}: {reason}")


def fingerprint_of(*parts: Sequence[Pair]) -> str:
    """The SHA-256 of what is learnt from and validated on."""
    digest = hashlib.sha256()
    for pairs in parts:
        digest.update(f"{len(pairs)}\n".encode())
        for pair in pairs:
            digest.update(f"{pair.source}\n{pair.target}\n".encode())
    return digest.hexdigest()
