"""Read a folder of Hugging Face's MarianMTModel, such as those of OPUS-MT, and check all of it.

    config.json, generation_config.json, tokenizer_config.json     settings
    model.safetensors or pytorch_model.bin                         weights
    source.spm, target.spm, vocab.json (and target_vocab.json)     tokenizer

What a folder asks for and this package cannot do is an error that names it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.convert.foreign_folder import (
    MAX_TEXT_BYTES,
    MAX_VOCABULARY_BYTES,
    MAX_WEIGHTS_BYTES,
    ForeignFolder,
)
from transduce.convert.marian_vocabulary import SpecialIds, language_tags, parse_vocabulary
from transduce.errors import ModelError
from transduce.model_folder import MANIFEST
from transduce.text.printable import list_words, printable

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
SAFETENSORS, TORCH_ARCHIVE = "model.safetensors", "pytorch_model.bin"
PREFIX_ENTRY = "transduce_source_prefix"  # in the tokenizer_config.json of our exports
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
MAX_QUOTED = 60  # characters of a value that a message quotes
# Settings of config.json that change what a model computes, with the only value supported.
FIXED = {
    "is_encoder_decoder": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "static_position_embeddings": True,
    "is_decoder": False,
    "quantization_config": None,
}
# Settings of generation_config.json that change what is found, with the values that do not.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "do_sample": (False, None),
    "num_beam_groups": (1, None),
    "repetition_penalty": (1, 1.0, None),
    "encoder_repetition_penalty": (1, 1.0, None),
    "no_repeat_ngram_size": (0, None),
    "diversity_penalty": (0, 0.0, None),
    "min_length": (0, 1, None),
    "min_new_tokens": (0, 1, None),
    "forced_bos_token_id": (None,),
    "force_words_ids": (None,),
    "exponential_decay_length_penalty": (None,),
}
LICENSE = re.compile(r"^license:[ \t]*['\"]?([\w.+-]{1,60})", re.MULTILINE)
FOLDER_LANGUAGES = re.compile(r"opus-mt(?:-tc)?(?:-(?:tiny|base|big))?-([A-Za-z_]+)-([A-Za-z_]+)$")
MAX_SIZE = 1 << 20  # of any size in config.json


@dataclass(frozen=True)
class MarianFolder:
    """A folder of a Marian model. Files are read when they are needed."""

    folder: ForeignFolder

    @property
    def path(self) -> Path:
        """Where the folder is."""
        return self.folder.path

    def check_kind(self) -> None:
        """Raise ModelError unless it is a Marian model whose settings are supported."""
        if self.folder.has(MANIFEST):
            raise ModelError(
                f"{self.path} is a model of transduce already; use it with -m {self.path}"
            )
        _ = self.config

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.json, of a Marian model that is supported."""
        config = self.folder.read_json(CONFIG)
        if config.get("model_type") != "marian":
            raise ModelError(
                f"{self.path / CONFIG} is of a model of the type "
                f"{_quote(config.get('model_type'))}; expected 'marian'"
            )
        for name, supported in FIXED.items():
            if name in config and config[name] != supported:
                raise ModelError(
                    f"{self.path / CONFIG}: {name} is {_quote(config[name])}; "
                    f"supported: {supported}"
                )
        return config

    @cached_property
    def generation(self) -> dict[str, Any]:
        """The settings of generation_config.json, or those of config.json without it."""
        return self.folder.read_optional_json(GENERATION) or self.config

    @cached_property
    def tokenizer(self) -> dict[str, Any]:
        """The content of tokenizer_config.json; empty if there is none."""
        return self.folder.read_optional_json(TOKENIZER)

    @cached_property
    def source_tokens(self) -> list[str]:
        """The tokens of vocab.json in the order of their ids."""
        return parse_vocabulary(self.folder.read_json(VOCABULARY), self.path / VOCABULARY)

    @cached_property
    def target_tokens(self) -> list[str]:
        """The tokens of the target side."""
        if not self.has_separate_vocabularies:
            return self.source_tokens
        name = TARGET_VOCABULARY
        return parse_vocabulary(self.folder.read_json(name), self.path / name)

    @cached_property
    def source_spm(self) -> bytes:
        """The content of source.spm."""
        return self.folder.read(SOURCE_SPM, MAX_VOCABULARY_BYTES)

    @cached_property
    def target_spm(self) -> bytes:
        """The content of target.spm."""
        return self.folder.read(TARGET_SPM, MAX_VOCABULARY_BYTES)

    @property
    def has_separate_vocabularies(self) -> bool:
        """Whether the sides have vocabularies of their own."""
        return self.tokenizer.get("separate_vocabs") is True

    @property
    def has_shared_embeddings(self) -> bool:
        """Whether encoder and decoder have the same embedding."""
        return self.flag("share_encoder_decoder_embeddings", default=True)

    @property
    def weights_name(self) -> str:
        """The name of the file of weights: model.safetensors if there is one."""
        if self.folder.has(SAFETENSORS):
            return SAFETENSORS
        if self.folder.has(TORCH_ARCHIVE):
            return TORCH_ARCHIVE
        raise ModelError(
            f"{self.path} has neither {SAFETENSORS} nor {TORCH_ARCHIVE}; "
            "download the whole folder again"
        )

    @cached_property
    def weights(self) -> "dict[str, Tensor]":
        """The tensors of the file of weights, floating-point numbers all of them."""
        from transduce.convert.torch_archive import read_torch_archive
        from transduce.model.weights import parse_weights

        path = self.path / self.weights_name
        content = self.folder.read(self.weights_name, MAX_WEIGHTS_BYTES)
        parse = parse_weights if self.weights_name == SAFETENSORS else read_torch_archive
        weights = parse(content, path)
        for name, tensor in weights.items():
            if not tensor.is_floating_point() or tensor.dtype.itemsize == 1:
                raise ModelError(
                    f"{path}: {list_words([name])} has type "
                    f"{str(tensor.dtype).removeprefix('torch.')}; "
                    "expected floating-point numbers of 16, 32 or 64 bits"
                )
        return weights

    def forget_weights(self) -> None:
        """Free the memory of the tensors; they are read again if they are needed."""
        self.__dict__.pop("weights", None)

    @property
    def tags(self) -> list[str]:
        """The languages that a multilingual model can be told to write, sorted."""
        return language_tags(self.source_tokens)

    @cached_property
    def source_special(self) -> SpecialIds:
        """The ids of the special tokens in the source."""
        pad, eos, unknown = (
            self._id_of(name, default, self.source_tokens, VOCABULARY)
            for name, default in (
                ("pad_token", "<pad>"),
                ("eos_token", "</s>"),
                ("unk_token", "<unk>"),
            )
        )
        return self._checked(
            SpecialIds(pad, self._start(len(self.source_tokens), pad), eos, unknown)
        )

    @cached_property
    def target_special(self) -> SpecialIds:
        """The ids of the special tokens in the target."""
        if not self.has_separate_vocabularies:
            special, n_tokens = self.source_special, len(self.source_tokens)
            for name, i in (("pad_token_id", special.pad), ("eos_token_id", special.eos)):
                if self.config.get(name, i) != i:
                    raise ModelError(
                        f"{self.path / CONFIG}: {name} is {_quote(self.config[name])}, but "
                        f"{VOCABULARY} gives this token the id {i}"
                    )
            return special._replace(start=self._start(n_tokens, special.pad))
        n_tokens = len(self.target_tokens)
        pad, eos = (self.integer(f"{name}_token_id", 0, n_tokens - 1) for name in ("pad", "eos"))
        unknown = self._id_of("unk_token", "<unk>", self.target_tokens, TARGET_VOCABULARY)
        return self._checked(SpecialIds(pad, self._start(n_tokens, pad), eos, unknown))

    def _start(self, n_tokens: int, pad: int) -> int:
        if "decoder_start_token_id" not in self.config:
            return pad
        return self.integer("decoder_start_token_id", 0, n_tokens - 1)

    def _checked(self, special: SpecialIds) -> SpecialIds:
        if len({special.pad, special.eos, special.unknown}) < 3:
            raise ModelError(
                f"{self.path}: two of the padding, end and unknown tokens have the same id"
            )
        return special

    def _id_of(self, name: str, default: str, tokens: list[str], file: str) -> int:
        token = self.tokenizer.get(name, default)
        if isinstance(token, dict):
            token = token.get("content")
        if token not in tokens:
            raise ModelError(f"{self.path / file} has no token {_quote(token)} (the {name})")
        return tokens.index(token)

    def integer(self, name: str, low: int, high: int = MAX_SIZE) -> int:
        """Return a setting of config.json that is a whole number."""
        value = self.config.get(name)
        if type(value) is not int or not low <= value <= high:
            raise ModelError(
                f"{self.path / CONFIG}: {name} is {_quote(value)}; "
                f"expected a whole number from {low} to {high:,}"
            )
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a setting of config.json that is true or false."""
        value = self.config.get(name, default)
        if type(value) is not bool:
            raise ModelError(
                f"{self.path / CONFIG}: {name} is {_quote(value)}; expected true or false"
            )
        return value

    @property
    def activation(self) -> str:
        """The activation, under our name."""
        name = self.config.get("activation_function", "gelu")
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise ModelError(
                f"{self.path / CONFIG}: activation_function is {_quote(name)}; "
                f"supported: {', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[name]

    def unused_settings(self) -> list[str]:
        """Return the settings of the generation that are not carried over, as `name=value`."""
        unused = [
            f"{name}={_quote(self.generation[name])}"
            for name, neutral in NEUTRAL.items()
            if name in self.generation and self.generation[name] not in neutral
        ]
        special = [[i] for i in self.target_special]
        forbidden = self.generation.get("bad_words_ids") or []
        if not isinstance(forbidden, list) or any(each not in special for each in forbidden):
            unused.append(f"bad_words_ids={_quote(forbidden)}")
        return unused

    def license(self) -> str | None:
        """Return the licence that the front matter of README.md names, or None."""
        matter = self._front_matter()
        found = LICENSE.search(matter)
        return found[1] if found else None

    def languages(self) -> tuple[str, str] | None:
        """Return source and target language from tokenizer_config.json or the folder's name."""
        named = (self.tokenizer.get("source_lang"), self.tokenizer.get("target_lang"))
        if all(isinstance(name, str) and re.fullmatch(r"[A-Za-z_]{2,12}", name) for name in named):
            return str(named[0]), str(named[1])
        found = FOLDER_LANGUAGES.search(self.folder.name)
        return (found[1], found[2]) if found else None

    def _front_matter(self) -> str:
        if not self.folder.has("README.md"):
            return ""
        text = self.folder.read("README.md", MAX_TEXT_BYTES).decode(errors="replace")
        parts = text.replace("\r\n", "\n").split("---\n", 2)
        return parts[1] if len(parts) == 3 and not parts[0].strip() else ""


def _quote(value: object) -> str:
    text = repr(value)
    return printable(text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}...")
