"""From two text files to a model folder: the whole of a training."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from transduce.config import Config, Layer, resolve, to_toml
from transduce.data.order import stream
from transduce.data.prepared import Inputs
from transduce.data.shards import Stream, open_shards
from transduce.data.windows import window_stream
from transduce.decode.load import load_translator
from transduce.decode.translator import Translator
from transduce.errors import DivergedError, StoppedError, UsageError
from transduce.hardware import find_device, has_bfloat16
from transduce.log import Log
from transduce.model.weights import build, load_weights, weights_of
from transduce.model_folder import FolderConfig, ModelFolder, save_model
from transduce.reports.training import training_page
from transduce.storage import replace_file
from transduce.text.corpus import PairSource, open_pairs
from transduce.text.vocabulary import Vocabulary
from transduce.training import run_folder
from transduce.training.callbacks.film import Film
from transduce.training.callbacks.progress import Report
from transduce.training.callbacks.tensorboard import with_board
from transduce.training.distributed import ALONE, Ranks, join
from transduce.training.loop import (
    Batches,
    Callback,
    SilentCallback,
    Stop,
    TrainingResult,
    Validate,
    Validation,
)
from transduce.training.loop import train as train_model
from transduce.training.prepare import inputs_of, open_examples, prepare
from transduce.training.run_folder import BOARD, CHECKPOINTS, DATA, FILM, METRICS, MODEL, PAGE
from transduce.training.signals import listening
from transduce.training.start import Start, open_start
from transduce.training.step import Model
from transduce.training.validation import make_validate

VALID_SHARE = 0.1  # of a text, its end


def train(
    run: str | Path,
    source: str | Path | Sequence[str | Path] = (),
    target: str | Path | Sequence[str | Path] = (),
    valid_source: str | Path | Sequence[str | Path] = (),
    valid_target: str | Path | Sequence[str | Path] = (),
    preset: str | None = None,
    settings: Sequence[Layer] = (),
    console: Console | None = None,
    *,
    pairs: str | Path | Sequence[str | Path] = (),
    valid_pairs: str | Path | Sequence[str | Path] = (),
    fields: tuple[str, str] | None = None,
    start: str | Path | None = None,
) -> Translator:
    """Train a translator into the folder `run`, from parallel text files or from tables that hold both sides.

    `settings` are layers like `{"train": {"steps": 500}}`, later ones winning; what they leave out, the corpus suggests.
    `start` is a model to train further: it gives weights, shape and vocabulary.
    """
    ranks = join()
    if not ranks.is_first:
        follow(Path(run), ranks)
        return load_translator(Path(run))
    with ranks.answering():
        run_folder.check_run_folder(Path(run))
        corpus = open_pairs(several(source), several(target), several(pairs), fields)
        valid = None
        if valid_source or valid_target or valid_pairs:
            if not valid_pairs and not (valid_source and valid_target):
                raise UsageError(
                    "a validation set has two sides: give both --valid-source and --valid-target, or neither"
                )
            valid = open_pairs(
                several(valid_source), several(valid_target), several(valid_pairs), fields
            )
        console = console or Console(stderr=True, soft_wrap=True)
        begin = open_start(start, "encoder-decoder")
        return train_pairs(Path(run), corpus, valid, preset, settings, console, ranks, begin)


def several(paths: str | Path | Sequence[str | Path]) -> Sequence[str | Path]:
    """One path or several, as several."""
    return [paths] if isinstance(paths, str | Path) else paths


def train_pairs(
    run: Path,
    pairs: PairSource,
    valid: PairSource | None,
    preset: str | None,
    settings: Sequence[Layer],
    console: Console,
    ranks: Ranks = ALONE,
    start: Start | None = None,
) -> Translator:
    """Train a translator from pairs: choose, say what was chosen, train, save."""
    log = partial(console.print, highlight=False, markup=False)
    settings = run_folder.checked_settings(run, preset, settings, start, log)
    inputs = inputs_of(pairs, valid, settings)
    if start:
        inputs["files"] += start.fingerprint()
    with run_folder.hold_run(run, inputs, log):
        given = start.vocabularies if start else None
        prepared = prepare(pairs, valid, preset, settings, run / DATA, log, inputs, given)
        config = prepared.config
        run_folder.check_same_settings(run, config)
        if is_finished(run, log, ranks):
            return load_translator(run)
        card = {
            "pairs": prepared.n_pairs,
            "data_sha256": prepared.fingerprint,
            "preset": prepared.preset,
        }
        card |= {"settings": config.model_dump(), "torch": torch.__version__}
        words = start.words_with(prepared.words) if start else prepared.words
        folder = model_folder(config, make_model(config, start), prepared.vocabularies, card, words)
        validate = make_validate(folder, prepared)
        probe = prepared.valid_pairs[0].source
        return Translator(
            train_folder(run, config, inputs, folder, validate, probe, console, ranks)
        )


def is_finished(run: Path, log: Log, ranks: Ranks) -> bool:
    """Whether a run has its model already; then that is said, and the other ranks are told that there is nothing to do."""
    if not (run / MODEL).exists():
        return False
    ranks.once(lambda: None, lambda values: None)
    ranks.leave()
    log(f"{run} is finished: its model is in {run / MODEL}")
    return True


def train_folder(
    run: Path,
    config: Config,
    inputs: Inputs,
    folder: ModelFolder,
    validate: Validate,
    probe: str,
    console: Console,
    ranks: Ranks,
) -> ModelFolder:
    """Train a model in a run folder that is held, from its last checkpoint if it has one, and save it there.

    `probe` is the text of its film.
    """
    log = partial(console.print, highlight=False, markup=False)
    n_parameters = sum(parameter.numel() for parameter in folder.model.parameters())
    log(f"model: {n_parameters:,} parameters")
    if ranks.size > 1:
        n_batches = ranks.size * config.train.accumulate
        log(
            f"{ranks.size} processes: a step takes {n_batches} batches of {config.data.batch_tokens:,} pieces"
        )
    run_folder.create_run_folder(run, config, inputs)
    settled = settle_precision(config, log)
    ranks.once(lambda: settled.model_dump(mode="json"), dict)
    facts = {
        "parameters": f"{n_parameters:,}",
        **{
            name: folder.card[name]
            for name in ("pairs", "pieces", "preset", "data_sha256")
            if name in folder.card
        },
        **{f"{side} file": name for side, name, _ in inputs["files"]},
        "languages": " -> ".join(config.text.languages) if config.text.languages else "not said",
        "vocabulary": f"{len(folder.source_vocabulary):,} {config.text.kind} pieces",
    }

    def write_page(rows: Sequence[Mapping[str, Any]]) -> None:
        replace_file(run / PAGE, training_page(run.name, rows, facts, to_toml(config)).encode())

    report = Report(run / METRICS, config.train.steps, console, write_page=write_page)
    with listening() as stop, report.bar:
        observer = Film(with_board(report, run / BOARD), run / FILM, folder, probe)
        trained = train_rank(run, settled, folder.model, validate, observer, stop, ranks)
    folder.model.eval()
    final, state = trained.validation, trained.state
    if state.step < config.train.steps:
        what = "validation loss" if config.train.better_by == "loss" else "BLEU"
        log(
            f"stopped at step {state.step}: no better {what} in {state.n_stale} validations (train.patience)"
        )
    card = {**folder.card, "precision": settled.train.precision, "steps": state.step}
    card |= {"weights": trained.weights, "valid_loss": final.loss}
    finished = replace(folder, card=card)
    save_model(run / MODEL, finished)
    ranks.leave()
    log(
        f"finished: {run / MODEL} has the weights of {trained.weights}: validation loss {final.loss:.3f}"
    )
    return finished


def follow(run: Path, ranks: Ranks) -> None:
    """Train as one of the ranks that are not the first: wait until that has prepared everything, then go along until its model is
    saved."""
    values: Layer | None = ranks.once(lambda: None, lambda values: values)
    if values is None:  # there is nothing to do
        ranks.leave()
        return
    config = resolve(values)
    try:
        with listening() as stop:
            train_rank(
                run,
                config,
                make_model(config),
                validate_on_first_rank_only,
                SilentCallback(),
                stop,
                ranks,
            )
    except (StoppedError, DivergedError) as error:
        error.already_reported = True  # what ends all ranks alike, the first one says
        raise
    ranks.leave()


def train_rank(
    run: Path,
    config: Config,
    model: Model,
    validate: Validate,
    observer: Callback,
    stop: Stop,
    ranks: Ranks,
) -> TrainingResult:
    """What one of the ranks does of a training."""
    train = partial(
        train_model, model, open_batches(run / DATA, config, ranks), config.train, run / CHECKPOINTS
    )
    return train(validate=validate, observer=observer, stop=stop, ranks=ranks)


def validate_on_first_rank_only() -> Validation:
    """Only the first rank validates."""
    raise AssertionError("the first rank validates")


def make_model(config: Config, start: Start | None = None) -> Model:
    """The model before its first step: a function of the settings, the seed among them, or of the model it starts from."""
    torch.manual_seed(config.train.seed)
    model = build(config.model)
    if start:
        load_weights(model, weights_of(start.folder.model), start.path)
    return model.to(find_device())


def settle_precision(config: Config, log: Log) -> Config:
    """The settings with the precision that this machine gives, if that was left to it."""
    if config.train.precision != "auto":
        return config
    found = "bfloat16" if has_bfloat16(find_device()) else "float32"
    if found == "bfloat16":
        log(
            "train.precision bfloat16 for matrix products, which this processor has; weights stay float32"
        )
    return config.model_copy(update={"train": config.train.model_copy(update={"precision": found})})


def open_batches(folder: Path, config: Config, ranks: Ranks) -> Batches:
    """A rank's batches of a prepared corpus."""
    budget, seed = config.data.batch_tokens, config.train.seed
    if config.model.kind == "encoder-decoder":
        return partial(
            stream, open_examples(folder, config), budget, seed, rank=ranks.rank, n_ranks=ranks.size
        )
    window = config.model.window
    ids = Stream(open_shards(folder))
    learnt = ids.between(0, len(ids) - n_valid_pieces(len(ids), window))
    return partial(window_stream, learnt, window, budget, seed, rank=ranks.rank, n_ranks=ranks.size)


def n_valid_pieces(n_pieces: int, window: int) -> int:
    """How much of a text, at its end, is there to validate on: a tenth, and at least one window."""
    return max(window + 1, int(n_pieces * VALID_SHARE))


def model_folder(
    config: Config,
    model: Model,
    pieces: Sequence[Vocabulary],
    card: Mapping[str, Any],
    words: frozenset[str] | None,
) -> ModelFolder:
    """The model with all it needs to read and write text, and a card that says where it comes from."""
    source, target = pieces
    kept = FolderConfig(text=config.text, model=config.model, decode=config.decode)
    return ModelFolder(
        kept, model, source_vocabulary=source, target_vocabulary=target, words=words, card=card
    )
