"""Pack a CTranslate2 export as an `.argosmodel`, which Argos Translate and LibreTranslate install.

ROOT/metadata.json, README.md
ROOT/model/                 the CTranslate2 folder
ROOT/sentencepiece.model    encodes sources and decodes translations
ROOT/spacy/                 a blank spaCy pipeline, so that no sentence splitter is downloaded
"""

import io
import re
import zipfile
from collections.abc import Mapping

from transduce.convert.ctranslate2_export import EXAMPLE
from transduce.convert.marian_folder import SOURCE_SPM, TARGET_SPM
from transduce.errors import ModelError, UsageError
from transduce.model_folder import ModelFolder
from transduce.storage import to_json

VERSION = "1.0"  # of the package
ARGOS_VERSION = "1.11"  # that the package is made for
NAMES = {
    "ar": "Arabic", "bg": "Bulgarian", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish",
    "et": "Estonian", "eu": "Basque", "fi": "Finnish", "fr": "French", "ga": "Irish",
    "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nb": "Norwegian",
    "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian",
    "sk": "Slovak", "sl": "Slovenian", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
CODE = re.compile(r"[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*")
DATE = (2020, 1, 1, 0, 0, 0)  # of the entries, so that the same model gives the same bytes
END = "[.!?…。！？।؟]+$".encode()
# A blank pipeline for any language. Argos Translate adds the rule-based sentence splitter itself.
SPACY = {
    "config.cfg": b"""[nlp]
lang = "xx"
pipeline = []
disabled = []
before_creation = null
after_creation = null
after_pipeline_creation = null
batch_size = 1000

[nlp.tokenizer]
@tokenizers = "spacy.Tokenizer.v1"

[nlp.vectors]
@vectors = "spacy.Vectors.v1"

[components]
""",
    "meta.json": b'{"lang": "xx", "name": "pipeline", "version": "0.0.0"}\n',
    # A table with one entry, in MessagePack: the punctuation that ends a word.
    "tokenizer": b"\x81\xadsuffix_search" + bytes((0xD9, len(END))) + END,
}


def export_argos(
    folder: ModelFolder, files: Mapping[str, bytes], languages: tuple[str, str] | None
) -> bytes:
    """Return the content of an `.argosmodel` made of the files of a CTranslate2 export."""
    if folder.config.text.source_prefix:
        raise ModelError(
            "this model needs a token before each source, which Argos Translate cannot add; "
            "export it with --to ctranslate2"
        )
    if languages is None:
        raise UsageError(
            "an Argos package names its languages, which this model does not; "
            "give --languages, such as en-fr"
        )
    for code in languages:
        if not CODE.fullmatch(code):
            raise UsageError(f"the language {code!r} is not a code, such as en; give --languages")
    source, target = languages
    names = [NAMES.get(code, code) for code in languages]
    metadata = {
        "package_version": VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": source,
        "from_name": names[0],
        "to_code": target,
        "to_name": names[1],
        "type": "translate",
    }
    readme = (
        f"# {names[0]} to {names[1]}\n\nMade by transduce. "
        f"Licence: {folder.card.get('license') or 'not stated'}.\n\n"
        "ARGOS_CHUNK_TYPE=SPACY splits sentences with the pipeline in this package, without a "
        "download.\nArgos Translate replaces underscores in translations by spaces.\n"
    )
    left_out = (SOURCE_SPM, TARGET_SPM, EXAMPLE)
    entries = {
        "metadata.json": to_json(metadata),
        "README.md": readme.encode(),
        "sentencepiece.model": folder.source_vocabulary.model,
        **{f"model/{name}": data for name, data in files.items() if name not in left_out},
        **{f"spacy/{name}": data for name, data in SPACY.items()},
    }
    root = f"translate-{source}_{target}-{VERSION.replace('.', '_')}"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            entry = zipfile.ZipInfo(f"{root}/{name}", DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
