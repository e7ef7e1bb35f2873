"""From two text files to a model folder: the run folder and the whole of a training.

RUN/run.toml         every setting of the run            RUN/checkpoints/   the last ones and the best
RUN/metrics.jsonl    what happened, a row at a time      RUN/model/         the finished model
RUN/data.json        the SHA-256 of what it learns from
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from transduce import evaluate
from transduce.app.lock import LOCK, held
from transduce.app.prepare import Prepared, prepare
from transduce.checkpoint import PARTIAL, FolderConfig, ModelFolder, read_json, save_model, to_json, write_file
from transduce.config import Config, Layer, differences, read_toml, resolve, to_toml
from transduce.data.stream import stream
from transduce.decode.load import load_translator
from transduce.decode.translator import Translator, words_of
from transduce.errors import OutputError, UsageError
from transduce.model import Transformer
from transduce.text.corpus import Corpus, read_pairs
from transduce.training.loop import Batches, Validate, Validation
from transduce.training.loop import train as train_model
from transduce.training.report import Report, trim_metrics
from transduce.training.state import checkpoints, load_step

SETTINGS, DATA, METRICS, CHECKPOINTS, MODEL = "run.toml", "data.json", "metrics.jsonl", "checkpoints", "model"
MOST_WORDS = 100_000  # of the source side, kept in the model folder to tell unseen words
MOST_VALIDATED = 500  # validation pairs that are translated for BLEU; the loss uses all


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
        raise UsageError("a validation set has two sides: give both --valid-source and --valid-target, or neither")
    check_run_folder(Path(run))
    corpus = read_pairs(Path(source), Path(target))
    valid = read_pairs(Path(valid_source), Path(valid_target)) if valid_source and valid_target else None
    return train_pairs(Path(run), corpus, valid, preset, settings, console or Console(stderr=True, soft_wrap=True))


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
    prepared = prepare(corpus, valid, preset, settings, say)
    config = prepared.config
    check_same_run(run, config, prepared.fingerprint)
    if (run / MODEL).exists():
        say(f"{run} is finished: its model is in {run / MODEL}")
        return load_translator(run)
    torch.manual_seed(config.train.seed)
    folder = model_folder(prepared, Transformer(config.model))
    batches = partial(stream, prepared.examples, config.data.batch_tokens, config.train.seed)
    validate = make_validate(folder, prepared)
    return Translator(train_folder(run, config, prepared.fingerprint, folder, batches, validate, console))


def train_folder(
    run: Path,
    config: Config,
    fingerprint: str,
    folder: ModelFolder,
    batches: Batches,
    validate: Validate,
    console: Console,
) -> ModelFolder:
    """Train a model in a run folder, from its last checkpoint if it has one, and save it there."""
    say = partial(console.print, highlight=False, markup=False)
    say(f"model: {sum(parameter.numel() for parameter in folder.model.parameters()):,} parameters")
    create_run_folder(run, config, fingerprint)
    with held(run):
        saved = checkpoints(run / CHECKPOINTS)
        if saved:
            say(f"continuing from {saved[-1].name}")
        trim_metrics(run / METRICS, load_step(saved[-1]) if saved else 0)
        with Report(run / METRICS, config.train.steps, console) as report:
            trained = train_model(
                folder.model, batches, config.train, run / CHECKPOINTS, validate=validate, observer=report
            )
        folder.model.eval()
        final, state = trained.validation, trained.state
        if state.step < config.train.steps:
            say(
                f"stopped at step {state.step}: no better validation loss in {state.n_stale} validations (train.patience)"
            )
        card = {**folder.card, "steps": state.step, "weights": trained.weights, "valid_loss": final.loss}
        finished = replace(folder, card=card)
        save_model(run / MODEL, finished)
        say(f"finished: {run / MODEL} has the weights of {trained.weights}: validation loss {final.loss:.3f}")
    return finished


def model_folder(prepared: Prepared, model: Transformer) -> ModelFolder:
    """The model with all it needs to read and write text, and a card that says where it comes from."""
    config = prepared.config
    words = frozenset(word for pair in prepared.train_pairs for word in words_of(pair.source))
    return ModelFolder(
        config=FolderConfig(text=config.text, model=config.model, decode=config.decode),
        model=model,
        source_vocabulary=prepared.vocabularies.source,
        target_vocabulary=prepared.vocabularies.target,
        words=words if len(words) <= MOST_WORDS else None,
        card={
            "pairs": len(prepared.train_pairs),
            "data_sha256": prepared.fingerprint,
            "preset": prepared.preset,
            "settings": config.model_dump(),
            "torch": torch.__version__,
        },
    )


def make_validate(folder: ModelFolder, prepared: Prepared) -> Validate:
    """Loss on all validation pairs; BLEU and exact match of greedy translations of some of them."""
    some = prepared.valid_pairs[:MOST_VALIDATED]
    references = [pair.target for pair in some]

    def validate() -> Validation:
        loss = evaluate.loss(folder.model, prepared.valid_examples).value
        if not math.isfinite(loss):
            return Validation(loss, {}, "", (some[0].source, ""))
        found = Translator(folder).translate([pair.source for pair in some], beam=1)
        texts = [translation.text for translation in found]
        bleu = evaluate.bleu(texts, references)
        return Validation(
            loss=loss,
            scores={"BLEU": bleu.value, "exact match": evaluate.exact_match(texts, references).value},
            signature=f"{bleu.signature}|beam:1|n:{len(some)}",
            sample=(some[0].source, texts[0]),
        )

    return validate


def check_run_folder(run: Path) -> None:
    """A run goes into a new or empty folder, or into its own."""
    if run.exists() and not run.is_dir():
        raise OutputError(f"{run} is a file: a run needs a folder of its own")
    if run.is_dir() and not (run / SETTINGS).is_file():
        begun = {DATA, CHECKPOINTS, LOCK, SETTINGS + PARTIAL}  # a run that was stopped while its folder was made
        if not {entry.name for entry in run.iterdir()} <= begun:
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
    """Make the folder and write down what it learns from and, last and at once, its settings."""
    if (run / SETTINGS).is_file():
        return
    try:
        (run / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        write_file(run / DATA, to_json({"sha256": fingerprint}))
        write_file(run / (SETTINGS + PARTIAL), to_toml(config).encode())
        (run / (SETTINGS + PARTIAL)).rename(run / SETTINGS)
    except OSError as error:
        raise OutputError(f"cannot create the run folder {run}: {error.strerror}") from None
