"""Random Marian models in the form that people download them, for tests of import and export."""

import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from transduce.grammar import generate

TAGS = (">>ita<<", ">>spa<<")
UNUSUAL = ("Ж", "жж")  # in the vocabulary, but in neither SentencePiece model
SHAPE: dict[str, Any] = {
    "d_model": 36,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 50,
    "decoder_ffn_dim": 50,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "activation_function": "swish",
    "scale_embedding": True,
}


def sentences(n: int = 600) -> tuple[list[str], list[str]]:
    pairs = list(generate("en-it", n, seed=11))
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def train_spm(lines: Sequence[str], size: int, **options: Any) -> bytes:
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=writer,
        minloglevel=2,
        **{"vocab_size": size, "hard_vocab_limit": False, **options},
    )
    return writer.getvalue()


def count_pieces(spm: bytes, lines: Sequence[str]) -> list[str]:
    """Return the pieces of the lines, the most frequent first, as marian-vocab does."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    counts = Counter(piece for line in lines for piece in processor.encode(line, out_type=str))
    return [piece for piece, _ in counts.most_common()]


def write_tokenizer(folder: Path, *, tags: Sequence[str] = (), separate: bool = False) -> int:
    """Write the files of a tokenizer and return the size of the (target) vocabulary.

    Some pieces of the SentencePiece models are missing in vocab.json, as in OPUS-MT's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    english, italian = sentences()
    spms = (train_spm(english, 300), train_spm(italian, 240))
    pieces = [
        count_pieces(spm, side[:400]) for spm, side in zip(spms, (english, italian), strict=True)
    ]

    def vocabulary(found: Sequence[str]) -> dict[str, int]:
        kept = dict.fromkeys(found)
        names = ["</s>", "<unk>", *list(kept)[:-7], *UNUSUAL, *tags, "<pad>"]
        return {name: i for i, name in enumerate(dict.fromkeys(names))}

    (folder / "source.spm").write_bytes(spms[0])
    (folder / "target.spm").write_bytes(spms[1])
    about = {"source_lang": "eng", "target_lang": "ita"}
    if separate:
        sides = [vocabulary(side) for side in pieces]
        (folder / "target_vocab.json").write_text(json.dumps(sides[1]), encoding="utf-8")
        about["separate_vocabs"] = True
    else:
        sides = [vocabulary([*pieces[0], *pieces[1]])]
    (folder / "vocab.json").write_text(json.dumps(sides[0]), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    return len(sides[-1])


def write_marian(folder: Path, *, tags: Sequence[str] = (), seed: int = 0, **shape: Any) -> Any:
    """Write a folder of a random MarianMTModel and return the model."""
    from transformers import MarianConfig, MarianMTModel

    separate = shape.pop("separate_vocabs", False)
    n_target = write_tokenizer(folder, tags=tags, separate=separate)
    n_source = len(json.loads((folder / "vocab.json").read_text(encoding="utf-8")))
    torch.manual_seed(seed)
    pad = n_target - 1
    config = MarianConfig(
        **{**SHAPE, **shape},
        vocab_size=n_source,
        decoder_vocab_size=n_target,
        max_position_embeddings=200,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        init_std=0.25,
    )
    model: Any = MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn(parameter.shape))
        model.final_logits_bias.copy_(torch.randn(1, n_target))
        model.final_logits_bias[0, 0] += 2  # so that some translations end
        if model.config.share_encoder_decoder_embeddings:
            embedding = model.model.shared.weight
            for stack in (model.model.encoder, model.model.decoder):
                stack.embed_tokens.weight = embedding
        model.get_decoder().embed_tokens.weight[pad] = 0
    model.save_pretrained(folder)
    generation = {"num_beams": 6, "length_penalty": 1.0, "max_length": 512}
    generation |= {"bad_words_ids": [[pad]], "decoder_start_token_id": pad, "pad_token_id": pad}
    (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    return model
