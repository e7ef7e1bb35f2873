"""Terms: glossary entries, and where they are in a text.

A glossary is a text file with one entry per line, its parts separated by tabs:
    cat <tab> gatto                     translate "cat" as "gatto"
    cat <tab> gatto <tab> gatta         translate "cat" as one of these
    Acme Corp                           copy unchanged
    # ...                               a comment
A .csv file has the same entries, with commas; fields may be quoted, over several lines too.
"""

import csv
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from transduce.errors import DataError
from transduce.text.edits import Placed
from transduce.text.files import content_suffix, read_lines
from transduce.text.normalize import CONTROL_CHARACTERS, one_line

# Scripts without spaces between words: each character may begin or end a word.
UNSPACED_SCRIPTS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED_SCRIPTS}]")
COMBINING_MARKS = "".join(
    character
    for character in map(chr, range(1 << 16))
    if unicodedata.category(character)[0] == "M" and not UNSPACED_CHARACTER.match(character)
)
# A word with its combining marks, a character of an unspaced script, or a punctuation mark.
# Possessive repetition (++) keeps no state to backtrack: a word of 16 MB needs no extra memory.
PHRASE_WORD = re.compile(
    rf"[{UNSPACED_SCRIPTS}]|(?:[^\W{UNSPACED_SCRIPTS}]++|[{COMBINING_MARKS}]++)++|[^\w\s]"
)
MAX_QUOTED = 80  # characters of a line that a message quotes
# Of an entry of a glossary. The search grows with both.
MAX_TERM_LENGTH = 500  # characters of a phrase or a translation
MAX_TRANSLATIONS = 100


@dataclass(frozen=True, slots=True)
class Term:
    """A source phrase, and the allowed translations: the target must contain one of `targets`."""

    source: str
    targets: tuple[str, ...]

    @property
    def is_verbatim(self) -> bool:
        """Return whether the phrase is copied unchanged."""
        return self.targets == (self.source,)


class TermMatch(NamedTuple):
    """An occurrence of a term in a text: `text[start:end]`."""

    term: Term
    start: int
    end: int


class Glossary:
    """Source phrases with their required translations.

    Entries are (phrase, translations); without translations the phrase is copied unchanged. Entries
    with the same phrase are merged: each of their translations is allowed.
    """

    def __init__(self, entries: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        terms: dict[tuple[str, ...], Term] = {}
        for given_source, given_targets in entries:
            source = clean_phrase(given_source)
            targets = tuple(map(clean_phrase, given_targets))
            words = tuple(_casefolded_words(unicodedata.normalize("NFC", source)))
            if not words:
                raise DataError(f"glossary entry {given_source!r} has no word; remove it")
            earlier = terms[words].targets if words in terms else ()
            all_targets = (*earlier, *(targets or (source,)))
            terms[words] = Term(source, tuple(dict.fromkeys(all_targets)))
            _check_size(terms[words])
        self.terms = list(terms.values())

        self._by_first_word: dict[str, list[tuple[list[str], Term]]] = {}
        for words, term in terms.items():
            self._by_first_word.setdefault(words[0], []).append((list(words), term))
        for candidates in self._by_first_word.values():
            candidates.sort(key=lambda candidate: -len(candidate[0]))  # the longest match wins

    def find(self, text: str, protected: Sequence[Placed] = ()) -> Iterator[TermMatch]:
        """Yield the terms of a text from left to right, without overlaps, ignoring case.

        There is no term where it would cut one of the protected parts, which are in order. It may
        cover them.
        """
        matches = list(PHRASE_WORD.finditer(text))
        words = [match[0].casefold() for match in matches]
        i = 0
        while i < len(words):
            for phrase, term in self._by_first_word.get(words[i], ()):
                if words[i : i + len(phrase)] == phrase:
                    start, end = matches[i].start(), matches[i + len(phrase) - 1].end()
                    if _is_cut(protected, start) or _is_cut(protected, end):
                        continue
                    yield TermMatch(term, start, end)
                    i += len(phrase)
                    break
            else:
                i += 1


def _is_cut(parts: Sequence[Placed], offset: int) -> bool:
    """Return whether an offset is inside one of the parts, which are in order."""
    i = bisect_left(parts, offset, key=attrgetter("start")) - 1  # the last that begins before it
    return i >= 0 and offset < parts[i].end


def _check_size(term: Term) -> None:
    """Raise DataError for a term that would take too long to search for."""
    for part in (term.source, *term.targets):
        if len(part) > MAX_TERM_LENGTH:
            raise DataError(
                f"glossary entry {term.source[:MAX_QUOTED]!r} has a part of {len(part):,} "
                f"characters, more than {MAX_TERM_LENGTH}; "
                f"shorten it to the term: {part[:MAX_QUOTED]!r}"
            )
    if len(term.targets) > MAX_TRANSLATIONS:
        raise DataError(
            f"glossary entry {term.source[:MAX_QUOTED]!r} has {len(term.targets):,} translations, "
            f"more than {MAX_TRANSLATIONS}; keep those that are used"
        )


def clean_phrase(text: str) -> str:
    """Return a phrase without control characters and surrounding space, on one line."""
    return one_line(CONTROL_CHARACTERS.sub("", text)).strip()


def read_glossary(path: Path) -> Glossary:
    """Read a glossary from its file: parts are separated by commas in .csv, else by tabs."""
    is_csv = content_suffix(path) == ".csv"
    entries = []
    for number, line, fields in _csv_records(path) if is_csv else _tab_records(path):
        source, *targets = map(clean_phrase, fields)
        while is_csv and targets and not targets[-1]:
            targets.pop()  # rows of a table have equally many fields
        if not source or not all(targets):
            raise DataError(
                f"{path}, line {number}: empty phrase or translation; expected phrase, "
                f"{'comma' if is_csv else 'tab'}, translation: {line[:MAX_QUOTED]!r}"
            )
        entries.append((source, tuple(targets)))
    if not entries:
        raise DataError(f"{path} has no entry; expected lines like: cat, tab, gatto")
    return Glossary(entries)


def _tab_records(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number, text and fields of each line with an entry."""
    for number, line in enumerate(read_lines(path), start=1):
        if not _is_comment(line):
            yield number, line, line.split("\t")


def _csv_records(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yield number and text of the first line of each record, and its fields."""
    lines = enumerate(read_lines(path), start=1)
    for number, line in lines:
        if _is_comment(line):
            continue
        following = (f"{each}\n" for _, each in lines)  # read as far as a quoted field goes on
        try:
            yield number, line, next(csv.reader(chain((f"{line}\n",), following), strict=True))
        except csv.Error as error:
            raise DataError(
                f"{path}, line {number}: {error}; correct the line, or close its quotation marks"
            ) from None


def _is_comment(line: str) -> bool:
    return line.startswith("#") or not clean_phrase(line)


def read_phrases(path: Path) -> list[str]:
    """Read phrases from a file, one per line; blank lines and comments (#) are skipped."""
    phrases = [clean_phrase(line) for line in read_lines(path) if not _is_comment(line)]
    if not phrases:
        raise DataError(f"{path} has no phrase; expected one per line")
    return phrases


def contains_phrase(text: str, phrase: str) -> bool:
    """Return whether a text contains a phrase as whole words, ignoring case."""
    return count_phrase(text, phrase) > 0


def count_phrase(text: str, phrase: str) -> int:
    """Return how often a text contains a phrase as whole words, ignoring case."""
    words, sought = _casefolded_words(text), _casefolded_words(phrase)
    n_starts = len(words) - len(sought) + 1
    return sum(words[i : i + len(sought)] == sought for i in range(n_starts))


def is_word_character(character: str) -> bool:
    """Return whether a character can be inside a word.

    True for U+FFFD, which stands for a part of a character; False for "" (end of the text).
    """
    if character == "":
        return False
    if character in ("\ufffd", "_"):
        return True
    is_mark = unicodedata.category(character).startswith("M")
    return (is_mark or character.isalnum()) and not UNSPACED_CHARACTER.match(character)


def _casefolded_words(text: str) -> list[str]:
    return [word.casefold() for word in PHRASE_WORD.findall(text)]
