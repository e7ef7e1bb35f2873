"""`transduce train`: train a translator or a language model."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from transduce.cli.arguments import (
    Assignments,
    FileNames,
    FileOption,
    JsonFields,
    LanguagePair,
    PairFiles,
    PresetName,
    SettingsFile,
    SourceFiles,
    TargetFiles,
    parse_fields,
    parse_files,
    parse_settings,
)
from transduce.cli.output import ignore_closed_pipe, ignore_hangup, log, stderr_console
from transduce.errors import UsageError


def train(
    run: Annotated[
        Path,
        Argument(
            metavar="RUN",
            help="Folder for settings, metrics, checkpoints and the model.",
            show_default=False,
        ),
    ],
    source: SourceFiles = None,
    target: TargetFiles = None,
    pairs: PairFiles = None,
    fields: JsonFields = None,
    text: Annotated[
        FileNames, FileOption(help="Text to train a language model on. Repeatable.")
    ] = None,
    valid_source: Annotated[
        FileNames, FileOption(help="Source side of the validation set. Default: split off.")
    ] = None,
    valid_target: Annotated[
        FileNames, FileOption(help="Target side of the validation set.")
    ] = None,
    valid_pairs: Annotated[
        FileNames, FileOption(help="Validation set with both sides in one file.")
    ] = None,
    languages: LanguagePair = None,
    preset: PresetName = None,
    config: SettingsFile = None,
    assignments: Assignments = None,
    start: Annotated[
        Path | None,
        Option(
            "--from",
            metavar="MODEL",
            help="Fine-tune MODEL: start from its weights, shape and vocabulary.",
        ),
    ] = None,
    mix: Annotated[
        FileNames,
        FileOption(
            help="Mix in pairs of the text that MODEL was trained on (.tsv, .jsonl), so that it "
            "forgets less. Repeatable."
        ),
    ] = None,
    processes: Annotated[
        int, Option(min=1, max=1024, help="Number of training processes on this machine.")
    ] = 1,
    verify_resume: Annotated[
        bool,
        Option(
            "--verify-resume",
            help="Only check that this training, killed and resumed, ends in the same weights.",
        ),
    ] = False,
) -> None:
    """Train a translator from two text files, or a language model from one.

    Settings that you do not give are chosen from the corpus and printed. Run the same command
    again to resume a run that was interrupted.

    Files may be compressed (.gz, .xz, .zst). For several files repeat the option or quote a
    pattern such as 'part-*.en'; - is standard input.

    \b
    Examples:
      transduce train runs/en-it --source train.en --target train.it
      transduce train runs/en-it --pairs train.tsv --preset small
      transduce train runs/mine --from runs/en-it --pairs mine.tsv
      transduce train runs/lm --text corpus.txt
    """
    has_pairs = bool(source or target or pairs)
    has_validation = bool(valid_source or valid_target or valid_pairs)
    is_ambiguous = text and (has_pairs or has_validation)
    if is_ambiguous or not (text or has_pairs):
        raise UsageError(
            "expected either --source and --target (or --pairs) for a translator, "
            "or --text for a language model"
        )
    if text and languages is not None:
        raise UsageError("--languages is for sentence pairs; remove it to train with --text")
    if mix and text:
        raise UsageError("--mix is for sentence pairs; remove it to train with --text")
    field_names = parse_fields(fields, pairs or valid_pairs)
    files = parse_files(source, target, pairs, text, valid_source, valid_target, valid_pairs, mix)
    source, target, pairs, text, valid_source, valid_target, valid_pairs, mix = files
    ignore_closed_pipe()
    ignore_hangup()
    settings = parse_settings(config, assignments, languages)
    if (verify_resume or processes > 1) and any("-" in names for names in files):
        raise UsageError(
            "standard input can be read only once; with --processes or --verify-resume give files"
        )

    if verify_resume:
        from transduce.training.verify_resume import verify_resume as verify

        arguments = [argument for argument in sys.argv[2:] if argument != "--verify-resume"]
        verify(run, arguments, log)
        return
    if processes > 1:
        _launch_ranks(processes)

    if text:
        from transduce.training.run import train_text

        train_text(run, text, preset, settings, stderr_console(), start=start)
        return
    from transduce.training.run import train as train_run

    train_run(
        run,
        source,
        target,
        valid_source,
        valid_target,
        preset,
        settings,
        stderr_console(),
        pairs=pairs,
        valid_pairs=valid_pairs,
        mix=mix,
        fields=field_names,
        start=start,
    )


def _launch_ranks(processes: int) -> None:
    """Start the ranks, wait for them and exit; in a process that is itself a rank, return."""
    from transduce.training.launch import PARENT, end_with_parent, launch

    if PARENT in os.environ:
        end_with_parent()
    elif "WORLD_SIZE" in os.environ:
        raise UsageError("torchrun has already started this process; remove --processes")
    else:
        raise typer.Exit(launch(sys.argv[1:], processes, log))
