"""Score given targets: the log-probability of each token, and its attention to the source."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.data.batch import Batch, collate, encode_example
from transduce.data.budget import cut_batches
from transduce.decode.alignment import Attention
from transduce.decode.hypotheses import NAN_SCORES
from transduce.errors import ModelError
from transduce.model import Transformer
from transduce.model.attention import Mask, attention_weights
from transduce.model.layers import DecoderLayer
from transduce.model.weights import shared_copy

MAX_BATCH_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class ScoredTarget:
    """The scores of one pair of source and target."""

    log_probs: tuple[float, ...]  # of each target token, [EOS] last
    attention: Attention | None = None  # [EOS] is last on both sides


class AttentionRecorder:
    """A copy of a model that records the cross-attention of its alignment layer.

    The copy shares its weights with the model. In that layer attention is computed as in Eq. 1,
    not by a fused kernel. Each thread sees the attention of its own last call.
    """

    def __init__(self, model: Transformer) -> None:
        self.model = shared_copy(model)
        self._of_thread = threading.local()
        layer = self.model.decoder.layers[model.config.alignment_layer]
        assert isinstance(layer, DecoderLayer), "a Decoder has only DecoderLayers"
        assert layer.cross_attention is not None, "a Transformer has cross-attention"
        layer.cross_attention.attend = self._attend

    @property
    def attention(self) -> Float[Tensor, "sentence query source"]:
        """The attention weights of the last call, averaged over the heads."""
        weights: Tensor = self._of_thread.weights
        return weights.mean(dim=1)

    @property
    def row_attention(self) -> Float[Tensor, "row source"]:
        """The attention weights of the last call of a step function, a row for each hypothesis."""
        return self.attention.flatten(end_dim=1)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None) -> Tensor:
        weights = attention_weights(q, k, mask)
        self._of_thread.weights = weights
        return weights @ v


def score_targets(
    models: Sequence[Transformer],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    with_attention: bool = False,
    recorder: AttentionRecorder | None = None,
) -> list[ScoredTarget]:
    """Score pairs of token sequences, all positions of a pair in one pass.

    The probabilities of an ensemble are averaged. The attention is that of the first model: the
    cross-attention of its alignment layer, averaged over the heads. `recorder` is one of the first
    model, if there is one already. Raises ModelError for NaN.
    """
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]) + len(targets[i]))
    lengths = [max(len(sources[i]), len(targets[i])) + 1 for i in order]
    if not with_attention:
        recorder = None
    elif recorder is None:
        recorder = AttentionRecorder(models[0])
    scoring_models = [recorder.model, *models[1:]] if recorder is not None else models

    found: dict[int, ScoredTarget] = {}
    for places in cut_batches(lengths, MAX_BATCH_TOKENS):
        indices = [order[place] for place in places]
        batch = collate([encode_example(sources[i], targets[i]) for i in indices])
        log_probs = _target_log_probs(scoring_models, batch)
        if log_probs.isnan().any():
            raise ModelError(NAN_SCORES)
        attention = recorder.attention.float().cpu().numpy() if recorder is not None else None
        for row, i in enumerate(indices):
            n_target, n_source = len(targets[i]) + 1, len(sources[i]) + 1
            of_pair = attention[row, :n_target, :n_source] if attention is not None else None
            found[i] = ScoredTarget(tuple(log_probs[row, :n_target].tolist()), of_pair)
    return [found[i] for i in range(len(sources))]


def _target_log_probs(models: Sequence[Transformer], batch: Batch) -> Float[Tensor, "batch target"]:
    """Return the log-probability of each target token; models' probabilities are averaged."""
    of_models: list[Tensor] = []
    for model in models:
        with torch.inference_mode():
            logits = model(batch.source, batch.source_mask, batch.target_in).float()
            chosen = logits.gather(2, batch.target_out[:, :, None])[:, :, 0]
            of_models.append(chosen - logits.logsumexp(dim=2))
    return torch.stack(of_models).logsumexp(dim=0) - math.log(len(models))
