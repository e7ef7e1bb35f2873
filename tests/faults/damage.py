"""Damaged content for fuzzing: bytes cut, flipped or replaced, and hostile JSON values."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

Path_ = tuple[str | int, ...]  # the keys and indices that lead to a value

HOSTILE_TEXTS = ("", "\0", "a\0b", "\ud800", "../x", "/dev/zero", "\x1b[31m", "\u202e", "x" * 5_000)
HOSTILE_NUMBERS = (
    *(0, -1, 1, 2**31, 2**63, 2**64, 10**25, 10**400, -(10**400)),
    *(0.5, -0.0, 1e308, float("inf"), float("-inf"), float("nan")),
)
HOSTILE_VALUES = st.one_of(
    st.sampled_from(HOSTILE_TEXTS),
    st.sampled_from(HOSTILE_NUMBERS),
    st.sampled_from([None, True, False, [], {}, [[]], {"": {}}, [None] * 100]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=5,
    ),
)
HOSTILE_DOCUMENTS = (b"", b"\0" * 50, b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5_000, b"\xff\xfe")


def paths_in(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of every value inside a JSON value, itself included."""
    yield path
    items: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, inner in items:
        yield from paths_in(inner, (*path, key))


def replaced(value: Any, path: Path_, new: Any) -> Any:
    """Return a JSON value in which the value at a path is another one."""
    if not path:
        return new
    first, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, first: replaced(value[first], rest, new)}
    return [replaced(each, rest, new) if i == first else each for i, each in enumerate(value)]


def dump_json(value: Any) -> bytes:
    """Return JSON as UTF-8; a lone surrogate stays an escape."""
    return json.dumps(value).encode()


@st.composite
def damaged_json(draw: st.DrawFn, value: Any) -> bytes:
    """Draw JSON in which one value is hostile, missing or under another key."""
    path = draw(st.sampled_from(sorted(paths_in(value), key=repr)))
    return dump_json(replaced(value, path, draw(HOSTILE_VALUES)))


@st.composite
def damaged_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw content that was cut, or has other bytes somewhere, or is something else."""
    kind = draw(st.sampled_from(["cut", "flip", "insert", "repeat", "other", "noise"]))
    place = draw(st.integers(0, max(len(content) - 1, 0)))
    match kind:
        case "cut":
            return content[:place]
        case "flip":
            flipped = bytes([draw(st.integers(0, 255))])
            return content[:place] + flipped + content[place + 1 :]
        case "insert":
            return content[:place] + draw(st.binary(min_size=1, max_size=20)) + content[place:]
        case "repeat":
            return content + content[place:]
        case "other":
            return draw(st.sampled_from(HOSTILE_DOCUMENTS))
        case _:
            return draw(st.binary(max_size=100))


def damaged_file(content: bytes) -> st.SearchStrategy[bytes]:
    """Draw damage of a file: of its bytes, and if it is JSON also of its values."""
    try:
        value = json.loads(content)
    except ValueError:
        return damaged_bytes(content)
    return damaged_bytes(content) | damaged_json(value)
