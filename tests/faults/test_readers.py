"""Every reader of outside data, given random damage: a clear error or a result, in bounded memory.

`make test` tries 2,000 cases, `make test-slow` 20,000.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi")
import torch
from starlette.testclient import TestClient

from tests.faults.damage import HOSTILE_DOCUMENTS, damaged_bytes, damaged_file, damaged_json
from tests.trainings import Straight
from transduce.cli.inspect import parse_edit
from transduce.config import parse_assignment, read_toml, resolve
from transduce.data.prepared import find_prepared, load_valid, load_vocabularies, load_words
from transduce.data.shards import open_shards
from transduce.decode.load import load
from transduce.errors import TransduceError
from transduce.inspection.edits import check_edits, parse_edits
from transduce.model import Transformer
from transduce.model_folder import MANIFEST, ModelFolder, load_model, save_model
from transduce.reports.training import read_metrics, training_page
from transduce.service.inspector import make_app
from transduce.storage import sha256
from transduce.text.terms import read_glossary, read_phrases
from transduce.training.callbacks.film import load_film
from transduce.training.callbacks.metrics_file import remove_rows_after
from transduce.training.checkpoints import (
    TrainingState,
    average_checkpoints,
    best_on_disk,
    load_checkpoint,
    newest_intact,
    save_best,
    save_checkpoint,
)
from transduce.training.run_folder import CORPUS, DATA, FILM, METRICS, SETTINGS, read_inputs
from transduce.training.step import make_optimizer

Files = Mapping[str, bytes]  # the content of the files of a folder by relative path
MAX_GROWTH = 500 << 20  # bytes of resident memory
CASES = [250, pytest.param(2_500, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])]


def memory(field: str) -> int:
    """Return the resident memory of this process (VmRSS) or its peak (VmHWM), in bytes."""
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1]) << 10


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Fail if the memory of this process grows by more than MAX_GROWTH, even for a moment."""
    reset_peak = "5"
    with suppress(OSError):  # not allowed everywhere; then an older peak hides a smaller one
        Path("/proc/self/clear_refs").write_text(reset_peak)
    before = memory("VmRSS")
    yield
    assert memory("VmHWM") - before < MAX_GROWTH


def check(n_cases: int, strategy: st.SearchStrategy[Any], read: Callable[[Any], object]) -> None:
    """Read what the strategy draws; only the errors that people are shown may be raised."""

    @settings(
        max_examples=n_cases,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def read_each(drawn: Any) -> None:
        with suppress(TransduceError):
            read(drawn)

    with bounded_memory():
        read_each()


def files_of(folder: Path) -> Files:
    """Read all files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Damaged:
    """A folder in which one file is damaged or missing. Only that file is printed."""

    def __init__(self, name: str, files: Files) -> None:
        self.name = name
        self.files = files

    def __repr__(self) -> str:
        return f"Damaged({self.name!r}, {self.files.get(self.name, b'missing')[:200]!r})"


def damaged_folder(files: Files) -> st.SearchStrategy[Damaged]:
    """Draw a folder in which one file is damaged or missing.

    Half of the time the manifest beside it is made to agree, so that the reader goes further.
    """

    def damage(name: str) -> st.SearchStrategy[Damaged]:
        changed = damaged_file(files[name]).map(lambda content: {**files, name: content})
        without = st.just({other: files[other] for other in files if other != name})
        relisted = changed.map(lambda each: relist(each, name))
        drawn = st.one_of(changed, relisted, changed, relisted, without)
        return drawn.map(lambda each: Damaged(name, each))

    return st.sampled_from(sorted(files)).flatmap(damage)


def relist(files: Files, name: str) -> Files:
    """Enter the size and SHA-256 of a file in the manifest of its folder, if that lists it."""
    manifest_name = str(Path(name).parent / MANIFEST)
    if name == manifest_name or manifest_name not in files:
        return files
    manifest = json.loads(files[manifest_name])
    listed = manifest["files"].get(Path(name).name)
    if listed is None:
        return files
    listed.update({"sha256": sha256(files[name]), "bytes": len(files[name])})
    return {**files, manifest_name: json.dumps(manifest).encode()}


@contextmanager
def unpacked(files: Files, folder: Path) -> Iterator[Path]:
    """Write files below a new folder and remove it afterwards."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("n_cases", CASES)
def test_model_folders(tmp_path: Path, untrained_folder: ModelFolder, n_cases: int) -> None:
    save_model(tmp_path / "saved", untrained_folder)

    def read(damaged: Damaged) -> None:
        with unpacked(damaged.files, tmp_path / "m") as folder:
            load_model(folder)

    check(n_cases, damaged_folder(files_of(tmp_path / "saved")), read)


@pytest.mark.parametrize("n_cases", CASES)
def test_checkpoints(tmp_path: Path, model: Transformer, n_cases: int) -> None:
    optimizer = make_optimizer(model)
    sum(parameter.sum() for parameter in model.parameters()).backward()
    optimizer.step()
    for step in (2, 4):
        save_checkpoint(
            tmp_path / "saved", TrainingState(step=step), model, optimizer, every=2, keep=2
        )
    save_best(tmp_path / "saved", TrainingState(step=4, best=1.0, best_step=4), model)

    def read(damaged: Damaged) -> None:
        with unpacked(damaged.files, tmp_path / "c") as folder:
            newest, notes = newest_intact(folder)
            assert newest is not None or notes
            if newest is not None:
                load_checkpoint(newest, model, optimizer)
            best_on_disk(folder)
            average_checkpoints(folder, model, 2, 2)

    check(n_cases, damaged_folder(files_of(tmp_path / "saved")), read)
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


@pytest.mark.parametrize("n_cases", CASES)
def test_run_folders(tmp_path: Path, straight: Straight, n_cases: int) -> None:
    corpus, _ = straight
    saved = files_of(corpus[0].parent / "run")
    inputs = json.loads(saved[CORPUS])
    kept = (CORPUS, SETTINGS, FILM, f"{DATA}/")
    files = {name: content for name, content in saved.items() if name.startswith(kept)}

    def read(damaged: Damaged) -> None:
        with unpacked(damaged.files, tmp_path / "r") as run:
            load_film(run / FILM)
            resolve(read_toml(run / SETTINGS))
            read_inputs(run)
            if find_prepared(run / DATA, inputs) is not None:
                open_shards(run / DATA)
                load_vocabularies(run / DATA)
                load_valid(run / DATA)
                load_words(run / DATA)

    check(n_cases, damaged_folder(files), read)


@pytest.mark.parametrize("n_cases", CASES)
def test_metrics_are_read_whatever_is_in_them(
    tmp_path: Path, straight: Straight, n_cases: int
) -> None:
    """A log never stops a training: not even one of our own errors may be raised."""
    corpus, _ = straight
    content = (corpus[0].parent / "run" / METRICS).read_bytes()
    rows = content.splitlines(keepends=True)
    path = tmp_path / METRICS
    damaged_row = st.integers(0, len(rows) - 1).flatmap(
        lambda i: damaged_file(rows[i]).map(
            lambda row: b"".join([*rows[:i], row + b"\n", *rows[i + 1 :]])
        )
    )

    def read(content: bytes) -> None:
        path.write_bytes(content)
        try:
            remove_rows_after(path, 12)
            training_page("run", read_metrics(path), {}, "")
        except TransduceError as error:
            raise AssertionError from error

    check(n_cases, damaged_row | damaged_bytes(content), read)


@pytest.mark.parametrize("n_cases", CASES)
def test_settings(tmp_path: Path, straight: Straight, n_cases: int) -> None:
    corpus, _ = straight
    toml = (corpus[0].parent / "run" / SETTINGS).read_bytes()
    values = st.one_of(
        st.sampled_from(["1e21", "9" * 5_000, "[" * 5_000, "nan", "-1", "0x" + "f" * 5_000, "''"]),
        st.text(max_size=20),
        st.integers().map(str),
        st.floats().map(str),
    )
    names = st.sampled_from(["train.steps", "model.d_model", "text.vocab_size", "data.x", "", "."])
    assignments = st.tuples(names, values).map(lambda each: f"{each[0]}={each[1]}".encode())

    def read(content: bytes) -> None:
        (tmp_path / "run.toml").write_bytes(content)
        with suppress(TransduceError):
            resolve(read_toml(tmp_path / "run.toml"))
        resolve(parse_assignment(content.decode(errors="replace")))

    check(n_cases, damaged_bytes(toml) | assignments, read)


@pytest.mark.parametrize("n_cases", CASES)
def test_glossaries_and_lists_of_phrases(tmp_path: Path, n_cases: int) -> None:
    content = b"# terms\ncat\tgatto\tmicio\nbicycle\tbicicletta\nMaria\n\n"
    path = tmp_path / "glossary.tsv"
    lines = st.lists(
        st.text(alphabet="ab\t \n\r#\u2028\0é", max_size=30) | st.just("x" * 10_000), max_size=5
    ).map(lambda drawn: "\n".join(drawn).encode())

    def read(content: bytes) -> None:
        path.write_bytes(content)
        with suppress(TransduceError):
            list(read_glossary(path).find("the cat rides a bicycle with Maria"))
        read_phrases(path)

    check(n_cases, damaged_bytes(content) | lines, read)


EDITS: list[dict[str, Any]] = [
    {"op": "mute", "at": "dec.1.cross", "head": 0},
    {"op": "row", "at": "enc.0.self", "head": 1, "row": 0, "values": [0.5, 0.5]},
    {"op": "no_positions"},
    {"op": "replace", "word": 1, "with": "hate"},
    {"op": "force", "step": 1, "piece": 9},
]


@pytest.mark.parametrize("n_cases", CASES)
def test_edits(n_cases: int) -> None:
    heads = {"enc.0.self": 4, "dec.1.cross": 4}
    texts = st.sampled_from(EDITS).flatmap(
        lambda edit: damaged_json(edit) | damaged_bytes(json.dumps(edit).encode())
    )

    def read(content: bytes) -> None:
        edit = parse_edit(content.decode(errors="replace"))
        check_edits(parse_edits([edit]), heads, 100)

    check(n_cases, texts | st.sampled_from(HOSTILE_DOCUMENTS), read)


@pytest.mark.parametrize("n_cases", CASES)
def test_request_bodies(n_cases: int) -> None:
    request = {"text": "We sleep", "beam": 2, "edits": EDITS[:1]}
    bodies = damaged_json(request) | damaged_bytes(json.dumps(request).encode())
    app = make_app(load(engine="torch"), None, frozenset({"127.0.0.1"}))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:

        def read(body: bytes) -> None:
            answer = client.post(
                "/v1/inspect", content=body, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code < 500, (body[:200], answer.text)

        check(n_cases, bodies, read)
