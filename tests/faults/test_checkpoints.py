"""Damaged files in a run folder: a run ends with weights from whole files and names the others."""

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from tests.commands import Run
from tests.trainings import Straight, resume_here, weights
from transduce.data.shards import open_shards
from transduce.errors import DataError, ModelError
from transduce.model.weights import average, load_weights_file
from transduce.storage import read_json, remove, sha256, to_json
from transduce.training.checkpoints import checkpoints, find_damage, newest_intact
from transduce.training.run_folder import find_film

WEIGHTS, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
MANIFEST = "manifest.json"
DEEP = b"[" * 100_000
Harm = Callable[[Path], object]


class Resumed:
    """A copy of a run that has made its steps but has no model yet, and the command to resume."""

    def __init__(self, straight: Straight, run: Path, transduce: Run) -> None:
        self.corpus, self.expected = straight
        self.folder = run
        self._transduce = transduce
        shutil.copytree(self.corpus[0].parent / "run", run)
        shutil.rmtree(run / "model")

    def checkpoint(self, step: int) -> Path:
        return self.folder / "checkpoints" / f"step-{step:08d}"

    @property
    def best(self) -> Path:
        return self.folder / "checkpoints" / "best"

    def train(self) -> tuple[int, str]:
        return resume_here(self._transduce, self.folder, self.corpus)

    def finish(self) -> str:
        code, err = self.train()
        assert code == 0, err
        return err

    def has_weights(self, *candidates: dict[str, torch.Tensor]) -> bool:
        final = load_weights_file(self.folder / "model" / WEIGHTS)
        return any(
            all(torch.equal(final[name], candidate[name]) for name in final)
            for candidate in candidates
        )


@pytest.fixture
def resumed(straight: Straight, tmp_path: Path, transduce: Run) -> Resumed:
    return Resumed(straight, tmp_path / "run", transduce)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def replace_by(make: Harm) -> Harm:
    """Return a harm that removes a path and puts something else there."""

    def harm(path: Path) -> None:
        remove(path)
        make(path)

    return harm


def link_to_endless(path: Path) -> None:
    remove(path)
    path.symlink_to("/dev/zero")


def link_to_copy(path: Path) -> None:
    """Put a link to a whole copy elsewhere in the place of a file or folder."""
    elsewhere = path.rename(path.parents[2] / f"elsewhere-{path.name}")
    path.symlink_to(elsewhere)


def rewrite(path: Path, content: bytes) -> None:
    """Change a file of a checkpoint and its manifest, so that they fit each other."""
    path.write_bytes(content)
    manifest = read_json(path.parent / MANIFEST, "checkpoint")
    manifest["files"][path.name] = {"sha256": sha256(content), "bytes": len(content)}
    (path.parent / MANIFEST).write_bytes(to_json(manifest))


def rewrite_state(checkpoint: Path, **changes: object) -> None:
    values = read_json(checkpoint / STATE, "checkpoint")
    rewrite(checkpoint / STATE, to_json({**values, **changes}))


def test_a_damaged_older_checkpoint_is_named_and_not_averaged(resumed: Resumed) -> None:
    newest = load_weights_file(resumed.checkpoint(24) / WEIGHTS)
    best = load_weights_file(resumed.best / WEIGHTS)
    flip_a_bit(resumed.checkpoint(16) / WEIGHTS)
    said = (
        "step-00000016 is damaged (the SHA-256 of model.safetensors does not match the manifest); "
        "it is not part of the average"
    )
    assert said in resumed.finish()
    assert resumed.has_weights(newest, best)


def test_an_older_checkpoint_of_another_model_is_named_and_not_averaged(resumed: Resumed) -> None:
    newest = load_weights_file(resumed.checkpoint(24) / WEIGHTS)
    best = load_weights_file(resumed.best / WEIGHTS)
    rewrite(resumed.checkpoint(16) / WEIGHTS, save({"other": torch.zeros(3)}))
    err = resumed.finish()
    assert "step-00000016 is damaged (" in err
    assert "the weights do not match the config" in err
    assert resumed.has_weights(newest, best)


BEST_HARMS: dict[str, tuple[Harm, str]] = {
    "flipped": (lambda best: flip_a_bit(best / WEIGHTS), "the SHA-256 of model.safetensors"),
    "truncated": (lambda best: truncate(best / WEIGHTS), "model.safetensors is truncated"),
    "no state": (lambda best: remove(best / STATE), "state.json is missing"),
    "no list": (
        lambda best: (best / MANIFEST).write_text('{"files": []}'),
        "manifest.json has no table of files",
    ),
    "endless": (lambda best: link_to_endless(best / WEIGHTS), "is not a regular file"),
    "link": (link_to_copy, "it is a symbolic link"),
    "file": (replace_by(Path.touch), "manifest.json is missing"),
    "other model": (
        lambda best: rewrite(best / WEIGHTS, save({"other": torch.zeros(3)})),
        "the weights do not match the config",
    ),
    "other version": (
        lambda best: rewrite_state(best, best="low"),
        "was written by another version of transduce",
    ),
}


@pytest.mark.parametrize("name", BEST_HARMS)
def test_a_damaged_best_is_named_and_never_the_final_model(resumed: Resumed, name: str) -> None:
    mean = average([load_weights_file(resumed.checkpoint(step) / WEIGHTS) for step in (16, 24)])
    # By their scores these weights would win.
    rewrite_state(resumed.best, best=-1000.0)
    for step in (16, 24):
        rewrite_state(resumed.checkpoint(step), best=-1000.0, best_step=12)
    harm, reason = BEST_HARMS[name]
    harm(resumed.best)
    err = resumed.finish()
    assert "best" in err
    assert f"damaged ({reason}" in err or reason in err
    assert resumed.has_weights(mean)


def make_best(resumed: Resumed, step: int) -> None:
    """Let the weights of this checkpoint be better than any other."""
    for number in (16, 24):
        if number >= step:
            rewrite_state(resumed.checkpoint(number), best=-1000.0, best_step=step)
    for name in (WEIGHTS, STATE):
        rewrite(resumed.best / name, (resumed.checkpoint(step) / name).read_bytes())


@pytest.mark.parametrize("step", [16, 24])
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda best: flip_a_bit(best / WEIGHTS), "removed best: damaged (the SHA-256 of"),
        (remove, "best is missing"),
    ],
    ids=["damaged", "missing"],
)
def test_a_lost_best_is_rebuilt_from_the_checkpoint_of_its_step(
    resumed: Resumed, harm: Harm, said: str, step: int
) -> None:
    make_best(resumed, step)
    harm(resumed.best)
    expected = load_weights_file(resumed.checkpoint(step) / WEIGHTS)
    err = resumed.finish()
    assert said in err
    assert f"; rebuilt from step-{step:08d}" in err
    assert "are gone" not in err
    assert resumed.has_weights(expected)
    assert find_damage(resumed.best, (WEIGHTS, STATE)) is None


def test_a_best_that_cannot_be_rebuilt_is_reported_with_what_is_used_instead(
    resumed: Resumed,
) -> None:
    make_best(resumed, 16)
    mean = load_weights_file(resumed.checkpoint(24) / WEIGHTS)
    remove(resumed.best)
    flip_a_bit(resumed.checkpoint(16) / WEIGHTS)
    err = resumed.finish()
    assert "best is missing; no checkpoint of step 16 to rebuild it from" in err
    assert "the best weights (step 16) are gone; the model is worse than they were: step 24" in err
    assert resumed.has_weights(mean)


def test_a_checkpoint_written_again_after_a_rollback_is_not_the_best(resumed: Resumed) -> None:
    make_best(resumed, 16)
    rewrite_state(resumed.checkpoint(16), best=-999.0)
    remove(resumed.best)
    assert "no checkpoint of step 16 to rebuild it from" in resumed.finish()


HARMS: dict[str, tuple[Harm, str]] = {
    "weights": (lambda path: flip_a_bit(path / WEIGHTS), "SHA-256 of model.safetensors"),
    "optimizer": (lambda path: flip_a_bit(path / OPTIMIZER), "SHA-256 of optimizer.safetensors"),
    "state": (lambda path: flip_a_bit(path / STATE), "SHA-256 of state.json"),
    "long": (lambda path: os.truncate(path / WEIGHTS, 10**12), "model.safetensors is too long"),
    "no weights": (lambda path: remove(path / WEIGHTS), "model.safetensors is missing"),
    "no manifest": (lambda path: remove(path / MANIFEST), "manifest.json is missing"),
    "no list": (
        lambda path: (path / MANIFEST).write_text('{"files": []}'),
        "manifest.json has no table of files",
    ),
    "no entries": (
        lambda path: (path / MANIFEST).write_text('{"files": {}}'),
        "manifest.json does not list model.safetensors",
    ),
    "no sizes": (
        lambda path: (path / MANIFEST).write_text('{"files": {"model.safetensors": 3}}'),
        "manifest.json has no table of files",
    ),
    "deep": (lambda path: (path / MANIFEST).write_bytes(DEEP), "is not valid JSON"),
    "pipe": (lambda path: replace_by(os.mkfifo)(path / WEIGHTS), "is not a regular file"),
    "manifest pipe": (lambda path: replace_by(os.mkfifo)(path / MANIFEST), "not a regular file"),
    "endless": (lambda path: link_to_endless(path / OPTIMIZER), "is not a regular file"),
    "linked": (lambda path: link_to_copy(path / WEIGHTS), "is not a regular file"),
    "folder": (lambda path: replace_by(Path.mkdir)(path / OPTIMIZER), "is not a regular file"),
    "renamed": (
        lambda path: replace_by(lambda new: shutil.copytree(path.with_name("step-00000016"), new))(
            path
        ),
        "state.json is of step 16",
    ),
    "step": (lambda path: rewrite_state(path, step="x"), "state.json is of step x"),
    "no JSON": (lambda path: rewrite(path / STATE, b"{"), "is not valid JSON"),
    "no state": (lambda path: remove(path / STATE), "incomplete"),
    "state pipe": (lambda path: replace_by(os.mkfifo)(path / STATE), "incomplete"),
    "empty": (replace_by(Path.mkdir), "incomplete"),
    "file": (replace_by(Path.touch), "incomplete"),
    "a pipe": (replace_by(os.mkfifo), "incomplete"),
    "link": (link_to_copy, "incomplete"),
    "loop": (replace_by(lambda path: path.symlink_to(path)), "incomplete"),
}


@pytest.fixture
def saved(straight: Straight, tmp_path: Path) -> Path:
    """The checkpoints 16 and 24 of a run."""
    shutil.copytree(straight[0][0].parent / "run" / "checkpoints", tmp_path / "run" / "checkpoints")
    return tmp_path / "run" / "checkpoints"


@pytest.mark.parametrize("name", HARMS)
def test_whatever_is_wrong_with_the_newest_checkpoint_the_one_before_it_is_used(
    saved: Path, name: str
) -> None:
    harm, reason = HARMS[name]
    harm(saved / "step-00000024")
    found, notes = newest_intact(saved)
    assert found == saved / "step-00000016"
    [note] = notes
    assert note.startswith("removed step-00000024: ")
    assert reason in note
    assert not os.path.lexists(saved / "step-00000024")
    assert newest_intact(saved) == (found, [])


def test_a_link_is_removed_and_what_it_names_stays(saved: Path) -> None:
    link_to_copy(saved / "step-00000024")
    newest_intact(saved)
    assert find_damage(saved.parents[1] / "elsewhere-step-00000024") is None


def test_without_an_intact_checkpoint_training_says_that_it_starts_again(saved: Path) -> None:
    for path in checkpoints(saved):
        flip_a_bit(path / WEIGHTS)
    found, notes = newest_intact(saved)
    assert found is None
    assert notes[-1].endswith("; no checkpoint is left, training starts from the beginning")


def test_leftovers_of_any_kind_do_not_change_the_weights(resumed: Resumed) -> None:
    folder = resumed.folder / "checkpoints"
    shutil.rmtree(resumed.checkpoint(24))
    (folder / "step-00000016.partial").write_text("mine")
    (folder / "step-00000024.partial").mkdir()
    os.mkfifo(folder / "best.partial")
    resumed.checkpoint(24).touch()
    resumed.checkpoint(20).mkdir()
    (folder / "step-notes").mkdir()
    (folder / "step-notes" / STATE).write_text("{}")
    (folder / "notes.txt").write_text("mine")
    err = resumed.finish()
    for name in ("step-00000016.partial", "best.partial", "step-00000020", "step-00000024"):
        assert f"removed {name}: incomplete" in err
    assert "resuming from step-00000016" in err
    assert weights(resumed.folder) == resumed.expected
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "step-notes" / STATE).is_file()


def test_a_checkpoint_after_the_last_step_is_refused_and_stays(resumed: Resumed) -> None:
    future = resumed.checkpoint(24).rename(resumed.checkpoint(100))
    rewrite_state(future, step=100)
    code, err = resumed.train()
    said = f"{future} is after the last step of this run (train.steps is 24); move it to the run"
    assert (code, said in err) == (78, True), err
    assert find_damage(future) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"best": None},
        {"best": math.nan},
        {"position": [0, 0, -1]},
        {"position": 3},
        {"n_stale": 1.5},
    ],
)
def test_a_state_of_another_form_is_refused_and_stays(
    resumed: Resumed, changes: dict[str, object]
) -> None:
    rewrite_state(resumed.checkpoint(24), **changes)
    code, err = resumed.train()
    assert (code, "state.json was written by another version of transduce" in err) == (78, True)
    assert find_damage(resumed.checkpoint(24)) is None


def test_an_optimizer_of_another_model_is_refused(resumed: Resumed) -> None:
    rewrite(resumed.checkpoint(24) / OPTIMIZER, save({"exp_avg:other": torch.zeros(3)}))
    code, err = resumed.train()
    said = "optimizer.safetensors: exp_avg:other does not fit this model; remove "
    assert (code, said in err) == (78, True), err


BAD_ROWS = [
    b'{"step": 8, "loss": 5.',
    b"nonsense",
    b"[1, 2]",
    b"{}",
    b'{"step": "x"}',
    b"\x00\x00",
    b"\xff\xfe\xfd",
    DEEP,
    b'{"step": 1' + b"0" * 5000 + b"}",
    b'{"step": 1' + b"0" * 400 + b"}",
    b'{"step": -1}',
    b'{"step": true}',
    b'{"step": 1, "loss": "low", "rate": 1, "tokens_per_second": 1}',
    b'{"step": 1, "loss": 1}',
    b'{"step": 1, "loss": 1' + b"0" * 400 + b', "rate": 1, "tokens_per_second": 1}',
    b'{"step": 1, "loss": NaN, "rate": 1, "tokens_per_second": 1}',
    b'{"step": 1, "valid_loss": 1}',
    b'{"step": 1, "valid_loss": 1, "sample": ["\\ud800", "b"]}',
    b'{"step": 1, "valid_loss": 1, "sample": ["a", "b"], "valid_bleu": []}',
    b'{"step": 1, "valid_loss": 1, "sample": ["a", "b"], "hardest": [[1]]}',
    b'{"step": 1, "valid_loss": 1, "sample": ["a", "b"], "hardest": 3}',
    b'{"step": 1, "valid_loss": 1, "sample": ["a", "b"], "lengths": {"a": "many"}}',
    b'{"step": 1, "valid_loss": 1, "sample": ["a", "b"], "lengths": [1]}',
    b'{"step": 1, "valid_loss": 1, "sample": ["a", "b"], "lengths": {"a": [-1]}}',
]


def test_bad_rows_in_the_metrics_are_counted_once_and_removed(resumed: Resumed) -> None:
    shutil.rmtree(resumed.checkpoint(24))
    metrics = resumed.folder / "metrics.jsonl"
    rows = metrics.read_bytes().splitlines()
    n_whole = len(rows)
    for place, row in enumerate(BAD_ROWS):
        rows.insert(place % n_whole, row)
    metrics.write_bytes(b"\n".join(rows) + b'\n{"step": 2')
    err = resumed.finish()
    assert f"removed {len(BAD_ROWS)} damaged rows; training continues" in err
    assert err.count("damaged") == 1
    assert weights(resumed.folder) == resumed.expected
    assert len([json.loads(row) for row in metrics.read_text().splitlines()]) == n_whole
    assert (resumed.folder / "report.html").is_file()


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir], ids=["pipe", "folder"])
def test_no_log_can_stop_the_training_whatever_is_at_its_path(
    resumed: Resumed, make: Callable[[Path], None]
) -> None:
    shutil.rmtree(resumed.checkpoint(24))
    for name in ("metrics.jsonl", "film.safetensors", "tensorboard"):
        replace_by(make)(resumed.folder / name)
    replace_by(Path.mkdir)(resumed.folder / "report.html")
    err = resumed.finish()
    assert "metrics.jsonl" in err
    assert "training continues without it" in err
    assert weights(resumed.folder) == resumed.expected


FILES = '{"files": [["source", "a", "b"]], "text": {}, "data": {}, "keep_text": true}'
RUN_HARMS: dict[str, tuple[str, Harm, int, str]] = {
    "corpus {}": ("corpus.json", lambda path: path.write_text("{}"), 78, "does not list the files"),
    "corpus []": ("corpus.json", lambda path: path.write_text("[]"), 78, "expected an object"),
    "corpus types": (
        "corpus.json",
        lambda path: path.write_text('{"files": [3], "text": [], "data": 1, "keep_text": 0}'),
        78,
        "is damaged: it does not list the files of a corpus; restore it from a copy, or choose",
    ),
    "corpus other": ("corpus.json", lambda path: path.write_text(FILES), 73, "is now given"),
    "corpus deep": ("corpus.json", lambda path: path.write_bytes(DEEP), 78, "not valid JSON"),
    "corpus bytes": ("corpus.json", lambda path: path.write_bytes(b"\xff"), 78, "not valid JSON"),
    "corpus pipe": ("corpus.json", replace_by(os.mkfifo), 78, "is not a regular file; restore it"),
    "corpus missing": ("corpus.json", remove, 78, "is incomplete; restore it from a copy"),
    "settings bytes": ("run.toml", lambda path: path.write_bytes(b"\xff"), 78, "not valid TOML"),
    "settings text": ("run.toml", lambda path: path.write_text("a = ["), 78, "not valid TOML"),
    "settings pipe": ("run.toml", replace_by(os.mkfifo), 73, "not a run folder"),
    "settings folder": ("run.toml", replace_by(Path.mkdir), 73, "not a run folder"),
    "lock folder": ("lock", replace_by(Path.mkdir), 73, "lock is not a regular file; remove it"),
    "lock pipe": ("lock", replace_by(os.mkfifo), 73, "lock is not a regular file; remove it"),
    "data cut": ("data/part-00000.source.npy", truncate, 65, "is damaged or missing; remove the"),
    "data pipe": ("data/part-00000.target.npy", replace_by(os.mkfifo), 65, "is damaged or missing"),
    "words": ("data/words.txt", flip_a_bit, 65, "words.txt is damaged or missing"),
    "vocabulary": ("data/sentencepiece.model", remove, 65, "is damaged or missing"),
}


@pytest.mark.parametrize("name", RUN_HARMS)
def test_a_damaged_run_folder_is_refused_with_a_message(resumed: Resumed, name: str) -> None:
    file, harm, expected_code, said = RUN_HARMS[name]
    harm(resumed.folder / file)
    code, err = resumed.train()
    assert (code, said in err) == (expected_code, True), err
    assert resumed.checkpoint(24).is_dir()


def test_a_lock_that_is_no_text_is_overwritten(resumed: Resumed) -> None:
    (resumed.folder / "lock").write_bytes(b"\xff\xfe")
    resumed.finish()


@pytest.mark.parametrize("has_target", [True, False])
def test_a_lock_that_is_a_link_is_refused_and_what_it_names_stays(
    resumed: Resumed, tmp_path: Path, has_target: bool
) -> None:
    target = tmp_path / "precious"
    if has_target:
        target.write_text("precious")
    replace_by(lambda path: path.symlink_to(target))(resumed.folder / "lock")
    code, err = resumed.train()
    assert (code, "lock is not a regular file; remove it" in err) == (73, True), err
    assert target.exists() == has_target
    assert not has_target or target.read_text() == "precious"


def test_a_log_that_is_a_link_is_not_followed(resumed: Resumed, tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "film.safetensors", "report.html"):
        replace_by(lambda path: path.symlink_to(tmp_path / "new"))(resumed.folder / name)
    shutil.rmtree(resumed.checkpoint(24))
    assert "metrics.jsonl" in resumed.finish()
    assert not (tmp_path / "new").exists()


def test_files_too_large_for_a_run_do_not_fill_the_memory(resumed: Resumed) -> None:
    shutil.rmtree(resumed.checkpoint(24))
    for name in ("metrics.jsonl", "film.safetensors", "lock"):
        os.truncate(resumed.folder / name, 1 << 40)
    assert "cannot write" in resumed.finish()
    assert weights(resumed.folder) == resumed.expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (os.mkfifo, "is a named pipe, expected a regular file"),
        (lambda path: path.symlink_to("/etc/passwd"), "is a link to a file outside the folder"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links; remove it"),
        (lambda path: make_sparse(path, 1 << 40), "has more than 256 MB, too much for a film"),
    ],
    ids=["pipe", "link", "loop", "size"],
)
def test_a_film_is_a_regular_file_of_its_run(tmp_path: Path, make: Harm, message: str) -> None:
    make(tmp_path / "film.safetensors")
    with pytest.raises(ModelError, match=message):
        find_film(tmp_path)


def make_sparse(path: Path, n_bytes: int) -> None:
    path.touch()
    os.truncate(path, n_bytes)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b'{"parts": [], "files": []}', b'{"inputs": 0, "parts": [{"files": {}}]}', DEEP],
)
def test_a_corpus_without_a_valid_manifest_is_prepared_again(
    resumed: Resumed, content: bytes
) -> None:
    manifest = resumed.folder / "data" / MANIFEST
    if content.startswith(b'{"inputs": 0'):
        inputs = (resumed.folder / "corpus.json").read_bytes()
        content = content.replace(b"0", inputs)
    manifest.write_bytes(content)
    (resumed.folder / "data" / "part-00009").mkdir()
    assert "encoding " in resumed.finish()
    assert weights(resumed.folder) == resumed.expected


def test_data_that_changes_during_training_is_named(resumed: Resumed) -> None:
    shards = open_shards(resumed.folder / "data")
    truncate(resumed.folder / "data" / "part-00000.source.npy")
    with pytest.raises(DataError, match="damaged or removed during training; run the same command"):
        list(shards.read(0, 1, "source"))
