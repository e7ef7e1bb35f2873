"""`transduce score`: the scores of given translations."""

from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Annotated

from transduce.cli.arguments import (
    AlignmentsFile,
    Alpha,
    FileOption,
    JsonOutput,
    LengthPenalty,
    ModelPath,
)
from transduce.cli.output import check_outputs, json_line
from transduce.outputs import open_text_output

BATCH_SIZE = 1024  # pairs that are scored at once
FIELDS = ("source", "text", "score", "pieces", "token_scores", "alignment")


def score(
    source: Annotated[Path, FileOption(help="Source text, one sentence per line.")],
    target: Annotated[Path, FileOption(help="Translations: line n translates line n of --source.")],
    model: ModelPath = None,
    alpha: Alpha = None,
    length_penalty: LengthPenalty = None,
    alignments: AlignmentsFile = None,
    as_json: JsonOutput = False,
) -> None:
    """Score given translations with a model, one number per line; higher is better.

    Each line is one segment, whatever it contains. The scores are those that `transduce translate`
    gives to its own translations.

    \b
    Example:
      transduce score -m runs/en-it --source test.en --target out.it
    """
    check_outputs((alignments,), (source, target), (model,))
    from transduce.decode.load import load_translator
    from transduce.text.corpus import open_pairs

    translator = load_translator(model, engine="torch")
    pairs = open_pairs([source], [target]).read()
    with ExitStack() as files:
        aligned = None
        if alignments is not None:
            aligned = files.enter_context(open_text_output(alignments))
        number = 0
        while batch := [(pair.source, pair.target) for pair in islice(pairs, BATCH_SIZE)]:
            for scored in translator.score(batch, alpha, length_penalty, first=number + 1):
                number += 1
                if as_json:
                    fields = {name: getattr(scored, name) for name in FIELDS}
                    print(json_line({"line": number, **fields}))
                else:
                    print(f"{scored.score:.6f}")
                if aligned is not None:
                    print(scored.alignment, file=aligned)
