"""Our model as Hugging Face's MarianMTModel, for tests and benches."""

from typing import Any

import torch

from transduce.convert.marian_export import marian_settings
from transduce.convert.marian_weights import to_marian
from transduce.model import Transformer
from transduce.model.weights import weights_of


def marian_of(model: Transformer, max_positions: int = 512) -> Any:
    """Return the same model as a MarianMTModel, with the epsilon of its LayerNorm as here."""
    from transformers import MarianConfig, MarianMTModel

    settings = {
        **marian_settings(model.config),
        "dropout": 0.0,
        "max_position_embeddings": max_positions,
    }
    weights = to_marian(model.config, weights_of(model))
    shared = weights.get("model.shared.weight")
    for stack in ("encoder", "decoder"):
        if shared is not None:
            weights[f"model.{stack}.embed_tokens.weight"] = shared
    if model.config.tied_output:
        weights["lm_head.weight"] = weights["model.decoder.embed_tokens.weight"]
    theirs = MarianMTModel(MarianConfig(**settings)).eval()
    missing, unexpected = theirs.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all("embed_positions" in name for name in missing)
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = model.config.norm_epsilon
    return theirs
