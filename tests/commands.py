"""The type of the fixture that runs commands, and a parser of their messages."""

from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]


def line_messages(err: str) -> list[str]:
    """Return the messages of `translate` about single lines, without engine and summary."""
    lines = err.splitlines()
    for prefix in ("transduce: note: ", "transduce: warning: "):
        lines = [line.removeprefix(prefix) for line in lines]
    while lines and lines[0].startswith("converted for CTranslate2, once: "):
        del lines[0]
    engine, *messages, summary = lines
    assert engine.startswith("engine: "), err
    assert summary.partition(" ")[2].startswith("line"), err
    return messages
