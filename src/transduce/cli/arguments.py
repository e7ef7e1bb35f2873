"""Options that several commands share, and the functions that parse them."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from transduce.config import Layer, parse_assignment, read_toml
from transduce.errors import UsageError
from transduce.text.files import check_stdin_used_once

FileNames = list[str] | None  # of a repeatable option; None if it was not given
FileOption = partial(Option, metavar="FILE")

# Model and search
ModelPath = Annotated[
    Path | None,
    Option(
        "-m",
        "--model",
        metavar="MODEL",
        help="Model folder or run folder. Default: the built-in en-it model.",
    ),
]
BeamSize = Annotated[
    int | None,
    Option(min=1, max=128, help="Beam size; 1 is greedy search. Default: the model's own."),
]
Alpha = Annotated[
    float | None,
    Option(min=0, max=10, help="Strength of the length penalty. Default: the model's own."),
]
LengthPenalty = Annotated[
    Literal["power", "paper"] | None,
    Option(help="Length penalty: power, or paper (Wu et al.). Default: the model's own."),
]
AlignmentsFile = Annotated[
    Path | None, FileOption(help="Write word alignments to FILE, one line each (Pharaoh format).")
]

# Corpora
SourceFiles = Annotated[
    FileNames, FileOption(help="Source text, one sentence per line. Repeatable.")
]
TargetFiles = Annotated[
    FileNames, FileOption(help="Target text: line n translates line n of --source. Repeatable.")
]
PairFiles = Annotated[
    FileNames, FileOption(help="Both sides in one file: .tsv, or .jsonl with two fields.")
]
JsonFields = Annotated[
    str | None,
    Option(metavar="SOURCE,TARGET", help="Field names in .jsonl files. Default: source,target."),
]
LanguagePair = Annotated[
    str | None,
    Option(metavar="FROM,TO", help="Languages, such as en,de. Default: the file name suffixes."),
]

# Settings
PresetName = Annotated[
    str | None, Option(help="nano, tiny, small, base, big, or a row of Table 3 of the paper.")
]
SettingsFile = Annotated[
    Path | None,
    FileOption("--config", help="TOML file of settings, such as the run.toml of another run."),
]
Assignments = Annotated[
    list[str] | None,
    Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting. Repeatable."),
]

# Evaluation and output
ReferenceFiles = Annotated[
    list[Path] | None, FileOption(help="Reference translations. Repeat for several references.")
]
Tokenizer = Annotated[
    str, Option(help="sacreBLEU tokenizer: 13a, intl, char, zh, or none (already tokenized).")
]
JsonOutput = Annotated[bool, Option("--json", help="Write JSON, one object per line.")]


def parse_settings(
    config: Path | None, assignments: list[str] | None, languages: str | None
) -> list[Layer]:
    """Return the settings of a command line as layers; a later layer overrides an earlier one."""
    layers: list[Layer] = []
    if config is not None:
        layers.append(read_toml(config))
    layers += [parse_assignment(assignment) for assignment in assignments or []]
    if languages is not None:
        layers.append({"text": {"languages": split_two(languages, "--languages")}})
    return layers


def parse_files(*options: FileNames) -> list[list[str]]:
    """Return the file names of each option, an empty list for an option that was not given.

    Raise UsageError if more than one of them is `-`: standard input can be read only once.
    """
    files = [names or [] for names in options]
    check_stdin_used_once(*files)
    return files


def parse_fields(fields: str | None, pair_files: FileNames) -> tuple[str, str] | None:
    """Return the two names of `--fields`. Raise UsageError if no pair file would use them."""
    if fields is None:
        return None
    if not pair_files:
        raise UsageError("--fields names fields of a .jsonl file; add --pairs FILE")
    return split_two(fields, "--fields")


def split_two(text: str, option: str) -> tuple[str, str]:
    """Split `en,de` into two names. Raise UsageError naming the option otherwise."""
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise UsageError(
            f"{option} is {text!r}; expected two names separated by a comma, such as en,de"
        )
    return names[0], names[1]


def split_languages(text: str | None) -> tuple[str, str] | None:
    """Split `en-fr` into two names; None stays None. Raise UsageError otherwise."""
    if text is None:
        return None
    names = text.replace(",", "-").split("-")
    if len(names) != 2 or not all(names):
        raise UsageError(
            f"--languages is {text!r}; expected two names with a hyphen, such as en-fr"
        )
    return names[0], names[1]
