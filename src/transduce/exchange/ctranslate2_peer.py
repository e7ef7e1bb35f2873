"""An exported CTranslate2 folder as the peer of a parity check, tokenized by its own .spm files."""

from collections.abc import Sequence
from pathlib import Path

import sentencepiece
import torch
from torch import Tensor

from transduce.convert.ctranslate2 import open_translator
from transduce.convert.marian_folder import SOURCE_SPM
from transduce.decode.hypotheses import ENDS_PER_BEAM
from transduce.decode.words import Ids
from transduce.exchange.parity import BEAM
from transduce.model_folder import ModelFolder
from transduce.text.vocabulary import PAD, SOS, UNKNOWN


class CTranslate2Peer:
    """A model in CTranslate2, in float32."""

    def __init__(self, path: Path, folder: ModelFolder) -> None:
        import ctranslate2

        self.name = f"ctranslate2 {ctranslate2.__version__}"
        self.n_ends = ENDS_PER_BEAM * BEAM
        self._translator = open_translator(path, compute_type="float32")
        self._tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(path / SOURCE_SPM))
        self._source = folder.source_vocabulary.pieces
        self._target = folder.target_vocabulary.pieces
        self._source_ids = {piece: i for i, piece in enumerate(self._source)}
        self._ids = {piece: i for i, piece in enumerate(self._target)}
        self._prefix = list(folder.source_vocabulary.prefix)

    def has_same_tokens(self, text: str, ids: Ids) -> bool:
        """Return whether the .spm file gives the same tokens."""
        pieces = [*self._prefix, *self._tokenizer.encode(text, out_type=str)]
        return [self._source_ids.get(piece, UNKNOWN) for piece in pieces] == list(ids)

    def search(self, sources: Sequence[Ids], beam: int, max_length: int) -> list[Ids]:
        """Return the best translations."""
        results = self._translator.translate_batch(
            self._names(sources, self._source),
            beam_size=beam,
            patience=ENDS_PER_BEAM,
            max_input_length=0,
            max_decoding_length=max_length + 1,
            disable_unk=True,
            suppress_sequences=[[self._target[PAD]], [self._target[SOS]]],
        )
        found = [tuple(self._ids[piece] for piece in each.hypotheses[0]) for each in results]
        return [ids[:max_length] for ids in found]

    def log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Tensor]:
        """Return the log-probabilities of the targets' tokens."""
        results = self._translator.score_batch(
            self._names(sources, self._source),
            self._names(targets, self._target),
            max_input_length=0,
        )
        return [torch.tensor(each.log_probs) for each in results]

    def _names(self, sentences: Sequence[Ids], pieces: Sequence[str]) -> list[list[str]]:
        return [[pieces[i] for i in ids] for ids in sentences]
