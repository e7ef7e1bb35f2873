"""Import a model of another program: read, convert, compare, write."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce.convert.foreign_folder import ForeignFolder
from transduce.convert.marian_folder import MarianFolder
from transduce.convert.marian_import import import_marian
from transduce.errors import OutputError
from transduce.exchange import hugging_face
from transduce.exchange.parity import compare, read_samples, report, require_parity
from transduce.log import Log
from transduce.model_folder import ModelFolder, save_model

NOT_INSTALLED = (
    "transformers is not installed: tokenization, translations and probabilities were not compared "
    "with it (pip install transformers, then import again)"
)


def import_model(
    out: Path,
    source: Path,
    *,
    to: str | None = None,
    languages: tuple[str, str] | None = None,
    samples: Path | None = None,
    log: Log,
) -> ModelFolder:
    """Import a Hugging Face Marian folder into a new model folder, with a parity check.

    `to` selects the language that a multilingual model writes. `samples` is a file of sentences for
    the check. Raise OutputError if `out` exists, ModelError for what is damaged, not supported, or
    does not agree with transformers.
    """
    check_new_folder(out)
    folder = MarianFolder(ForeignFolder(source))
    folder.check_kind()
    imported = import_marian(folder, to, languages)
    model = imported.folder
    log(f"read {source}: {_describe(model)}")
    unused = folder.unused_settings()
    if unused:
        log(f"warning: not carried over from the generation settings: {', '.join(unused)}")
    texts, kind = read_samples(samples, model.source_vocabulary)
    parity = None
    if hugging_face.is_installed():
        peer = hugging_face.HuggingFacePeer(
            folder, imported.rows, model.config.text.source_prefix or ()
        )
        folder.forget_weights()
        parity = compare(model, peer, texts, kind)
        del peer
    folder.forget_weights()
    report(parity, "" if parity else NOT_INSTALLED, log)
    if parity:
        require_parity(parity)
    record: dict[str, Any] = {"parity": parity.as_dict() if parity else NOT_INSTALLED}
    model = replace(model, card={**model.card, **record})
    save_model(out, model)
    sizes = [sum(path.stat().st_size for path in each.iterdir()) / 1e6 for each in (source, out)]
    log(f"wrote {out}: {sizes[1]:,.1f} MB ({sizes[0]:,.1f} MB in {source})")
    return model


def check_new_folder(out: Path) -> None:
    """Raise OutputError, before any work is done, if something is in the way of a new folder."""
    if out.exists() or out.is_symlink():
        raise OutputError(f"{out} already exists; choose a new folder")
    if not out.parent.is_dir():
        raise OutputError(f"cannot create {out}: no folder {out.parent}; create it first")


def _describe(model: ModelFolder) -> str:
    config, text = model.config.model, model.config.text
    names = "languages unknown (give --languages)"
    if text.languages:
        names = f"{text.languages[0]} to {text.languages[1]}"
    layers = f"{config.encoder.n_layers}+{config.decoder.n_layers} layers"
    prefix = f", {' '.join(text.source_prefix)} before each source" if text.source_prefix else ""
    return (
        f"Marian, {names}, {layers}, d_model {config.d_model}, "
        f"{len(model.source_vocabulary):,} tokens{prefix}"
    )
