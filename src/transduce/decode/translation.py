"""What became of one text: the translation, and what is noteworthy or doubtful about it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another translation of the same text, with its score."""

    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Translation:
    """A text and its translation. `notes` are harmless, `flags` are doubts:

    notes   blank, split (it was too long and translated in parts), control_characters (left out), unseen_words
    flags   truncated (the translation reached its maximum length), invalid_characters (replaced by U+FFFD), unknown_characters
            (the model never learnt them), repetition, copied (the source was not translated), not_translated (a run too long for
            the model, copied), too_short, too_long, low_confidence, missing_term (a term of the glossary could not be had)
    """

    source: str
    text: str
    score: float = 0.0  # log-probability after the length penalty, higher is better
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()  # words and signs of the source that were not in the training text
    unknown: tuple[str, ...] = ()  # characters that the vocabulary has no piece for
    missing: tuple[str, ...] = ()  # terms that could not be had
    alternatives: tuple[
        Alternative, ...
    ] = ()  # with n_best or alternatives: all that were found, best first
    pieces: tuple[str, ...] = ()  # these three only with details
    token_scores: tuple[float, ...] = ()  # the log-probability of each piece, [EOS] last
    alignment: str = ""  # words of the source - words of the translation, in Pharaoh's form

    def __str__(self) -> str:
        return self.text
