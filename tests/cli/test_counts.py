"""The messages about lines at their limit, and the numbers of lines in the formats."""

from pathlib import Path

import pytest

from transduce.cli.output import FORMATS, check_outputs
from transduce.cli.translate import MAX_SHOWN, QualityCounts
from transduce.decode.translation import Alternative, Translation
from transduce.errors import UsageError


@pytest.mark.parametrize("n_flagged", [1, MAX_SHOWN, MAX_SHOWN + 1, MAX_SHOWN + 5])
def test_the_first_ten_doubtful_lines_are_shown_and_the_report_is_named_if_there_are_more(
    capsys: pytest.CaptureFixture[str], n_flagged: int
) -> None:
    counts = QualityCounts()
    for _ in range(n_flagged):
        counts.add(Translation("a", "b", flags=("truncated",)))
        counts.add(Translation("a", "b"))
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == min(n_flagged, MAX_SHOWN)
    assert shown[0].startswith("transduce: warning: line 1: the translation was cut")
    expected = f"{2 * n_flagged:,} lines, {n_flagged:,} flagged (truncated {n_flagged:,})"
    more = "; --report FILE lists every line" if n_flagged > MAX_SHOWN else ""
    assert counts.summary(has_report=False) == expected + more
    assert counts.summary(has_report=True) == expected


def test_no_two_outputs_may_be_the_same_file_wherever_they_stand(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    check_outputs((a, None, b, c), ())
    for outputs in ((a, a), (a, b, a), (b, a, a), (a, None, tmp_path / "x" / ".." / "a")):
        with pytest.raises(UsageError, match="would be written twice; name two different"):
            check_outputs(outputs, ())


def test_moses_counts_lines_from_0_and_records_count_them_from_1() -> None:
    found = Translation(
        "a", "b", score=-0.5, alternatives=(Alternative("b", -0.5), Alternative("c", -0.75))
    )
    assert list(FORMATS["nbest"].lines(1, found)) == [
        "0 ||| b ||| -0.500000",
        "0 ||| c ||| -0.750000",
    ]
    assert next(iter(FORMATS["json"].lines(1, found))).startswith('{"line": 1, ')
    assert next(iter(FORMATS["report"].lines(7, found))).startswith('{"line": 7, ')
