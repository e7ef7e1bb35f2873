"""From two text files to a model folder: the run folder and the whole of a training.

RUN/run.toml         every setting of the run            RUN/checkpoints/   the last ones and the best
RUN/metrics.jsonl    what happened, a row at a time      RUN/model/         the finished model
RUN/data.json        the SHA-256 of what it learns from
"""

import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from transduce import evaluate
from transduce.checkpoint import FolderConfig, ModelFolder, build, read_json, save_model, to_json, write_file
from transduce.config import Config, Layer, differences, read_toml, resolve, to_toml
from transduce.data.batch import encode_pairs
from transduce.data.stream import length
from transduce.decode.translator import Translator, load, words_of
from transduce.errors import ConfigError, DataError, OutputError
from transduce.model import Transformer
from transduce.presets import Proposal, propose
from transduce.text.corpus import Corpus, Pair, read_pairs
from transduce.text.vocabulary import Vocabulary, choose_size, learn
from transduce.training.loop import Validate, Validation
from transduce.training.loop import train as train_model
from transduce.training.report import Report, stderr_console
from transduce.training.state import checkpoints

SETTINGS, DATA, METRICS, CHECKPOINTS, MODEL = "run.toml", "data.json", "metrics.jsonl", "checkpoints", "model"
Say = Callable[[str], None]
MOST_WORDS = 100_000  # of the source side, kept in the model folder to tell unseen words
MOST_VALIDATED = 500  # validation pairs that are translated for BLEU; the loss uses all


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """The source's and the target's: one and the same where they are joint."""

    source: Vocabulary
    target: Vocabulary


def train(
    run: str | Path,
    source: str | Path,
    target: str | Path,
    valid_source: str | Path | None = None,
    valid_target: str | Path | None = None,
    preset: str | None = None,
    settings: Sequence[Layer] = (),
    console: Console | None = None,
) -> Translator:
    """Train a translator from two parallel text files into the folder `run`.

    `settings` are layers like `{"train": {"steps": 500}}`, later ones winning; what they leave out, the corpus suggests.
    """
    if (valid_source is None) != (valid_target is None):
        raise ConfigError("a validation set has two sides: give both --valid-source and --valid-target, or neither")
    check_run_folder(Path(run))
    corpus = read_pairs(Path(source), Path(target))
    valid = read_pairs(Path(valid_source), Path(valid_target)) if valid_source and valid_target else None
    return train_pairs(Path(run), corpus, valid, preset, settings, console or stderr_console())


def train_pairs(
    run: Path,
    corpus: Corpus,
    valid: Corpus | None,
    preset: str | None,
    settings: Sequence[Layer],
    console: Console,
) -> Translator:
    """Train a translator from pairs: choose, say what was chosen, train, save."""
    check_run_folder(run)
    say = partial(console.print, highlight=False, markup=False)
    say(
        f"corpus: {len(corpus):,} pairs"
        + (f", {corpus.n_blank:,} left out (blank on a side)" if corpus.n_blank else "")
    )
    asked = resolve(*settings)
    if valid is None:
        train_part, valid_part = split_off(corpus.pairs, asked.data.valid_pairs or default_valid_pairs(len(corpus)))
        say(f"validation: {len(valid_part):,} of them split off (--valid-source and --valid-target give your own)")
    else:
        train_part, valid_part = corpus.pairs, valid.pairs
    if not train_part or not valid_part:
        raise DataError(f"{len(corpus)} pairs are too few: wanted at least 2, one to learn from and one to validate on")

    vocabularies = learn_vocabularies(train_part, asked, say)
    examples = encode_pairs(train_part, vocabularies.source, vocabularies.target)
    proposal = propose(len(train_part), sum(len(example.target) - 1 for example in examples), preset)
    sizes: Layer = {"text": {"vocab_size": len(vocabularies.source)}, "model": vocabulary_sizes(vocabularies)}
    config = resolve(proposal.settings, *settings, sizes)
    say_choices(say, proposal, config, len(train_part), asked_for=preset)
    fingerprint = fingerprint_of([*train_part, *valid_part])
    check_same_run(run, config, fingerprint)

    fitting = [example for example in examples if length(example) <= config.data.max_length]
    if len(fitting) < len(examples):
        say(
            f"left out: {len(examples) - len(fitting):,} pairs longer than {config.data.max_length} pieces (data.max_length)"
        )
    if not fitting:
        raise DataError(f"no pair has {config.data.max_length} pieces or fewer: set a larger data.max_length")
    if (run / MODEL).exists():
        say(f"{run} is finished: its model is in {run / MODEL}")
        return load(run)

    torch.manual_seed(config.train.seed)
    model = build(config.model)
    assert isinstance(model, Transformer), "sentence pairs make an encoder-decoder"
    say(f"model: {sum(parameter.numel() for parameter in model.parameters()):,} parameters")
    create_run_folder(run, config, fingerprint)
    if checkpoints(run / CHECKPOINTS):
        say(f"continuing from {checkpoints(run / CHECKPOINTS)[-1].name}")
    folder_config = FolderConfig(text=config.text, model=config.model, decode=config.decode)
    words = frozenset(word for pair in train_part for word in words_of(pair.source))
    contents = ModelFolder(
        folder_config,
        model,
        vocabularies.source,
        vocabularies.target,
        words if len(words) <= MOST_WORDS else None,
    )
    with Report(run / METRICS, config.train.steps, console) as report:
        state = train_model(
            model,
            fitting,
            config.data.batch_tokens,
            config.train,
            run / CHECKPOINTS,
            validate=make_validate(contents, valid_part),
            observer=report,
        )
    card = {
        "pairs": len(train_part),
        "data_sha256": fingerprint,
        "preset": proposal.preset,
        "steps": state.step,
        "best_valid_loss": state.best_loss,
        "settings": config.model_dump(),
        "torch": torch.__version__,
    }
    finished = ModelFolder(folder_config, model.eval(), vocabularies.source, vocabularies.target, contents.words, card)
    save_model(run / MODEL, finished)
    say(f"finished: {run / MODEL}")
    return Translator(finished)


def say_choices(say: Say, proposal: Proposal, config: Config, n_pairs: int, asked_for: str | None) -> None:
    """Print what was chosen and why, and what was asked for."""
    why = "as asked" if asked_for else f"the shape for {n_pairs:,} pairs; more weights would learn them by heart"
    say(f"preset {proposal.preset}: {why}")
    for name, reason in proposal.reasons.items():
        section, _, key = name.partition(".")
        value, proposed = getattr(getattr(config, section), key), proposal.settings[section][key]
        say(f"{name} {value:,}: {reason if value == proposed else 'as asked'}")


def default_valid_pairs(n_pairs: int) -> int:
    """A twentieth of the corpus, at most 1000 pairs."""
    return max(1, min(1000, n_pairs // 20))


def split_off(pairs: Sequence[Pair], n: int) -> tuple[list[Pair], list[Pair]]:
    """Split about n pairs off for validation; pairs with the same source stay together, so nothing is on both sides."""
    ranks = [zlib.crc32(pair.source.encode()) for pair in pairs]
    last = sorted(ranks)[min(n, len(pairs)) - 1]
    kept = [pair for pair, rank in zip(pairs, ranks, strict=True) if rank > last]
    return kept, [pair for pair, rank in zip(pairs, ranks, strict=True) if rank <= last]


def learn_vocabularies(pairs: Sequence[Pair], asked: Config, say: Say) -> Vocabularies:
    """One vocabulary for both sides, or one each."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    size = asked.text.vocab_size
    wanted = size or choose_size(2 * len(pairs) if asked.text.joint else len(pairs))
    say(f"learning the vocabulary from {len(pairs):,} pairs")
    sides = [[*sources, *targets]] if asked.text.joint else [sources, targets]
    found = [learn(lines, asked.text.kind, wanted, exact=size is not None) for lines in sides]
    vocabularies = Vocabularies(found[0], found[-1])
    sizes = " and ".join(f"{len(vocabulary):,}" for vocabulary in found)
    sharing = "joint" if asked.text.joint else "one for each side"
    why = "as asked" if size else f"small corpora want small vocabularies, this one has {len(pairs):,} pairs"
    say(f"text.vocab_size {sizes} {asked.text.kind} pieces, {sharing}: {why}")
    return vocabularies


def vocabulary_sizes(vocabularies: Vocabularies) -> dict[str, int | None]:
    """What the model must know of its vocabularies."""
    joint = vocabularies.source == vocabularies.target
    return {
        "vocab_size": len(vocabularies.source),
        "target_vocab_size": None if joint else len(vocabularies.target),
    }


def make_validate(contents: ModelFolder, pairs: Sequence[Pair]) -> Validate:
    """Loss on all validation pairs; BLEU and exact match of greedy translations of some of them."""
    examples = encode_pairs(pairs, contents.source_vocabulary, contents.target_vocabulary)
    some = pairs[:MOST_VALIDATED]

    def validate(model: Transformer) -> Validation:
        translator = Translator(contents)
        found = translator.translate([pair.source for pair in some], beam=1)
        texts, references = [translation.text for translation in found], [pair.target for pair in some]
        bleu = evaluate.bleu(texts, references)
        return Validation(
            loss=evaluate.loss(model, examples).value,
            bleu=bleu.value,
            signature=f"{bleu.signature}|beam:1|n:{len(some)}",
            exact_match=evaluate.exact_match(texts, references).value,
            sample=(some[0].source, texts[0]),
        )

    return validate


def fingerprint_of(pairs: Sequence[Pair]) -> str:
    """The SHA-256 of a corpus."""
    digest = hashlib.sha256()
    for pair in pairs:
        digest.update(f"{pair.source}\n{pair.target}\n".encode())
    return digest.hexdigest()


def check_run_folder(run: Path) -> None:
    """A run goes into a new or empty folder, or into its own."""
    if run.exists() and not run.is_dir():
        raise OutputError(f"{run} is a file: a run needs a folder of its own")
    if run.is_dir() and any(run.iterdir()) and not (run / SETTINGS).is_file():
        raise OutputError(f"{run} is not empty and holds no run: choose a new folder")


def check_same_run(run: Path, config: Config, fingerprint: str) -> None:
    """The same command continues a run; other settings or data are refused, with the list of what differs."""
    if not (run / SETTINGS).is_file():
        return
    changed = differences(resolve(read_toml(run / SETTINGS)), config)
    if read_json(run / DATA).get("sha256") != fingerprint:
        changed.append("the sentence pairs differ")
    if changed:
        raise OutputError(
            f"{run} already holds another run: {'; '.join(changed)}. Choose a new folder, or the old settings"
        )


def create_run_folder(run: Path, config: Config, fingerprint: str) -> None:
    """Make the folder and write down its settings and what it learns from."""
    try:
        (run / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        write_file(run / DATA, to_json({"sha256": fingerprint}))
        write_file(run / SETTINGS, to_toml(config).encode())
    except OSError as error:
        raise OutputError(f"cannot create the run folder {run}: {error.strerror}") from None
