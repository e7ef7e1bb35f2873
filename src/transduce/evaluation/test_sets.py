"""Read a test set, and find problems that would make its scores wrong."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU

from transduce.errors import DataError
from transduce.text.files import (
    STDIN,
    check_stdin_used_once,
    display_name,
    read_lines,
    read_raw_lines,
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
    texts: list[list[str]] = [[] for _ in paths]
    for row in zip_longest(*map(read_lines, paths)):
        if None in row:
            raise _unequal_lengths_error(paths)
        for text, line in zip(texts, row, strict=True):
            text.append(line)
    if not texts[0]:
        raise _empty_error(paths[0])
    n_references = len(references)
    for path, lines in zip(paths[:n_references], texts[:n_references], strict=True):
        _check_no_blank_line(display_name(path), lines)
    return texts[:n_references], texts[n_references:]


def _unequal_lengths_error(paths: Sequence[Path]) -> DataError:
    """Return the error for files of unequal length; only their lines are counted."""
    first, *others = (sum(1 for _ in read_raw_lines(path)) for path in paths)
    if first == 0:
        return _empty_error(paths[0])
    path, count = next(
        (path, count) for path, count in zip(paths[1:], others, strict=True) if count != first
    )
    return DataError(
        f"{display_name(path)} has {count:,} lines, "
        f"{display_name(paths[0])} has {first:,}; expected the same number, in the same order"
    )


def _empty_error(path: Path) -> DataError:
    return DataError(f"{display_name(path)} is empty; expected one reference translation per line")


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
