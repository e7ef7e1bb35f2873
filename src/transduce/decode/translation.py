"""The result of translating one text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another translation of the same text, with its score."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Translation:
    """A text, its translation, and the names of the quality flags and notes that apply.

    `flags` are doubts about the translation, `notes` are harmless. Both are declared in
    `transduce.decode.quality`, each with its meaning.
    """

    source: str
    text: str
    score: float = 0.0  # log-probability after the length penalty, higher is better
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()  # words and punctuation of the source not in the training text
    unknown: tuple[str, ...] = ()  # characters of the source that are not in the vocabulary
    missing: tuple[str, ...] = ()  # glossary and protected terms missing from the translation
    alternatives: tuple[Alternative, ...] = ()  # with n_best or alternatives: all, best first
    # The following are set only with `details`.
    pieces: tuple[str, ...] = ()  # tokens of the translation
    token_scores: tuple[float, ...] = ()  # log-probability of each token, [EOS] last
    alignment: str = ""  # word links in Pharaoh format: `0-0 1-2`, source word - target word

    def __str__(self) -> str:
        return self.text
