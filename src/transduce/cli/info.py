"""`transduce info`: the shape of a model."""

import json
from typing import Annotated

from typer import Option

from transduce.cli.arguments import JsonOutput, ModelPath
from transduce.cli.output import print_report
from transduce.errors import UsageError


def info(
    model: ModelPath = None,
    preset: Annotated[str | None, Option(help="Describe a preset instead of a model.")] = None,
    vocab: Annotated[
        int | None,
        Option(
            min=1,
            help="With --preset: vocabulary size. Default: 37000, as in section 5.1 of the paper.",
        ),
    ] = None,
    as_json: JsonOutput = False,
) -> None:
    """Show the shape of a model and the number of parameters of each part.

    \b
    Examples:
      transduce info -m runs/en-it
      transduce info --preset base --vocab 37000
    """
    if model is not None and preset is not None:
        raise UsageError("expected either -m MODEL or --preset NAME, not both")
    if vocab is not None and preset is None:
        raise UsageError("--vocab is for --preset only; a trained model has its own vocabulary")
    from transduce.inspection.summary import PAPER_VOCAB_SIZE, describe_model, describe_preset

    if preset is not None:
        description = describe_preset(preset, vocab or PAPER_VOCAB_SIZE)
    else:
        description = describe_model(model)
    if as_json:
        print(json.dumps(description.as_dict()))
    else:
        print_report(description.as_text())
