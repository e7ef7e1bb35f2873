"""Hostile model folders: refused at once with exit code 78 and the path, whatever the files are."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.commands import Run
from tests.faults import commands
from transduce.model_folder import ModelFolder, open_model, save_model
from transduce.storage import MAX_JSON_BYTES, sha256

CONTROLS = {"\x1b", "\u202e", "\u009b"}  # what must not reach a terminal
ESCAPES = "\x1b[31m\u202e\u009b"
DEEP, DIGITS = b"[" * 100_000, b"9" * 5_000
Damage = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path, untrained_folder: ModelFolder) -> Path:
    save_model(tmp_path / "m", untrained_folder)
    return tmp_path / "m"


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Replace a file and its entry in the manifest."""
    (folder / name).write_bytes(content)
    list_file(folder, name, {"sha256": sha256(content), "bytes": len(content)})


def list_file(folder: Path, name: str, entry: object) -> None:
    edit_manifest(folder, lambda manifest: manifest["files"].update({name: entry}))


def edit_manifest(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    edit(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def edit_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_bytes())
    config["model"].update(changes)
    rewrite(folder, "config.json", json.dumps(config).encode())


def edit_weights(
    folder: Path, edit: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> None:
    save_file(edit(load_file(folder / "model.safetensors")), folder / "model.safetensors")
    rewrite(folder, "model.safetensors", (folder / "model.safetensors").read_bytes())


def replaced_by(name: str, make: Callable[[Path], object]) -> Damage:
    """Damage: something else than a file at the path of a file."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return damage


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_JSON_BYTES + 1)


def check_refused(
    transduce: Run, folder: Path, *texts: str, command: tuple[str, ...] = ("translate",)
) -> None:
    code, out, err = transduce(*command, "-m", folder, stdin=b"I love you\n")
    assert (code, out) == (78, ""), err
    assert err.startswith(f"transduce: error: {folder}"), err
    for text in texts:
        assert text in err, err
    assert not CONTROLS & set(err)
    assert len(err) < 400
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    ["manifest.json", "config.json", "model.safetensors", "words.txt", "sentencepiece.model"],
)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "is a named pipe, expected a regular file"),
        (Path.mkdir, "is a folder, expected a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a link to a file outside the folder"),
        (lambda path: path.symlink_to("/etc/passwd"), "is a link to a file outside the folder"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    ],
    ids=["pipe", "folder", "link to a device", "link out of the folder", "loop"],
)
def test_a_file_of_a_model_folder_must_be_a_regular_file_inside_it(
    transduce: Run, folder: Path, name: str, make: Damage, message: str
) -> None:
    replaced_by(name, make)(folder)
    check_refused(transduce, folder, f"{folder / name} ", message)


def test_a_real_process_does_not_wait_for_a_pipe_or_an_endless_device(folder: Path) -> None:
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        replaced_by("manifest.json", make)(folder)
        ended = commands.run("translate", "-m", folder)
        assert ended.failed_with(78, str(folder / "manifest.json"))


def test_a_link_to_the_whole_folder_and_links_inside_it_are_followed(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "words.txt").rename(folder / "list.txt")
    (folder / "words.txt").symlink_to("list.txt")
    (tmp_path / "link").symlink_to(folder)
    assert open_model(tmp_path / "link").words == {"I", "love", "you"}


@pytest.mark.parametrize(
    ("damage", "messages"),
    [
        (lambda m: (m / "manifest.json").write_bytes(DEEP), ["not valid JSON", "too deeply"]),
        (
            lambda m: (m / "manifest.json").write_bytes(b'{"format": ' + DIGITS + b"}"),
            ["not valid JSON: a number has too many digits"],
        ),
        (lambda m: make_sparse(m / "manifest.json"), ["has 16,777,217 bytes, expected at most"]),
        (lambda m: (m / "manifest.json").write_bytes(b"\xff"), ["not valid JSON: 'utf-8' codec"]),
        (lambda m: rewrite(m, "config.json", DEEP), ["config.json: Invalid JSON: recursion"]),
        (
            lambda m: rewrite(m, "config.json", b'{"decode": {"beam": ' + DIGITS + b"}}"),
            ["config.json: Invalid JSON: number out of range"],
        ),
        (
            lambda m: edit_config(m, vocab_size=99_999),
            ["config.json says 99999: the two files belong to different models; copy"],
        ),
        (lambda m: edit_config(m, **{ESCAPES: 1}), ["config.json: model.U+001B[31mU+202EU+009B:"]),
        (lambda m: edit_config(m, kind=ESCAPES), ["config.json: model.kind: Input should be"]),
        (lambda m: edit_manifest(m, lambda x: x.update(format=ESCAPES)), ["has format '\\x1b[31m"]),
        (lambda m: edit_manifest(m, lambda x: x.update(format=["x" * 9999])), ["has format ['xxx"]),
        (lambda m: rewrite(m, "sentencepiece.model", b""), ["not a SentencePiece model: it is"]),
        (lambda m: rewrite(m, "sentencepiece.model", b"x" * 99), ["not a SentencePiece model"]),
        (
            lambda m: rewrite(m, "model.safetensors", b"x" * 99),
            ["model.safetensors cannot be read as safetensors"],
        ),
    ],
)
def test_hostile_content_is_refused_with_the_name_of_its_file(
    transduce: Run, folder: Path, damage: Damage, messages: list[str]
) -> None:
    damage(folder)
    check_refused(transduce, folder, *messages)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\0b", "'a\\x00b'"),
        ("\ud800", "'\\ud800'"),
        ("\udcff", "'\\udcff'"),
        (ESCAPES, "'\\x1b[31m\\u202e\\x9b'"),
        ("x" * 5000, "xxx..."),
        ("../words.txt", "'../words.txt'"),
        ("..", "'..'"),
        ("", "''"),
    ],
)
def test_a_manifest_lists_only_names_of_files(
    transduce: Run, folder: Path, name: str, shown: str
) -> None:
    list_file(folder, name, {"sha256": "", "bytes": 0})
    check_refused(transduce, folder, f"manifest.json lists {shown}" if len(name) < 100 else shown)


def test_a_file_beside_the_weights_is_read_only_up_to_a_sane_size(
    transduce: Run, folder: Path
) -> None:
    size = (1 << 26) + 1
    with (folder / "words.txt").open("wb") as file:
        file.truncate(size)
    list_file(folder, "words.txt", {"sha256": "", "bytes": size})
    check_refused(transduce, folder, "words.txt has 67,108,865 bytes, expected at most 67,108,864")


def damage_pieces(model: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    assert old in model
    return model.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"<0x41>", b"<0xZZ>", "not a SentencePiece model: INTERNAL: byte piece <0xZZ> is invalid"),
        ("▁".encode(), b"\xff\xff\xff", "a piece of the SentencePiece model is not UTF-8"),
        (b"[EOS]", b"\x1b[31m", "are [PAD], [SOS], U+001B[31m, [UNK]; expected [PAD], [SOS]"),
    ],
)
def test_a_vocabulary_with_damaged_pieces_is_refused_when_it_is_loaded(
    transduce: Run, folder: Path, old: bytes, new: bytes, message: str
) -> None:
    model = (folder / "sentencepiece.model").read_bytes()
    rewrite(folder, "sentencepiece.model", damage_pieces(model, old, new))
    check_refused(transduce, folder, f"{folder / 'sentencepiece.model'}: ", message)


def test_damaged_words_are_only_other_words(folder: Path) -> None:
    rewrite(folder, "words.txt", b"\xff\xfe\0\n\x1b[31m\nno line end")
    assert open_model(folder).words == {"\ufffd\ufffd\0", "\x1b[31m"}


def as_integers(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: weight.to(torch.int32) for name, weight in weights.items()}


def with_one_boolean(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    name = max(weights)
    return {**weights, name: weights[name] > 0}


def with_a_hostile_name(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**weights, ESCAPES: torch.zeros(1)}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (as_integers, "has type int32, expected floating-point numbers"),
        (with_one_boolean, "has type bool, expected floating-point numbers"),
        (with_a_hostile_name, "'\\x1b[31m\\u202e\\x9b' is not part of this model"),
    ],
)
def test_weights_must_be_the_floating_point_numbers_of_this_model(
    transduce: Run, folder: Path, edit: Any, message: str
) -> None:
    edit_weights(folder, edit)
    check_refused(transduce, folder, message, command=("info",))


def test_a_type_that_torch_does_not_have_is_named(transduce: Run, folder: Path) -> None:
    header = b'{"x":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[0,1]}}'
    content = len(header).to_bytes(8, "little") + header + b"\0"
    rewrite(folder, "model.safetensors", content)
    check_refused(transduce, folder, "has weights of the unknown type 'F8_E8M0'", command=("info",))


def test_a_config_is_compared_with_the_weights_before_more_than_one_layer_is_built(
    transduce: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transduce.model import weights

    built: list[int] = []
    build = weights.build

    def counted(config: Any) -> Any:
        built.append(config.n_layers)
        return build(config)

    monkeypatch.setattr(weights, "build", counted)
    edit_config(folder, n_layers=1000)
    check_refused(transduce, folder, "is missing; the weights do not match", command=("info",))
    assert built == [1]


def test_a_card_with_hostile_values_is_shown_without_control_characters(
    transduce: Run, folder: Path
) -> None:
    settings = {"data": {"max_length": -5}, "train": {"seed": ESCAPES}}
    card = {"settings": settings, ESCAPES: ESCAPES, "scores": [[]], "languages": 10**400}
    edit_manifest(folder, lambda manifest: manifest.update(card=card))
    code, out, err = transduce("info", "-m", folder)
    assert code == 0, err
    assert not CONTROLS & set(out + err)
    code, out, err = transduce("translate", "-m", folder, "--beam", 1, stdin=b"I love you\n")
    assert code == 0, err
    assert "split" not in err
