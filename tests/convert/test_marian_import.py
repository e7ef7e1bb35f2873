"""Marian models imported: the same tokens, logits and translations as in transformers."""

import gzip
import json
import random
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.convert.marian_models import sentences, write_marian, write_tokenizer
from transduce.convert.foreign_folder import ForeignFolder
from transduce.convert.marian_folder import MarianFolder
from transduce.convert.marian_import import ImportedModel, import_marian
from transduce.data.batch import encode_source, pad
from transduce.errors import ModelError, OutputError, UsageError
from transduce.exchange.hugging_face import HuggingFacePeer
from transduce.exchange.importing import import_model
from transduce.exchange.parity import compare, generate_samples, require_parity
from transduce.log import silent
from transduce.model_folder import load_model
from transduce.text.vocabulary import PAD, SOS

pytest.importorskip("transformers")

DATA = Path(__file__).parents[3] / "shared" / "data" / "multi30k"
SCRIPTS = [(0x20, 0x250), (0x370, 0x600), (0x900, 0x980), (0x3040, 0x3100), (0x4E00, 0x5000)]
SCRIPTS += [
    (0xAC00, 0xAD00),
    (0x1F600, 0x1F640),
    (0xFF00, 0xFF60),
    (0xFB00, 0xFB10),
    (0x300, 0x340),
]
GRID: list[dict[str, Any]] = [
    {},
    {"activation_function": "relu", "tie_word_embeddings": False},
    {"activation_function": "gelu", "scale_embedding": False},
    {"share_encoder_decoder_embeddings": False, "separate_vocabs": True},
    {
        "share_encoder_decoder_embeddings": False,
        "separate_vocabs": True,
        "tie_word_embeddings": False,
    },
    {"encoder_layers": 3, "decoder_layers": 1, "decoder_ffn_dim": 23, "d_model": 30,
     "encoder_attention_heads": 5, "decoder_attention_heads": 3},
    {"tags": (">>ita<<", ">>spa<<")},
]  # fmt: skip


def read(folder: Path, to: str | None = None) -> tuple[MarianFolder, ImportedModel]:
    source = MarianFolder(ForeignFolder(folder))
    return source, import_marian(source, to)


@pytest.mark.parametrize("number", range(len(GRID)))
def test_logits_and_translations_are_those_of_transformers(number: int, tmp_path: Path) -> None:
    shape = GRID[number]
    theirs = write_marian(tmp_path, seed=number, **shape)
    source, imported = read(tmp_path, "ita" if "tags" in shape else None)
    model, (source_rows, target_rows) = imported.folder.model, imported.rows
    texts = sentences(6)[0]
    ids = imported.folder.source_vocabulary.encode_batch(texts)
    batch = pad([encode_source(each) for each in ids])
    their_batch = torch.tensor(source_rows)[batch]
    targets = torch.randint(4, len(target_rows), (6, 9), generator=torch.manual_seed(1))
    targets[:, 0] = SOS
    with torch.no_grad():
        ours = model(batch, batch != PAD, targets)
        expected = theirs(
            input_ids=their_batch,
            attention_mask=(batch != PAD).long(),
            decoder_input_ids=torch.tensor(target_rows)[targets],
        ).logits
    n_real = len({*target_rows})
    kept = [i for i in range(SOS, len(target_rows)) if ours[0, 0, i] > -50][:n_real]
    rows = [target_rows[i] for i in kept]
    assert sorted(rows) == list(range(n_real)), "each of Marian's tokens once"
    difference = (ours.log_softmax(2)[..., kept] - expected.log_softmax(2)[..., rows]).abs().max()
    assert difference < 1e-5

    peer = HuggingFacePeer(source, imported.rows, imported.folder.config.text.source_prefix or ())
    samples = generate_samples(imported.folder.source_vocabulary)[:8]
    parity = compare(imported.folder, peer, samples, "sentences")
    assert parity.same_tokens == parity.same_greedy == 8
    assert parity.same_beam + parity.ties + parity.cut >= 8
    require_parity(parity)


def some_lines(n: int) -> list[str]:
    """Return real lines, if there are, and lines that mix words with characters of all scripts."""
    lines = []
    for name in ("train.en.gz", "train.de.gz", "train.fr.gz"):
        if (DATA / name).is_file():
            with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
                lines += [line.rstrip("\n") for _, line in zip(range(n // 5), file, strict=False)]
    chance = random.Random(0)
    words = [word for line in sentences(50)[0] for word in line.split()]
    while len(lines) < n:
        mixed = []
        for _ in range(chance.randint(1, 8)):
            script = chance.choice(SCRIPTS)
            letters = "".join(chr(chance.randrange(*script)) for _ in range(chance.randint(1, 6)))
            mixed.append(chance.choice([chance.choice(words), letters]))
        lines.append(chance.choice([" ", "", "  ", "\u3000"]).join(mixed))
    return [*lines, "▁ ▁x a▁b", "  two  spaces ", "жж", "Ж ж жж", "\t tab\u00a0nbsp", ""]


def test_tokens_are_those_of_marian_tokenizer_for_text_in_several_languages(
    tmp_path: Path,
) -> None:
    from transformers import MarianTokenizer

    write_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    from transduce.convert.marian_import import _import_sides

    sides = _import_sides(MarianFolder(ForeignFolder(tmp_path)))
    assert sides[0].n_appended > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = ("source.spm", "target.spm", "vocab.json")
        theirs = MarianTokenizer(*(str(tmp_path / name) for name in names))
    lines = some_lines(2000)
    assert len(lines) > 2000
    for side, argument in zip(sides, ("text", "text_target"), strict=True):
        expected = theirs(**{argument: lines})["input_ids"]
        found = side.vocabulary.encode_batch(lines)
        assert [[side.rows[i] for i in ids] + [0] for ids in found] == expected
    target = sides[1]
    for ids in target.vocabulary.encode_batch(lines):
        rows = [target.rows[i] for i in ids]
        if 1 not in rows:  # Marian drops unknown tokens of an output too, but not their spaces
            assert target.vocabulary.decode(ids).strip() == theirs.decode(rows).strip()


def test_both_formats_of_weights_give_the_same_folder(tmp_path: Path) -> None:
    write_marian(tmp_path / "x")
    _, first = read(tmp_path / "x")
    torch.save(load_file(tmp_path / "x" / "model.safetensors"), tmp_path / "x/pytorch_model.bin")
    (tmp_path / "x" / "model.safetensors").unlink()
    source, second = read(tmp_path / "x")
    assert source.weights_name == "pytorch_model.bin"
    ours, other = first.folder.model.state_dict(), second.folder.model.state_dict()
    assert all(torch.equal(ours[name], other[name]) for name in ours)
    assert first.folder.source_vocabulary == second.folder.source_vocabulary
    assert first.folder.config == second.folder.config


def test_an_imported_model_is_a_model_folder_that_translates(tmp_path: Path) -> None:
    from transduce.decode.translator import Translator

    write_marian(tmp_path / "opus-mt-en-it")
    (tmp_path / "opus-mt-en-it" / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# x")
    said: list[str] = []
    (tmp_path / "samples").write_text("I love you\nThe cat sleeps\n")
    import_model(
        tmp_path / "m", tmp_path / "opus-mt-en-it", samples=tmp_path / "samples", log=said.append
    )
    folder = load_model(tmp_path / "m")
    assert folder.card["license"] == "cc-by-4.0"
    assert folder.card["parity"]["sentences"] == 2
    assert folder.config.text.languages == ("en", "it")
    assert folder.config.decode.model_dump() == {
        "beam": 6, "alpha": 1.0, "length_penalty": "power", "max_length": 510,
    }  # fmt: skip
    assert any("largest difference" in line for line in said)
    [found] = Translator(folder).translate(["I love 你好"], beam=1, max_length=9)
    assert found.unknown == ("你", "好")
    with pytest.raises(OutputError, match="already exists; choose a new folder"):
        import_model(tmp_path / "m", tmp_path / "opus-mt-en-it", log=silent)


def test_a_multilingual_model_needs_one_of_its_languages(tmp_path: Path) -> None:
    write_marian(tmp_path / "x", tags=(">>ita<<", ">>spa<<"))
    source = MarianFolder(ForeignFolder(tmp_path / "x"))
    with pytest.raises(UsageError, match=r"several languages; choose one with --to: ita, spa"):
        import_marian(source)
    with pytest.raises(UsageError, match=r"--to deu: .* has no such language; it has ita, spa"):
        import_marian(source, "deu")
    folder = import_marian(source, "spa").folder
    assert folder.config.text.languages == ("en", "es")
    assert folder.config.text.source_prefix == (">>spa<<",)
    [tag, *rest] = folder.source_vocabulary.encode("I love you")
    assert folder.source_vocabulary.token(tag) == ">>spa<<"
    assert rest == folder.target_vocabulary.encode("I love you") or rest
    write_marian(tmp_path / "y")
    with pytest.raises(UsageError, match="it has only one language; remove --to"):
        import_marian(MarianFolder(ForeignFolder(tmp_path / "y")), "spa")


def test_a_conversion_that_disagrees_is_refused(tmp_path: Path) -> None:
    write_marian(tmp_path)
    source, imported = read(tmp_path)
    with torch.no_grad():
        imported.folder.model.source_embedding.weight[7] += 1
    peer = HuggingFacePeer(source, imported.rows)
    parity = compare(imported.folder, peer, generate_samples(imported.folder.source_vocabulary), "")
    with pytest.raises(ModelError, match=r"disagrees with transformers .*nothing was written"):
        require_parity(parity)
    with pytest.raises(ModelError, match="disagrees with"):
        require_parity(replace(parity, largest_difference=float("nan")))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"model_type": "bart"}, "type 'bart'; expected 'marian'"),
        ("config.json", {"normalize_before": True}, "normalize_before is True; supported: False"),
        ("config.json", {"static_position_embeddings": False}, "static_position_embeddings is"),
        ("config.json", {"activation_function": "tanh"}, "activation_function is 'tanh'; supp"),
        ("config.json", {"d_model": "x"}, "d_model is 'x'; expected a whole number"),
        ("config.json", {"d_model": 1 << 60}, "d_model is 1152921504606846976; expected"),
        ("config.json", {"d_model": 40}, "shape .*expected .* by config.json"),
        ("config.json", {"d_model": 37}, "expected an even number"),
        ("config.json", {"encoder_layers": 3}, "has no model.encoder.layers.2"),
        ("config.json", {"encoder_layers": 1}, "which is not part of a Marian model"),
        ("config.json", {"vocab_size": 9}, "vocab_size is 9, but the vocabulary has"),
        ("config.json", {"scale_embedding": 1}, "scale_embedding is 1; expected true or false"),
        ("config.json", {"pad_token_id": 3}, "pad_token_id is 3, but vocab.json gives"),
        ("config.json", {"decoder_start_token_id": -1}, "decoder_start_token_id is -1; expected"),
        ("config.json", {"dropout": 7}, "dropout: Input should be less than 1"),
        ("vocab.json", {"new": 1}, "the id of 'new'|the id of new is 1; expected the ids 0 to"),
        ("tokenizer_config.json", {"unk_token": "<x>"}, "has no token '<x>' .the unk_token"),
        ("tokenizer_config.json", {"pad_token": "</s>"}, "have the same id"),
        ("tokenizer_config.json", {"separate_vocabs": True}, "separate_vocabs is true"),
    ],
)
def test_what_is_damaged_or_not_supported_is_named(
    file: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    write_marian(tmp_path)
    if "separate_vocabs" in change:
        (tmp_path / "target_vocab.json").write_bytes((tmp_path / "vocab.json").read_bytes())
    content = json.loads((tmp_path / file).read_text(encoding="utf-8"))
    (tmp_path / file).write_text(json.dumps(content | change), encoding="utf-8")
    with pytest.raises(ModelError, match=message) as raised:
        read(tmp_path)
    assert str(tmp_path) in str(raised.value)


def test_settings_of_the_search_that_are_not_carried_over_are_named(tmp_path: Path) -> None:
    write_marian(tmp_path)
    (tmp_path / "generation_config.json").write_text(
        '{"no_repeat_ngram_size": 3, "bad_words_ids": [[5]], "repetition_penalty": 1.0}'
    )
    source = MarianFolder(ForeignFolder(tmp_path))
    assert source.unused_settings() == ["no_repeat_ngram_size=3", "bad_words_ids=[[5]]"]


def test_a_page_cannot_hold_a_model_whose_vocabulary_has_no_bytes(tmp_path: Path) -> None:
    from transduce.inspection.page_model import pack_model

    write_marian(tmp_path)
    with pytest.raises(UsageError, match="without byte pieces, which a page cannot read"):
        pack_model(read(tmp_path)[1].folder)
