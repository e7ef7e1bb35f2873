"""Write a model in the format of CTranslate2, and check that it gives the same scores.

The weights are the same. Position encodings are stored as a table. Tokens are named by their ids.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from transduce.config import ModelConfig
from transduce.errors import ModelError
from transduce.text.vocabulary import EOS, SOS, SPECIAL_TOKENS, UNKNOWN

if TYPE_CHECKING:
    import torch

    from transduce.model.attention import MultiHeadAttention
    from transduce.model.transformer import Embedding, Transformer

# Rows of the position table. CTranslate2 can compute sinusoids itself, but arranged differently.
MAX_POSITIONS = 2048
ALL_HEADS = 0  # whose attention is averaged
# Parity check: random pairs that are scored by both programs, and their maximum length in tokens.
N_PARITY_PAIRS = 8
MAX_PARITY_LENGTH = 24


def unsupported_shape(config: ModelConfig) -> str | None:
    """Return why CTranslate2 cannot represent a model of this shape, or None if it can."""
    for stack in (config.encoder, config.decoder):
        if stack.key_size != stack.value_size or stack.key_size * stack.n_heads != config.d_model:
            return "the size of its heads is not d_model / n_heads"
    return None


def convert(
    model: "Transformer", folder: Path, names: tuple[list[str], list[str]] | None = None
) -> None:
    """Write a model into an existing folder, in float32.

    `names` are those of the source and target tokens; None means their ids. Raises ModelError if
    CTranslate2 cannot represent the model.
    """
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    config = model.config
    if reason := unsupported_shape(config):
        raise ModelError(f"CTranslate2 cannot represent this model: {reason}")

    spec = TransformerSpec.from_config(
        (config.encoder.n_layers, config.decoder.n_layers),
        config.encoder.n_heads,
        pre_norm=config.norm == "pre",
        activation=Activation[config.activation.upper()],
        alignment_layer=config.alignment_layer,
        alignment_heads=ALL_HEADS,
    )
    spec.decoder.num_heads = np.int16(config.decoder.n_heads)
    _fill_embedding(spec.encoder, spec.encoder.embeddings[0], model.source_embedding)
    _fill_embedding(spec.decoder, spec.decoder.embeddings, model.target_embedding)
    spec.decoder.projection.weight = _to_numpy(model.logit_weight)
    if model.logit_bias is not None:
        spec.decoder.projection.bias = _to_numpy(model.logit_bias)
    for layer, layer_spec in zip(model.encoder, spec.encoder.layer, strict=True):
        _fill_layer(layer_spec, layer)
    for layer, layer_spec in zip(model.decoder.layers, spec.decoder.layer, strict=True):
        _fill_layer(layer_spec, layer)
    if config.norm == "pre":
        _fill_norm(spec.encoder.layer_norm, model.encoder_norm)
        _fill_norm(spec.decoder.layer_norm, model.decoder.norm)

    source_names, target_names = names or (
        token_names(len(model.source_embedding.weight)),
        token_names(len(model.target_embedding.weight)),
    )
    spec.config.unk_token = target_names[UNKNOWN]
    spec.config.bos_token = target_names[SOS]
    spec.config.eos_token = target_names[EOS]
    spec.config.decoder_start_token = target_names[SOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.norm_epsilon
    spec.register_source_vocabulary(source_names)
    spec.register_target_vocabulary(target_names)
    spec.validate()
    spec.save(str(folder))


def token_names(n_tokens: int) -> list[str]:
    """Return the names of tokens in a converted model: their ids, which no text can clash with."""
    return [str(i) for i in range(n_tokens)]


def open_translator(folder: Path, compute_type: str, **options: int) -> Any:
    """Load a converted model; `options` are those of `ctranslate2.Translator`.

    CTranslate2 changes the number of OpenMP threads of the thread that loads a model. Torch reads
    the same number, and its results depend on it, so the model is loaded in a thread of its own.
    """
    import ctranslate2

    with ThreadPoolExecutor(max_workers=1) as loader:
        return loader.submit(
            ctranslate2.Translator, str(folder), device="cpu", compute_type=compute_type, **options
        ).result()


def measure_parity(model: "Transformer", folder: Path) -> float:
    """Return the largest difference between a model and its converted form in `folder`, in nats.

    It is the largest difference between the log-probabilities of a token, over random pairs.
    """
    import torch

    generator = torch.Generator().manual_seed(1)

    def draw_sentences(n_tokens: int) -> list[list[int]]:
        lengths = torch.randint(1, MAX_PARITY_LENGTH, (N_PARITY_PAIRS,), generator=generator)
        return [
            torch.randint(len(SPECIAL_TOKENS), n_tokens, (n,), generator=generator).tolist()
            for n in lengths.tolist()
        ]

    sources = draw_sentences(len(model.source_embedding.weight))
    targets = draw_sentences(len(model.target_embedding.weight))
    ours = [
        log_prob
        for source, target in zip(sources, targets, strict=True)
        for log_prob in _log_probs(model, source, target)
    ]
    translator = open_translator(folder, compute_type="float32")
    results = translator.score_batch(
        [[str(i) for i in ids] for ids in sources], [[str(i) for i in ids] for ids in targets]
    )
    theirs = [log_prob for result in results for log_prob in result.log_probs]
    return max(abs(a - b) for a, b in zip(ours, theirs, strict=True))


def _log_probs(model: "Transformer", source: Sequence[int], target: Sequence[int]) -> list[float]:
    """Return the log-probability of each target token, [EOS] included."""
    import torch

    from transduce.data.batch import collate, encode_example

    batch = collate([encode_example(source, target)])
    with torch.inference_mode():
        logits = model(batch.source, batch.source_mask, batch.target_in).float()
        log_probs = torch.log_softmax(logits, dim=2).gather(2, batch.target_out[:, :, None])
    return log_probs[0, :, 0].tolist()


def _to_numpy(weight: "torch.Tensor") -> np.ndarray:
    return weight.detach().float().numpy()


def _fill_embedding(stack: Any, spec: Any, embedding: "Embedding") -> None:
    from transduce.model.positions import sinusoids

    weight = embedding.weight
    if embedding.positions is None:
        table = sinusoids(0, MAX_POSITIONS, weight.shape[1], weight.device)
    else:
        table = embedding.positions.weight
    spec.weight = _to_numpy(weight)
    stack.position_encodings.encodings = _to_numpy(table)
    stack.scale_embeddings = embedding.scale != 1


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _to_numpy(norm.weight), _to_numpy(norm.bias)


def _fill_linear(spec: Any, linear: "torch.nn.Linear") -> None:
    _fill_joined(spec, (linear,))


def _fill_joined(spec: Any, linears: Sequence["torch.nn.Linear"]) -> None:
    """Fill the specification of linear maps whose matrices are stored as one, and their biases."""
    spec.weight = np.concatenate([_to_numpy(each.weight) for each in linears])
    biases = [_to_numpy(each.bias) for each in linears if each.bias is not None]
    if biases:
        spec.bias = np.concatenate(biases)


def _fill_layer(spec: Any, layer: Any) -> None:
    """Fill the specification of an encoder or decoder layer."""
    _fill_self_attention(spec.self_attention, layer.self_attention)
    _fill_norm(spec.self_attention.layer_norm, layer.self_attention_norm.norm)
    if (cross := getattr(layer, "cross_attention", None)) is not None:
        _fill_cross_attention(spec.attention, cross)
        _fill_norm(spec.attention.layer_norm, layer.cross_attention_norm.norm)
    _fill_linear(spec.ffn.linear_0, layer.feed_forward.w_1)
    _fill_linear(spec.ffn.linear_1, layer.feed_forward.w_2)
    _fill_norm(spec.ffn.layer_norm, layer.feed_forward_norm.norm)


def _fill_self_attention(spec: Any, attention: "MultiHeadAttention") -> None:
    """Fill the specification, where queries, keys and values share one matrix."""
    _fill_joined(spec.linear[0], (attention.w_q, attention.w_k, attention.w_v))
    _fill_linear(spec.linear[1], attention.w_o)


def _fill_cross_attention(spec: Any, attention: "MultiHeadAttention") -> None:
    """Fill the specification, where keys and values share one matrix."""
    _fill_linear(spec.linear[0], attention.w_q)
    _fill_joined(spec.linear[1], (attention.w_k, attention.w_v))
    _fill_linear(spec.linear[2], attention.w_o)
