"""`transduce compare`: two or more systems on one test set, and whether they differ."""

import json
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text
from sacrebleu.metrics.bleu import BLEU

from transduce.cli.output import check_can_create, check_outputs
from transduce.decode.load import load_translator
from transduce.errors import MissingInputError, UsageError
from transduce.evaluation import metrics as evaluate
from transduce.evaluation.significance import SystemScore, read_seed, score_systems
from transduce.evaluation.test_sets import read_test_set, search_settings, translate, warn_of_text
from transduce.text.files import display_name, read_lines
from transduce.text.normalize import split_words
from transduce.text.printable import printable

SURE = 0.05  # a difference is taken for one if both tests give less
RUN = 3  # words on end that the overlap with a training text is measured in
N_LENGTHS = 4  # buckets of lengths, about equally full

Lines = Sequence[str]
Words = tuple[str, ...]
Systems = Mapping[str, Lines]  # what each wrote; the first is the baseline


@dataclass(frozen=True, slots=True)
class Bucket:
    """Sentences that have something in common, and what each system scores on them."""

    by: str
    label: str
    n_sentences: int
    scores: Mapping[str, float]  # BLEU by system


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that was found out."""

    systems: Systems
    references: Sequence[Lines]
    source: Lines | None
    compared: Sequence[SystemScore]
    buckets: Sequence[Bucket]
    chrf: Mapping[str, Sequence[float]]  # of each sentence by system
    searches: Mapping[
        str, Mapping[str, Any]
    ]  # of models: search settings, and the seed of the training

    def notes(self) -> list[str]:
        """How the numbers came about, a line each: signatures, and how models have searched."""
        found = dict.fromkeys(f"{row.score.name:6} {row.score.signature}" for row in self.compared)
        said = {
            name: "|".join(f"{key}:{value}" for key, value in how.items())
            for name, how in self.searches.items()
        }
        return [*found, *(f"{name} translated with {how}" for name, how in said.items())]


def compare_systems(
    given: Sequence[str],
    references: Sequence[Path],
    source: Path | None,
    training: Mapping[str, Path],
    rare: int,
    tokenize: str,
    html: Path | None,
    as_json: bool,
    console: Console,
) -> None:
    """Compare, print, and write the page if one is asked for; `training` has the training text of "source" and "reference"."""
    named = name_systems(given)
    models = [name for name, path in named.items() if path.is_dir()]
    if models and source is None:
        raise UsageError(
            f"{named[models[0]]} is a folder, so a model: give --source, the text that it shall translate"
        )
    if "source" in training and source is None:
        raise UsageError("--train-source is compared with the source: give --source as well")
    evaluate.make_metrics(tokenize)  # what is wrong is said before anything is translated
    read_seed()
    for path in training.values():
        if not path.exists():
            raise MissingInputError(f"no file {path}")
    files = [path for name, path in named.items() if name not in models]
    if html is not None:
        check_can_create(html)
        parts = [part for name in models for part in named[name].rglob("*")]
        check_outputs((html,), (*files, *parts, *references, source, *training.values()))
    right, found = read_test_set(references, [*files, *([source] if source is not None else [])])
    texts = found.pop() if source is not None else None
    outputs = dict(zip([name for name in named if name not in models], found, strict=True))
    searches = {}
    for name in models:
        with console.status(Text(f"{name} translates")):
            translator = load_translator(named[name])
            searches[name] = search_settings(translator)
            outputs[name] = translate(translator, texts or (), what=f"{name}: ")
    systems = {name: outputs[name] for name in named}
    warn_of_text(
        [*systems.items(), *zip(map(display_name, references), right, strict=True)], tokenize
    )
    with console.status("resampling"):
        compared = score_systems(systems, *right, tokenize=tokenize)
        kinds = kinds_of_sentences(texts, right[0], training, rare)
        buckets = [
            bucket for kind in kinds for bucket in make_buckets(*kind, systems, right, tokenize)
        ]
        chrf = {
            name: [evaluate.sentence_chrf(*texts) for texts in zip(lines, *right, strict=True)]
            for name, lines in systems.items()
        }
    comparison = Comparison(systems, right, texts, compared, buckets, chrf, searches)
    if html is not None:
        from transduce.reports.comparison import compare_page

        html.write_bytes(compare_page(comparison).encode(errors="backslashreplace"))
        console.print(f"the page is in {html}", highlight=False, markup=False)
    lines = map(json.dumps, as_rows(comparison)) if as_json else as_text(comparison)
    sys.stdout.writelines(f"{line}\n" for line in lines)


def name_systems(given: Sequence[str]) -> dict[str, Path]:
    """`first=out.txt` is a file, or a model folder, with a name; without one it has the name of the file."""
    named: dict[str, Path] = {}
    for each in given:
        name, has_name, path = each.partition("=")
        if not has_name or Path(each).exists():  # a path may have such a sign in it
            name, path = Path(each).name, each
        name = printable(name)
        if not name or not path:
            raise UsageError(f"--system {each!r}: wanted NAME=FILE, for example first=out.txt")
        if name in named:
            raise UsageError(
                f"two systems are called {name!r}: give them names, --system one=... --system two=..."
            )
        named[name] = Path(path)
    if len(named) < 2:
        raise UsageError(
            "compare needs two systems or more: --system first=out1.txt --system second=out2.txt"
        )
    return named


def kinds_of_sentences(
    source: Lines | None, reference: Lines, training: Mapping[str, Path], rare: int
) -> Iterator[tuple[str, Sequence[str], list[int]]]:
    """Ways to sort sentences: by length, and where there is training text by rare words and by overlap with it.

    Of each its name, its labels, and the number of the label of each sentence.
    """
    sides = {"source": source, "reference": reference}
    side = "source" if source is not None else "reference"
    lengths = [len(split_words(line)) for line in sides[side] or ()]
    ordered = sorted(lengths)
    ends = sorted({ordered[len(ordered) * (i + 1) // N_LENGTHS - 1] for i in range(N_LENGTHS)})
    starts = [ordered[0], *(end + 1 for end in ends[:-1])]
    labels = [
        f"{low}" if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True)
    ]
    yield (
        f"length of the {side} in words",
        labels,
        [bisect_left(ends, length) for length in lengths],
    )
    for side, path in training.items():
        lines = [split_words(line) for line in sides[side] or ()]
        counts, runs, whole = _seen(lines, read_lines(path))
        n_rare = [sum(counts[word] <= rare for word in set(line)) for line in lines]
        name = f"rare words in the {side} ({rare} times or less in training)"
        yield name, ("none", "1", "2", "3 or more"), [min(n, 3) for n in n_rare]
        shares = [len(_runs(line) & runs) / len(_runs(line)) for line in lines]
        overlaps = [
            3 if tuple(line) in whole else int(2 * share)
            for line, share in zip(lines, shares, strict=True)
        ]
        name = f"overlap of the {side} with training, in runs of {RUN} words"
        yield name, ("under half", "half or more", "all of it", "the line itself"), overlaps


def _runs(line: Sequence[str]) -> set[Words]:
    return {tuple(line[i : i + RUN]) for i in range(max(1, len(line) - RUN + 1))}


def _seen(
    lines: Sequence[Sequence[str]], training: Iterable[str]
) -> tuple[Counter[str], set[Words], set[Words]]:
    """What of a test set is in the training text: how often each word, which runs of words, which whole lines."""
    words = {word for line in lines for word in line}
    wanted, whole = {run for line in lines for run in _runs(line)}, {tuple(line) for line in lines}
    counts: Counter[str] = Counter()
    runs, met = set(), set()
    for text in training:
        line = split_words(text)
        counts.update(word for word in line if word in words)
        runs |= _runs(line) & wanted
        met |= {tuple(line)} & whole
    return counts, runs, met


def make_buckets(
    by: str,
    labels: Sequence[str],
    kinds: Sequence[int],
    systems: Systems,
    references: Sequence[Lines],
    tokenize: str,
) -> Iterator[Bucket]:
    """Sentences by their label, where it has any, with BLEU of each system on them."""
    for number, label in enumerate(labels):
        if rows := [i for i, kind in enumerate(kinds) if kind == number]:
            right = [[lines[i] for i in rows] for lines in references]
            found = {name: [lines[i] for i in rows] for name, lines in systems.items()}
            bleu = BLEU(
                tokenize=tokenize, force=True, effective_order=True
            )  # some have no line of four words
            scores = {
                name: float(bleu.corpus_score(lines, right).score) for name, lines in found.items()
            }
            yield Bucket(by, label, len(rows), scores)


def verdict(row: SystemScore) -> str:
    """In a word."""
    if row.difference is None or row.p_bootstrap is None or row.p_randomisation is None:
        return "baseline"
    if max(row.p_bootstrap, row.p_randomisation) >= SURE:
        return "not told apart"
    return "better" if (row.difference > 0) != (row.score.name == "TER") else "worse"


def as_text(comparison: Comparison) -> Iterator[str]:
    """A table for people."""
    width = max(6, *map(len, comparison.systems))
    yield f"{'':6} {'system':{width}}  score    95 %    difference  p bootstrap  p randomisation"
    for row in comparison.compared:
        line = (
            f"{row.score.name:6} {row.system:{width}} {row.score.value:6.2f} ± {row.interval:5.2f}"
        )
        if row.difference is not None:
            line += f"  {row.difference:+10.2f}  {row.p_bootstrap:11.4f}  {row.p_randomisation:15.4f}  {verdict(row)}"
        yield line
    if len({bucket.by for bucket in comparison.buckets}) > 1:  # a training text was given
        for bucket in comparison.buckets:
            found = "  ".join(f"{name} {score:.2f}" for name, score in bucket.scores.items())
            yield f"BLEU by {bucket.by}: {bucket.label} ({bucket.n_sentences:,})  {found}"
    yield from comparison.notes()


def as_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """For programs: a row for each metric of each system, then one for each bucket and system."""
    for row in comparison.compared:
        seed = dict(part.split(":", 1) for part in row.score.signature.split("|"))["seed"]
        seen = {
            name: value for name, value in row._asdict().items() if name not in ("system", "score")
        }
        yield {
            "system": row.system,
            **asdict(row.score),
            "seed": int(seed) if seed.isdecimal() else None,
            **seen,
            "verdict": verdict(row),
            "search": comparison.searches.get(row.system),
        }
    for bucket in comparison.buckets:
        place = {"bucket": bucket.by, "label": bucket.label, "sentences": bucket.n_sentences}
        yield from (
            {"system": name, "name": "BLEU", "value": value, **place}
            for name, value in bucket.scores.items()
        )
