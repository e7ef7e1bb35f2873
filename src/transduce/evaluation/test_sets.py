"""Read a test set, and find problems that would make its scores wrong."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from transduce.errors import DataError
from transduce.text.files import (
    STDIN,
    check_stdin_used_once,
    display_name,
    read_lines,
    spool_stdin,
)
from transduce.text.tokenized import (
    has_capitals,
    is_lower_case,
    looks_tokenized,
    looks_untokenized,
)

MAX_NAMED = 5  # blank lines that a message names
MAX_NGRAM = 4  # the longest n-grams that BLEU counts, in words


def read_test_set(
    references: Sequence[Path], others: Sequence[Path]
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the lines of the references and of the files that belong to them.

    `-` is standard input. Raise DataError if the files have different numbers of lines, or if a
    reference is empty or has a blank line.
    """
    check_stdin_used_once(references, others)
    paths = [spool_stdin() if path == STDIN else path for path in (*references, *others)]
    texts = [list(read_lines(path)) for path in paths]
    first_name, first = display_name(paths[0]), texts[0]
    if not first:
        raise DataError(f"{first_name} is empty; expected one reference translation per line")
    for path, lines in zip(paths, texts, strict=True):
        if len(lines) != len(first):
            raise DataError(
                f"{display_name(path)} has {len(lines):,} lines, "
                f"{first_name} has {len(first):,}; expected the same number, in the same order"
            )
    n_references = len(references)
    for path, lines in zip(paths[:n_references], texts[:n_references], strict=True):
        _check_no_blank_line(display_name(path), lines)
    return texts[:n_references], texts[n_references:]


def _check_no_blank_line(name: str, lines: Sequence[str]) -> None:
    blank = [str(number) for number, line in enumerate(lines, start=1) if _is_blank(line)]
    if blank:
        n_more = len(blank) - MAX_NAMED
        more = f" and {n_more:,} more" if n_more > 0 else ""
        raise DataError(
            f"{name}, line {', '.join(blank[:MAX_NAMED])}{more}: blank reference; "
            "write the reference translation, or delete that line from every file"
        )


def _is_blank(line: str) -> bool:
    """Return whether a line has no visible character. Zero-width characters are not printable."""
    return not any(c.isprintable() and c != " " for c in line)


def find_problems(texts: Sequence[tuple[str, Sequence[str]]], tokenize: str) -> Iterator[str]:
    """Yield a warning for each thing that would make a score wrong.

    `texts` are the hypotheses and references by name. The problems are: text that is tokenized
    although the metric tokenizes it, or the reverse; lines too short for BLEU; capitals in some of
    the texts only.
    """
    for name, lines in texts:
        if tokenize != "none" and (sign := looks_tokenized(lines)):
            yield (
                f"{name} looks tokenized ({sign}), so BLEU will be wrong; detokenize it, "
                "or use --tokenize none and compare only with scores made the same way"
            )
        if tokenize == "none" and (sign := looks_untokenized(lines)):
            yield (
                f"{name} does not look tokenized ({sign}), so BLEU will be wrong; "
                "remove --tokenize none, or tokenize every file"
            )
    split = BLEU(tokenize=tokenize, force=True).tokenizer
    if all(len(split(line).split()) < MAX_NGRAM for _, lines in texts for line in lines):
        yield (
            f"no line has {MAX_NGRAM} words, so BLEU is 0 (it needs {MAX_NGRAM}-grams); "
            "look at chrF instead"
        )
    lower = [name for name, lines in texts if is_lower_case(lines)]
    if lower and any(has_capitals(lines) for _, lines in texts):
        yield (
            f"no capital letters in {', '.join(lower)}, but in other files; "
            "BLEU and chrF are case-sensitive"
        )
