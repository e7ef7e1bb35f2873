"""Run the command line inside the tests, and read what it says."""

from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]


def line_messages(err: str) -> list[str]:
    """What `translate` said about lines, without what it says of itself: its engine, and how many lines there were."""
    lines = [line.removeprefix("transduce: ") for line in err.splitlines()]
    while lines and lines[0].startswith("converted for CTranslate2, once: "):
        del lines[0]
    engine, *between, summary = lines
    assert engine.startswith("engine: "), err
    assert summary.partition(" ")[2].startswith("line"), err
    return between
