"""The production engine on a CPU: CTranslate2, on a model that is converted once into the user's cache folder.

It is given what it does exactly as the reference does; what it cannot say exactly (a translation that reached its maximum length,
or holds a special piece) is searched again by the reference.
"""

import contextlib
import importlib.util
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.checkpoint import ModelFolder
from transduce.convert.ctranslate2 import POSITIONS, convert, names, why_not
from transduce.decode.how import How, Precision
from transduce.decode.sentences import Hypothesis, Sentence, limit, schedule
from transduce.errors import ModelError
from transduce.storage import sha256
from transduce.text.vocabulary import EOS, SPECIAL_PIECES

if TYPE_CHECKING:
    import transduce.decode.engines
    import transduce.model

PARITY = "parity.json"
FORM = 1  # of the converted folder; another form is another folder
N_PAIRS, LONGEST_PAIR = 8, 24  # that are scored by both engines on first use
MOST_DIFFERENCE = 1e-3  # between the log-probabilities they give a piece
NO_PENALTY = 1e-9  # instead of 0, at which CTranslate2 stops at the first hypothesis that ends

Say = Callable[[str], None]


def is_installed() -> bool:
    """Whether there is a CTranslate2."""
    return importlib.util.find_spec("ctranslate2") is not None


def why_not_fast(folders: Sequence[ModelFolder], how: How) -> str | None:
    """Why CTranslate2 cannot do what is asked, or None."""
    config = folders[0].config.model
    if not is_installed():
        return "CTranslate2 is not installed: pip install 'transduce[fast]'"
    if len(folders) > 1:
        return "CTranslate2 has no ensembles"
    if folders[0].fingerprint is None:
        return "the model is not in a folder yet"
    if reason := why_not(config):
        return f"CTranslate2 cannot hold this model: {reason}"
    for is_asked, what in (
        (how.config.length_penalty != "power", "length penalty as in the paper"),
        (how.sampling is not None, "draws that follow a seed"),
        (how.alternatives, "alternatives"),
        (how.no_repeat, "n-gram blocking"),
        (how.forbid, "forbidden words"),
        ((how.config.max_length or 0) >= POSITIONS, f"translations of {POSITIONS} pieces"),
        (how.has_terms, "terms that are guaranteed"),
        (how.prefix, "forced prefixes"),
    ):
        if is_asked:
            return f"CTranslate2 has no {what}"
    return None


def n_cores() -> int:
    """Threads to work with: as many as OMP_NUM_THREADS says, else the cores this process may use."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    return int(told) if told.isdecimal() and int(told) else len(os.sched_getaffinity(0))


def cache_folder(fingerprint: str) -> Path:
    """Where a converted model lies: $XDG_CACHE_HOME or ~/.cache, by the hash of the model and of what made it."""
    import ctranslate2

    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    key = sha256(f"{fingerprint} {FORM} {ctranslate2.__version__}".encode())[:32]
    return Path(home) / "transduce" / "ctranslate2" / key


class FastEngine:
    """Search by CTranslate2, one worker a core."""

    def __init__(
        self,
        folder: ModelFolder,
        precision: Precision,
        n_threads: int | None,
        reference: "Callable[[], transduce.decode.engines.TorchEngine]",
        say: Say,
    ) -> None:
        self._reference = reference
        self._config = folder.config.model
        self.precision = precision
        self.n_threads = n_threads or n_cores()
        self._names = names(max(len(folder.source_vocabulary), len(folder.target_vocabulary)))
        self._translator = _open(folder, precision, self.n_threads, say)

    def __str__(self) -> str:
        return f"ctranslate2, {self.precision}, threads: {self.n_threads}"

    def search(self, sentences: Sequence[Sentence], how: How) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence."""
        limits = [min(limit(sentence, how, self._config), POSITIONS) for sentence in sentences]
        batches = schedule(sentences, how.width, self.n_threads)
        waiting = [(batch, self._begin(sentences, batch, limits, how)) for batch in batches]
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        for batch, results in waiting:
            for i, result in zip(batch, results, strict=True):
                found[i] = _read(result.result(), how.config.alpha, limits[i])
        again = [i for i, hypotheses in enumerate(found) if not hypotheses]
        if again:
            for i, hypotheses in zip(again, self._reference().search([sentences[i] for i in again], how), strict=True):
                found[i] = hypotheses
        return found

    def _begin(self, sentences: Sequence[Sentence], batch: list[int], limits: Sequence[int], how: How) -> list[Any]:
        return self._translator.translate_batch(
            [[self._names[i] for i in sentences[place].ids] for place in batch],
            beam_size=how.width,
            num_hypotheses=how.n_best,
            length_penalty=how.config.alpha or NO_PENALTY,
            max_input_length=0,
            max_decoding_length=max(limits[i] for i in batch),
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
        )


def _read(result: Any, alpha: float, most: int) -> list[Hypothesis]:
    """The hypotheses of a result; none if the reference must be asked."""
    found = []
    for pieces, score in zip(result.hypotheses, result.scores, strict=True):
        *ids, last = map(int, pieces)
        is_whole = last == EOS and len(pieces) <= most and min(ids, default=EOS + 2) >= len(SPECIAL_PIECES)
        if not is_whole or not math.isfinite(score):
            return []
        found.append(Hypothesis(tuple(ids), score * len(pieces) ** alpha, score))
    return found


def _open(folder: ModelFolder, precision: Precision, n_threads: int, say: Say) -> Any:
    """The converted model, loaded; converted and compared with the reference first if there is none yet."""
    assert folder.fingerprint is not None, "a model from a folder"
    where = cache_folder(folder.fingerprint)
    if (where / PARITY).is_file():
        try:
            translator = _load(where, precision, n_threads)
            last = [[str(len(folder.target_vocabulary) - 1)]]
            translator.score_batch([[str(len(folder.source_vocabulary) - 1)]], last)  # its vocabularies are whole
            return translator
        except (RuntimeError, ValueError) as error:  # damaged: made anew
            say(f"{where} cannot be loaded ({error}): converting again")
            shutil.rmtree(where, ignore_errors=True)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        room = tempfile.TemporaryDirectory(dir=where.parent, prefix=f"{where.name}.")
    except OSError as error:
        say(f"{where.parent} cannot be written ({error.strerror}): the model is converted for this time only")
        room = tempfile.TemporaryDirectory()
    with room as name:
        made = Path(name) / "model"
        made.mkdir()
        from transduce.model import Transformer

        assert isinstance(folder.model, Transformer), "a translator"
        convert(folder.model, made)
        difference = _difference(_load(made, "float32", n_threads), folder.model)
        if not difference <= MOST_DIFFERENCE:
            raise ModelError(f"CTranslate2 gives other numbers than torch for this model, by {difference:.2g}")
        (made / PARITY).write_text(json.dumps({"pairs": N_PAIRS, "largest_difference": difference}))
        if Path(name).parent == where.parent:
            if not (where / PARITY).is_file():  # half a folder, or none
                shutil.rmtree(where, ignore_errors=True)
                where.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # another process was first: its folder is as good
                made.rename(where)
            made = where
            found = f"largest difference from torch {difference:.1e} nats a piece"
            say(f"converted for CTranslate2, once: {where} ({found})")
        return _load(made, precision, n_threads)


def _load(where: Path, precision: Precision, n_workers: int) -> Any:
    import ctranslate2

    compute = "int8_float32" if precision == "int8" else "float32"
    return ctranslate2.Translator(
        str(where), device="cpu", compute_type=compute, inter_threads=n_workers, intra_threads=1
    )


def _difference(translator: Any, model: "transduce.model.Transformer") -> float:
    """The largest difference between the log-probabilities that both engines give the pieces of random pairs."""
    import torch

    from transduce.decode.forced import force

    random = torch.Generator().manual_seed(1)
    n_source, n_target = len(model.source_embedding.weight), len(model.target_embedding.weight)

    def draw(n_pieces: int) -> list[tuple[int, ...]]:
        lengths = torch.randint(1, LONGEST_PAIR, (N_PAIRS,), generator=random).tolist()
        return [tuple(torch.randint(4, n_pieces, (n,), generator=random).tolist()) for n in lengths]

    sources, targets = draw(n_source), draw(n_target)
    theirs = translator.score_batch(*([[str(i) for i in ids] for ids in side] for side in (sources, targets)))
    ours = force([model], sources, targets)
    return max(
        abs(a - b)
        for mine, other in zip(ours, theirs, strict=True)
        for a, b in zip(mine.log_probs, other.log_probs, strict=True)
    )
