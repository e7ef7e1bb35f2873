"""Detect whether a text is tokenized (`the cat sleeps .`) or ordinary (`The cat sleeps.`)."""

import re
from collections import Counter
from collections.abc import Sequence

# Traces of tokenizers. A space before ? ! ; : is no such trace, since it may be French.
TOKENIZED = re.compile(
    r"(?<=\S) [.,](?=\s|$)"
    r"|(?<=\w) (?:'s|n't|'re|'ll|'ve)(?=\s|$)"
    r"|&(?:apos|quot|amp|lt|gt|#91|#93|#124);"
    r"|@-@|@@(?=\s|$)|\u2581"
)
UNTOKENIZED = re.compile(r"(?<![&\w])\w+(?:[,;:](?=\s)|[.?!]$)")
MIN_SHARE = 0.2  # of lines with a trace, for the text to look tokenized
MIN_SHARE_LOWER_CASE = 0.05  # the same for a text without capital letters


def is_lower_case(lines: Sequence[str]) -> bool:
    """Return whether a text has letters that could be capitals, but no capitals."""
    return any(line.upper() != line for line in lines) and not has_capitals(lines)


def has_capitals(lines: Sequence[str]) -> bool:
    """Return whether any letter is a capital."""
    return any(line.lower() != line for line in lines)


def looks_tokenized(lines: Sequence[str]) -> str | None:
    """Return the evidence that a text is tokenized, or None if there is too little."""
    min_share = MIN_SHARE_LOWER_CASE if is_lower_case(lines) else MIN_SHARE
    return _find_evidence(TOKENIZED, lines, min_share)


def looks_untokenized(lines: Sequence[str]) -> str | None:
    """Return the evidence that a text is not tokenized, or None if there is too little."""
    return _find_evidence(UNTOKENIZED, lines, MIN_SHARE)


def _find_evidence(pattern: re.Pattern[str], lines: Sequence[str], min_share: float) -> str | None:
    found = Counter(match[0] for match in map(pattern.search, lines) if match)
    if found.total() <= min_share * len(lines):
        return None
    [(commonest, _)] = found.most_common(1)
    return f"{commonest!r} and the like in {found.total():,} of {len(lines):,} lines"
