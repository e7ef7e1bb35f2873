"""Export a model as a CTranslate2 folder with real tokens, which needs nothing of this package."""

from pathlib import Path

from transduce.convert.ctranslate2 import convert
from transduce.convert.marian_folder import SOURCE_SPM, TARGET_SPM
from transduce.errors import ModelError
from transduce.model_folder import ModelFolder

EXAMPLE = "example.py"
EXAMPLE_CODE = '''"""Translate lines: python example.py < in > out"""

import sys
from pathlib import Path

import ctranslate2
import sentencepiece

folder = Path(__file__).parent
source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
target = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))
translator = ctranslate2.Translator(str(folder), device="cpu")
prefix = {prefix!r}  # tokens before each source
lines = [line.rstrip("\\n") for line in sys.stdin]
tokens = [prefix + source.encode(line, out_type=str) for line in lines]
options = {{"beam_size": {beam}, "patience": 2, "length_penalty": {alpha}, "disable_unk": True}}
for result in translator.translate_batch(tokens, max_input_length=0, **options):
    pieces = [piece for piece in result.hypotheses[0] if piece not in ("[PAD]", "[SOS]")]
    print(target.decode(pieces))
'''


def export_ctranslate2(folder: ModelFolder, path: Path) -> None:
    """Write the files of a CTranslate2 folder into an existing folder, in float32."""
    from transduce.model import Transformer

    if not isinstance(folder.model, Transformer):
        raise ModelError("this is a language model; CTranslate2 folders are made of translators")
    names = (folder.source_vocabulary.pieces, folder.target_vocabulary.pieces)
    convert(folder.model, path, names)
    (path / SOURCE_SPM).write_bytes(folder.source_vocabulary.model)
    (path / TARGET_SPM).write_bytes(folder.target_vocabulary.model)
    decode = folder.config.decode
    code = EXAMPLE_CODE.format(
        prefix=list(folder.config.text.source_prefix or ()),
        beam=decode.beam,
        alpha=decode.alpha if decode.length_penalty == "power" else 1.0,
    )
    (path / EXAMPLE).write_text(code, encoding="utf-8")
