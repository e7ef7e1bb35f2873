"""The time steps of greedy decoding: tokens read, candidates, token written."""

from dataclasses import dataclass

from transduce.decode.engines.base import SearchInput
from transduce.decode.options import TranslateOptions
from transduce.decode.translator import Translator


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible next token and its probability."""

    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class TimeStep:
    """One step: tokens read so far, token written, most probable candidates (best first)."""

    read: tuple[str, ...]
    written: str
    candidates: tuple[Candidate, ...]


def time_steps(translator: Translator, text: str, n_candidates: int = 4) -> list[TimeStep]:
    """Decode a text greedily and return each step, up to [EOS] or the maximum length.

    The encoder runs once, the decoder once for each step (Figure 1). A source that is too long for
    the model is truncated.
    """
    vocabulary = translator.target_vocabulary
    ids = translator.source_vocabulary.encode(translator.clean(text))
    source = SearchInput(tuple(ids[: translator.max_source_tokens()]))
    options = TranslateOptions(translator.settings(beam=1))

    steps: list[TimeStep] = []
    for step in translator.torch_engine.stream(source, options):
        best = step.log_probs[0, 0].topk(n_candidates)
        candidates = tuple(
            Candidate(vocabulary.token(i), p)
            for i, p in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        )
        read = tuple(vocabulary.token(i) for i in step.rows.prefixes[0].tolist())
        written = vocabulary.token(int(step.candidates.token[0, 0]))
        steps.append(TimeStep(read, written, candidates))
    return steps
