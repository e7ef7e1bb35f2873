"""What is asked of a search: the settings, and all that a caller may want beyond them."""

from dataclasses import dataclass
from typing import Literal

from transduce.config import DecodeConfig
from transduce.errors import UsageError
from transduce.text.terms import Glossary

MOST_ALTERNATIVES = 128
EngineName = Literal["auto", "torch", "ctranslate2"]
Precision = Literal["float32", "bf16", "int8"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw instead of taking the best: what is drawn for text i depends on (seed, first + i) alone."""

    temperature: float = 1.0
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    seed: int = 1
    first: int = 0  # the number of the first text: text i draws from (seed, first + i)

    def __post_init__(self) -> None:
        if not (0.01 <= self.temperature <= 100 or self.temperature == 0):
            raise UsageError(f"temperature is {self.temperature}: wanted 0, or 0.01 to 100")
        if not (self.top_k >= 0 and 0 < self.top_p <= 1 and self.seed >= 0):
            raise UsageError(
                f"top_k is {self.top_k}, top_p {self.top_p}, seed {self.seed}: wanted top_k >= 0, 0 < top_p <= 1, seed >= 0"
            )


@dataclass(frozen=True, slots=True)
class TranslateOptions:
    """How texts are translated; what cannot be is refused here."""

    config: DecodeConfig
    n_best: int = 1
    alternatives: int = (
        0  # so many translations that differ in the piece after the prefix; 0: an ordinary search
    )
    sampling: Sampling | None = None  # translations are drawn
    no_repeat: int = 0  # this many pieces in a row are not written twice; 0: they may be
    forbid: tuple[str, ...] = ()  # phrases that are never written
    prefix: str | tuple[str, ...] = ""  # how translations begin: all of them, or each
    glossary: Glossary | None = None
    protect: bool = False  # numbers, addresses and placeholders survive
    details: bool = False  # pieces, their scores and the alignment are told

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= (self.config.beam if self.sampling is None else 1):
            raise UsageError(
                f"n_best is {self.n_best}: wanted 1 to the beam, which is {self.config.beam}, and 1 where translations are drawn"
            )
        if not 0 <= self.alternatives <= MOST_ALTERNATIVES or self.no_repeat < 0:
            raise UsageError(
                f"alternatives is {self.alternatives}, no_repeat {self.no_repeat}: wanted 0 to {MOST_ALTERNATIVES}, and 0 or more"
            )
        if self.has_terms and (self.sampling is not None or self.alternatives):
            raise UsageError(
                "terms are met by beam search: leave out glossary and protect, or sampling and alternatives"
            )
        if not all(phrase.strip() for phrase in self.forbid):
            raise UsageError("an empty phrase cannot be forbidden")
        if self.alternatives and (self.sampling is not None or self.n_best > 1):
            raise UsageError(
                "alternatives are the likeliest pieces at one place: leave out sampling and n_best"
            )

    @property
    def width(self) -> int:
        """Hypotheses kept at each step."""
        return self.alternatives or (1 if self.sampling is not None else self.config.beam)

    @property
    def has_terms(self) -> bool:
        """Whether sentences may bring terms."""
        return self.glossary is not None or self.protect
