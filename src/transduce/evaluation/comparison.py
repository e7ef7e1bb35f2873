"""Compare systems on one test set: scores, significance, and scores by kind of sentence."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sacrebleu.metrics.bleu import BLEU

from transduce.decode.load import load_translator
from transduce.errors import MissingInputError, UsageError
from transduce.evaluation.evaluate import search_settings, translate
from transduce.evaluation.metrics import METRICS, choose_metrics, make_metrics, sentence_chrf
from transduce.evaluation.significance import SystemScore, read_seed, score_systems
from transduce.evaluation.test_sets import find_problems, read_test_set
from transduce.log import Log, silent
from transduce.text.files import display_name, read_lines
from transduce.text.normalize import split_words

SIGNIFICANCE_LEVEL = 0.05  # a difference is significant if both tests give a smaller p
N_LENGTH_BUCKETS = 4  # with about equally many sentences
MAX_RARE = 3  # sentences with more rare words are in the same group
OVERLAP_NGRAM = 3  # words of the n-grams by which overlap with a training text is measured

Lines = Sequence[str]
Ngram = tuple[str, ...]
Outputs = Mapping[str, Lines]  # the translations of each system; the first is the baseline
Side = Literal["source", "reference"]
Verdict = Literal["baseline", "better", "worse", "not told apart"]  # values of a JSON field


class Grouping(NamedTuple):
    """A way to sort sentences into groups: its name, the labels, and the label of each sentence."""

    name: str
    labels: Sequence[str]
    label_of: Sequence[int]  # index into `labels`, for each sentence


@dataclass(frozen=True, slots=True)
class Bucket:
    """The sentences with one label of a grouping, and the BLEU of each system on them."""

    by: str  # name of the grouping
    label: str
    n_sentences: int
    scores: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison."""

    systems: Outputs
    references: Sequence[Lines]
    source: Lines | None
    scores: Sequence[SystemScore]
    buckets: Sequence[Bucket]
    chrf: Mapping[str, Sequence[float]]  # of each sentence, by system
    # Settings of the search and seed of the training, for each system that is a model.
    searches: Mapping[str, Mapping[str, Any]]

    def notes(self) -> list[str]:
        """Return how the scores were computed: signatures of the metrics, settings of searches."""
        signatures = [f"{row.score.name:6} {row.score.signature}" for row in self.scores]
        notes = list(dict.fromkeys(signatures))
        for name, search in self.searches.items():
            settings = "|".join(f"{key}:{value}" for key, value in search.items())
            notes.append(f"{name} translated with {settings}")
        return notes


def compare_files(
    systems: Mapping[str, Path],
    references: Sequence[Path],
    *,
    source: Path | None = None,
    training: Mapping[Side, Path] | None = None,
    rare: int = 5,
    tokenize: str = "13a",
    warn: Log,
    note: Log = silent,
    progress: Log = silent,
) -> Comparison:
    """Compare files of translations and models, which translate `source` first.

    `systems` are files and model folders by name, the baseline first. See `compare` for the rest.
    """
    training = training or {}
    check_can_compare(systems, source=source, training=training, tokenize=tokenize)
    files = {name: path for name, path in systems.items() if not path.is_dir()}
    others = [*files.values()] if source is None else [*files.values(), source]
    reference_texts, other_texts = read_test_set(references, others)
    source_lines = other_texts.pop() if source is not None else None
    outputs = dict(zip(files, other_texts, strict=True))
    searches = {}
    for name, path in systems.items():
        if name not in files and source_lines is not None:
            progress(f"translating with {name}")
            translator = load_translator(path, engine="torch")
            searches[name] = search_settings(translator)
            outputs[name] = translate(translator, source_lines, warn=warn, note=note, name=name)
    ordered = {name: outputs[name] for name in systems}
    names = [*ordered, *map(display_name, references)]
    texts = [*ordered.values(), *reference_texts]
    named = list(zip(names, texts, strict=True))
    for problem in find_problems(named, tokenize):
        warn(problem)
    metric_names = choose_metrics(named, warn)
    progress("resampling")
    return compare(
        ordered,
        reference_texts,
        source=source_lines,
        training=training,
        rare=rare,
        tokenize=tokenize,
        metric_names=metric_names,
        searches=searches,
    )


def check_can_compare(
    systems: Mapping[str, Path],
    *,
    source: Path | None,
    training: Mapping[Side, Path],
    tokenize: str,
) -> None:
    """Raise the error of an invalid request, before anything is translated."""
    models = [path for path in systems.values() if path.is_dir()]
    if models and source is None:
        raise UsageError(
            f"{models[0]} is a folder, so it is read as a model; add --source FILE to translate"
        )
    if "source" in training and source is None:
        raise UsageError("--train-source needs the source of the test set; add --source FILE")
    make_metrics(tokenize)
    read_seed()
    for path in training.values():
        if not path.exists():
            raise MissingInputError(f"no file {path}; check the path")


def compare(
    systems: Outputs,
    references: Sequence[Lines],
    *,
    source: Lines | None = None,
    training: Mapping[Side, Path] | None = None,
    rare: int = 5,
    tokenize: str = "13a",
    metric_names: Sequence[str] = METRICS,
    searches: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Compare the translations of systems, the baseline first.

    `training` holds the training text of the systems, by side. With it, sentences are also grouped
    by rare words (at most `rare` times in the training text) and by overlap with that text.
    """
    scores = score_systems(systems, *references, tokenize=tokenize, names=metric_names)
    groupings = group_sentences(source, references[0], training or {}, rare)
    buckets = [
        bucket
        for grouping in groupings
        for bucket in score_buckets(grouping, systems, references, tokenize)
    ]
    chrf = {
        name: [sentence_chrf(*texts) for texts in zip(lines, *references, strict=True)]
        for name, lines in systems.items()
    }
    return Comparison(
        systems=systems,
        references=references,
        source=source,
        scores=scores,
        buckets=buckets,
        chrf=chrf,
        searches=searches or {},
    )


def group_sentences(
    source: Lines | None, reference: Lines, training: Mapping[Side, Path], rare: int
) -> Iterator[Grouping]:
    """Yield the groupings of a test set.

    Sentences are grouped by the length of the source, or of the reference if there is no source;
    and for each training text, by the number of rare words and by the overlap with it.
    """
    sides: dict[Side, Lines] = {"reference": reference}
    if source is not None:
        sides["source"] = source
    length_side: Side = "source" if source is not None else "reference"
    yield _group_by_length(length_side, sides[length_side])
    for side, path in training.items():
        lines = [split_words(line) for line in sides[side]]
        seen = _find_in_training(lines, read_lines(path))
        yield _group_by_rare_words(side, lines, seen.word_counts, rare)
        yield _group_by_overlap(side, lines, seen)


def _group_by_length(side: Side, lines: Lines) -> Grouping:
    lengths = [len(split_words(line)) for line in lines]
    ordered = sorted(lengths)
    ends = sorted(
        {ordered[len(ordered) * (i + 1) // N_LENGTH_BUCKETS - 1] for i in range(N_LENGTH_BUCKETS)}
    )
    starts = [ordered[0], *(end + 1 for end in ends[:-1])]
    labels = [
        f"{start}" if start == end else f"{start}-{end}"
        for start, end in zip(starts, ends, strict=True)
    ]
    label_of = [bisect_left(ends, length) for length in lengths]
    return Grouping(f"length of the {side} in words", labels, label_of)


def _group_by_rare_words(
    side: Side, lines: Sequence[Sequence[str]], counts: Mapping[str, int], rare: int
) -> Grouping:
    name = f"rare words in the {side} ({rare} times or less in training)"
    n_rare = [sum(counts[word] <= rare for word in set(line)) for line in lines]
    return Grouping(name, ("none", "1", "2", "3 or more"), [min(n, MAX_RARE) for n in n_rare])


def _group_by_overlap(
    side: Side, lines: Sequence[Sequence[str]], seen: "_TrainingOverlap"
) -> Grouping:
    name = f"overlap of the {side} with training, in runs of {OVERLAP_NGRAM} words"
    labels = ("under half", "half or more", "all of it", "the line itself")
    label_of = []
    for line in lines:
        ngrams = _ngrams(line)
        share = len(ngrams & seen.ngrams) / len(ngrams)
        if tuple(line) in seen.lines:
            label_of.append(labels.index("the line itself"))
        else:
            label_of.append(int(2 * share))  # 0: under half, 1: half or more, 2: all of it
    return Grouping(name, labels, label_of)


class _TrainingOverlap(NamedTuple):
    """The part of a test set that is in the training text."""

    word_counts: Counter[str]  # occurrences in training of the words of the test set
    ngrams: set[Ngram]
    lines: set[Ngram]


def _find_in_training(lines: Sequence[Sequence[str]], training: Iterable[str]) -> _TrainingOverlap:
    """Return what a test set shares with a training text, which is read once.

    Memory is bounded by the size of the test set.
    """
    test_words = {word for line in lines for word in line}
    test_ngrams = {ngram for line in lines for ngram in _ngrams(line)}
    test_lines = {tuple(line) for line in lines}
    seen = _TrainingOverlap(Counter(), set(), set())
    for text in training:
        line = split_words(text)
        seen.word_counts.update(word for word in line if word in test_words)
        seen.ngrams.update(_ngrams(line) & test_ngrams)
        if tuple(line) in test_lines:
            seen.lines.add(tuple(line))
    return seen


def _ngrams(line: Sequence[str]) -> set[Ngram]:
    """Return the n-grams of a line; a shorter line is one n-gram."""
    n = max(1, len(line) - OVERLAP_NGRAM + 1)
    return {tuple(line[i : i + OVERLAP_NGRAM]) for i in range(n)}


def score_buckets(
    grouping: Grouping, systems: Outputs, references: Sequence[Lines], tokenize: str
) -> Iterator[Bucket]:
    """Yield a bucket for each label that has sentences."""
    # Effective order: a bucket of short sentences may have no 4-gram, and would score 0.
    bleu = BLEU(tokenize=tokenize, force=True, effective_order=True)
    for number, label in enumerate(grouping.labels):
        members = [i for i, label_of in enumerate(grouping.label_of) if label_of == number]
        if not members:
            continue
        member_references = [[lines[i] for i in members] for lines in references]
        scores = {
            name: float(bleu.corpus_score([lines[i] for i in members], member_references).score)
            for name, lines in systems.items()
        }
        yield Bucket(by=grouping.name, label=label, n_sentences=len(members), scores=scores)


def larger_p(row: SystemScore) -> float | None:
    """Return the larger of the two p-values, which decides significance; None for the baseline."""
    if row.p_bootstrap is None or row.p_randomisation is None:
        return None
    return max(row.p_bootstrap, row.p_randomisation)


def verdict(row: SystemScore) -> Verdict:
    """Return how a system compares with the baseline, as the value of the JSON field."""
    p = larger_p(row)
    if row.difference is None or p is None:
        return "baseline"
    if p >= SIGNIFICANCE_LEVEL:
        return "not told apart"
    is_error_rate = row.score.name == "TER"
    is_higher = row.difference > 0
    return "better" if is_higher != is_error_rate else "worse"


def describe_verdict(row: SystemScore) -> str:
    """Return the verdict for people."""
    found = verdict(row)
    if found == "not told apart":
        return f"no significant difference (p = {larger_p(row):.2f})"
    return found


def as_text(comparison: Comparison) -> Iterator[str]:
    """Yield the lines of a table for people."""
    width = max(6, *map(len, comparison.systems))
    yield f"{'':6} {'system':{width}}  score    95 %    difference  p bootstrap  p randomisation"
    for row in comparison.scores:
        line = (
            f"{row.score.name:6} {row.system:{width}} {row.score.value:6.2f} ± {row.interval:5.2f}"
        )
        if row.difference is not None:
            line += (
                f"  {row.difference:+10.2f}  {row.p_bootstrap:11.4f}  {row.p_randomisation:15.4f}"
                f"  {describe_verdict(row)}"
            )
        yield line
    has_training_text = len({bucket.by for bucket in comparison.buckets}) > 1
    if has_training_text:
        for bucket in comparison.buckets:
            scores = "  ".join(f"{name} {score:.2f}" for name, score in bucket.scores.items())
            yield f"BLEU by {bucket.by}: {bucket.label} ({bucket.n_sentences:,})  {scores}"
    yield from comparison.notes()


def as_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """Yield records for programs: one per metric and system, then one per bucket and system."""
    for row in comparison.scores:
        fields = dict(field.split(":", 1) for field in row.score.signature.split("|"))
        yield {
            "system": row.system,
            **asdict(row.score),
            "seed": int(fields["seed"]) if fields["seed"].isdecimal() else None,
            "interval": row.interval,
            "difference": row.difference,
            "p_bootstrap": row.p_bootstrap,
            "p_randomisation": row.p_randomisation,
            "verdict": verdict(row),
            "search": comparison.searches.get(row.system),
        }
    for bucket in comparison.buckets:
        for name, value in bucket.scores.items():
            yield {
                "system": name,
                "name": "BLEU",
                "value": value,
                "bucket": bucket.by,
                "label": bucket.label,
                "sentences": bucket.n_sentences,
            }
