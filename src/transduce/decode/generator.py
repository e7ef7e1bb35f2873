"""`Generator`: continue a prompt with a language model.

The model predicts a token, which is drawn and appended. When the window is full, its first token
is dropped.
"""

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

INCOMPLETE = "\ufffd"  # what the first bytes of a character decode to
MAX_CHARACTER_BYTES = 4


class Drawn(NamedTuple):
    """A drawn token, with the log-probability the model gave it."""

    id: int
    log_prob: float


@dataclass(frozen=True, slots=True)
class Generation:
    """The continuation of a prompt."""

    prompt: str
    text: str
    pieces: tuple[str, ...]
    log_probs: tuple[float, ...]  # the model's, before temperature, one per token
    is_prompt_cut: bool  # the prompt was longer than the window; only its end was read


class Generator:
    """A language model with its vocabulary, which continues prompts."""

    def __init__(self, folder: ModelFolder) -> None:
        """Take the model of a folder; raise ModelError if it is a translation model."""
        if not isinstance(folder.model, LanguageModel):
            raise ModelError(
                "this is a translation model and cannot generate; use translate, "
                "or give a model trained with --text"
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
        """Return `n` continuations of a prompt, each of at most `tokens` tokens.

        Each has its own random numbers. An empty prompt starts from [SOS]. A text ends at [EOS],
        or before one of the `stop` strings.
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
        """Yield the text of one continuation as it is written, in whole characters."""
        drawn = self.draw(self.context(prompt), tokens, sampling or Sampling())
        return until(self._texts(token.id for token in drawn), stop)

    def context(self, prompt: str) -> list[int]:
        """Return the token ids of a prompt; [SOS] alone if it is empty."""
        text = normalize(prompt, self.folder.config.text.normalization)
        return self.vocabulary.encode(text) or [SOS]

    def draw(
        self, context: Sequence[int], tokens: int, sampling: Sampling, number: int = 0
    ) -> Iterator[Drawn]:
        """Draw token after token, up to [EOS].

        The cache is used until the window is full. Then, for each token, the first one of the
        window is dropped and the whole window is read again.
        """
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
                token = int(select(rows, torch.zeros(1, 1), log_probs[:, None], 1).token)
            yield Drawn(token, float(log_probs[0, token]))
            if token == EOS:
                return
            read = [*read[-self.window :], token]
            if cache.length < self.window:
                new = [token]
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
            for token in self.draw(context, tokens, sampling, number):
                drawn.append(token)
                yield token.id

        text = "".join(until(self._texts(ids()), stop))
        tokens_written = tuple(self.vocabulary.token(token.id) for token in drawn)
        log_probs = tuple(token.log_prob for token in drawn)
        is_prompt_cut = len(context) > self.window
        return Generation(prompt, text, tokens_written, log_probs, is_prompt_cut)

    def _texts(self, ids: Iterator[int]) -> Iterator[str]:
        """Yield the text of the tokens, as soon as their bytes form complete characters."""
        pending: list[int] = []
        for i in ids:
            pending.append(i)
            text = self.vocabulary.decode(pending)
            if not text.endswith(INCOMPLETE) or len(pending) >= MAX_CHARACTER_BYTES:
                yield text
                pending = []
        if pending:
            yield self.vocabulary.decode(pending)


def until(texts: Iterator[str], stop: Sequence[str]) -> Iterator[str]:
    """Yield texts up to the first stop string, which is not yielded.

    An ending that may be the beginning of a stop string is held back until the next text.
    """
    held = ""
    for text in texts:
        held += text
        places = [held.find(each) for each in stop if each]
        ends = [place for place in places if place >= 0]
        if ends:
            yield held[: min(ends)]
            return
        begun = [n for each in stop for n in range(1, len(each)) if held.endswith(each[:n])]
        n_clear = len(held) - max(begun, default=0)
        yield held[:n_clear]
        held = held[n_clear:]
    if held:
        yield held
