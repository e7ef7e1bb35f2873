"""Damaged checkpoints, metrics and leftovers: the run finishes with weights from whole files and names the others."""

import json
import shutil
from pathlib import Path

import pytest

from tests.trainings import Straight, finish, start, weights
from transduce.model.weights import average, load_weights_file

WEIGHTS = "model.safetensors"


@pytest.fixture
def unfinished(straight: Straight, tmp_path: Path) -> tuple[tuple[Path, Path], Path]:
    """A run that has made all its steps but has no final model yet."""
    corpus, _ = straight
    run = tmp_path / "run"
    shutil.copytree(corpus[0].parent / "run", run)
    shutil.rmtree(run / "model")
    return corpus, run


def flip_a_bit(path: Path, place: int = -5) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_damaged_older_checkpoint_is_named_and_not_averaged(
    unfinished: tuple[tuple[Path, Path], Path],
) -> None:
    corpus, run = unfinished
    older, newest = run / "checkpoints" / "step-00000016", run / "checkpoints" / "step-00000024"
    whole = load_weights_file(newest / WEIGHTS)
    flip_a_bit(older / WEIGHTS)
    code, err = finish(start(run, corpus))
    assert code == 0, err
    assert "step-00000016" in err
    assert "damaged" in err
    final = load_weights_file(run / "model" / WEIGHTS)
    best = load_weights_file(run / "checkpoints" / "best" / WEIGHTS)
    candidates = [average([whole]), best]
    assert any(
        all((final[name] == candidate[name]).all() for name in final) for candidate in candidates
    )


@pytest.mark.parametrize("kind", ["flipped", "truncated", "missing", "manifest"])
def test_a_damaged_best_is_never_the_final_model(
    unfinished: tuple[tuple[Path, Path], Path], kind: str
) -> None:
    corpus, run = unfinished
    best = run / "checkpoints" / "best"
    average_of_whole = average(
        [load_weights_file(run / "checkpoints" / f"step-{step:08d}" / WEIGHTS) for step in (16, 24)]
    )
    state = best / "state.json"
    if kind == "flipped":
        flip_a_bit(best / WEIGHTS)
    elif kind == "truncated":
        (best / WEIGHTS).write_bytes((best / WEIGHTS).read_bytes()[:100])
    elif kind == "missing":
        state.unlink()
    else:
        (best / "manifest.json").write_text('{"files": []}')
    # Make the damaged one look far better than the average, so that a run that trusts it takes it.
    for path in (run / "checkpoints").glob("step-*/state.json"):
        values = json.loads(path.read_text())
        path.write_text(json.dumps({**values, "best": -1000.0, "best_step": 12}))
        digest = path.parent / "manifest.json"
        manifest = json.loads(digest.read_text())
        from transduce.storage import sha256

        content = path.read_bytes()
        manifest["files"]["state.json"] = {"sha256": sha256(content), "bytes": len(content)}
        digest.write_text(json.dumps(manifest))
    code, err = finish(start(run, corpus))
    assert code == 0, err
    assert "best" in err
    assert "damaged" in err
    final = load_weights_file(run / "model" / WEIGHTS)
    assert all((final[name] == average_of_whole[name]).all() for name in final)


@pytest.mark.parametrize(
    "row", ['{"step": 8, "loss": 5.', "nonsense", "[1, 2]", "{}", '{"step": "x"}', "\x00\x00"]
)
def test_a_bad_row_in_the_metrics_is_skipped_and_counted(
    straight: Straight, tmp_path: Path, row: str
) -> None:
    corpus, expected = straight
    run = tmp_path / "run"
    shutil.copytree(corpus[0].parent / "run", run)
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "checkpoints" / "step-00000024")
    metrics = run / "metrics.jsonl"
    lines = metrics.read_text().splitlines()
    metrics.write_text("\n".join([*lines[:2], row, *lines[2:]]) + "\n")
    code, err = finish(start(run, corpus))
    assert code == 0, err
    assert "metrics.jsonl" in err
    assert weights(run) == expected


def test_a_plain_file_named_partial_does_not_block_resuming(
    straight: Straight, tmp_path: Path
) -> None:
    corpus, expected = straight
    run = tmp_path / "run"
    shutil.copytree(corpus[0].parent / "run", run)
    shutil.rmtree(run / "model")
    (run / "checkpoints" / "step-00000016.partial").write_text("mine")
    code, err = finish(start(run, corpus))
    assert code == 0, err
    assert weights(run) == expected
