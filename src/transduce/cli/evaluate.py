"""`transduce evaluate`: score a model or its translations on a test set."""

from pathlib import Path
from typing import Annotated

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
from transduce.errors import UsageError


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

    Each score is printed with its sacreBLEU signature. With --source, the model translates first
    and its loss on the references is printed too. With --text, a language model is scored by its
    loss on a text.

    \b
    Examples:
      transduce evaluate -m runs/en-it --source test.en --reference test.it
      transduce evaluate --hypothesis out.it --reference test.it
      transduce evaluate -m runs/lm --text test.txt
    """
    search = (beam, alpha, length_penalty)
    has_search = any(option is not None for option in search)
    if text is not None:
        if model is None or reference or source or hypothesis or has_search:
            raise UsageError("a language model is evaluated with -m MODEL --text FILE only")
        from transduce.evaluation.likelihood import score_text
        from transduce.evaluation.test_sets import print_scores

        scores, fields = score_text(model, text)
        print_scores(scores, as_json, fields)
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
    from transduce.evaluation.test_sets import score_hypothesis, score_model

    if hypothesis is not None:
        score_hypothesis(hypothesis, reference, tokenize, as_json)
    elif source is not None:
        score_model(model, source, reference, tokenize, search, as_json)
