"""Convert a model to Hugging Face's MarianMTModel: settings and weights. For tests and benches."""

from typing import Any

import torch
from torch import Tensor

from transduce.config import StackShape
from transduce.model import Transformer
from transduce.model.attention import MultiHeadAttention
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.text.vocabulary import EOS, PAD, SOS


def to_marian(model: Transformer) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the arguments of MarianConfig, and the weights for `load_state_dict`.

    The position tables are Marian's own: all sines, then all cosines, where the paper interleaves
    them. The d_model axis of every weight is permuted accordingly, which changes no result.
    Marian's attention has biases, which are zero if ours has none. The epsilon of its LayerNorm is
    1e-5, which its settings cannot change: `marian_of` does.
    """
    config = model.config
    assert config.norm == "post"
    assert config.positions == "sinusoidal"
    order = torch.cat((torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)))
    source, target, output = (
        weight.detach()[:, order]
        for weight in (
            model.source_embedding.weight,
            model.target_embedding.weight,
            model.logit_weight,
        )
    )
    bias = torch.zeros(len(output)) if model.logit_bias is None else model.logit_bias.detach()
    weights = {
        "model.encoder.embed_tokens.weight": source,
        "model.decoder.embed_tokens.weight": target,
        "lm_head.weight": output,
        "final_logits_bias": bias[None],
    }
    is_joint = config.target_vocab_size is None
    if is_joint:
        weights["model.shared.weight"] = source
    for i, layer in enumerate(model.encoder):
        weights |= _layer(layer, f"model.encoder.layers.{i}", order)
    for i, layer in enumerate(model.decoder.layers):
        weights |= _layer(layer, f"model.decoder.layers.{i}", order)
    settings = {
        "vocab_size": len(source),
        "decoder_vocab_size": len(target),
        "share_encoder_decoder_embeddings": is_joint,
        "tie_word_embeddings": config.tied_output,
        "d_model": config.d_model,
        "activation_function": config.activation,
        "scale_embedding": config.embedding_scale,
        "dropout": 0.0,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,
        "decoder_start_token_id": SOS,
        **_sizes("encoder", config.encoder),
        **_sizes("decoder", config.decoder),
    }
    return settings, weights


def _sizes(name: str, stack: StackShape) -> dict[str, int]:
    return {
        f"{name}_layers": stack.n_layers,
        f"{name}_attention_heads": stack.n_heads,
        f"{name}_ffn_dim": stack.d_ff,
    }


def _layer(layer: EncoderLayer | DecoderLayer, name: str, order: Tensor) -> dict[str, Tensor]:
    parts = {"self_attn": (layer.self_attention, layer.self_attention_norm)}
    if isinstance(layer, DecoderLayer) and layer.cross_attention is not None:
        parts["encoder_attn"] = (layer.cross_attention, layer.cross_attention_norm)
    weights: dict[str, Tensor] = {}
    for part, (attention, norm) in parts.items():
        weights |= _attention(attention, f"{name}.{part}", order)
        weights |= _ordered(norm.norm, f"{name}.{part}_layer_norm", order)
    weights |= _ordered(layer.feed_forward_norm.norm, f"{name}.final_layer_norm", order)
    weights[f"{name}.fc1.weight"] = layer.feed_forward.w_1.weight.detach()[:, order]
    weights[f"{name}.fc1.bias"] = layer.feed_forward.w_1.bias.detach()
    return weights | _ordered(layer.feed_forward.w_2, f"{name}.fc2", order)


def _attention(attention: MultiHeadAttention, name: str, order: Tensor) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for part, linear in (
        ("q_proj", attention.w_q),
        ("k_proj", attention.w_k),
        ("v_proj", attention.w_v),
    ):
        weights[f"{name}.{part}.weight"] = linear.weight.detach()[:, order]
        weights[f"{name}.{part}.bias"] = _bias(linear)
    weights[f"{name}.out_proj.weight"] = attention.w_o.weight.detach()[order]
    weights[f"{name}.out_proj.bias"] = _bias(attention.w_o)[order]
    return weights


def _bias(linear: torch.nn.Linear) -> Tensor:
    return torch.zeros(linear.out_features) if linear.bias is None else linear.bias.detach()


def _ordered(module: Any, name: str, order: Tensor) -> dict[str, Tensor]:
    """Return weight and bias of a module whose output has d_model components."""
    return {f"{name}.{part}": getattr(module, part).detach()[order] for part in ("weight", "bias")}


def marian_of(model: Transformer, max_positions: int = 512) -> Any:
    """Return the same model as a MarianMTModel."""
    from transformers import MarianConfig, MarianMTModel

    settings, weights = to_marian(model)
    theirs = MarianMTModel(MarianConfig(max_position_embeddings=max_positions, **settings)).eval()
    missing, unexpected = theirs.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all("embed_positions" in name for name in missing)
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = model.config.norm_epsilon
    return theirs
