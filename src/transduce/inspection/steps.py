"""The time steps of an inference: what the decoder had read, what it thought, what it wrote."""

from dataclasses import dataclass

import torch

from transduce.data.batch import encode_source, pad
from transduce.decode.rules import only_text
from transduce.decode.translator import Translator, model_step
from transduce.text.normal import normalise
from transduce.text.vocabulary import EOS, PAD, SOS


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece that could come next, with its probability."""

    piece: str
    probability: float


@dataclass(frozen=True, slots=True)
class TimeStep:
    """One step: the pieces read so far, the piece written, and the likeliest candidates, best first."""

    read: tuple[str, ...]
    written: str
    candidates: tuple[Candidate, ...]


def time_steps(translator: Translator, text: str, n_candidates: int = 4) -> list[TimeStep]:
    """Greedy inference one step at a time, from [SOS] to [EOS] or the maximum length. The encoder runs once (Figure 1)."""
    vocabulary = translator.target_vocabulary
    text = normalise(text, translator.folder.config.text.normalization)
    ids = translator.source_vocabulary.encode(text)[: translator.most_pieces()]
    source, limit = pad([encode_source(ids)]), translator.limit(len(ids), translator.decode_config)
    steps: list[TimeStep] = []
    written = [SOS]
    with torch.inference_mode():
        cache = translator.model.start(source, source != PAD)
        step = model_step(translator.model)
        while written[-1] != EOS and len(steps) < limit:
            log_probs, cache = step(torch.tensor(written[-1:]), cache)
            log_probs = only_text(torch.tensor([written]), log_probs)
            best = log_probs[0].topk(n_candidates)
            read = tuple(vocabulary.piece(i) for i in written)
            written.append(int(best.indices[0]))
            candidates = tuple(
                Candidate(vocabulary.piece(i), p)
                for i, p in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
            )
            steps.append(TimeStep(read, candidates[0].piece, candidates))
    return steps
