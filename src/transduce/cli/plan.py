"""`transduce plan`: what a training would choose and cost."""

import json
from dataclasses import asdict
from typing import Annotated

from typer import Option

from transduce.cli.arguments import (
    Assignments,
    JsonFields,
    JsonOutput,
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
from transduce.cli.output import ignore_closed_pipe, log


def plan(
    source: SourceFiles = None,
    target: TargetFiles = None,
    pairs: PairFiles = None,
    fields: JsonFields = None,
    languages: LanguagePair = None,
    preset: PresetName = None,
    config: SettingsFile = None,
    assignments: Assignments = None,
    seconds: Annotated[float, Option(min=1, help="Time to spend on measuring.")] = 15.0,
    as_json: JsonOutput = False,
) -> None:
    """Show which settings `train` would choose, and estimate its time and memory here.

    Trains for a few seconds to measure the speed of this machine. Keeps nothing.

    \b
    Example:
      transduce plan --source train.en --target train.de
    """
    from transduce.text.corpus import open_pairs
    from transduce.training.plan import make_plan

    field_names = parse_fields(fields, pairs)
    source, target, pairs = parse_files(source, target, pairs)
    ignore_closed_pipe()
    corpus = open_pairs(source, target, pairs, field_names)
    settings = parse_settings(config, assignments, languages)
    found = make_plan(corpus, preset, settings, seconds, log)
    print(json.dumps(asdict(found)) if as_json else found.as_text())
