"""A language model at work: predict the next piece, append it, and when the window is full drop the first; again and again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from transduce.decode.options import Sampling
from transduce.decode.rules import only_text
from transduce.decode.sampling import sampler
from transduce.decode.search import Rows
from transduce.errors import ModelError
from transduce.model import LanguageModel
from transduce.model_folder import ModelFolder
from transduce.text.normalize import normalize
from transduce.text.vocabulary import EOS, SOS

UNFINISHED = "\ufffd"  # what the bytes of half a character decode to


class Drawn(NamedTuple):
    """A piece that was written, and the log-probability the model gave it."""

    id: int
    log_prob: float


@dataclass(frozen=True, slots=True)
class Generation:
    """What a language model wrote after a prompt."""

    prompt: str
    text: str
    pieces: tuple[str, ...]
    log_probs: tuple[float, ...]  # the model's own, one a piece
    slid: bool  # the prompt was longer than the window: only its end was read


class Generator:
    """A language model with its vocabulary."""

    def __init__(self, folder: ModelFolder) -> None:
        if not isinstance(folder.model, LanguageModel):
            raise ModelError(
                "this is a translation model, it cannot generate: use translate, or give a model trained on --text"
            )
        self.folder = folder
        self.model = folder.model
        self.vocabulary = folder.source_vocabulary
        self.window = folder.config.model.window

    def generate(
        self,
        prompt: str = "",
        tokens: int = 200,
        sampling: Sampling | None = None,
        n: int = 1,
        stop: Sequence[str] = (),
    ) -> list[Generation]:
        """`n` continuations of a prompt, each of at most `tokens` pieces, each from its own random numbers.

        An empty prompt starts from [SOS]. A text ends at [EOS], or before one of the `stop` strings.
        """
        sampling = sampling or Sampling()
        context = self.context(prompt)
        return [self._generate_one(prompt, context, tokens, sampling, i, stop) for i in range(n)]

    def stream(
        self,
        prompt: str = "",
        tokens: int = 200,
        sampling: Sampling | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """The text of one continuation as it is written, in parts that are whole characters."""
        drawn = self.draw(self.context(prompt), tokens, sampling or Sampling())
        return until(self._texts(piece.id for piece in drawn), stop)

    def context(self, prompt: str) -> list[int]:
        """What the model has read before it writes."""
        return self.vocabulary.encode(normalize(prompt, self.folder.config.text.normalization)) or [
            SOS
        ]

    def draw(
        self, context: Sequence[int], tokens: int, sampling: Sampling, number: int = 0
    ) -> Iterator[Drawn]:
        """Pieces one by one. While the window stands, the cache serves; then the first piece drops out and all is read again."""
        random = np.random.default_rng([sampling.seed, sampling.first + number])
        select = sampler([random], sampling.temperature, sampling.top_k, sampling.top_p)
        read = list(context)
        cache = self.model.start()
        new = read[-self.window :]
        for _ in range(tokens):
            with torch.inference_mode():
                hidden, cache = self.model.decode(torch.tensor([new]), cache)
                log_probs = torch.log_softmax(self.model.logits(hidden[:, -1]), dim=-1).cpu()
                rows = Rows(torch.tensor([new]), torch.zeros(1, dtype=torch.long))
                log_probs = only_text(rows, log_probs)
                piece = int(select(rows, torch.zeros(1, 1), log_probs[:, None], 1).piece)
            yield Drawn(piece, float(log_probs[0, piece]))
            if piece == EOS:
                return
            read = [*read[-self.window :], piece]
            if cache.length < self.window:
                new = [piece]
            else:
                cache, new = self.model.start(), read[-self.window :]

    def _generate_one(
        self,
        prompt: str,
        context: list[int],
        tokens: int,
        sampling: Sampling,
        number: int,
        stop: Sequence[str],
    ) -> Generation:
        drawn: list[Drawn] = []

        def ids() -> Iterator[int]:
            for piece in self.draw(context, tokens, sampling, number):
                drawn.append(piece)
                yield piece.id

        text = "".join(until(self._texts(ids()), stop))
        pieces = tuple(self.vocabulary.token(piece.id) for piece in drawn)
        log_probs = tuple(piece.log_prob for piece in drawn)
        return Generation(prompt, text, pieces, log_probs, slid=len(context) > self.window)

    def _texts(self, ids: Iterator[int]) -> Iterator[str]:
        """The text of each piece, as soon as its bytes make whole characters."""
        pending: list[int] = []
        for i in ids:
            pending.append(i)
            text = self.vocabulary.decode(pending)
            if not text.endswith(UNFINISHED) or len(pending) >= 4:
                yield text
                pending = []
        if pending:
            yield self.vocabulary.decode(pending)


def until(texts: Iterator[str], stop: Sequence[str]) -> Iterator[str]:
    """Texts up to the first stop string, which is left out; what might be the beginning of one is held back until it is clear."""
    held = ""
    for text in texts:
        held += text
        ends = [place for place in (held.find(each) for each in stop if each) if place >= 0]
        if ends:
            yield held[: min(ends)]
            return
        keep = max(
            (n for each in stop for n in range(1, len(each)) if held.endswith(each[:n])), default=0
        )
        yield held[: len(held) - keep]
        held = held[len(held) - keep :]
    if held:
        yield held
