"""Options of a translation, checked when they are made."""

from dataclasses import dataclass
from typing import Literal

from transduce.config import DecodeConfig
from transduce.errors import UsageError
from transduce.text.terms import Glossary

MAX_ALTERNATIVES = 128
EngineName = str  # "auto", or a name in the table of engines/registry.py
Precision = Literal["float32", "bf16", "int8"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Draw tokens instead of taking the best. Text i uses random numbers from (seed, first + i)."""

    temperature: float = 1.0  # 0: take the best token
    top_k: int = 0  # draw from this many tokens; 0: from all
    top_p: float = 1.0  # draw from the fewest tokens with this total probability; 1: from all
    seed: int = 1
    first: int = 0  # number of the first text

    def __post_init__(self) -> None:
        if not (0.01 <= self.temperature <= 100 or self.temperature == 0):
            raise UsageError(f"temperature is {self.temperature}; expected 0, or 0.01 to 100")
        if not (self.top_k >= 0 and 0 < self.top_p <= 1 and self.seed >= 0):
            raise UsageError(
                f"top_k is {self.top_k}, top_p {self.top_p}, seed {self.seed}; "
                "expected top_k >= 0, 0 < top_p <= 1, seed >= 0"
            )


@dataclass(frozen=True, slots=True)
class TranslateOptions:
    """How to translate. Raises UsageError for invalid values and combinations."""

    config: DecodeConfig  # beam, length penalty and maximum length
    n_best: int = 1  # hypotheses to return, as `Translation.alternatives`
    alternatives: int = 0  # translations that differ in the token after the prefix; 0: plain search
    sampling: Sampling | None = None  # draw the translations; `config.beam` has no effect
    no_repeat: int = 0  # this many tokens in a row are never repeated; 0: they may be
    forbid: tuple[str, ...] = ()  # phrases that a translation must not contain
    prefix: str | tuple[str, ...] = ""  # how translations begin: one for all, or one for each
    glossary: Glossary | None = None  # terms that a translation must contain
    protect: bool = False  # words with digits are copied; links, placeholders and code always are
    details: bool = False  # return tokens, their scores, and the word alignment
    check: bool = False  # score each translation again, to find where content is missing
    split: bool = True  # translate each sentence of a text by itself
    # Translate the text as it is, as one sentence: nothing is split unless it is too long, nothing
    # is protected, no capitals are changed. For scores that compare with those of others.
    plain: bool = False
    attention: bool = False  # for engines: return the attention of each hypothesis

    def __post_init__(self) -> None:
        max_n_best = self.config.beam if self.sampling is None else 1
        if not 1 <= self.n_best <= max_n_best:
            raise UsageError(
                f"n_best is {self.n_best}; expected 1 to the beam size ({self.config.beam}), "
                "or 1 with sampling"
            )
        if not 0 <= self.alternatives <= MAX_ALTERNATIVES:
            raise UsageError(
                f"alternatives is {self.alternatives}; expected 0 to {MAX_ALTERNATIVES}"
            )
        if self.no_repeat < 0:
            raise UsageError(f"no_repeat is {self.no_repeat}; expected 0 or more")
        if self.alternatives and (self.glossary is not None or self.protect):
            raise UsageError(
                "alternatives cannot be combined with glossary or protect; omit one of them"
            )
        if not all(phrase.strip() for phrase in self.forbid):
            raise UsageError("forbid contains an empty phrase; remove it")
        if self.alternatives and (self.sampling is not None or self.n_best > 1):
            raise UsageError(
                "alternatives cannot be combined with sampling or n_best; omit one of them"
            )

    @property
    def width(self) -> int:
        """Hypotheses kept at each time step."""
        if self.alternatives:
            return self.alternatives
        return 1 if self.sampling is not None else self.config.beam
