"""Export a model to another program: convert, compare, write."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from transduce.convert.argos import export_argos
from transduce.convert.ctranslate2_export import export_ctranslate2
from transduce.convert.foreign_folder import ForeignFolder
from transduce.convert.marian_export import MARIAN_EPSILON, export_marian
from transduce.convert.marian_folder import MarianFolder
from transduce.errors import UsageError
from transduce.exchange import ctranslate2_peer, hugging_face
from transduce.exchange.importing import check_new_folder
from transduce.exchange.parity import Parity, compare, read_samples, report, require_parity
from transduce.exchange.readme import describe_export
from transduce.log import Log
from transduce.model_folder import ModelFolder, load_model
from transduce.outputs import check_output, write_output
from transduce.storage import to_json, write_folder

FORMATS = ("marian", "ctranslate2", "argos")
RECORD = "transduce.json"  # in an export: where it comes from, and the parity check


def export_model(
    model: Path,
    out: Path,
    to: str,
    *,
    languages: tuple[str, str] | None = None,
    samples: Path | None = None,
    log: Log,
) -> None:
    """Export a model folder to `out`, a new folder or, for argos, a file.

    `languages` replaces those that the model names. `samples` is a file of sentences for the parity
    check. Raise OutputError if `out` exists or cannot be created, ModelError if the format lacks a
    feature of the model or the result does not agree with it.
    """
    if to not in FORMATS:
        raise UsageError(f"--to is {to!r}; expected {', '.join(FORMATS)}")
    check_new_folder(out)
    if to == "argos":
        check_output(out)
    folder = load_model(model)
    texts, kind = read_samples(samples, folder.source_vocabulary)
    languages = languages or folder.config.text.languages
    if to == "marian":
        files, parity, unchecked = _marian(folder, texts, kind, log)
    else:
        files, parity, unchecked = _ctranslate2(folder, texts, kind)
    report(parity, unchecked, log)
    if parity:
        require_parity(parity)
    if to == "argos":
        log("note: compared with ctranslate2, which Argos Translate uses, not with argostranslate")
    record = {
        "made_from": folder.fingerprint,
        "card": {name: folder.card.get(name) for name in ("origin", "license")},
        "languages": languages,
        "source_prefix": folder.config.text.source_prefix,
        "parity": parity.as_dict() if parity else unchecked,
    }
    files = {**files, RECORD: to_json(record)}
    if to == "argos":
        content = export_argos(folder, files, languages)
        write_output(out, content)
        n_bytes = len(content)
    else:
        readme = describe_export(to, folder, languages).encode()
        files["README.md"] = readme
        write_folder(out, files)
        n_bytes = sum(map(len, files.values()))
    log(f"wrote {out}: {n_bytes / 1e6:,.1f} MB")


Export = tuple[Mapping[str, bytes], Parity | None, str]


def _marian(folder: ModelFolder, texts: list[str], kind: str, log: Log) -> Export:
    """Return the files, the parity check, and what was not checked."""
    files = export_marian(folder)
    epsilon = folder.config.model.norm_epsilon
    if epsilon != MARIAN_EPSILON:
        log(f"note: model.norm_epsilon is {epsilon} here and {MARIAN_EPSILON} in Marian")
    if folder.config.text.normalization != "none":
        log(
            f"note: MarianTokenizer does not normalize text to "
            f"{folder.config.text.normalization.upper()}: do so before"
        )
    if not hugging_face.is_installed():
        return files, None, "transformers is not installed: the folder was not loaded by it"
    ids = tuple(range(len(folder.source_vocabulary)))
    target_ids = tuple(range(len(folder.target_vocabulary)))
    with tempfile.TemporaryDirectory() as temporary:
        _write_all(Path(temporary), files)
        peer = hugging_face.HuggingFacePeer(
            MarianFolder(ForeignFolder(Path(temporary))),
            (ids, target_ids),
            folder.config.text.source_prefix or (),
        )
        return files, compare(folder, peer, texts, kind), ""


def _ctranslate2(folder: ModelFolder, texts: list[str], kind: str) -> Export:
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary)
        export_ctranslate2(folder, path)
        parity = compare(folder, ctranslate2_peer.CTranslate2Peer(path, folder), texts, kind)
        return {each.name: each.read_bytes() for each in path.iterdir()}, parity, ""


def _write_all(path: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        (path / name).write_bytes(content)
