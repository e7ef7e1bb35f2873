import json
import re
from pathlib import Path

import pytest

from transduce.reports.training import N_CLASSES, parse_row, read_metrics, training_page

ROWS = [
    {"step": 50, "epoch": 0, "loss": 6.5, "rate": 1e-3, "tokens_per_second": 1000.0},
    {
        "step": 50,
        "valid_loss": 5.25,
        "valid_bleu": 1.5,
        "signature": "",
        "sample": ["a <b> text", "ein <script>x</script>"],
    },
    {"step": 100, "epoch": 1, "loss": 4.5, "rate": 2e-3, "tokens_per_second": 1234.0},
    {
        "step": 100,
        "valid_loss": 5.5,
        "valid_bleu": 22.25,
        "signature": "",
        "sample": ["a <b> text", "ein Text"],
    },
]


def test_the_page_has_the_numbers_and_loads_and_runs_nothing() -> None:
    page = training_page("my run", ROWS, {"pairs": 7}, 'kind = "bpe"')
    for shown in (
        "my run",
        "100",
        "1,234",
        "5.250",
        "22.25",
        "step 50",
        "ein Text",
        "pairs",
        "kind = &quot;bpe&quot;",
    ):
        assert shown in page
    assert page.count("<svg") == 5
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=", page.replace("default-src", ""))


def test_a_page_without_measurements_can_be_made() -> None:
    assert "my run" in training_page("my run", [], {}, "")


def test_an_incomplete_row_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert read_metrics(path) == []
    path.write_text(json.dumps(ROWS[0]) + "\n" + '{"step": 5')
    assert read_metrics(path) == [ROWS[0]]


@pytest.mark.parametrize("value", [1e300, -1e300, 0, 5e-324, 10**300])
def test_the_page_shows_whatever_number_a_row_may_hold(value: float) -> None:
    step = {"step": 1 << 53, "loss": value, "rate": value, "tokens_per_second": value}
    last = {
        "step": 0,
        "valid_loss": value,
        "valid_bleu": value,
        "sample": ["a", "b"],
        "lengths": {"references": [1 << 53] * N_CLASSES, "translations": []},
        "hardest": [[value, "a", "b", "c"]],
    }
    rows = [parse_row(json.dumps(row)) for row in (step, last, {**step, "loss": 0})]
    assert rows == [step, last, {**step, "loss": 0}]
    assert "<svg" in training_page("my run", rows, {}, "")


def test_many_rows_are_thinned_and_the_last_is_kept() -> None:
    rows = [{**ROWS[3], "step": step, "sample": ["a", f"text {step}"]} for step in range(1, 1001)]
    page = training_page("my run", rows, {}, "")
    assert len(re.findall(r"text \d+", page)) == 25
    assert "text 1000" in page


def test_the_page_shows_lengths_and_the_worst_sentences_of_the_last_validation() -> None:
    last = {
        **ROWS[3],
        "hardest": [[12.5, "a dog", "eine <Katze>", "ein Hund"]],
        "lengths": {"references": [0, 7, 2], "translations": [1, 8, 0]},
    }
    page = training_page("my run", [*ROWS, last], {}, "")
    for shown in (
        "a dog",
        "eine &lt;Katze&gt;",
        "ein Hund",
        "references",
        "translations",
        "5 to 9 words: 7",
    ):
        assert shown in page
