"""A text and what becomes of it: replacements that remember where each character came from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable


class Edit(NamedTuple):
    """A replacement: `text[start:end]` becomes `replacement`."""

    start: int
    end: int
    replacement: str


@runtime_checkable
class Placed(Protocol):
    """Something that stands at `text[start:end]`."""

    @property
    def start(self) -> int:
        """Where it begins."""

    @property
    def end(self) -> int:
        """Where it ends."""


@dataclass(frozen=True, slots=True)
class EditedText:
    """A text with the edits that were applied to it, in order and without overlaps."""

    original: str
    text: str
    edits: tuple[Edit, ...] = ()

    def to_edited(self, offset: int) -> int:
        """Return where a character of the original is in the edited text.

        A character that was replaced is where its replacement begins.
        """
        shift = 0
        for start, end, replacement in self.edits:
            if offset < end:
                return min(offset, start) + shift
            shift += len(replacement) - (end - start)
        return offset + shift

    def to_original(self, offset: int) -> int:
        """Return where a character of the edited text was in the original.

        A character of a replacement was where the replaced text began.
        """
        shift = 0
        for start, end, replacement in self.edits:
            if offset < start + shift + len(replacement):
                return min(offset - shift, start)
            shift += len(replacement) - (end - start)
        return offset - shift


def edit(text: str, edits: Iterable[Edit]) -> EditedText:
    """Apply edits, given in any order, to a text. They must not overlap.

    Of insertions at one place, the first given comes first.
    """
    ordered = tuple(sorted(edits, key=lambda each: (each.start, each.end)))
    parts = []
    done = 0
    for start, end, replacement in ordered:
        assert done <= start <= end <= len(text), "edits are inside the text and do not overlap"
        parts += [text[done:start], replacement]
        done = end
    parts.append(text[done:])
    return EditedText(text, "".join(parts), ordered)


def overlaps_any(one: Placed, others: Iterable[Placed]) -> bool:
    """Return whether something shares a character with one of the others."""
    return any(one.start < other.end and other.start < one.end for other in others)
