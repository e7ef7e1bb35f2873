"""The page of `transduce compare --html`: scores, and the sentences of the systems side by side."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from transduce.evaluation.comparison import (
    SIGNIFICANCE_LEVEL,
    Bucket,
    Comparison,
    describe_verdict,
    verdict,
)
from transduce.evaluation.metrics import sentence_chrf
from transduce.evaluation.significance import SystemScore
from transduce.reports.charts import Series, bar_chart
from transduce.reports.html import Html, details, element, join, page, table, tiles
from transduce.text.normalize import WORD

N_SHOWN = 8  # sentences of a list that are visible at once
MAX_SHOWN = 60  # with those that can be unfolded
MAX_CHARACTERS = 2000  # of a sentence
STYLES = {"better": "good", "worse": "bad"}
TAGS = {"same": "span", "missing": "del", "extra": "ins"}


class MarkedWords(NamedTuple):
    """Words of a translation, or missing words of its reference, and the space before them."""

    kind: Literal["same", "missing", "extra"]
    space: str
    text: str


class Ranking(NamedTuple):
    """Indices of sentences by the change in chrF from the baseline to another system."""

    wins: list[int]  # largest gain first
    losses: list[int]  # largest loss first
    ties: list[int]


def mark_differences(hypothesis: str, reference: str) -> list[MarkedWords]:
    """Compare a translation with its reference word by word."""
    expected, found = list(WORD.finditer(reference)), list(WORD.finditer(hypothesis))
    matcher = SequenceMatcher(
        None, [word[0] for word in expected], [word[0] for word in found], autojunk=False
    )
    marked: list[MarkedWords] = []
    for operation, i, i_end, j, j_end in matcher.get_opcodes():
        if operation in ("delete", "replace"):
            space = _space_before(reference, expected, i)
            marked.append(MarkedWords("missing", space, _text(reference, expected, i, i_end)))
        if operation != "delete":
            space = _space_before(hypothesis, found, j)
            if not space and marked and marked[-1].kind == "missing":
                # Missing words are shown before these; keep the two apart.
                space = " " if operation == "replace" else _space_before(reference, expected, i)
            kind: Literal["same", "extra"] = "same" if operation == "equal" else "extra"
            marked.append(MarkedWords(kind, space, _text(hypothesis, found, j, j_end)))
    return marked


def _space_before(text: str, words: Sequence[re.Match[str]], i: int) -> str:
    return text[words[i - 1].end() : words[i].start()] if i else ""


def _text(text: str, words: Sequence[re.Match[str]], i: int, end: int) -> str:
    return text[words[i].start() : words[end - 1].end()]


def comparison_page(comparison: Comparison) -> str:
    """Return the page of a comparison."""
    return page("transduce compare", *_sections(comparison))


def _sections(comparison: Comparison) -> Iterator[Html]:
    yield from _introduction(comparison)
    yield from _scores(comparison)
    yield from _buckets(comparison)
    baseline, *others = comparison.systems
    for other in others:
        yield from _sentences(comparison, baseline, other)


def _introduction(comparison: Comparison) -> Iterator[Html]:
    baseline, *others = comparison.systems
    if len(others) == 1:
        title = f"{others[0]} against {baseline}"
    else:
        title = f"{len(others) + 1} systems compared"
    yield element("h1", title)
    n_sentences, n_references = len(comparison.references[0]), len(comparison.references)
    per_sentence = "one reference" if n_references == 1 else f"{n_references} references"
    yield element(
        "p",
        f"{n_sentences:,} sentences, {per_sentence} each. The baseline is ",
        element("b", baseline),
        ".",
        style="quiet",
    )
    bleu = _bleu(comparison)
    for other in others:
        yield _headline(bleu[other], baseline)
    numbers: list[tuple[object, object]] = [
        (f"{row.score.value:.2f}", f"BLEU of {name}") for name, row in bleu.items()
    ]
    if len(others) == 1:
        ranking = rank_sentences(comparison, baseline, others[0])
        numbers += [
            (f"{len(ranking.wins):,}", "sentences won"),
            (f"{len(ranking.losses):,}", "lost"),
            (f"{len(ranking.ties):,}", "tied"),
        ]
    yield tiles(numbers)


def _bleu(comparison: Comparison) -> dict[str, SystemScore]:
    return {row.system: row for row in comparison.scores if row.score.name == "BLEU"}


def _headline(row: SystemScore, baseline: str) -> Html:
    relation = {"better": "is better than", "worse": "is worse than"}.get(
        verdict(row), "does not differ significantly from"
    )
    marked = element("span", relation, style=STYLES.get(verdict(row), ""))
    p_values = (
        f"p = {row.p_bootstrap:.4f} by bootstrap and {row.p_randomisation:.4f} by randomisation"
    )
    numbers = f": BLEU {row.difference:+.2f}, {p_values}."
    return element("p", element("b", row.system), " ", marked, " ", element("b", baseline), numbers)


def _scores(comparison: Comparison) -> Iterator[Html]:
    yield element("h2", "Scores")
    headers = (
        "metric",
        "system",
        "score",
        "95 %",
        "difference",
        "",
        "p bootstrap",
        "p randomisation",
    )
    yield table(headers, map(_score_row, comparison.scores), numbers=range(2, len(headers)))
    yield details(
        "How this was computed",
        element(
            "p",
            "p is the probability of a difference at least as large if the systems were equally "
            "good, estimated by resampling the sentences (bootstrap) and by exchanging outputs at "
            f"random (randomisation). A difference is significant if both are below "
            f"{SIGNIFICANCE_LEVEL}. Higher is better, except for TER.",
        ),
        *(element("p", note, style="quiet") for note in comparison.notes()),
    )


def _score_row(row: SystemScore) -> tuple[object, ...]:
    cells = (row.score.name, row.system, f"{row.score.value:.2f}", f"± {row.interval:.2f}")
    if row.difference is None:
        return (*cells, "", element("span", "baseline", style="quiet"), "", "")
    return (
        *cells,
        f"{row.difference:+.2f}",
        element("span", describe_verdict(row), style=STYLES.get(verdict(row), "quiet")),
        f"{row.p_bootstrap:.4f}",
        f"{row.p_randomisation:.4f}",
    )


def _buckets(comparison: Comparison) -> Iterator[Html]:
    """Yield charts of the baseline and the best other system, and a table of all systems."""
    yield element("h2", "By kind of sentence")
    baseline, *others = comparison.systems
    bleu = _bleu(comparison)
    best = max(others, key=lambda name: bleu[name].score.value)
    groupings = dict.fromkeys(bucket.by for bucket in comparison.buckets)
    charts = [
        _bucket_chart([bucket for bucket in comparison.buckets if bucket.by == by], baseline, best)
        for by in groupings
    ]
    yield element("div", *charts, style="charts")
    headers = ("BLEU by", "", "sentences", *comparison.systems)
    rows = (_bucket_row(bucket, baseline) for bucket in comparison.buckets)
    yield details("The same as a table", table(headers, rows, numbers=range(1, len(headers))))


def _bucket_chart(buckets: Sequence[Bucket], baseline: str, other: str) -> Html:
    series = [
        Series(name, [bucket.scores[name] for bucket in buckets]) for name in (baseline, other)
    ]
    return bar_chart(f"BLEU by {buckets[0].by}", [bucket.label for bucket in buckets], series)


def _bucket_row(bucket: Bucket, baseline: str) -> tuple[object, ...]:
    cells = []
    for name, value in bucket.scores.items():
        difference = value - bucket.scores[baseline]
        cells.append(f"{value:.2f}" if name == baseline else f"{value:.2f} ({difference:+.2f})")
    return (bucket.by, bucket.label, f"{bucket.n_sentences:,}", *cells)


def rank_sentences(comparison: Comparison, baseline: str, other: str) -> Ranking:
    """Sort the sentences by the gain in chrF of another system over the baseline."""
    pairs = zip(comparison.chrf[baseline], comparison.chrf[other], strict=True)
    gains = [after - before for before, after in pairs]
    order = sorted(range(len(gains)), key=lambda i: gains[i])
    return Ranking(
        wins=[i for i in reversed(order) if gains[i] > 0],
        losses=[i for i in order if gains[i] < 0],
        ties=[i for i in order if gains[i] == 0],
    )


def _sentences(comparison: Comparison, baseline: str, other: str) -> Iterator[Html]:
    ranking = rank_sentences(comparison, baseline, other)
    yield element("h2", f"{other}, sentence by sentence")
    yield element(
        "p",
        "By chrF ",
        element("b", other),
        f" wins {len(ranking.wins):,} sentences, loses {len(ranking.losses):,} "
        f"and ties {len(ranking.ties):,}. Marked against the reference: ",
        element("ins", "extra words"),
        " and ",
        element("del", "missing words"),
        ".",
        style="quiet",
    )
    lists = (
        (f"Where {other} gains most", ranking.wins),
        (f"Where {other} loses most", ranking.losses),
    )
    for title, sentences in lists:
        cards = [_card(comparison, i, baseline, other) for i in sentences[:MAX_SHOWN]]
        yield element("h3", title)
        yield join(cards[:N_SHOWN] or [element("p", "Nowhere.", style="quiet")])
        if hidden := cards[N_SHOWN:]:
            total = f", of {len(sentences):,}" if len(sentences) > MAX_SHOWN else ""
            yield details(f"{len(hidden)} more{total}", *hidden)


def _card(comparison: Comparison, i: int, baseline: str, other: str) -> Html:
    references = [lines[i] for lines in comparison.references]
    rows = []
    if comparison.source is not None:
        rows.append(("source", element("bdi", _shorten(comparison.source[i]))))
    rows += [("reference", element("bdi", _shorten(reference))) for reference in references]
    for name in (baseline, other):
        rows.append((name, _mark(comparison.systems[name][i], references)))
    before, after = comparison.chrf[baseline][i], comparison.chrf[other][i]
    gain = element("b", f"{after - before:+.1f}", style="good" if after > before else "bad")
    head = element(
        "p",
        f"line {i + 1:,} \u00b7 chrF {before:.1f} \u2192 {after:.1f} \u00b7 ",
        gain,
        style="quiet",
    )
    texts = (join([element("dt", name), element("dd", text)]) for name, text in rows)
    return element("div", head, element("dl", *texts), style="card")


def _mark(hypothesis: str, references: Sequence[str]) -> Html:
    """Mark a translation against the reference it is closest to."""
    closest = max(references, key=lambda reference: sentence_chrf(hypothesis, reference))
    marked = mark_differences(_shorten(hypothesis), _shorten(closest))
    words = [join([each.space, element(TAGS[each.kind], each.text)]) for each in marked]
    return element("bdi", *words)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\u2026"
