"""The output formats of `translate`: each writes its lines, and a new one needs no other change."""

import json
from collections.abc import Iterable

import pytest

from tests.commands import Run
from transduce.cli.output import FORMATS, OutputFormat
from transduce.decode.translation import Translation

STDIN = b"I love you very much\nWe sleep\n"


class NumberedFormat:
    """A format that is not in the package: two lines for each input line."""

    needs_details = False

    def lines(self, number: int, translation: Translation) -> Iterable[str]:
        yield f"{number} < {translation.source}"
        yield f"{number} > {translation.text}"


def test_a_new_format_writes_what_it_returns(
    transduce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, plain, _ = transduce("translate", stdin=STDIN)
    first, second = plain.splitlines()
    toy: OutputFormat = NumberedFormat()
    monkeypatch.setitem(FORMATS, "text", toy)
    code, out, _ = transduce("translate", stdin=STDIN)
    assert code == 0
    assert out.splitlines() == [
        "1 < I love you very much",
        f"1 > {first}",
        "2 < We sleep",
        f"2 > {second}",
    ]


@pytest.mark.parametrize("needs_details", [True, False])
def test_a_format_gets_tokens_and_alignment_only_if_it_needs_them(
    transduce: Run, monkeypatch: pytest.MonkeyPatch, needs_details: bool
) -> None:
    class AlignmentFormat(NumberedFormat):
        def lines(self, number: int, translation: Translation) -> Iterable[str]:
            yield translation.alignment

    toy = AlignmentFormat()
    toy.needs_details = needs_details
    monkeypatch.setitem(FORMATS, "text", toy)
    _, out, _ = transduce("translate", stdin=STDIN)
    assert all(bool(line) == needs_details for line in out.splitlines())


def test_every_format_writes_a_line_for_each_line(transduce: Run) -> None:
    for options in ((), ("--json",), ("--n-best", 1)):
        _, out, _ = transduce("translate", *options, stdin=STDIN)
        assert len(out.splitlines()) == 2
    _, out, _ = transduce("translate", "--json", stdin=STDIN)
    assert [json.loads(line)["line"] for line in out.splitlines()] == [1, 2]
