"""Folders made to harm are refused by name, and nothing in them is executed."""

import contextlib
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.convert.marian_models import sentences, train_spm
from transduce.convert.foreign_folder import ForeignFolder
from transduce.convert.marian_folder import MarianFolder
from transduce.convert.marian_vocabulary import parse_spm, parse_vocabulary
from transduce.convert.sentencepiece_model import Piece, PieceType, parse_sentencepiece
from transduce.convert.torch_archive import MAX_PICKLE_BYTES, read_torch_archive
from transduce.errors import MissingInputError, ModelError

BIN = Path("pytorch_model.bin")
OLD = {"_use_new_zipfile_serialization": False}  # the format before torch 1.6


class Canary:
    """An object that runs a command when it is unpickled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def saved(value: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def rezip(
    content: bytes, change: Callable[[str, bytes], tuple[str, bytes] | None], method: int = 0
) -> bytes:
    """Return a zip archive with changed entries."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", method) as new:
        for entry in old.infolist():
            changed = change(entry.filename, old.read(entry))
            if changed:
                new.writestr(*changed)
    return buffer.getvalue()


def with_pickle(program: bytes) -> bytes:
    return rezip(
        saved({"a": torch.ones(3)}),
        lambda name, content: (name, program if name.endswith("data.pkl") else content),
    )


def renamed(old: str, new: str) -> bytes:
    return rezip(saved({"a": torch.ones(3)}), lambda name, data: (name.replace(old, new), data))


def canaries(path: Path) -> list[bytes]:
    """Return pickles that create a file when they are loaded, in several ways."""
    command = f"touch {path}"
    programs: list[Any] = [
        Canary(os.system, command),
        {"a": Canary(os.system, command)},
        {"a": torch.ones(2), "b": [Canary(exec, f"open({str(path)!r}, 'w')")]},
        Canary(getattr, Canary(__import__, "os"), "system"),
        Canary(open, str(path), "w"),
        Canary(torch.load, str(path)),
    ]
    found = [saved(program) for program in programs]
    found += [saved(program, **OLD) for program in programs]
    by_hand = [
        b"cposix\nsystem\n(S'" + command.encode() + b"'\ntR.",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x05touch\x85R.",
        b"(S'" + command.encode() + b"'\niposix\nsystem\n.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(cposix\nsystem\ntR.",
        b"\x80\x02ccollections\nOrderedDict\n(cbuiltins\neval\ntR.",
    ]
    tensors = saved({"a": torch.ones(2)}, **OLD)
    after_magic = tensors.index(b".") + 1
    in_place = [tensors[:after_magic] + program for program in by_hand]  # of the version
    return [*found, *map(with_pickle, by_hand), *by_hand, *in_place]


def test_no_pickle_is_executed(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for content in canaries(canary):
        with pytest.raises(ModelError, match=r"pytorch_model.bin: .*nothing in it was executed"):
            read_torch_archive(content, BIN)
    assert not canary.exists()


def lying_numel() -> bytes:
    """Say that the data has a million numbers, where it has three."""
    program = b"".join(
        [
            b"\x80\x02}X\x01\x00\x00\x00actorch._utils\n_rebuild_tensor_v2\n((",
            b"X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000",
            b"X\x03\x00\x00\x00cpuJ@B\x0f\x00tQK\x00J@B\x0f\x00\x85K\x01\x85\x89",
            b"ccollections\nOrderedDict\n)RtRs.",
        ]
    )
    return with_pickle(program)


def compressed() -> bytes:
    return rezip(saved({"a": torch.zeros(1000)}), lambda *entry: entry, zipfile.ZIP_DEFLATED)


def tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is neither a zip archive nor a sequence of pickles by torch"),
        (b"PK\3\4", "it is damaged"),
        (pickle.dumps({"a": 1}, protocol=2), "nor a sequence of pickles by torch"),
        (tar(), "it is neither a zip archive nor a sequence of pickles by torch"),
        (saved({"a": torch.ones(2)})[:-30], "it is damaged"),
        (saved({"a": torch.ones(2)}, **OLD)[:-1], "its data have another size than stated"),
        (saved({"a": torch.ones(2)}, **OLD) + b"x", "its data have another size than stated"),
        (
            saved({"a": torch.ones(2)}, **OLD).replace(struct.pack("<q", 2), struct.pack("<q", 9)),
            "its data have another size than stated",
        ),
        (saved({"a": torch.ones(2)}, **OLD)[:100], "it is damaged"),
        (
            saved({"a": torch.ones(2)}, **OLD).replace(b"\xe9\x03", b"\xea\x03", 1),
            "unknown version",
        ),
        (
            saved({"a": torch.ones(2)}, **OLD).replace(
                b"little_endianq\x02\x88", b"little_endianq\x02\x89"
            ),
            "its numbers are not little-endian",
        ),
        (saved([torch.ones(2)], **OLD), "it holds a list, expected a table of tensors"),
        (saved({"a": 3}, **OLD), "its entry a is not a tensor"),
        (saved({"a": torch.ones(1).expand(10**6)}, **OLD), "a is larger than its data"),
        (saved([torch.ones(2)]), "it holds a list, expected a table of tensors"),
        (saved({"a": 3}), "its entry a is not a tensor"),
        (saved({"a": torch.ones(2, dtype=torch.int64)}), "its pickle calls torch.LongStorage"),
        (saved({"a": torch.ones(2).to_sparse()}), "its pickle calls"),
        (saved(torch.nn.Linear(2, 2)), "its pickle calls torch.nn"),
        (saved({"a": torch.ones(1).expand(10**6)}), "a is larger than its data"),
        (lying_numel(), "the data of a has another size than stated"),
        (compressed(), "is compressed or encrypted"),
        (renamed("data/0", "data/../../x"), "its entry .* is not one of tensors"),
        (renamed("archive/version", "/etc/x"), "its entry .* is not one of tensors"),
        (renamed("archive/version", "archive/code/x.py"), "its entry .* is not one of tensors"),
        (with_pickle(b"\x80\x02" + b"N" * MAX_PICKLE_BYTES), "data.pkl is missing or too large"),
        (with_pickle(b"\x80\x02Nr\xff\xff\xff\x7f."), "numbers more values than a model has"),
        (with_pickle(b"\x80\x02}"), "it is damaged"),
        (with_pickle(b"\x80\x02}X\x01\x00\x00\x00aNs."), "its entry a is not a tensor"),
        (with_pickle(b"\x80\x02(lp0\n."), "its pickle has the instruction LIST"),
        (
            rezip(
                saved({"a": torch.ones(3)}),
                lambda n, d: (n, b"big" if n.endswith("byteorder") else d),
            ),
            "its numbers are not little-endian",
        ),
    ],
)
def test_an_archive_of_anything_but_tensors_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message) as raised:
        read_torch_archive(content, BIN)
    assert "nothing in it was executed" in str(raised.value)


@pytest.mark.parametrize("form", [{}, OLD])
def test_an_archive_of_tensors_is_read_to_the_bit(form: dict[str, bool]) -> None:
    torch.manual_seed(0)
    values = {"a": torch.randn(3, 4), "b": torch.randn(5).half(), "c": torch.randn(2).bfloat16()}
    values["part"] = values["a"][1:]
    values["parameter"] = torch.nn.Parameter(torch.randn(2))
    read = read_torch_archive(saved(values, **form), BIN)
    assert all(torch.equal(read[name], value) for name, value in values.items())
    linear = torch.nn.Linear(2, 3)  # an OrderedDict with metadata
    read = read_torch_archive(saved(linear.state_dict(), **form), BIN)
    assert torch.equal(read["weight"], linear.weight)


# Files


def test_files_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"model_type": "marian"}')
    folder = tmp_path / "x"
    folder.mkdir()
    for target in (secret, Path("../secret")):
        (folder / "config.json").unlink(missing_ok=True)
        (folder / "config.json").symlink_to(target)
        with pytest.raises(ModelError, match=r"config.json is a link to a file outside the folder"):
            _ = MarianFolder(ForeignFolder(folder)).config
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(ModelError, match=r"config.json is a named pipe, expected a regular file"):
        _ = MarianFolder(ForeignFolder(folder)).config


def test_links_within_one_repository_of_the_cache_are_followed(tmp_path: Path) -> None:
    repository = tmp_path / "models--Helsinki-NLP--opus-mt-en-it"
    snapshot, blobs = repository / "snapshots" / "abc", repository / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "1234").write_text('{"model_type": "marian"}')
    (snapshot / "config.json").symlink_to("../../blobs/1234")
    folder = MarianFolder(ForeignFolder(snapshot))
    assert folder.config == {"model_type": "marian"}
    assert folder.folder.name == "Helsinki-NLP/opus-mt-en-it"
    other = tmp_path / "models--other--x" / "blobs"
    other.mkdir(parents=True)
    (other / "1").write_text("{}")
    (snapshot / "vocab.json").symlink_to("../../../models--other--x/blobs/1")
    with pytest.raises(ModelError, match=r"vocab.json is a link to a file outside the folder"):
        _ = folder.source_tokens
    (repository / "refs").write_text("{}")
    (snapshot / "generation_config.json").symlink_to("../../refs")
    with pytest.raises(ModelError, match=r"generation_config.json is a link to a file outside"):
        _ = folder.generation


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "is not valid JSON: it is nested too deeply"),
        (
            b'{"model_type":' + b"[" * 99_999 + b"]" * 99_999 + b"}",
            "is not valid JSON: it is nested",
        ),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not valid JSON: a number has too many digits"),
        (b"[1]", "contains a JSON list, expected an object"),
        (b"\xff", "is not valid JSON"),
        (b"", "is not valid JSON"),
        (b" " * ((1 << 25) + 1), "has 33,554,433 bytes, expected at most 33,554,432"),
    ],
)
def test_json_that_is_not_an_object_is_refused(
    content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=rf"config.json {message}"):
        _ = MarianFolder(ForeignFolder(tmp_path)).config


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelError, match=r"model.safetensors has 1,099,511,627,776 bytes, expect"):
        _ = MarianFolder(ForeignFolder(tmp_path)).weights
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(ModelError, match=r"model.safetensors cannot be read as safetensors"):
        _ = MarianFolder(ForeignFolder(tmp_path)).weights
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has neither model.safetensors nor pytorch_model.bin"):
        _ = MarianFolder(ForeignFolder(tmp_path)).weights


def test_weights_that_are_not_floating_point_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2, dtype=torch.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError, match=r"a has type int8; expected floating-point numbers"):
        _ = MarianFolder(ForeignFolder(tmp_path)).weights


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"no folder .*gone; check the path"):
        ForeignFolder(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"file is not a folder; expected a folder with config"):
        ForeignFolder(tmp_path / "file")
    with pytest.raises(ModelError, match=r"config.json is missing; download the whole folder"):
        _ = MarianFolder(ForeignFolder(tmp_path)).config


@pytest.mark.parametrize(
    "vocabulary", [{"a": 1}, {"a": 0, "b": 0}, {"a": True}, {"a": -1}, {"a": "0"}, {"a": 10**40}]
)
def test_a_vocab_json_without_each_id_once_is_refused(vocabulary: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"x: the id of .*; expected the ids 0 to"):
        parse_vocabulary(vocabulary, Path("x"))


# SentencePiece models


@pytest.fixture(scope="module")
def spm() -> bytes:
    return train_spm(sentences(300)[0], 200)


def test_a_sentencepiece_model_survives_a_round_trip(spm: bytes) -> None:
    model = parse_sentencepiece(spm)
    assert model.kind == "unigram"
    assert parse_sentencepiece(model.to_bytes()) == model


def crafted(spm: bytes) -> dict[str, bytes]:
    """Return damaged and hostile models by the message that they give."""
    model = parse_sentencepiece(spm)

    def changed(*pieces: Piece) -> bytes:
        from dataclasses import replace

        return replace(model, pieces=(*model.pieces, *pieces)).to_bytes()

    table = bytearray(spm)
    [field] = [each for each in model.others if each.number == 3 and len(each.value) > 10_000]
    place = spm.index(field.value) + 100
    table[place : place + 40_000] = b"\x00\xff\xff\x7f" * 10_000
    normal = PieceType.NORMAL
    return {
        "it ends inside a field": spm[:-1],
        "it ends inside a number": b"\x0a\xff",
        "a field has the unknown wire type 7": b"\x0f",
        "a number has more than ten bytes": b"\x08" + b"\xff" * 11,
        "field 1 is a number, expected a message": b"\x08\x01",
        "it has 0 pieces of the type UNKNOWN": b"",
        "the piece x occurs twice": changed(
            Piece("x\u0301", 0, normal), *[Piece("x", 0, normal)] * 2
        ),
        "a piece has 0 bytes": changed(Piece("", 0, normal)),
        "a piece has 5,000 bytes": changed(Piece("x" * 5000, 0, normal)),
        "a piece has a NUL character": changed(Piece("x\0", 0, normal)),
        "a piece has the score nan": changed(Piece("xx", float("nan"), normal)),
        "a piece has the unknown type 9": b"\x0a\x05\x0a\x01x\x18\x09",
        "a piece is not UTF-8": b"\x0a\x03\x0a\x01\xff",
        "the table of its normalizer points outside": bytes(table),
    }


def test_crafted_sentencepiece_models_are_refused_by_name(spm: bytes) -> None:
    for message, content in crafted(spm).items():
        with pytest.raises(ModelError, match=rf"source.spm: not a SentencePiece model: {message}"):
            parse_spm(content, Path("source.spm"))


def test_random_damage_gives_a_model_or_an_error(spm: bytes) -> None:
    import random

    chance = random.Random(3)
    for _ in range(150):
        content = bytearray(spm)
        for _ in range(chance.randint(1, 5)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        with contextlib.suppress(ModelError):
            parse_spm(bytes(content[: chance.choice([len(content), 5000])]), Path("x"))


def test_models_that_cannot_be_rewritten_exactly_are_refused() -> None:
    word = train_spm(sentences(300)[0], 60, model_type="word")
    with pytest.raises(ModelError, match="of the kind word; supported: unigram, bpe and char"):
        parse_spm(word, Path("x"))
    suffix = train_spm(sentences(300)[0], 60, treat_whitespace_as_suffix=True)
    with pytest.raises(ModelError, match="with spaces after words; supported"):
        parse_spm(suffix, Path("x"))


def test_the_vocabulary_of_a_folder_is_not_read_as_settings(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"</s>": 0, "<pad>": 1}))
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(ModelError, match=r"vocab.json has no token '<unk>'"):
        _ = MarianFolder(ForeignFolder(tmp_path)).source_special
