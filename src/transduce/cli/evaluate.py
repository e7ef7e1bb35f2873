"""`transduce evaluate`: score a model or its translations on a test set."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from transduce.cli.arguments import (
    Alpha,
    BeamSize,
    FileOption,
    JsonOutput,
    LengthPenalty,
    ModelPath,
    ReferenceFiles,
    Tokenizer,
)
from transduce.cli.output import note, warn
from transduce.errors import UsageError

if TYPE_CHECKING:
    from transduce.evaluation.metrics import Score


def evaluate(
    reference: ReferenceFiles = None,
    source: Annotated[Path | None, FileOption(help="Text to translate with the model.")] = None,
    hypothesis: Annotated[
        Path | None, FileOption(help="Translations to score, instead of --source.")
    ] = None,
    text: Annotated[Path | None, FileOption(help="Text to score, for a language model.")] = None,
    model: ModelPath = None,
    tokenize: Tokenizer = "13a",
    beam: BeamSize = None,
    alpha: Alpha = None,
    length_penalty: LengthPenalty = None,
    as_json: JsonOutput = False,
) -> None:
    """Score translations against references: BLEU, chrF, TER and exact match.

    Each score is printed with its sacreBLEU signature. With --source, the model first translates
    each line as one segment, and its loss on the references is printed too. With --text, a
    language model is scored by its loss on a text.

    \b
    Examples:
      transduce evaluate -m runs/en-it --source test.en --reference test.it
      transduce evaluate --hypothesis out.it --reference test.it
      transduce evaluate -m runs/lm --text test.txt
    """
    has_search = any(option is not None for option in (beam, alpha, length_penalty))
    if text is not None:
        if model is None or reference or source or hypothesis or has_search:
            raise UsageError("a language model is evaluated with -m MODEL --text FILE only")
        from transduce.evaluation.likelihood import score_text

        scores, settings = score_text(model, text)
        for score in scores:
            _print_score(score, settings, as_json=as_json)
        return
    if not reference:
        raise UsageError("missing --reference FILE (or --text FILE for a language model)")
    if (source is None) == (hypothesis is None):
        raise UsageError(
            "expected either --source (to translate with the model) "
            "or --hypothesis (translations to score)"
        )
    if hypothesis is not None and (model is not None or has_search):
        raise UsageError(
            "--hypothesis is scored without a model; "
            "remove --model, --beam, --alpha and --length-penalty"
        )
    from transduce.evaluation.evaluate import SearchOptions, evaluate_hypotheses, evaluate_model

    if hypothesis is not None:
        rows = evaluate_hypotheses(hypothesis, reference, tokenize=tokenize, warn=warn)
    elif source is not None:
        search = SearchOptions(beam, alpha, length_penalty)
        rows = evaluate_model(
            model, source, reference, tokenize=tokenize, search=search, warn=warn, note=note
        )
    for score, settings in rows:
        _print_score(score, settings, as_json=as_json)


def _print_score(score: "Score", settings: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a score with its signature, to which the settings of the model are appended."""
    known = [f"|{name}:{value}" for name, value in settings.items() if value is not None]
    signature = score.signature + "".join(known)
    if as_json:
        record = {"name": score.name, "value": score.value, "signature": signature, **settings}
        print(json.dumps(record))
    else:
        digits = 3 if score.name == "loss" else 2
        print(f"{score.name} {score.value:.{digits}f}   {signature}")
