"""Which of two languages a line is in. py3langid decides, and knows no others than the two."""

from copy import copy
from functools import cache
from typing import TYPE_CHECKING

from transduce.text.corpus import Languages, Pair

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

LEAST_LETTERS = 20  # shorter lines are not judged
SURE = 0.95  # confidence from which on a line is said to be in the other language
READ_AT_MOST = 300  # characters of a line: enough to tell
MOST_IN_FULL = 100_000  # pairs, after which one in THINNED is judged
THINNED = 10
LEAST_JUDGED = 20  # lines of each side before files are called swapped


class LanguageJudge:
    """Judges the lines of both sides, and counts; where it cannot judge, it says why and lets everything pass."""

    def __init__(self, languages: Languages | None, every_pair: bool = False) -> None:
        self.languages, self.every_pair = languages, every_pair
        self.n_last = self.n_pairs = 0
        self.n_judged, self.n_other = [0, 0], [0, 0]
        self._identifier, self._why_not = _identifier(languages)

    def note(self, number: int, pair: Pair) -> str | None:
        """Which side is in the other language, if one certainly is; None also of short lines and of those not judged."""
        if self._identifier is None or self.languages is None:
            return None
        self.n_last = number
        if not self.every_pair and number > MOST_IN_FULL and number % THINNED:
            return None
        self.n_pairs += 1
        found = []
        for side, text in enumerate((pair.source, pair.target)):
            text = text[:READ_AT_MOST]
            if sum(map(str.isalpha, text)) >= LEAST_LETTERS:
                self.n_judged[side] += 1
                language, confidence = self._identifier.classify(text)
                if language != self.languages[side] and confidence >= SURE:
                    self.n_other[side] += 1
                    found.append(f"{('source', 'target')[side]} looks like {language}")
        return ", ".join(found) or None

    @property
    def remarks(self) -> list[str]:
        """Why no pair was judged, or that not all were, if so."""
        if self._why_not:
            return [f"languages were not checked: {self._why_not}"]
        if self.every_pair or self.n_last <= MOST_IN_FULL:
            return []
        return [
            f"languages: the first {MOST_IN_FULL:,} pairs were judged, then one in {THINNED}; --write judges all"
        ]

    @property
    def are_swapped(self) -> bool:
        """Most lines of both sides are in the other language."""
        return all(
            judged >= LEAST_JUDGED and 2 * other > judged
            for judged, other in zip(self.n_judged, self.n_other, strict=True)
        )


def _identifier(languages: Languages | None) -> tuple["LanguageIdentifier | None", str]:
    """What tells two languages apart, or why nothing does."""
    if languages is None:
        return None, "the names of the files do not tell them; give --languages en,de"
    if languages[0] == languages[1]:
        return None, f"both sides are {languages[0]}"
    identifier = copy(_load())
    unknown = [language for language in languages if language not in identifier.labels]
    if unknown:
        return None, f"py3langid does not know {' and '.join(unknown)}"
    identifier.set_languages(languages)
    return identifier, ""


@cache
def _load() -> "LanguageIdentifier":
    """For all languages it knows; half a second the first time. A copy of it can be restricted to some."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
