"""Translation speed: transduce, Hugging Face generate and CTranslate2 with the same model.

    python bench/decode.py --data DIR [--only small-32-beam4] [--rounds 5]

DIR contains train.en.gz, train.de.gz and test_2016_flickr.en.gz; without it, sentences are
generated. A part is a shape, a batch size and a search. With batch 1 each sentence is one call.
With batch 32 all sentences are one call: Hugging Face gets 32 at a time, transduce makes its own
batches. Text in, text out.

Every side is a process of its own that translates all sentences on request. So all sides see the
same noise, round by round, and each has its own peak of memory. Speed is counted in target tokens
of each side's own best hypotheses, [EOS] included. CTranslate2 is tried with 2 workers of 1 thread
and with 1 of 2, each with batches of 32, 48, 96 and 240; only the fastest is measured. It is driven
with our stop rule of beam search; Hugging Face ends with `beam` hypotheses.

Prints a JSON line per measurement and one per bar.
"""

import argparse
import gzip
import json
import os
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

VOCAB_SIZE = {"small": 8000, "base": 37_000}
SENTENCES = {  # enough for rounds of at least a second; all parts take at most 20 minutes
    ("small", 1, "greedy"): 64,
    ("small", 1, "beam4"): 32,
    ("small", 32, "greedy"): 960,
    ("small", 32, "beam4"): 192,
    ("base", 1, "greedy"): 8,
    ("base", 1, "beam4"): 8,
    ("base", 32, "greedy"): 64,
    ("base", 32, "beam4"): 64,
}
ROUNDS = 5  # default of --rounds
BEAMS = {"greedy": 1, "beam4": 4}
PARTS = {"-".join(map(str, part)): part for part in SENTENCES}
END = 20  # tokens after which translations end, approximately
EXTRA_LENGTH = 50  # tokens a translation may have more than its source
BATCH = 32
# Settings of fit_end: the number of sentences, the scale of the embeddings, the rise towards END.
FITTED, EMBEDDING_SCALE, STEEPNESS = 64, 0.3, 4.0
WARM_UP = {1: 4, 32: 32}  # sentences of the first round, which does not count
TRIALS = 2  # rounds for each way to drive CTranslate2

DEFAULT, INT8 = "ours default", "ours ctranslate2 int8"
TORCH, TORCH_BF16 = "ours torch float32", "ours torch bf16"
HUGGING_FACE, HUGGING_FACE_BF16 = "hugging face float32", "hugging face bf16"
DIRECT, DIRECT_INT8 = "ctranslate2 float32", "ctranslate2 int8"
WAYS = {  # of driving CTranslate2: workers x threads of each x sentences of a batch
    1: ("2x1x1", "1x2x1"),
    32: tuple(f"{threads}x{batch}" for threads in ("2x1", "1x2") for batch in (32, 48, 96, 240)),
}


class Output(NamedTuple):
    """The translations of one side, and their number of tokens."""

    texts: list[str]
    n_tokens: int


Translate = Callable[[list[str]], Output]


def show(**row: Any) -> None:
    print(json.dumps(row, ensure_ascii=False), flush=True)


def bar(name: str, value: float, target: float) -> None:
    show(bar=name, value=round(value, 3), target=target, holds=value >= target)


# The model and the sentences of all sides.


def read_lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]


def read_texts(data: Path | None) -> tuple[list[str], list[str]]:
    """Return the lines to learn a vocabulary from, and the sentences to translate, each once."""
    if data is not None:
        lines = [line for side in ("en", "de") for line in read_lines(data / f"train.{side}.gz")]
        return lines, list(dict.fromkeys(read_lines(data / "test_2016_flickr.en.gz")))
    from transduce.grammar import generate

    lines = [
        text for pair in generate("en-it", 29_000, seed=1) for text in (pair.source, pair.target)
    ]
    return lines, list(dict.fromkeys(pair.source for pair in generate("en-it", 2000, seed=2)))


def learn_vocabulary(lines: list[str], size: int) -> Any:
    """Learn a vocabulary of exactly `size` tokens; add random words to a text that is too small."""
    from transduce.text.vocabulary import learn_vocabulary

    draw = random.Random(1)
    while len(vocabulary := learn_vocabulary(lines, "bpe", size, exact=False)) < size:
        words = [
            "".join(draw.choices(string.ascii_lowercase, k=draw.randint(3, 9)))
            for _ in range(20_000)
        ]
        lines = [*lines, *(" ".join(words[i : i + 20]) for i in range(0, len(words), 20))]
    return vocabulary


def fit_end(model: Any, sources: Sequence[Sequence[int]]) -> None:
    """Make a model of random weights end its translations after about END tokens.

    With random weights [EOS] is one token among thousands: every translation would reach its
    maximum length. Then the bench would not measure what makes a search slow or fast: hypotheses
    that end, rows that are dropped, sentences of unequal length.

    Whether [EOS] wins is a dot product with its row of the embedding. That row is fitted by least
    squares on the decoder's vectors: below the best of the other tokens at first, rising, and
    equal to it at END. Random weights tend to repeat a token, so the targets it is fitted on do
    that too, from never to always. Tokens are drawn smaller than the positions they are added to,
    or the vectors would contain too little about the position. [EOS] ends the sources too, so a
    new row changes the vectors; therefore it is fitted more than once. The other special tokens,
    which no trained model writes, get a row of zeros, which never wins.
    """
    import torch

    from transduce.data.batch import encode_source, pad
    from transduce.text.vocabulary import EOS, PAD, SOS, SPECIAL_TOKENS, UNKNOWN

    weight, n_special = model.source_embedding.weight, len(SPECIAL_TOKENS)
    source = pad([encode_source(ids) for ids in sources])
    n_rows, length = len(sources), 3 * END
    target = torch.randint(n_special, len(weight), (n_rows, length))
    is_repeated = torch.rand(n_rows, length) < torch.linspace(0, 1, n_rows)[:, None]
    for t in range(1, length):
        target[:, t] = torch.where(is_repeated[:, t], target[:, t - 1], target[:, t])
    target[:, 0] = SOS
    rise = (
        (torch.arange(length) * STEEPNESS / END - (STEEPNESS - 1)).clamp(-1, 3).expand(n_rows, -1)
    )
    with torch.no_grad():
        weight *= EMBEDDING_SCALE
        weight[[PAD, SOS, UNKNOWN]] = 0.0
        for _ in range(3):
            hidden = model.decode(target, model.start(source, source != PAD))[0]
            best = model.logits(hidden[::8])[..., n_special:].amax(dim=-1).mean()
            vectors = hidden.flatten(end_dim=1).double()
            square = vectors.T @ vectors + 10 * torch.eye(vectors.shape[1])
            weight[EOS] = torch.linalg.solve(
                square, vectors.T @ (best * rise).flatten().double()
            ).float()


def make_model(shape: str, lines: list[str], sentences: list[str], folder: Path) -> None:
    """Save one model in the format of each side, so that no process has to convert it."""
    import torch
    import transformers

    from transduce.config import ModelConfig
    from transduce.convert.ctranslate2 import convert
    from transduce.decode.translator import Translator
    from transduce.model import Transformer
    from transduce.model_folder import FolderConfig, ModelFolder, load_model, save_model
    from transduce.presets import preset

    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.marian import marian_of

    transformers.logging.disable_progress_bar()
    torch.manual_seed(1)
    vocabulary = learn_vocabulary(lines, VOCAB_SIZE[shape])
    config = ModelConfig(**preset(shape)["model"], vocab_size=len(vocabulary))
    model = Transformer(config).eval()
    fit_end(model, vocabulary.encode_batch(sentences[-FITTED:]))
    save_model(
        folder / "model", ModelFolder(FolderConfig(model=config), model, vocabulary, vocabulary)
    )
    marian_of(model).save_pretrained(folder / "marian")
    (folder / "ctranslate2").mkdir()
    convert(model, folder / "ctranslate2")
    Translator(load_model(folder / "model"), engine="ctranslate2").translate(sentences[:1])


# The sides. Each returns a function that translates texts in one call.


def ours(folder: Path, beam: int, engine: Any, precision: Any) -> Translate:
    from transduce.decode.load import load_translator
    from transduce.decode.options import TranslateOptions

    translator = load_translator(folder / "model", engine=engine, precision=precision)
    chosen, declined = translator.engine(TranslateOptions(translator.settings(beam)))
    assert declined is None, declined
    begin, counts = chosen.begin, Counter()

    def count(result: tuple[int, Any]) -> tuple[int, Any]:
        _, hypotheses = result
        n_end_tokens = 0 if hypotheses[0].truncated else 1
        counts["tokens"] += len(hypotheses[0].ids) + n_end_tokens
        return result

    # Count tokens where the engine returns them: a translation has them only with details.
    # Greedy search of uncertain results would count their tokens twice.
    def begin_and_count(inputs: Sequence[Any], options: TranslateOptions) -> Any:
        results = begin(inputs, options)
        return map(count, results) if options.width == beam else results

    chosen.begin = begin_and_count  # type: ignore[method-assign]

    def translate(texts: list[str]) -> Output:
        counts.clear()
        translations = translator.translate(texts, beam=beam)
        return Output([each.text for each in translations], counts["tokens"])

    return translate


def sorted_by_length(
    vocabulary: Any, search: Callable[[list[list[int]]], list[list[int]]], most: int | None = None
) -> Translate:
    """Translate texts with a search over tokens: sort by length, make batches of at most `most`."""

    def translate(texts: list[str]) -> Output:
        sources = vocabulary.encode_batch(texts)
        order = sorted(range(len(texts)), key=lambda i: len(sources[i]))
        found: list[list[int]] = []
        for first in range(0, len(order), most or len(order)):
            found += search([sources[i] for i in order[first : first + (most or len(order))]])
        results = dict(zip(order, found, strict=True))
        return Output(
            [vocabulary.decode(results[i]) for i in range(len(texts))], sum(map(len, found))
        )

    return translate


def hugging_face(folder: Path, beam: int, precision: str) -> Translate:
    import torch
    import transformers

    from transduce.data.batch import encode_source, pad
    from transduce.model_folder import load_model
    from transduce.text.vocabulary import EOS, PAD, Vocabulary

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = transformers.MarianMTModel.from_pretrained(folder / "marian", dtype=dtype).eval()
    epsilon = load_model(folder / "model").config.model.norm_epsilon
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = epsilon  # not a setting of MarianConfig
    vocabulary = Vocabulary((folder / "model" / "sentencepiece.model").read_bytes())

    def search(rows: list[list[int]]) -> list[list[int]]:
        source = pad([encode_source(ids) for ids in rows])
        with torch.inference_mode():
            found = model.generate(
                source,
                attention_mask=(source != PAD).long(),
                num_beams=beam,
                do_sample=False,
                length_penalty=1.0,
                early_stopping=beam > 1,
                max_new_tokens=max(map(len, rows)) + EXTRA_LENGTH,
            )
        return [
            row[1 : row.index(EOS, 1) + 1] if EOS in row[1:] else row[1:] for row in found.tolist()
        ]

    return sorted_by_length(vocabulary, search, BATCH)


def direct(folder: Path, beam: int, precision: str, way: str) -> Translate:
    import ctranslate2

    from transduce.decode.hypotheses import ENDS_PER_BEAM, MIN_CERTAINTY
    from transduce.text.vocabulary import Vocabulary

    workers, each, batch = map(int, way.split("x"))
    translator = ctranslate2.Translator(
        str(folder / "ctranslate2"),
        device="cpu",
        compute_type="int8_float32" if precision == "int8" else "float32",
        inter_threads=workers,
        intra_threads=each,
    )
    vocabulary = Vocabulary((folder / "model" / "sentencepiece.model").read_bytes())

    def translate(rows: list[list[int]], width: int) -> list[Any]:
        results: list[Any] = translator.translate_batch(
            [[str(i) for i in row] for row in rows],
            max_batch_size=batch,
            batch_type="examples",
            beam_size=width,
            patience=ENDS_PER_BEAM,
            length_penalty=1.0,
            max_input_length=0,
            max_decoding_length=max(map(len, rows)) + EXTRA_LENGTH + 1,
            return_end_token=True,
            return_scores=beam > 1,
        )
        return results

    def search(rows: list[list[int]]) -> list[list[int]]:
        results = translate(rows, beam)
        if beam > 1:  # the same stop rule as ours
            uncertain = [i for i, each in enumerate(results) if each.scores[0] < MIN_CERTAINTY]
            greedy = translate([rows[i] for i in uncertain], 1) if uncertain else []
            for i, each in zip(uncertain, greedy, strict=True):
                if each.scores[0] > results[i].scores[0]:
                    results[i] = each
        return [[int(piece) for piece in result.hypotheses[0]] for result in results]

    return sorted_by_length(vocabulary, search)


def has_bfloat16() -> bool:
    """Return whether the processor has bfloat16 instructions."""
    import torch

    from transduce import hardware

    return hardware.has_bfloat16(torch.device("cpu"))


def peak_memory() -> int:
    """Return the peak memory of this process in megabytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) >> 10


def serve(side: str, part: str, folder: Path) -> None:
    """Run one side: each line of stdin is a number of sentences to translate.

    The answer has seconds, tokens, memory and the translations.
    """
    _, batch, how = PARTS[part]
    beam = BEAMS[how]
    if side.startswith("ours"):
        _, engine, precision = {DEFAULT: "ours auto float32"}.get(side, side).split()
        translate = ours(folder, beam, engine, precision)
    elif side.startswith("hugging face"):
        translate = hugging_face(folder, beam, side.split()[2])
    else:
        _, precision, way = side.split()
        translate = direct(folder, beam, precision, way)
    texts = json.loads((folder / "sentences.json").read_text())[: SENTENCES[PARTS[part]]]
    for line in sys.stdin:
        asked = texts[: json.loads(line)["sentences"]]
        calls = [[text] for text in asked] if batch == 1 else [asked]
        started = time.perf_counter()
        outputs = [translate(call) for call in calls]
        seconds = time.perf_counter() - started
        found = [text for output in outputs for text in output.texts]
        n_tokens = sum(output.n_tokens for output in outputs)
        print(
            json.dumps(
                {"seconds": seconds, "tokens": n_tokens, "memory": peak_memory(), "texts": found}
            ),
            flush=True,
        )


class Side:
    """A process that translates the sentences of a part on request."""

    def __init__(self, name: str, part: str, folder: Path) -> None:
        self.name, self.memory, self.n_tokens = name, 0, 0
        self.texts: list[str] = []
        self.rates: list[float] = []
        command = [
            sys.executable,
            __file__,
            "--side",
            name,
            "--only",
            part,
            "--folder",
            str(folder),
        ]
        # The command line sets the same variable; here all sides get it.
        environment = {**os.environ, "GOMP_SPINCOUNT": "10000"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def round(self, n_sentences: int) -> float:
        """Run one round and return its speed in tokens per second."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"sentences": n_sentences}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the process ended with code {self._process.wait()}")
        answer = json.loads(line)
        self.memory, self.n_tokens, self.texts = (
            answer["memory"],
            answer["tokens"],
            answer["texts"],
        )
        return self.n_tokens / answer["seconds"]

    @property
    def speed(self) -> float:
        return statistics.median(self.rates)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def fastest(name: str, part: str, folder: Path) -> Side:
    """Return CTranslate2 with the fastest use of the cores; end the other processes."""
    _, batch, _ = PARTS[part]
    sides = [Side(f"{name} {way}", part, folder) for way in WAYS[batch]]
    for side in sides:
        side.round(WARM_UP[batch])
    speed = dict.fromkeys(sides, 0.0)
    for _ in range(TRIALS):
        for side in sides:
            speed[side] = max(speed[side], side.round(SENTENCES[PARTS[part]]))
    best = max(sides, key=lambda side: speed[side])
    show(
        part=part,
        side=name,
        chosen=best.name,
        **{side.name.split()[-1]: round(value) for side, value in speed.items()},
    )
    for side in sides:
        if side is not best:
            side.end()
    return best


def compare(part: str, folder: Path, rounds: int) -> None:
    """Measure all sides of a part, in interleaved rounds."""
    _, batch, _ = PARTS[part]
    n = SENTENCES[PARTS[part]]
    names = [TORCH, DEFAULT, INT8, HUGGING_FACE]
    names += [TORCH_BF16, HUGGING_FACE_BF16] if has_bfloat16() else []
    sides = {name: fastest(name, part, folder) for name in (DIRECT, DIRECT_INT8)}
    sides |= {name: Side(name, part, folder) for name in names}
    for name in names:
        sides[name].round(WARM_UP[batch])
    for number in range(rounds):
        for side in sides.values() if number % 2 else reversed(sides.values()):
            side.rates.append(side.round(n))
    for side in sides.values():
        side.end()
    for side in sides.values():
        show(
            part=part,
            side=side.name,
            rounds=rounds,
            sentences=n,
            tokens_per_sentence=round(side.n_tokens / n, 1),
            tokens_per_second=round(side.speed),
            peak_memory_mb=side.memory,
        )

    def ratio(mine: str, other: str) -> float:
        """Return the median over rounds of the speed of one side relative to another."""
        return statistics.median(
            a / b for a, b in zip(sides[mine].rates, sides[other].rates, strict=True)
        )

    def same(mine: str, other: str) -> float:
        """Return the share of sentences with the same translation by two sides."""
        return round(
            sum(a == b for a, b in zip(sides[mine].texts, sides[other].texts, strict=True)) / n, 3
        )

    show(
        part=part,
        same_as_hugging_face=same(TORCH, HUGGING_FACE),
        default_same_as_torch=same(DEFAULT, TORCH),
        default_same_as_ctranslate2=same(DEFAULT, DIRECT),
        int8_vs_ctranslate2_int8=round(ratio(INT8, DIRECT_INT8), 3),
    )
    bar(f"default engine vs CTranslate2 driven directly, {part}", ratio(DEFAULT, DIRECT), 0.97)
    if batch == BATCH:
        best = max(
            (name for name in (TORCH, TORCH_BF16) if name in sides),
            key=lambda name: sides[name].speed,
        )
        bar(f"torch vs Hugging Face float32, {part}", ratio(TORCH, HUGGING_FACE), 1.5)
        bar(
            f"torch best precision ({best.split()[-1]}) vs Hugging Face float32, {part}",
            ratio(best, HUGGING_FACE),
            2.5,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"rounds of each part; default: {ROUNDS}"
    )
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        serve(arguments.side, arguments.only, arguments.folder)
        return
    with tempfile.TemporaryDirectory() as temporary:
        # Leave the user's own cache unchanged.
        os.environ["XDG_CACHE_HOME"] = str(Path(temporary) / "cache")
        lines, sentences = read_texts(arguments.data)
        parts = [arguments.only] if arguments.only else list(PARTS)
        for shape in dict.fromkeys(PARTS[part][0] for part in parts):
            folder = Path(temporary) / shape
            folder.mkdir()
            make_model(shape, lines, sentences, folder)
            (folder / "sentences.json").write_text(json.dumps(sentences))
            for part in parts:
                if PARTS[part][0] == shape:
                    compare(part, folder, arguments.rounds)


if __name__ == "__main__":
    main()
