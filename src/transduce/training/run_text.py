"""From text files to a language model: the same layers, loop, checkpoints and folders as a translator's."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from transduce.config import Config, Layer, resolve
from transduce.data import prepared
from transduce.data.prepared import Inputs
from transduce.data.shards import Stream, open_shards
from transduce.data.windows import Text
from transduce.decode.generator import Generator
from transduce.decode.load import load_generator
from transduce.decode.options import Sampling
from transduce.errors import ConfigError, DataError
from transduce.evaluation.likelihood import text_loss
from transduce.log import Log
from transduce.model import LanguageModel
from transduce.model_folder import ModelFolder
from transduce.presets import propose_text, text_shape_for
from transduce.storage import sha256, to_json
from transduce.text.files import find_files
from transduce.text.running_text import TextFiles, TextSource, read_normalized_lines, survey_text
from transduce.text.vocabulary import Vocabulary, choose_vocabulary_size, learn_vocabulary
from transduce.training import run_folder
from transduce.training.distributed import ALONE, Ranks, join
from transduce.training.loop import Validation
from transduce.training.prepare import say_reasons
from transduce.training.run import (
    VALID_SHARE,
    follow,
    is_finished,
    make_model,
    model_folder,
    n_valid_pieces,
    train_folder,
)
from transduce.training.run_folder import DATA
from transduce.training.start import Start, open_start

KIND: Layer = {"model": {"kind": "decoder-only", "norm": "pre"}, "train": {"label_smoothing": 0.0}}
SAMPLE_TOKENS = 60
PROBE_PIECES = 16
ALL_CHARACTERS = 256_000


def train_text(
    run: str | Path,
    files: Sequence[str | Path],
    preset: str | None = None,
    settings: Sequence[Layer] = (),
    console: Console | None = None,
    *,
    start: str | Path | None = None,
) -> Generator:
    """Train a language model from text files, each a document, into the folder `run`; `start` is one to train further."""
    ranks = join()
    if not ranks.is_first:
        follow(Path(run), ranks)
        return load_generator(Path(run))
    with ranks.answering():
        run_folder.check_run_folder(Path(run))
        source = TextFiles(find_files(files))
        console = console or Console(stderr=True, soft_wrap=True)
        begin = open_start(start, "decoder-only")
        return train_documents(Path(run), source, preset, settings, console, ranks, begin)


def train_documents(
    run: Path,
    source: TextSource,
    preset: str | None,
    settings: Sequence[Layer],
    console: Console,
    ranks: Ranks = ALONE,
    start: Start | None = None,
) -> Generator:
    """Train a language model from documents: choose, say what was chosen, train, save."""
    log = partial(console.print, highlight=False, markup=False)
    settings = run_folder.checked_settings(run, preset, settings, start, log, [KIND])
    inputs = prepared.describe_inputs(prepared.text_settings(settings), source.fingerprint(), [])
    given: Vocabulary | None = None
    if start:
        inputs["files"] += start.fingerprint()
        given, _ = start.vocabularies
    with run_folder.hold_run(run, inputs, log):
        manifest = prepared.find_prepared(run / DATA, inputs)
        manifest = manifest or make_prepared(source, settings, run / DATA, inputs, log, given)
        shape, config = choose(manifest, run / DATA, preset, settings, log)
        run_folder.check_same_settings(run, config)
        valid_ids = validation_text(Stream(open_shards(run / DATA)), config.model.window, log)
        if is_finished(run, log, ranks):
            return load_generator(run)
        card = {
            "pieces": prepared.total(manifest, "tokens"),
            "data_sha256": sha256(to_json(inputs)),
            "preset": shape,
        }
        card["settings"] = config.model_dump(mode="json")
        pieces = prepared.load_vocabularies(run / DATA)
        folder = model_folder(config, make_model(config, start), pieces, card, words=None)
        validate = partial(validate_text, folder, valid_ids)
        probe = folder.source_vocabulary.decode(valid_ids[:PROBE_PIECES].tolist())
        return Generator(train_folder(run, config, inputs, folder, validate, probe, console, ranks))


def make_prepared(
    source: TextSource,
    settings: Sequence[Layer],
    folder: Path,
    inputs: Inputs,
    log: Log,
    vocabulary: Vocabulary | None,
) -> dict[str, Any]:
    """Read the text twice: to learn the pieces unless they are given, then to encode it."""
    asked = prepared.text_settings(settings)
    form = asked.text.normalization
    found = survey_text(source, form)
    size = asked.text.vocab_size
    wanted = size or (
        ALL_CHARACTERS if asked.text.kind == "char" else choose_vocabulary_size(found.n_lines)
    )
    if vocabulary is None:
        log(f"learning the vocabulary from {len(found.sample):,} lines")
        vocabulary = learn_vocabulary(
            found.sample, asked.text.kind, wanted, exact=size is not None, is_text=True
        )
    counts = {"documents": found.n_documents, "characters": found.n_characters}
    return prepared.encode_into(
        folder, inputs, [vocabulary], read_normalized_lines(source, form), lambda: counts
    )


def choose(
    manifest: Mapping[str, Any],
    folder: Path,
    preset: str | None,
    settings: Sequence[Layer],
    log: Log,
) -> tuple[str, Config]:
    """The preset and the settings that suit a prepared text."""
    n_pieces, n_tokens = (
        len(prepared.load_vocabularies(folder)[0]),
        prepared.total(manifest, "tokens"),
    )
    shape = preset or text_shape_for(manifest["characters"])
    proposal = propose_text(n_tokens - int(n_tokens * VALID_SHARE), shape, settings)
    sizes: Layer = {"text": {"vocab_size": n_pieces}, "model": {"vocab_size": n_pieces}}
    config = resolve(proposal.settings, KIND, *settings, sizes)
    if config.model.kind != "decoder-only":
        raise ConfigError(
            f"model.kind is {config.model.kind!r}: a running text trains a decoder-only model"
        )
    documents = f"{manifest['documents']:,} document{'s' if manifest['documents'] != 1 else ''}"
    log(
        f"text: {documents}, {manifest['characters']:,} characters; {n_pieces:,} {config.text.kind} pieces"
    )
    log(f"preset {shape}: {'as asked' if preset else 'the shape for a text of this size'}")
    say_reasons(log, proposal, config)
    return shape, config


def validation_text(ids: Stream, window: int, log: Log) -> Stream:
    """The end of the text, to validate on; it and what is before it must each hold a window."""
    n_valid = n_valid_pieces(len(ids), window)
    if len(ids) - n_valid < window + 1:
        raise DataError(
            f"a text of {len(ids):,} pieces is too short for model.window = {window}: wanted at least {2 * (window + 1):,}, "
            "one window to learn from and one to validate on; give more text or a smaller window"
        )
    log(f"validation: the last {n_valid:,} of {len(ids):,} pieces")
    return ids.between(len(ids) - n_valid, len(ids))


def validate_text(folder: ModelFolder, ids: Text) -> Validation:
    """Loss, perplexity and bits a byte on a text, and a few words of the model's own."""
    assert isinstance(folder.model, LanguageModel), "a text is measured by a language model"
    measured = text_loss(folder.model, ids, folder.source_vocabulary)
    loss = measured[0].value
    if not math.isfinite(loss):
        return Validation(loss, {}, "", ("", ""))
    [sample] = Generator(folder).generate("", SAMPLE_TOKENS, Sampling(temperature=0.8))
    scores = {score.name: score.value for score in measured[1:]}
    return Validation(loss, scores, measured[0].signature, ("[SOS]", sample.text))
