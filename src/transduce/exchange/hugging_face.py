"""A Marian model in Hugging Face's transformers, as the peer of a parity check.

Nothing is read from the folder of the model: settings, weights and tokenizer files are what was
read and checked before. Only the settings that this package knows are passed on.
"""

import contextlib
import importlib.util
import io
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transduce.convert.marian_folder import (
    SOURCE_SPM,
    TARGET_SPM,
    TARGET_VOCABULARY,
    VOCABULARY,
    MarianFolder,
)
from transduce.convert.marian_import import POSITION_TABLES
from transduce.convert.marian_weights import LOGIT_BIAS
from transduce.decode.words import Ids
from transduce.storage import to_json
from transduce.text.vocabulary import EOS, SOS

SETTINGS = (
    "vocab_size",
    "decoder_vocab_size",
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "activation_function",
    "scale_embedding",
    "share_encoder_decoder_embeddings",
    "tie_word_embeddings",
)
N_POSITIONS = 512


def is_installed() -> bool:
    """Return whether transformers is installed."""
    return importlib.util.find_spec("transformers") is not None


class HuggingFacePeer:
    """A MarianMTModel with its tokenizer.

    `rows` are for each side the ids of Marian's tokens by ours. `prefix` are the tokens before each
    source.
    """

    def __init__(
        self,
        source: MarianFolder,
        rows: tuple[Sequence[int], Sequence[int]],
        prefix: Sequence[str] = (),
    ) -> None:
        import transformers

        self._prefix = " ".join(prefix)
        self.name = f"transformers {transformers.__version__}"
        self.n_ends = 4
        self._source_rows, self._target_rows = rows
        self._ours = {row: i for i, row in reversed(list(enumerate(self._target_rows)))}
        self._special = source.target_special
        self._tokenizer = _make_tokenizer(source)
        self._model = _make_model(source)

    def has_same_tokens(self, text: str, ids: Ids) -> bool:
        """Return whether MarianTokenizer gives the same tokens."""
        prefixed = f"{self._prefix} {text}" if self._prefix else text
        theirs = self._tokenizer(prefixed)["input_ids"][:-1]
        return theirs == [self._source_rows[i] for i in ids]

    def search(self, sources: Sequence[Ids], beam: int, max_length: int) -> list[Ids]:
        """Return the outputs of `generate`."""
        source, mask = self._encode(sources)
        forbidden = {self._special.pad, self._special.start, self._special.unknown}
        with torch.inference_mode(), _quiet():
            found = self._model.generate(
                source,
                attention_mask=mask,
                num_beams=beam,
                do_sample=False,
                min_new_tokens=1,
                max_new_tokens=max_length + 1,
                suppress_tokens=sorted(forbidden - {self._special.eos}),
                **({"length_penalty": 1.0, "early_stopping": True} if beam > 1 else {}),
            )
        ends = (self._special.pad, self._special.eos)
        return [tuple(self._ours[i] for i in row[1:] if i not in ends) for row in found.tolist()]

    def log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        """Return the log-probabilities of the targets' tokens."""
        scored = []
        for ids, target in zip(sources, targets, strict=True):
            source, mask = self._encode([ids])
            rows = [self._target_rows[i] for i in (SOS, *target, EOS)]
            with torch.inference_mode():
                logits = self._model(
                    input_ids=source,
                    attention_mask=mask,
                    decoder_input_ids=torch.tensor([rows[:-1]]),
                ).logits
            log_probs = torch.log_softmax(logits[0].float(), dim=1)
            scored.append(log_probs.gather(1, torch.tensor(rows[1:])[:, None])[:, 0])
        return scored

    def _encode(self, sources: Sequence[Ids]) -> tuple[Tensor, Tensor]:
        rows = [torch.tensor([self._source_rows[i] for i in (*ids, EOS)]) for ids in sources]
        source = pad_sequence(rows, batch_first=True, padding_value=self._special.pad)
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        return source, mask


def _make_model(source: MarianFolder) -> Any:
    from transformers import MarianConfig, MarianMTModel

    special = source.target_special
    settings = {name: source.config[name] for name in SETTINGS if name in source.config}
    config = MarianConfig(
        **settings,
        max_position_embeddings=N_POSITIONS,
        pad_token_id=special.pad,
        eos_token_id=special.eos,
        forced_eos_token_id=special.eos,
        bos_token_id=None,
        decoder_start_token_id=special.start,
        dropout=0.0,
    )
    with _quiet():
        model: Any = MarianMTModel(config)
    model.load_state_dict(complete_weights(source), strict=False)
    return model.eval()


def complete_weights(source: MarianFolder) -> dict[str, Tensor]:
    """Return the weights with every matrix under all names that a MarianMTModel has for it."""
    weights = {
        name: weight.float()
        for name, weight in source.weights.items()
        if name not in POSITION_TABLES
    }
    if source.has_shared_embeddings:
        for stack in ("encoder", "decoder"):
            weights[f"model.{stack}.embed_tokens.weight"] = weights["model.shared.weight"]
    if source.flag("tie_word_embeddings", default=True):
        weights["lm_head.weight"] = weights["model.decoder.embed_tokens.weight"]
    n_tokens = len(weights["lm_head.weight"])
    weights.setdefault(LOGIT_BIAS, torch.zeros(1, n_tokens))
    return weights


def _make_tokenizer(source: MarianFolder) -> Any:
    from transformers import MarianTokenizer

    with tempfile.TemporaryDirectory() as folder, _quiet():
        paths = {name: Path(folder) / name for name in (SOURCE_SPM, TARGET_SPM)}
        paths[SOURCE_SPM].write_bytes(source.source_spm)
        paths[TARGET_SPM].write_bytes(source.target_spm)
        sides: Mapping[str, Sequence[str]] = {
            VOCABULARY: source.source_tokens,
            TARGET_VOCABULARY: source.target_tokens,
        }
        for name, tokens in sides.items():
            paths[name] = Path(folder) / name
            paths[name].write_bytes(to_json({token: i for i, token in enumerate(tokens)}))
        special = source.source_special
        return MarianTokenizer(
            str(paths[SOURCE_SPM]),
            str(paths[TARGET_SPM]),
            str(paths[VOCABULARY]),
            target_vocab_file=str(paths[TARGET_VOCABULARY]),
            separate_vocabs=source.has_separate_vocabularies,
            pad_token=source.source_tokens[special.pad],
            eos_token=source.source_tokens[special.eos],
            unk_token=source.source_tokens[special.unknown],
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the notes of transformers, such as those on packages that it recommends."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
