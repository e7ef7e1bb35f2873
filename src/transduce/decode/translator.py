"""Text in, text out: a model folder at work."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.checkpoint import ModelFolder
from transduce.config import DecodeConfig, resolve
from transduce.data.batch import encode_source, pad
from transduce.data.stream import cut_batches
from transduce.decode.rules import only_text
from transduce.decode.sample import Sampling, sampler
from transduce.decode.search import (
    Hypothesis,
    Penalty,
    Select,
    Step,
    paper_penalty,
    power_penalty,
    search,
    top_k,
)
from transduce.errors import ModelError
from transduce.model import Transformer
from transduce.model.cache import Cache
from transduce.text.normal import normalise, words_of
from transduce.text.vocabulary import PAD

EXTRA_LENGTH = 50  # a translation may be this much longer than its source (section 6.1)
ROWS_TOKENS = 8192  # pieces of sources decoded together, beams counted
LINE_BREAKS = re.compile(r"[\r\n]+")
MOST_PIECES = 4096  # of one source; attention needs the square of it in memory
LONGEST_PIECE = 16  # characters, as SentencePiece has it


@dataclass(frozen=True, slots=True)
class Translation:
    """What became of one text."""

    source: str
    text: str
    score: float = 0.0  # log-probability after the length penalty, higher is better
    truncated: bool = False  # stopped at the maximum length
    cut: bool = False  # the source was too long and only its beginning was translated
    unseen: tuple[str, ...] = ()  # words and signs of the source that were not in the training text

    def __str__(self) -> str:
        return self.text


def model_step(model: Transformer) -> Step[Cache]:
    """A model as the step function that search takes."""

    def step(ids: Int[Tensor, " row"], cache: Cache) -> tuple[Float[Tensor, "row vocab"], Cache]:
        hidden, cache = model.decode(ids[:, None], cache)
        return torch.log_softmax(model.logits(hidden[:, 0]), dim=-1).cpu(), cache

    return step


def make_penalty(config: DecodeConfig) -> Penalty:
    """The length penalty of the settings."""
    return paper_penalty(config.alpha) if config.length_penalty == "paper" else power_penalty(config.alpha)


class Translator:
    """A translation model with its vocabularies and its own search settings."""

    def __init__(self, folder: ModelFolder) -> None:
        if not isinstance(folder.model, Transformer):
            raise ModelError("this is a language model, it cannot translate: give a model trained on sentence pairs")
        self.folder = folder
        self.model = folder.model
        self.source_vocabulary = folder.source_vocabulary
        self.target_vocabulary = folder.target_vocabulary
        self.decode_config = folder.config.decode

    def settings(
        self,
        beam: int | None = None,
        alpha: float | None = None,
        length_penalty: str | None = None,
        max_length: int | None = None,
    ) -> DecodeConfig:
        """The model's search settings with some of them changed."""
        changes = {"beam": beam, "alpha": alpha, "length_penalty": length_penalty, "max_length": max_length}
        given = {name: value for name, value in changes.items() if value is not None}
        return resolve({"decode": {**self.decode_config.model_dump(), **given}}).decode

    def translate(
        self,
        texts: Iterable[str],
        beam: int | None = None,
        alpha: float | None = None,
        length_penalty: str | None = None,
        max_length: int | None = None,
        sampling: Sampling | None = None,
    ) -> list[Translation]:
        """Translate texts, one result each, in order. A blank text stays blank.

        What is left out takes the model's own setting. With `sampling`, translations are drawn and `beam` plays no part.
        """
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts: write translate([text])")
        texts = list(texts)
        config = self.settings(beam, alpha, length_penalty, max_length)
        found = [Translation(text, "") for text in texts]
        most = self.most_pieces()
        form = self.folder.config.text.normalization
        normal = [normalise(text, form) for text in texts]
        worth_it = [i for i, text in enumerate(normal) if text.strip()]
        # So many characters are too many in any case; what is beyond them is not looked at.
        normal = [text[: LONGEST_PIECE * (most + 1)] for text in normal]
        sources = self.source_vocabulary.encode_batch([normal[i] for i in worth_it])
        cut = [ids[:most] for ids in sources]
        for i, ids, hypotheses in zip(worth_it, sources, self.search(cut, config, sampling, worth_it), strict=True):
            if not hypotheses:
                raise ModelError(
                    "the model's scores are not numbers: its weights are damaged, or its training diverged"
                )
            best = hypotheses[0]
            found[i] = Translation(
                source=texts[i],
                text=LINE_BREAKS.sub(" ", self.target_vocabulary.decode(best.ids)),
                score=best.score,
                truncated=best.truncated,
                cut=len(ids) > most,
                unseen=self.unseen_words(normal[i]),
            )
        return found

    def search(
        self,
        sources: Sequence[Sequence[int]],
        config: DecodeConfig,
        sampling: Sampling | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, batched by length. `numbers` are the places of the sources among all texts:
        what is drawn for a text depends on its place, not on what stands beside it."""
        select: Select = top_k
        width = config.beam
        if sampling is not None:
            width = 1
        encoded = [encode_source(ids) for ids in sources]
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for batch in cut_batches([len(encoded[i]) * width for i in order], ROWS_TOKENS):
            chosen = [order[i] for i in batch]
            source = pad([encoded[i] for i in chosen])
            limits = [self.limit(len(sources[i]), config) for i in chosen]
            if sampling is not None:
                places = [numbers[i] if numbers is not None else i for i in chosen]
                generators = [np.random.default_rng([sampling.seed, sampling.first + i]) for i in places]
                select = sampler(generators, sampling.temperature, sampling.top_k, sampling.top_p)
            with torch.inference_mode():
                hypotheses = search(
                    model_step(self.model),
                    self.model.start(source, source != PAD),
                    limits,
                    width=width,
                    select=select,
                    rules=(only_text,),
                    penalty=make_penalty(config),
                )
            for i, best in zip(chosen, hypotheses, strict=True):
                found[i] = best
        return found

    def most_pieces(self) -> int:
        """Pieces of a source that can be read: learned positions end, and memory grows with the square."""
        config = self.model.config
        return min(MOST_PIECES, config.max_positions - 1) if config.positions == "learned" else MOST_PIECES

    def limit(self, n_source: int, config: DecodeConfig) -> int:
        """Pieces a translation may have, [EOS] counted (section 6.1: input + 50)."""
        limit = (config.max_length or n_source + EXTRA_LENGTH) + 1
        return min(limit, self.model.config.max_positions) if self.model.config.positions == "learned" else limit

    def unseen_words(self, text: str) -> tuple[str, ...]:
        """The words and signs of a text that were not in the training text, where the model kept those."""
        words = self.folder.words
        return () if words is None else tuple(dict.fromkeys(word for word in words_of(text) if word not in words))
