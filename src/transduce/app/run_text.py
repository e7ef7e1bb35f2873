"""From text files to a language model: the same layers, loop, checkpoints and folders as a translator's."""

import hashlib
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from transduce import evaluate
from transduce.app.prepare import Say, say_reasons
from transduce.app.run import MODEL, check_run_folder, check_same_run, train_folder
from transduce.checkpoint import FolderConfig, ModelFolder
from transduce.config import Config, Layer, resolve
from transduce.data.windows import Ids, encode_text, window_stream
from transduce.decode.generator import Generator
from transduce.decode.load import load_generator
from transduce.decode.sample import Sampling
from transduce.errors import DataError
from transduce.model import LanguageModel
from transduce.presets import preset as preset_settings
from transduce.presets import propose_text, text_shape_for
from transduce.text.corpus import read_text
from transduce.text.vocabulary import Vocabulary, choose_size, learn
from transduce.training.loop import Validation

VALID_SHARE = 0.1  # the last tenth of the text
SAMPLE_TOKENS = 60
ALL_CHARACTERS = 256_000


def train_text(
    run: str | Path,
    files: Sequence[str | Path],
    preset: str | None = None,
    settings: Sequence[Layer] = (),
    console: Console | None = None,
) -> Generator:
    """Train a language model from text files, each a document, into the folder `run`."""
    run = Path(run)
    check_run_folder(run)
    documents = [read_text(Path(file)) for file in files]
    return train_documents(run, documents, preset, settings, console or Console(stderr=True, soft_wrap=True))


def train_documents(
    run: Path, documents: Sequence[str], preset: str | None, settings: Sequence[Layer], console: Console
) -> Generator:
    """Train a language model from documents: choose, say what was chosen, train, save."""
    say = partial(console.print, highlight=False, markup=False)
    shape = preset or text_shape_for(sum(map(len, documents)))
    kind: Layer = {"model": {"kind": "decoder-only", "norm": "pre"}, "train": {"label_smoothing": 0.0}}
    asked = resolve(preset_settings(shape), kind, *settings)
    vocabulary = learn_text(documents, asked, say)
    ids = encode_text(documents, vocabulary)
    train_ids, valid_ids = divide_text(ids, asked.model.window, say)
    proposal = propose_text(len(train_ids), shape, settings)
    sizes: Layer = {"text": {"vocab_size": len(vocabulary)}, "model": {"vocab_size": len(vocabulary)}}
    config = resolve(proposal.settings, kind, *settings, sizes)
    say(f"preset {shape}: {'as asked' if preset else 'the shape for a text of this size'}")
    say_reasons(say, proposal, config)
    fingerprint = hashlib.sha256("\0".join(documents).encode()).hexdigest()
    check_same_run(run, config, fingerprint)
    if (run / MODEL).exists():
        say(f"{run} is finished: its model is in {run / MODEL}")
        return load_generator(run)
    torch.manual_seed(config.train.seed)
    folder = ModelFolder(
        config=FolderConfig(text=config.text, model=config.model, decode=config.decode),
        model=LanguageModel(config.model),
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        card={"pieces": len(ids), "data_sha256": fingerprint, "preset": shape, "settings": config.model_dump()},
    )
    batches = partial(window_stream, train_ids, config.model.window, config.data.batch_tokens, config.train.seed)

    def validate() -> Validation:
        return validate_text(folder, valid_ids)

    return Generator(train_folder(run, config, fingerprint, folder, batches, validate, console))


def learn_text(documents: Sequence[str], asked: Config, say: Say) -> Vocabulary:
    """The vocabulary of a running text."""
    lines = [line for document in documents for line in document.split("\n")]
    size = asked.text.vocab_size
    wanted = size or (ALL_CHARACTERS if asked.text.kind == "char" else choose_size(len(lines)))
    vocabulary = learn(lines, asked.text.kind, wanted, exact=size is not None, is_text=True)
    n_characters = sum(map(len, documents))
    say(f"text: {len(documents)} documents, {n_characters:,} characters; {len(vocabulary):,} {asked.text.kind} pieces")
    return vocabulary


def divide_text(ids: Ids, window: int, say: Say) -> tuple[Ids, Ids]:
    """The text to learn from and its last tenth, to validate on; each must hold a window."""
    n_valid = max(window + 1, int(len(ids) * VALID_SHARE))
    if len(ids) - n_valid < window + 1:
        raise DataError(
            f"a text of {len(ids):,} pieces is too short for model.window = {window}: wanted at least {2 * (window + 1):,}, "
            "one window to learn from and one to validate on; give more text or a smaller window"
        )
    say(f"validation: the last {n_valid:,} of {len(ids):,} pieces")
    return ids[:-n_valid], ids[-n_valid:]


def validate_text(folder: ModelFolder, ids: Ids) -> Validation:
    """Loss, perplexity and bits a byte on a text, and a few words of the model's own."""
    assert isinstance(folder.model, LanguageModel), "a text is measured by a language model"
    measured = evaluate.text_loss(folder.model, ids, folder.source_vocabulary)
    loss = measured[0].value
    if not math.isfinite(loss):
        return Validation(loss, {}, "", ("", ""))
    [sample] = Generator(folder).generate("", SAMPLE_TOKENS, Sampling(temperature=0.8))
    scores = {score.name: score.value for score in measured[1:]}
    return Validation(loss, scores, measured[0].signature, ("[SOS]", sample.text))


def score_text(model: Path, file: Path) -> tuple[evaluate.Score, evaluate.Score, evaluate.Score]:
    """Loss, perplexity and bits a byte of a language model on a text file."""
    generator = load_generator(model)
    ids = encode_text([read_text(file)], generator.vocabulary)
    if len(ids) <= generator.window:
        raise DataError(f"{file} has {len(ids):,} pieces, wanted more than the window of the model, {generator.window}")
    return evaluate.text_loss(generator.model, ids, generator.vocabulary)
