"""`transduce compare --html`: the sentences of the systems side by side, what each gained and lost, as one page."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from transduce.evaluation.comparison import SURE, Bucket, Comparison, verdict
from transduce.evaluation.metrics import sentence_chrf
from transduce.evaluation.significance import SystemScore
from transduce.reports.charts import Series, bar_chart
from transduce.reports.html import Html, details, element, join, page, table, tiles
from transduce.text.normalize import WORD

FIRST_SHOWN, MOST_SHOWN = (
    8,
    60,
)  # sentences that are shown at once, and those that can be unfolded too
MOST_CHARACTERS = 2000  # of a sentence that are shown
STYLES = {"better": "good", "worse": "bad"}
TAGS = {"same": "span", "missing": "del", "extra": "ins"}


class Part(NamedTuple):
    """Words of a translation, or words that it lacks, and the space before them."""

    kind: Literal["same", "missing", "extra"]
    space: str
    text: str


def differences(hypothesis: str, reference: str) -> list[Part]:
    """A translation word by word against its reference."""
    there, here = list(WORD.finditer(reference)), list(WORD.finditer(hypothesis))
    matcher = SequenceMatcher(
        None, [word[0] for word in there], [word[0] for word in here], autojunk=False
    )
    parts: list[Part] = []
    for what, i, i_end, j, j_end in matcher.get_opcodes():
        if what in ("delete", "replace"):
            parts.append(
                Part("missing", _space(reference, there, i), _text(reference, there, i, i_end))
            )
        if what != "delete":
            space = _space(hypothesis, here, j)
            if not space and parts and parts[-1].kind == "missing":
                space = " " if what == "replace" else _space(reference, there, i)
            parts.append(
                Part(
                    "same" if what == "equal" else "extra", space, _text(hypothesis, here, j, j_end)
                )
            )
    return parts


def _space(text: str, words: Sequence[re.Match[str]], i: int) -> str:
    return text[words[i - 1].end() : words[i].start()] if i else ""


def _text(text: str, words: Sequence[re.Match[str]], i: int, end: int) -> str:
    return text[words[i].start() : words[end - 1].end()]


def compare_page(comparison: Comparison) -> str:
    """The whole page."""
    return page("transduce compare", *_parts(comparison))


def _parts(comparison: Comparison) -> Iterator[Html]:
    baseline, *others = comparison.systems
    n, n_references = len(comparison.references[0]), len(comparison.references)
    title = (
        f"{others[0]} against {baseline}"
        if len(others) == 1
        else f"{len(others) + 1} systems compared"
    )
    yield element("h1", title)
    many = "one reference" if n_references == 1 else f"{n_references} references"
    yield element(
        "p",
        f"{n:,} sentences, {many} each. The baseline is ",
        element("b", baseline),
        ".",
        style="quiet",
    )
    bleu = {row.system: row for row in comparison.compared if row.score.name == "BLEU"}
    numbers: list[tuple[object, object]] = [
        (f"{bleu[name].score.value:.2f}", f"BLEU of {name}") for name in bleu
    ]
    for other in others:
        yield _headline(bleu[other], baseline)
    if len(others) == 1:
        wins, losses, ties = _gains(comparison, baseline, others[0])
        numbers += [
            (f"{len(wins):,}", "sentences won"),
            (f"{len(losses):,}", "lost"),
            (f"{len(ties):,}", "tied"),
        ]
    yield tiles(numbers)
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
    yield table(headers, map(_row, comparison.compared), numbers=range(2, 8))
    yield details(
        "How this was computed",
        element(
            "p",
            "p says how often so large a difference would come by chance, were the systems equally good: by resampling the "
            f"sentences (bootstrap), and by exchanging outputs at random (randomisation). Both below {SURE} is taken for a "
            "difference. More is better, but for TER less.",
        ),
        *(element("p", note, style="quiet") for note in comparison.notes()),
    )
    yield element("h2", "By kind of sentence")
    best = max(others, key=lambda name: bleu[name].score.value)
    kinds = dict.fromkeys(bucket.by for bucket in comparison.buckets)
    groups = [[bucket for bucket in comparison.buckets if bucket.by == kind] for kind in kinds]
    yield element("div", *(_chart(group, baseline, best) for group in groups), style="charts")
    columns = ("BLEU by", "", "sentences", *comparison.systems)
    rows = (_bucket_row(bucket, baseline) for bucket in comparison.buckets)
    yield details("The same in numbers", table(columns, rows, numbers=range(1, len(columns))))
    for other in others:
        yield from _sentences(comparison, baseline, other)


def _headline(row: SystemScore, baseline: str) -> Html:
    said = {"better": "is better than", "worse": "is worse than"}.get(
        verdict(row), "cannot be told apart from"
    )
    marked = element("span", said, style=STYLES.get(verdict(row), ""))
    sure = f"p {row.p_bootstrap:.4f} by bootstrap and {row.p_randomisation:.4f} by randomisation"
    numbers = f": BLEU {row.difference:+.2f}, {sure}."
    return element("p", element("b", row.system), " ", marked, " ", element("b", baseline), numbers)


def _row(row: SystemScore) -> tuple[object, ...]:
    cells = (row.score.name, row.system, f"{row.score.value:.2f}", f"± {row.interval:.2f}")
    if row.difference is None:
        return (*cells, "", element("span", "baseline", style="quiet"), "", "")
    said = element("span", verdict(row), style=STYLES.get(verdict(row), "quiet"))
    return (
        *cells,
        f"{row.difference:+.2f}",
        said,
        f"{row.p_bootstrap:.4f}",
        f"{row.p_randomisation:.4f}",
    )


def _chart(buckets: Sequence[Bucket], baseline: str, other: str) -> Html:
    series = [
        Series(name, [bucket.scores[name] for bucket in buckets]) for name in (baseline, other)
    ]
    return bar_chart(f"BLEU by {buckets[0].by}", [bucket.label for bucket in buckets], series)


def _bucket_row(bucket: Bucket, baseline: str) -> tuple[object, ...]:
    scores = (
        f"{value:.2f}"
        if name == baseline
        else f"{value:.2f} ({value - bucket.scores[baseline]:+.2f})"
        for name, value in bucket.scores.items()
    )
    return (bucket.by, bucket.label, f"{bucket.n_sentences:,}", *scores)


def _gains(
    comparison: Comparison, baseline: str, other: str
) -> tuple[list[int], list[int], list[int]]:
    """The sentences that a system wins, those that it loses, each most first, and those it ties, by chrF."""
    gains = [b - a for a, b in zip(comparison.chrf[baseline], comparison.chrf[other], strict=True)]
    order = sorted(range(len(gains)), key=lambda i: gains[i])
    losses, ties = [i for i in order if gains[i] < 0], [i for i in order if gains[i] == 0]
    return [i for i in reversed(order) if gains[i] > 0], losses, ties


def _sentences(comparison: Comparison, baseline: str, other: str) -> Iterator[Html]:
    """What a system gained and lost against the baseline, most first."""
    wins, losses, ties = _gains(comparison, baseline, other)
    yield element("h2", f"{other}, sentence by sentence")
    counts = f" wins {len(wins):,} sentences, loses {len(losses):,} and ties {len(ties):,}. "
    marks = (
        element("ins", "words it has not"),
        " and ",
        element("del", "words that are missing"),
        ".",
    )
    yield element(
        "p",
        "By chrF ",
        element("b", other),
        counts,
        "Marked against the reference: ",
        *marks,
        style="quiet",
    )
    for title, rows in ((f"Where {other} gains most", wins), (f"Where {other} loses most", losses)):
        cards = [_card(comparison, i, baseline, other) for i in rows[:MOST_SHOWN]]
        yield element("h3", title)
        yield join(cards[:FIRST_SHOWN] or [element("p", "Nowhere.", style="quiet")])
        if more := cards[FIRST_SHOWN:]:
            left = f", of {len(rows):,}" if len(rows) > MOST_SHOWN else ""
            yield details(f"{len(more)} more{left}", *more)


def _card(comparison: Comparison, i: int, baseline: str, other: str) -> Html:
    rights = [each[i] for each in comparison.references]
    rows = (
        [("source", element("bdi", _cut(comparison.source[i])))]
        if comparison.source is not None
        else []
    )
    rows += [("reference", element("bdi", _cut(right))) for right in rights]
    rows += [(name, _marked(comparison.systems[name][i], rights)) for name in (baseline, other)]
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


def _marked(hypothesis: str, references: Sequence[str]) -> Html:
    """A translation marked against the reference that it is nearest to."""
    nearest = max(references, key=lambda reference: sentence_chrf(hypothesis, reference))
    parts = differences(_cut(hypothesis), _cut(nearest))
    return element(
        "bdi", *(join([part.space, element(TAGS[part.kind], part.text)]) for part in parts)
    )


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\u2026"
