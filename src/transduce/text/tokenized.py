"""Whether a text looks tokenised (`the cat sleeps .`) or as people write it (`The cat sleeps.`), told by counting lines."""

import re
from collections import Counter
from collections.abc import Sequence

# What tokenisers leave behind; before ? ! ; : a space may be French.
TOKENISED = re.compile(
    r"(?<=\S) [.,](?=\s|$)|(?<=\w) (?:'s|n't|'re|'ll|'ve)(?=\s|$)|&(?:apos|quot|amp|lt|gt|#91|#93|#124);|@-@|@@(?=\s|$)|\u2581"
)
ORDINARY = re.compile(r"(?<![&\w])\w+(?:[,;:](?=\s)|[.?!]$)")
SHARE = 0.2  # of the lines that have such a sign
SHARE_LOWER = 0.05  # the same, in a text without any capital letter


def is_lower_case(lines: Sequence[str]) -> bool:
    """Whether there are letters that could be capitals, and none is."""
    return any(line.upper() != line for line in lines) and not has_capitals(lines)


def has_capitals(lines: Sequence[str]) -> bool:
    """Whether any letter is a capital."""
    return any(line.lower() != line for line in lines)


def looks_tokenized(lines: Sequence[str]) -> str | None:
    """What a text has that tokenised text has, or None if it looks as people write."""
    return _found(TOKENISED, lines, SHARE_LOWER if is_lower_case(lines) else SHARE)


def looks_untokenized(lines: Sequence[str]) -> str | None:
    """What a text has that tokenised text has not, or None."""
    return _found(ORDINARY, lines, SHARE)


def _found(sign: re.Pattern[str], lines: Sequence[str], share: float) -> str | None:
    found = Counter(match[0] for match in map(sign.search, lines) if match)
    if found.total() <= share * len(lines):
        return None
    [(commonest, _)] = found.most_common(1)
    return f"{commonest!r} and the like in {found.total():,} of {len(lines):,} lines"
