"""Check with py3langid whether the sides of a pair are in the expected languages.

Only the two languages of the corpus are compared with each other.
"""

from copy import copy
from functools import cache
from typing import TYPE_CHECKING

from transduce.text.corpus import Languages, Pair

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

SIDES = ("source", "target")
MIN_LETTERS = 20  # lines with fewer letters are not checked
MIN_CONFIDENCE = 0.95  # that a line is in the other language
MAX_CHARACTERS_READ = 300  # of a line; more do not change the result
MAX_CHECKED_IN_FULL = 100_000  # pairs; after them one in SAMPLING_INTERVAL is checked
SAMPLING_INTERVAL = 10
MIN_LINES_TO_JUDGE = 20  # of each side, before the files are called swapped


class LanguageChecker:
    """Check the languages of both sides of each pair, and count the lines in the other language.

    If the languages are unknown, every pair passes and `remarks` says why.
    """

    def __init__(self, languages: Languages | None, every_pair: bool = False) -> None:
        self.languages = languages
        self.every_pair = every_pair
        self.last_number = 0
        self.n_pairs = 0  # checked pairs
        self.n_checked = [0, 0]  # lines, by side
        self.n_other = [0, 0]  # lines in the other language, by side
        self._identifier, self._why_not = _make_identifier(languages)

    def note(self, number: int, pair: Pair) -> str | None:
        """Return which side is in the other language, or None.

        Lines that are too short and pairs left out by sampling are not checked. `number` is the
        position of the pair in the corpus, from 1.
        """
        if self._identifier is None or self.languages is None:
            return None
        self.last_number = number
        is_sampled = number <= MAX_CHECKED_IN_FULL or number % SAMPLING_INTERVAL == 0
        if not (self.every_pair or is_sampled):
            return None

        self.n_pairs += 1
        found = []
        for side, text in enumerate((pair.source, pair.target)):
            text = text[:MAX_CHARACTERS_READ]
            if sum(map(str.isalpha, text)) < MIN_LETTERS:
                continue
            self.n_checked[side] += 1
            language, confidence = self._identifier.classify(text)
            if language != self.languages[side] and confidence >= MIN_CONFIDENCE:
                self.n_other[side] += 1
                found.append(f"{SIDES[side]} looks like {language}")
        return ", ".join(found) or None

    @property
    def remarks(self) -> list[str]:
        """Return a remark if no pair, or not every pair, was checked."""
        if self._why_not:
            return [f"languages were not checked: {self._why_not}"]
        if self.every_pair or self.last_number <= MAX_CHECKED_IN_FULL:
            return []
        return [
            f"languages: the first {MAX_CHECKED_IN_FULL:,} pairs were checked, then one in "
            f"{SAMPLING_INTERVAL}; --write checks all"
        ]

    @property
    def are_swapped(self) -> bool:
        """Return whether most lines of both sides are in the other language."""
        return all(
            n_checked >= MIN_LINES_TO_JUDGE and 2 * n_other > n_checked
            for n_checked, n_other in zip(self.n_checked, self.n_other, strict=True)
        )


def _make_identifier(languages: Languages | None) -> tuple["LanguageIdentifier | None", str]:
    """Return an identifier for two languages, or None and the reason."""
    if languages is None:
        return None, "the file names do not show them; give --languages en,de"
    if languages[0] == languages[1]:
        return None, f"both sides are {languages[0]}"
    identifier = copy(_load_identifier())
    unknown = [language for language in languages if language not in identifier.labels]
    if unknown:
        return None, f"py3langid does not support {' and '.join(unknown)}"
    identifier.set_languages(languages)
    return identifier, ""


@cache
def _load_identifier() -> "LanguageIdentifier":
    """Load the identifier for all languages, which is slow; copies can be restricted to two."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
