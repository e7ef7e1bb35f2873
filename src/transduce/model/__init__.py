"""The Transformer: token ids in, logits out. Imports only `config` and `errors`."""

from transduce.config import ModelConfig
from transduce.model.transformer import LanguageModel, Transformer

__all__ = ["LanguageModel", "ModelConfig", "Transformer"]
