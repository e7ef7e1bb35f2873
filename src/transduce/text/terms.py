"""Phrases in a text: words that a glossary wants translated so and not otherwise, and what must survive as it is.

A glossary is a text file, one entry a line, its parts separated by tabs:
    cat <tab> gatto                     "cat" becomes "gatto"
    cat <tab> gatto <tab> gatta         "cat" becomes one of these
    Acme Corp                           stays as it is
    # ...                               a remark
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from transduce.errors import DataError
from transduce.text.files import read_lines

# Scripts that put no space between words: there every character may begin or end one.
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
MARKS = "".join(
    c
    for c in map(chr, range(1 << 16))
    if unicodedata.category(c)[0] == "M" and not re.match(f"[{UNSPACED}]", c)
)
PHRASE_WORD = re.compile(
    rf"[{UNSPACED}]|(?:[^\W{UNSPACED}]|[{MARKS}])+|[^\w\s]"
)  # a mark belongs to its letter
PROTECTED = re.compile(
    r"""(?x)
      (?: [a-z]{2,9}:// | www\. ) [^\s<>"]{1,2000}
    | [\w.+-]{1,64} @ [\w-]{1,64} (?: \. [\w-]{1,64} ){1,8}
    | \$? \{{1,2} [^{}\s]{0,64} \}{1,2}              # {name}
    | % \( \w{1,64} \) [a-zA-Z]                      # %(name)s
    | % [-+#0]{0,4} \d{0,3} (?: \. \d{1,3} )? [a-zA-Z@] (?!\w)
    | (?<![^\s"'(\[]) [^\s\d"'(\[]{0,64} \d [^\s"']{0,2000}    # whatever holds a digit, whole: 1.5kg, 12:30, COVID-19, $5
    """
)


@dataclass(frozen=True, slots=True)
class Term:
    """A phrase of a source, and what its translation must hold: one of `targets`."""

    source: str
    targets: tuple[str, ...]

    @property
    def is_verbatim(self) -> bool:
        """Whether it stays as it is, to the letter."""
        return self.targets == (self.source,)


class TermMatch(NamedTuple):
    """A term, and where its source stands in a text."""

    term: Term
    start: int
    end: int


class Glossary:
    """Phrases of the source language with the translations that they must have."""

    def __init__(self, entries: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        by_words: dict[tuple[str, ...], Term] = {}
        for source, targets in entries:
            words = tuple(_words(unicodedata.normalize("NFC", source)))
            if not words:
                raise DataError(f"a glossary entry without a word: {source!r}")
            before = (
                by_words[words].targets if words in by_words else ()
            )  # on two lines: either translation will do
            by_words[words] = Term(source, tuple(dict.fromkeys((*before, *(targets or (source,))))))
        self.terms = list(by_words.values())
        self._by_first: dict[str, list[tuple[list[str], Term]]] = {}
        for words, term in by_words.items():
            self._by_first.setdefault(words[0], []).append((list(words), term))
        for known in self._by_first.values():
            known.sort(key=lambda entry: -len(entry[0]))  # the longest phrase that fits wins

    def find(self, text: str) -> Iterator[TermMatch]:
        """The terms of a text, from left to right, each as often as it stands there; the case of letters does not matter."""
        tokens = list(PHRASE_WORD.finditer(text))
        words = [token[0].casefold() for token in tokens]
        i = 0
        while i < len(words):
            fitting = (
                known
                for known in self._by_first.get(words[i], ())
                if words[i : i + len(known[0])] == known[0]
            )
            phrase, term = next(fitting, ([words[i]], None))
            if term is not None:
                yield TermMatch(term, tokens[i].start(), tokens[i + len(phrase) - 1].end())
            i += len(phrase)


def read_glossary(path: Path) -> Glossary:
    """A glossary from its file."""
    entries = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        source, *targets = (part.strip() for part in line.split("\t"))
        if not source or not all(targets):
            raise DataError(
                f"{path}, line {number}: an empty part; wanted phrase, tab, translation: {line[:80]!r}"
            )
        entries.append((source, tuple(targets)))
    if not entries:
        raise DataError(f"{path} has no entry; wanted a line like: cat, tab, gatto")
    return Glossary(entries)


def read_phrases(path: Path) -> list[str]:
    """Phrases, one a line."""
    phrases = [
        line.strip() for line in read_lines(path) if line.strip() and not line.startswith("#")
    ]
    if not phrases:
        raise DataError(f"{path} has no phrase; wanted one a line")
    return phrases


def find_protected(text: str) -> Iterator[TermMatch]:
    """Words with digits, addresses and placeholders of a text, which are to survive as they are.

    Signs at the end belong to the sentence; a closing bracket only if it was not opened inside.
    """
    for each in PROTECTED.finditer(text):
        kept = each[0]
        while kept[-1] in ".,;:!?" or (
            kept[-1] in ")]" and kept.count(kept[-1]) > kept.count({")": "(", "]": "["}[kept[-1]])
        ):
            kept = kept[:-1]
        yield TermMatch(Term(kept, (kept,)), each.start(), each.start() + len(kept))


def contains_phrase(text: str, phrase: str) -> bool:
    """Whether a phrase stands in a text as whole words; the case of letters does not matter."""
    words, wanted = _words(text), _words(phrase)
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1))


def is_word_character(character: str) -> bool:
    """Whether a word goes on across this character; half a character, U+FFFD, counts as one, no character at all does not."""
    if character in ("", "\ufffd", "_"):
        return bool(character)
    is_mark = unicodedata.category(character).startswith("M")
    return (is_mark or character.isalnum()) and not re.match(f"[{UNSPACED}]", character)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in PHRASE_WORD.findall(text)]
