"""A model as CTranslate2 reads it: the same weights, the paper's positions written out, pieces named by their numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.config import ModelConfig
from transduce.errors import ModelError
from transduce.text.vocabulary import EOS, SOS, UNKNOWN

if TYPE_CHECKING:
    import torch

    from transduce.model.transformer import Embedding, Transformer

POSITIONS = (
    2048  # written out; CTranslate2 computes others itself only in a form that is not the paper's
)


def why_not(config: ModelConfig) -> str | None:
    """Why CTranslate2 cannot hold a model of this shape, or None."""
    if config.key_size != config.value_size or config.key_size * config.n_heads != config.d_model:
        return "its heads are not d_model / n_heads wide"
    return None


def convert(model: "Transformer", folder: Path) -> None:
    """Write a model into an existing folder, in float32."""
    from ctranslate2.specs import TransformerSpec

    from transduce.model.layers import EPSILON

    config = model.config
    if reason := why_not(config):
        raise ModelError(f"CTranslate2 cannot hold this model: {reason}")
    spec = TransformerSpec.from_config(
        config.n_layers, config.n_heads, pre_norm=config.norm == "pre"
    )
    _embed(spec.encoder, spec.encoder.embeddings[0], model.source_embedding)
    _embed(spec.decoder, spec.decoder.embeddings, model.target_embedding)
    spec.decoder.projection.weight = _numbers(model.logit_weight)
    layers = zip(
        [*model.encoder, *model.decoder.layers],
        [*spec.encoder.layer, *spec.decoder.layer],
        strict=True,
    )
    for ours, theirs in layers:
        _fill_layer(ours, theirs)
    if config.norm == "pre":
        _fill_norm(spec.encoder.layer_norm, model.encoder_norm)
        _fill_norm(spec.decoder.layer_norm, model.decoder.norm)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = map(
        str, (UNKNOWN, SOS, EOS)
    )
    spec.config.decoder_start_token = str(SOS)
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = EPSILON
    spec.register_source_vocabulary(names(len(model.source_embedding.weight)))
    spec.register_target_vocabulary(names(len(model.target_embedding.weight)))
    spec.validate()
    spec.save(str(folder))


def names(n_pieces: int) -> list[str]:
    """What the pieces are called there: their numbers, so that no text can forge one."""
    return [str(i) for i in range(n_pieces)]


def _numbers(weight: "torch.Tensor") -> np.ndarray:
    return weight.detach().float().numpy()


def _embed(stack: Any, embeddings: Any, ours: "Embedding") -> None:
    from transduce.model.positions import sinusoids

    if ours.positions is None:
        table = sinusoids(0, POSITIONS, ours.weight.shape[1], ours.weight.device)
    else:
        table = ours.positions.weight
    embeddings.weight, stack.position_encodings.encodings = _numbers(ours.weight), _numbers(table)
    stack.scale_embeddings = True


def _fill_norm(theirs: Any, ours: Any) -> None:
    theirs.gamma, theirs.beta = _numbers(ours.weight), _numbers(ours.bias)


def _fill_layer(ours: Any, theirs: Any) -> None:
    """An encoder or a decoder layer: there the matrices of queries, keys and values of one input are one."""
    attention = ours.self_attention
    q, k, v = (_numbers(linear.weight) for linear in (attention.w_q, attention.w_k, attention.w_v))
    theirs.self_attention.linear[0].weight = np.concatenate((q, k, v))
    theirs.self_attention.linear[1].weight = _numbers(attention.w_o.weight)
    _fill_norm(theirs.self_attention.layer_norm, ours.self_attention_norm.norm)
    if (cross := getattr(ours, "cross_attention", None)) is not None:
        theirs.attention.linear[0].weight = _numbers(cross.w_q.weight)
        theirs.attention.linear[1].weight = np.concatenate(
            (_numbers(cross.w_k.weight), _numbers(cross.w_v.weight))
        )
        theirs.attention.linear[2].weight = _numbers(cross.w_o.weight)
        _fill_norm(theirs.attention.layer_norm, ours.cross_attention_norm.norm)
    for linear, mine in (
        (theirs.ffn.linear_0, ours.feed_forward.w_1),
        (theirs.ffn.linear_1, ours.feed_forward.w_2),
    ):
        linear.weight, linear.bias = _numbers(mine.weight), _numbers(mine.bias)
    _fill_norm(theirs.ffn.layer_norm, ours.feed_forward_norm.norm)
