"""The training pipeline: from text files to a model folder.

    settings -> lock the run folder -> prepare the corpus -> choose settings -> build the model
    -> train -> save

It is the same for sentence pairs and for running text; training/tasks holds the differences.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from transduce.config import Config, Layer, resolve, to_toml
from transduce.data import prepared
from transduce.data.prepared import Inputs
from transduce.decode.generator import Generator
from transduce.decode.translator import Translator
from transduce.errors import ConfigError, DivergedError, StoppedError, UsageError
from transduce.model_folder import FolderConfig, ModelFolder, load_model, save_model
from transduce.presets import preset as preset_settings
from transduce.storage import sha256, to_json
from transduce.text.console import PrintableConsole
from transduce.text.corpus import open_pairs
from transduce.text.files import find_files
from transduce.text.running_text import TextFiles
from transduce.training import loop
from transduce.training.batches import open_batches
from transduce.training.callbacks.base import Callback
from transduce.training.callbacks.film import Film
from transduce.training.callbacks.metrics_file import MetricsFile
from transduce.training.callbacks.optional_writes import OptionalWrites
from transduce.training.callbacks.progress import ConsoleProgress
from transduce.training.callbacks.report_page import ReportPage
from transduce.training.callbacks.tensorboard import tensorboard_if_installed
from transduce.training.choices import choose_precision
from transduce.training.distributed import ALONE, Ranks, join
from transduce.training.loop import TrainingResult, Validate, measure
from transduce.training.run_folder import (
    BOARD,
    CHECKPOINTS,
    DATA,
    FILM,
    METRICS,
    MODEL,
    PAGE,
    check_run_folder,
    hold_run,
    record_settings,
    unwritten_settings,
)
from transduce.training.signals import catch_stop_signals
from transduce.training.start import load_start_model, make_model
from transduce.training.step import Model
from transduce.training.tasks.base import Task, TrainingSetup
from transduce.training.tasks.pairs import PairsTask
from transduce.training.tasks.text import TextTask

Paths = str | Path | Sequence[str | Path]


def train(
    run: str | Path,
    source: Paths = (),
    target: Paths = (),
    valid_source: Paths = (),
    valid_target: Paths = (),
    preset: str | None = None,
    settings: Sequence[Layer] = (),
    console: Console | None = None,
    *,
    pairs: Paths = (),
    valid_pairs: Paths = (),
    mix: Paths = (),
    fields: tuple[str, str] | None = None,
    start: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> Translator:
    """Train a translator from parallel text files, or from tables that hold both sides.

    `run` is the folder of the run; an unfinished run is resumed. `settings` are layers like
    `{"train": {"steps": 500}}`, of which later ones override earlier ones; the rest is chosen from
    the corpus. `start` is a finished model to fine-tune: its weights, shape and vocabulary are
    used. `mix` are tables of pairs like those that it was trained on, which are mixed in so that it
    forgets less. `callbacks` are called after the built-in ones.
    """
    if mix and start is None:
        raise UsageError(
            "--mix is for fine-tuning, with --from MODEL; give all files to --pairs instead"
        )

    def open_task() -> PairsTask:
        corpus = open_pairs(as_list(source), as_list(target), as_list(pairs), fields)
        mixed = open_pairs(pairs=as_list(mix), fields=fields) if mix else None
        if not (valid_source or valid_target or valid_pairs):
            return PairsTask(corpus, mix=mixed)
        if not valid_pairs and not (valid_source and valid_target):
            raise UsageError(
                "a validation set has two sides; "
                "give both --valid-source and --valid-target, or neither"
            )
        valid = open_pairs(
            as_list(valid_source), as_list(valid_target), as_list(valid_pairs), fields
        )
        return PairsTask(corpus, valid, mixed)

    return Translator(
        train_as_rank(
            Path(run), open_task, preset, settings, console, start=start, callbacks=callbacks
        )
    )


def train_text(
    run: str | Path,
    files: Sequence[str | Path],
    preset: str | None = None,
    settings: Sequence[Layer] = (),
    console: Console | None = None,
    *,
    start: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> Generator:
    """Train a language model from text files; each file is a document. See `train`."""
    return Generator(
        train_as_rank(
            Path(run),
            lambda: TextTask(TextFiles(find_files(files))),
            preset,
            settings,
            console,
            start=start,
            callbacks=callbacks,
        )
    )


def as_list(paths: Paths) -> Sequence[str | Path]:
    """Return one path or several as a sequence."""
    return [paths] if isinstance(paths, str | Path) else paths


def train_as_rank(
    run: Path,
    open_task: Callable[[], Task],
    preset: str | None,
    settings: Sequence[Layer],
    console: Console | None,
    *,
    start: str | Path | None,
    callbacks: Sequence[Callback],
) -> ModelFolder:
    """Join the other ranks, if there are any, and train; only the first rank opens the files."""
    ranks = join()
    if not ranks.is_first:
        follow(run, ranks)
        return load_model(run)
    with ranks.broadcast_errors():
        check_run_folder(run)
        return train_task(
            run,
            open_task(),
            preset,
            settings,
            console or PrintableConsole(stderr=True, soft_wrap=True),
            start=start,
            callbacks=callbacks,
            ranks=ranks,
        )


def train_task(
    run: Path,
    task: Task,
    preset: str | None,
    settings: Sequence[Layer],
    console: Console,
    *,
    start: str | Path | None = None,
    callbacks: Sequence[Callback] = (),
    ranks: Ranks = ALONE,
) -> ModelFolder:
    """Run the whole pipeline as the first rank and return the model.

    If the run is finished already, return its model.
    """
    log = partial(console.print, highlight=False, markup=False)
    start_model = load_start_model(start, task.kind)
    defaults = [task.defaults, unwritten_settings(run)]
    layers = [*defaults, *settings]
    if start_model:
        start_model.check(preset, settings, log)
        layers = [*defaults, start_model.settings, *settings]
    check_layers(preset, layers)

    requested = prepared.text_settings(layers)
    inputs = prepared.describe_inputs(requested, task.fingerprint())
    if start_model:
        inputs["files"] += start_model.fingerprint()

    with hold_run(run, inputs, log):
        manifest = prepared.find_prepared(run / DATA, inputs)
        if manifest is None:
            vocabularies = start_model.vocabularies if start_model else None
            manifest = task.encode(run / DATA, inputs, requested, log, vocabularies)
        else:
            log(f"data: using {run / DATA}, prepared from the same files")

        setup = task.set_up(
            manifest, run / DATA, preset, layers, log, is_fine_tuning=start_model is not None
        )
        config = setup.config
        if config.train.start_share and start_model is None:
            raise ConfigError(
                f"train.start_share is {config.train.start_share}, but no model is fine-tuned; "
                "give the start model with --from, or set it to 0"
            )
        record_settings(run, config, inputs)
        if (run / MODEL).exists():
            log(f"{run} is finished; the model is in {run / MODEL}")
            ranks.once(lambda: None, lambda values: None)  # None: there is nothing to train
            ranks.leave()
            return load_model(run)

        model = make_model(config, start_model)
        words = start_model.merge_words(setup.words) if start_model else setup.words
        folder = make_model_folder(setup, model, inputs, words)
        n_parameters = sum(parameter.numel() for parameter in model.parameters())
        log(f"model: {n_parameters:,} parameters")
        if ranks.size > 1:
            n_batches = ranks.size * config.train.accumulate
            log(
                f"{ranks.size} processes: each step uses {n_batches} batches "
                f"of {config.data.batch_tokens:,} tokens"
            )
        config = choose_precision(config, log)
        ranks.once(lambda: config.model_dump(mode="json"), dict)

        progress = ConsoleProgress(config.train.steps, console)
        own_callbacks = make_callbacks(run, setup, folder, inputs, progress)
        with catch_stop_signals() as stop:
            result = train_model(
                run,
                config,
                model,
                setup.make_validate(folder),
                [*own_callbacks, *callbacks],
                stop,
                ranks,
            )
        model.eval()

        state, final, weights = result.state, result.validation, result.weights
        share = config.train.start_share
        if start_model and share:
            start_model.blend(model, share)
            weights = f"{share:.0%} the start model, else {weights}"
            final = measure(model, setup.make_validate(folder))
            model.eval()
        if state.step < config.train.steps:
            metric = "validation loss" if config.train.better_by == "loss" else "BLEU"
            log(
                f"stopped at step {state.step}: {metric} has not improved "
                f"in {state.n_stale} validations (train.patience)"
            )
        card = {
            **folder.card,
            "precision": config.train.precision,
            "steps": state.step,
            "weights": weights,
            "valid_loss": final.loss,
        }
        finished = replace(folder, card=card)
        save_model(run / MODEL, finished)
        ranks.leave()
        log(f"finished: {run / MODEL}, validation loss {final.loss:.3f} (weights: {weights})")
        return finished


def check_layers(preset: str | None, layers: Sequence[Layer]) -> None:
    """Raise ConfigError for wrong settings before the corpus is read.

    Without a preset the shape of the model is not known yet, so the section `model` is not checked.
    """
    if preset:
        resolve(preset_settings(preset), *layers)
        return
    resolve(*({name: layer[name] for name in layer if name != "model"} for layer in layers))


def make_model_folder(
    setup: TrainingSetup, model: Model, inputs: Inputs, words: frozenset[str] | None
) -> ModelFolder:
    """Return the model with its vocabularies, settings and card."""
    config = setup.config
    return ModelFolder(
        FolderConfig(text=config.text, model=config.model, decode=config.decode),
        model,
        source_vocabulary=setup.vocabularies.source,
        target_vocabulary=setup.vocabularies.target,
        words=words,
        card={
            **setup.card,
            "data_sha256": sha256(to_json(inputs)),
            "preset": setup.preset,
            "settings": config.model_dump(mode="json"),
        },
    )


def make_callbacks(
    run: Path, setup: TrainingSetup, folder: ModelFolder, inputs: Inputs, progress: ConsoleProgress
) -> list[Callback]:
    """Return the built-in callbacks, which write progress and results to console and run folder."""
    config = setup.config
    n_parameters = sum(parameter.numel() for parameter in folder.model.parameters())
    known = ("pairs", "pieces", "preset", "data_sha256")
    languages = config.text.languages
    facts = {
        "parameters": f"{n_parameters:,}",
        **{name: folder.card[name] for name in known if name in folder.card},
        **{f"{side} file": name for side, name, _ in inputs["files"]},
        "languages": " -> ".join(languages) if languages else "unknown",
        "vocabulary": f"{len(folder.source_vocabulary):,} {config.text.kind} tokens",
    }
    writes = OptionalWrites(progress.on_note)
    return [
        MetricsFile(run / METRICS, config.train.steps, writes),
        ReportPage(
            run / PAGE,
            run / METRICS,
            writes,
            title=run.name,
            facts=facts,
            settings=to_toml(config),
        ),
        progress,
        *tensorboard_if_installed(run / BOARD),
        Film(run / FILM, folder, setup.probe, progress.on_note),
    ]


def follow(run: Path, ranks: Ranks) -> None:
    """Train as a rank that is not the first.

    Wait until the first rank has prepared everything, train along, and return when the model is
    saved.
    """
    values: Layer | None = ranks.once(lambda: None, lambda values: values)
    if values is None:  # the run is finished already
        ranks.leave()
        return
    config = resolve(values)
    try:
        with catch_stop_signals() as stop:
            train_model(run, config, make_model(config), None, (), stop, ranks)
    except (StoppedError, DivergedError) as error:
        error.already_reported = True  # all ranks raise it, the first one reports it
        raise
    ranks.leave()


def train_model(
    run: Path,
    config: Config,
    model: Model,
    validate: Validate | None,
    callbacks: Sequence[Callback],
    stop: loop.Stop,
    ranks: Ranks,
) -> TrainingResult:
    """Run the training loop of one rank on the prepared corpus of a run folder."""
    return loop.train(
        model,
        open_batches(run / DATA, config, ranks),
        config.train,
        run / CHECKPOINTS,
        validate=validate,
        callbacks=callbacks,
        stop=stop,
        ranks=ranks,
    )
