"""The time steps of an inference: what the decoder had read, what it thought, what it wrote."""

from dataclasses import dataclass

from transduce.decode.engines.base import SearchInput
from transduce.decode.options import TranslateOptions
from transduce.decode.translator import Translator


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
    ids = translator.source_vocabulary.encode(translator.clean(text))[
        : translator.max_source_tokens()
    ]
    steps: list[TimeStep] = []
    for moment in translator.torch_engine.stream(
        SearchInput(tuple(ids)), TranslateOptions(translator.settings(beam=1))
    ):
        best = moment.log_probs[0, 0].topk(n_candidates)
        candidates = tuple(
            Candidate(vocabulary.token(i), p)
            for i, p in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        )
        read = tuple(vocabulary.token(i) for i in moment.rows.prefixes[0].tolist())
        steps.append(
            TimeStep(read, vocabulary.token(int(moment.candidates.piece[0, 0])), candidates)
        )
    return steps
