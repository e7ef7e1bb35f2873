"""`transduce evaluate`: how good a model, or a file of translations, is."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from transduce.cli.output import warn
from transduce.data.batch import encode_pairs
from transduce.decode.load import load_translator
from transduce.decode.translator import Translator
from transduce.errors import DataError
from transduce.evaluation import likelihood
from transduce.evaluation import metrics as evaluate
from transduce.evaluation.metrics import Score
from transduce.text.corpus import Pair
from transduce.text.files import STDIN, check_stdin_used_once, display_name, read_lines, spool_stdin
from transduce.text.tokenized import has_capitals, is_lower_case, looks_tokenized, looks_untokenized

MOST_NAMED = 5  # blank lines that a message names

LONGEST_RUN = 4  # words that BLEU looks at together

# Beam, alpha, length penalty as asked for; None, or nothing at all, is the model's own.
Search = tuple[int | None, float | None, str | None] | tuple[()]


def score_model(
    model: Path | None,
    source: Path,
    references: Sequence[Path],
    tokenize: str,
    asked: Search,
    as_json: bool,
) -> None:
    """Translate and score. Search settings and the seed of the training stand beside each number."""
    evaluate.make_metrics(tokenize)  # a wrong name is said before anything is translated
    right, [texts] = read_test_set(references, [source])
    translator = load_translator(model)
    found = translate(translator, texts, asked)
    warn_of_text(
        [("the translation", found), *zip(map(display_name, references), right, strict=True)],
        tokenize,
    )
    fields = search_settings(translator, asked)
    scores = evaluate.corpus_scores(found, *right, tokenize=tokenize)
    print_scores([*scores, evaluate.exact_match(found, *right)], as_json, fields)
    loss = reference_loss(translator, texts, right)
    if loss is not None:  # which no search has touched
        print_scores([loss, likelihood.perplexity(loss)], as_json, {"seed": fields["seed"]})


def translate(
    translator: Translator, texts: Sequence[str], asked: Search = (), what: str = ""
) -> list[str]:
    """The translations of a test set, with a word on how many of them are doubtful."""
    found = translator.translate(texts, *asked)
    kinds = Counter(flag for translation in found for flag in translation.flags)
    if kinds:
        n_flagged = sum(bool(translation.flags) for translation in found)
        said = ", ".join(f"{kind} {n:,}" for kind, n in sorted(kinds.items()))
        warn(
            f"{what}{n_flagged:,} of {len(found):,} translations are flagged ({said}): translate --report names the lines"
        )
    return [translation.text for translation in found]


def search_settings(translator: Translator, asked: Search = ()) -> dict[str, Any]:
    """How a model searches, and the seed of its training."""
    return {
        **translator.settings(*asked).model_dump(),
        "seed": translator.folder.trained_with("train", "seed"),
    }


def score_hypothesis(
    hypothesis: Path, references: Sequence[Path], tokenize: str, as_json: bool
) -> None:
    """Score translations that were made elsewhere."""
    evaluate.make_metrics(tokenize)  # as above
    right, [found] = read_test_set(references, [hypothesis])
    warn_of_text(
        [*zip(map(display_name, [hypothesis, *references]), [found, *right], strict=True)], tokenize
    )
    scores = evaluate.corpus_scores(found, *right, tokenize=tokenize)
    print_scores([*scores, evaluate.exact_match(found, *right)], as_json)


def print_scores(
    scores: Sequence[Score], as_json: bool, fields: Mapping[str, Any] | None = None
) -> None:
    """A line each: the number, and how it came to be."""
    how = "".join(f"|{name}:{value}" for name, value in (fields or {}).items() if value is not None)
    for score in scores:
        if as_json:
            row = {
                "name": score.name,
                "value": score.value,
                "signature": score.signature + how,
                **(fields or {}),
            }
            print(json.dumps(row))
        else:
            print(
                f"{score.name} {score.value:.{3 if score.name == 'loss' else 2}f}   {score.signature}{how}"
            )


def reference_loss(
    translator: Translator, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> Score | None:
    """How well the model foretells the references: of all of them together, where there are several."""
    pairs = [
        Pair(translator.clean(text), translator.clean(line))
        for reference in references
        for text, line in zip(texts, reference, strict=True)
    ]
    examples = encode_pairs(pairs, translator.source_vocabulary, translator.target_vocabulary)
    most = translator.max_source_tokens()
    fitting = [each for each in examples if max(len(each.source), len(each.target) - 1) <= most + 1]
    if len(fitting) < len(examples):
        warn(
            f"the loss leaves out {len(examples) - len(fitting):,} of {len(examples):,} pairs: over {most} pieces"
        )
    return likelihood.loss(translator.model, fitting) if fitting else None


def read_test_set(
    references: Sequence[Path], others: Sequence[Path]
) -> tuple[list[list[str]], list[list[str]]]:
    """The lines of references and of what belongs to them: equally many, and no reference without text. `-` is standard input."""
    check_stdin_used_once(references, others)
    references, others = (
        [spool_stdin() if path == STDIN else path for path in paths]
        for paths in (references, others)
    )
    lines = [list(read_lines(path)) for path in (*references, *others)]
    first = display_name(references[0])
    if not lines[0]:
        raise DataError(f"{first} has no line: wanted the right translations, one a line")
    for path, each in zip((*references, *others), lines, strict=True):
        if len(each) != len(lines[0]):
            raise DataError(
                f"{display_name(path)} has {len(each):,} lines, {first} has {len(lines[0]):,}: "
                "line n of one must belong to line n of the other"
            )
    for path, each in zip(references, lines, strict=False):
        blank = [
            str(n)
            for n, line in enumerate(each, start=1)
            if not any(c.isprintable() and c != " " for c in line)
        ]
        if blank:
            more = f" and {len(blank) - MOST_NAMED:,} more" if len(blank) > MOST_NAMED else ""
            raise DataError(
                f"{display_name(path)}, line {', '.join(blank[:MOST_NAMED])}{more}: a blank reference, against which everything "
                "is wrong; write the right translation, or leave that line out of every file"
            )
    return lines[: len(references)], lines[len(references) :]


def warn_of_text(named: Sequence[tuple[str, Sequence[str]]], tokenize: str) -> None:
    """Say what would make a score wrong: text that is tokenised when it should not be, or the reverse, or capitals on one side, or
    nothing but short lines."""
    for name, lines in named:
        if tokenize != "none" and (sign := looks_tokenized(lines)):
            warn(
                f"{name} looks tokenised ({sign}): BLEU will be wrong; detokenise it, or give --tokenize none "
                "and compare the number with its like only"
            )
        if tokenize == "none" and (sign := looks_untokenized(lines)):
            warn(
                f"{name} does not look tokenised ({sign}): with --tokenize none BLEU will be wrong; "
                "leave the option out, or tokenise every file"
            )
    cut = BLEU(tokenize=tokenize, force=True).tokenizer
    if all(len(cut(line).split()) < LONGEST_RUN for _, lines in named for line in lines):
        warn(
            f"no line has {LONGEST_RUN} words: BLEU counts runs of so many, and is 0 without; look at chrF"
        )
    small = [name for name, lines in named if is_lower_case(lines)]
    if small and any(has_capitals(lines) for _, lines in named):
        warn(
            f"no capital letter in {', '.join(small)}, though there are some elsewhere; BLEU and chrF count case"
        )
