"""Sample the next token: temperature, top-k, top-p."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.decode.hypotheses import NAN_SCORES
from transduce.decode.search import NEVER, Candidates, Rows, Select
from transduce.errors import ModelError


def reshape_distribution(
    log_probs: Float[Tensor, "*rows vocab"], temperature: float, top_k: int, top_p: float
) -> Float[Tensor, "*rows vocab"]:
    """Apply temperature, then top-k, then top-p (nucleus), and normalize.

    `top_k` 0 and `top_p` 1 keep everything. Top-p keeps the fewest tokens whose total probability
    reaches p (Holtzman et al. 2020).
    """
    log_probs = torch.log_softmax(log_probs / temperature, dim=-1)
    if 0 < top_k < log_probs.shape[-1]:
        kth = log_probs.topk(top_k, dim=-1).values[..., -1:]
        log_probs = log_probs.masked_fill(log_probs < kth, NEVER)
        log_probs = torch.log_softmax(log_probs, dim=-1)
    if top_p < 1:
        ordered, order = log_probs.sort(dim=-1, descending=True)
        before = ordered.exp().cumsum(dim=-1) - ordered.exp()  # probability of better tokens
        outside = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= top_p)
        log_probs = torch.log_softmax(log_probs.masked_fill(outside, NEVER), dim=-1)
    return log_probs


def sampler(
    generators: Sequence[np.random.Generator],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Select:
    """Return a selection for `search` of width 1 that draws one token per sentence.

    Each sentence has its own random generator, so that a draw does not depend on the rest of the
    batch. Temperature 0 takes the best token. The score is the model's log-probability of what was
    drawn, before temperature, top-k and top-p.
    """

    def select(
        rows: Rows,
        scores: Float[Tensor, "sentence 1"],
        log_probs: Float[Tensor, "sentence 1 vocab"],
        n: int,
    ) -> Candidates:
        if temperature == 0:
            token = log_probs[:, 0].argmax(dim=-1, keepdim=True)
        else:
            shaped = reshape_distribution(log_probs[:, 0], temperature, top_k, top_p)
            uniform = torch.tensor(
                [generators[i].random() for i in rows.sentences.tolist()], dtype=torch.float64
            )
            token = draw(shaped, uniform)
        score = scores + log_probs[:, 0].gather(1, token)
        if score.isnan().any():
            raise ModelError(NAN_SCORES)
        return Candidates(beam=torch.zeros_like(token), token=token, score=score)

    return select


def draw(
    log_probs: Float[Tensor, "row vocab"], uniform: Float[Tensor, " row"]
) -> Int[Tensor, "row 1"]:
    """Return the token at which the cumulative probability exceeds `uniform`, a number in [0, 1).

    Inverse transform sampling. The probabilities need not add up to exactly 1.
    """
    cumulative = log_probs.double().exp().cumsum(dim=-1)
    place = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)
    return place.clamp(max=log_probs.shape[1] - 1)  # the product may be rounded up to the total
