"""Compare a model with the same model in another program: translations and probabilities.

The stop rule of a comparison: greedy search ends with its first [EOS]; beam search of 4 ends when
as many hypotheses have ended as the other program waits for (Hugging Face's `early_stopping=True`:
4; CTranslate2 with `patience=2`: 8). Both rank by mean log-probability, write no special token, no
empty translation, and at most `MAX_LENGTH` tokens.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from transduce.config import DecodeConfig
from transduce.data.batch import collate, encode_example
from transduce.decode.engines.base import SearchInput
from transduce.decode.engines.torch import TorchEngine
from transduce.decode.options import TranslateOptions
from transduce.decode.scoring import score_targets
from transduce.decode.search import collect
from transduce.decode.words import Ids
from transduce.errors import MissingInputError, ModelError
from transduce.log import Log
from transduce.model import Transformer
from transduce.model_folder import ModelFolder
from transduce.text.vocabulary import SPECIAL_TOKENS, Vocabulary

BEAM = 4
MAX_LENGTH = 48  # tokens of a translation
MAX_SOURCE_TOKENS = 128
N_GENERATED = 16  # sentences, if none are given
MAX_SAMPLES = 500
MAX_DIFFERENCE = 1e-3  # between log-probabilities of a token, in nats
TIE = 1e-4  # between the mean log-probabilities of two translations, in nats


class Peer(Protocol):
    """The same model in another program. Sources and translations are ids of our vocabularies."""

    name: str  # with its version
    n_ends: int  # ended hypotheses with which its beam search ends

    def has_same_tokens(self, text: str, ids: Ids) -> bool | None:
        """Return whether its tokens of a source are these; None if it has no tokenizer."""
        ...

    def search(self, sources: Sequence[Ids], beam: int, max_length: int) -> list[Ids]:
        """Return the best translation of each source under the stop rule."""
        ...

    def log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        """Return the log-probability of each token of each target, [EOS] last."""
        ...


@dataclass(frozen=True)
class Parity:
    """The result of a comparison."""

    program: str
    samples: str  # where the sentences come from
    sentences: int
    same_tokens: int | None  # sentences tokenized alike; None: not compared
    same_greedy: int  # identical translations of greedy search
    same_beam: int  # of beam search
    ties: int  # of the others: translations that are as likely
    cut: int  # of the others: translations that were cut at the maximum length
    largest_difference: float  # of a log-probability, in nats
    seconds: float  # for both searches
    seconds_there: float

    def as_dict(self) -> dict[str, Any]:
        """Return the record for the manifest."""
        return asdict(self)

    def as_lines(self) -> list[str]:
        """Return the report, a line for each result."""
        n = self.sentences
        n_different = 2 * n - self.same_greedy - self.same_beam
        tokens = "not compared" if self.same_tokens is None else f"{self.same_tokens} of {n}"
        return [
            f"parity check with {self.program}, {n} {self.samples}, up to {MAX_LENGTH} tokens",
            f"  tokenized identically       {tokens}",
            f"  greedy search identical     {self.same_greedy} of {n}",
            f"  beam search ({BEAM}) identical   {self.same_beam} of {n}",
            f"  ties among the others       {self.ties} of {n_different}",
            f"  cut among the others        {self.cut} of {n_different}",
            f"  largest difference          {self.largest_difference:.1e} nats per token",
            f"  time                        {self.seconds:.1f} s here, "
            f"{self.seconds_there:.1f} s there",
        ]


def read_samples(path: Path | None, vocabulary: Vocabulary) -> tuple[list[str], str]:
    """Return sentences to compare with, and what they are; without a file they are generated."""
    if path is None:
        return generate_samples(vocabulary), "sentences generated from the vocabulary"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise MissingInputError(f"--samples {path} cannot be read: {error.strerror}") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()][:MAX_SAMPLES]
    if not lines:
        raise MissingInputError(f"--samples {path} has no sentence; give a file with some")
    return lines, f"lines of {path.name}"


def generate_samples(vocabulary: Vocabulary) -> list[str]:
    """Return random sentences of tokens that are words, the same at each call."""
    surfaces = map(vocabulary.surface, range(len(SPECIAL_TOKENS), len(vocabulary)))
    words = [text.strip() for text in surfaces if text.startswith(" ") and text.strip().isalpha()]
    chance = random.Random(1)
    words = words or ["a"]
    return [
        " ".join(chance.choices(words, k=chance.randint(2, 12))) + "." for _ in range(N_GENERATED)
    ]


def compare(folder: ModelFolder, peer: Peer, texts: Sequence[str], samples: str) -> Parity:
    """Compare a model with a peer on some sentences."""
    assert isinstance(folder.model, Transformer), "a translation model"
    encoded = [tuple(ids) for ids in folder.source_vocabulary.encode_batch(list(texts))]
    kept = [i for i, ids in enumerate(encoded) if 0 < len(ids) <= MAX_SOURCE_TOKENS]
    if not kept:
        raise MissingInputError(
            f"none of the sample sentences has 1 to {MAX_SOURCE_TOKENS} tokens; give others"
        )
    sources = [encoded[i] for i in kept]
    same_tokens = [peer.has_same_tokens(texts[i], encoded[i]) for i in kept]

    engine = TorchEngine([folder.model], folder.target_vocabulary)
    start = time.perf_counter()
    ours = {beam: _search(engine, sources, beam, peer.n_ends) for beam in (1, BEAM)}
    middle = time.perf_counter()
    theirs = {beam: peer.search(sources, beam, MAX_LENGTH) for beam in (1, BEAM)}
    end = time.perf_counter()

    different = [
        (source, a, b)
        for beam in ours
        for source, a, b in zip(sources, ours[beam], theirs[beam], strict=True)
        if a != b
    ]
    return Parity(
        program=peer.name,
        samples=samples,
        sentences=len(sources),
        same_tokens=None if None in same_tokens else sum(map(bool, same_tokens)),
        same_greedy=sum(a == b for a, b in zip(ours[1], theirs[1], strict=True)),
        same_beam=sum(a == b for a, b in zip(ours[BEAM], theirs[BEAM], strict=True)),
        ties=sum(_is_tie(folder.model, *each) for each in different),
        cut=sum(max(len(a), len(b)) >= MAX_LENGTH for _, a, b in different),
        largest_difference=_largest_difference(folder.model, peer, sources, ours[1]),
        seconds=round(middle - start, 2),
        seconds_there=round(end - middle, 2),
    )


def require_parity(parity: Parity) -> None:
    """Raise ModelError if a float32 conversion gives other probabilities."""
    if not parity.largest_difference <= MAX_DIFFERENCE:  # also if it is NaN
        raise ModelError(
            f"the converted model disagrees with {parity.program}: log-probabilities differ by "
            f"up to {parity.largest_difference:.2g} nats per token, expected at most "
            f"{MAX_DIFFERENCE}; nothing was written"
        )


def report(parity: Parity | None, unchecked: str, log: Log) -> None:
    """Print the result of a comparison, or what was not compared."""
    for line in parity.as_lines() if parity else ():
        log(line)
    if unchecked:
        log(f"not checked: {unchecked}")


def _search(engine: TorchEngine, sources: Sequence[Ids], beam: int, n_ends: int) -> list[Ids]:
    options = TranslateOptions(DecodeConfig(beam=beam, max_length=MAX_LENGTH))
    plan = engine.plan([SearchInput(ids) for ids in sources], options)
    if beam > 1:
        plan = replace(plan, n_ends=n_ends)
    with torch.inference_mode():
        found = collect(plan.explore(), len(sources))
    return [hypotheses[0].ids if hypotheses else () for hypotheses in found]


def _is_tie(model: Transformer, source: Ids, ours: Ids, theirs: Ids) -> bool:
    """Return whether two translations are equally likely, in the mean of their tokens."""
    if not theirs:
        return False
    means = [
        sum(each.log_probs) / len(each.log_probs)
        for each in score_targets([model], [source, source], [ours, theirs])
    ]
    return abs(means[0] - means[1]) <= TIE


def _largest_difference(
    model: Transformer, peer: Peer, sources: Sequence[Ids], targets: Sequence[Ids]
) -> float:
    theirs = peer.log_probs(sources, targets)
    ours = [_log_probs(model, *pair) for pair in zip(sources, targets, strict=True)]
    differences = torch.cat([(a - b).abs() for a, b in zip(ours, theirs, strict=True)])
    return float(differences.max())  # NaN if one of them is


def _log_probs(model: Transformer, source: Ids, target: Ids) -> Tensor:
    batch = collate([encode_example(source, target)])
    with torch.inference_mode():
        logits = model(batch.source, batch.source_mask, batch.target_in).float()
        return torch.log_softmax(logits, dim=2).gather(2, batch.target_out[:, :, None])[0, :, 0]
