"""The Transformer: ids in, logits out. Depends on `transduce.config` only and can be lifted out."""

from transduce.config import ModelConfig
from transduce.model.transformer import LanguageModel, Transformer

__all__ = ["LanguageModel", "ModelConfig", "Transformer"]
