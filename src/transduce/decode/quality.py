"""Quality flags and notes: what is doubtful or noteworthy about a translation, without a reference.

To add one, add a `Flag` to FLAGS or NOTES. `translate`, its report, the JSON records and the table
in docs/translating.md take names and messages from here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from transduce.decode.hypotheses import Hypothesis
from transduce.text.files import LONGEST_LINE
from transduce.text.normalize import CONTROL_CHARACTERS
from transduce.text.printable import list_words
from transduce.text.terms import PHRASE_WORD

CONTENT_MISSING = "content_missing"

MIN_LOG_PROB = math.log(0.2)  # mean per token; a translation below is a guess
# A side is too long if it has more than MAX_RATIO times the tokens of the other plus EXTRA.
MAX_RATIO = 3
EXTRA = 10
# Content is missing if a sentence of MIN_CHECKED words has a translation with less than this share
# of its characters and tokens. Measured on Multi30k and Tatoeba (docs/translating.md).
MIN_CHECKED = 8
MIN_CHARACTERS_SHARE = 0.7
MIN_TOKENS_SHARE = 0.75
# Or if a token of a given translation is less likely than this: the model expected something else.
MIN_TOKEN_LOG_PROB = -5.0
# A repetition is a run of up to MAX_PERIOD tokens, at least MIN_TIMES in a row and MIN_TOKENS long.
MAX_PERIOD = 12
MIN_TIMES = 4
MIN_TOKENS = 8
MIN_REPEATED = 6  # any repetition has at least this many tokens that have occurred before


@dataclass(frozen=True, slots=True)
class Evidence:
    """The data of one translation that the checks read."""

    source: str  # as given
    cleaned: str  # as the model reads it
    text: str  # the translation
    source_ids: Sequence[int]  # tokens of all searched parts, without [EOS]
    target_ids: Sequence[int]
    hypotheses: Sequence[Hypothesis]  # the best one of each searched part
    n_parts: int  # 0: blank, 1: translated as a whole
    n_sentences: int
    is_split: bool  # a sentence was too long and was split
    is_translated: bool  # a part was searched, not copied
    has_copied_part: bool  # a part was too long to be searched and was copied
    is_recased: bool  # capitals were taken away and put back
    is_complete: bool  # links and other protected parts are all there, once and in order
    has_numbers: bool  # the numbers are those of the source
    unseen: tuple[str, ...]  # words of the source that were not in the training text
    unknown: tuple[str, ...]  # characters of the source that the vocabulary lacks
    missing: tuple[str, ...]  # terms that the translation should contain but does not
    lacks_content: bool  # a sentence is not translated as a whole


Check = Callable[[Evidence], bool]


@dataclass(frozen=True, slots=True)
class Flag:
    """A quality flag or note.

    The message may contain the fields {unseen}, {unknown} and {missing} of the translation.
    """

    name: str  # in JSON and reports
    message: str  # for people
    check: Check | None  # None: set by the reader of the input, before the translation
    is_shown: bool = True  # `translate` shows it line by line; otherwise it is only counted


# Doubts: a flagged translation may be wrong.
FLAGS: tuple[Flag, ...] = (
    Flag(
        name="cut",
        message=f"longer than {LONGEST_LINE >> 20} MB; only its beginning was read",
        check=None,
    ),
    Flag(
        name="invalid_characters",
        message="bytes that are not UTF-8 were replaced by U+FFFD",
        check=lambda evidence: "\ufffd" in evidence.cleaned,
    ),
    Flag(
        name="truncated",
        message="the translation was cut at its maximum length",
        check=lambda evidence: any(best.truncated for best in evidence.hypotheses),
    ),
    Flag(
        name="unknown_characters",
        message="characters not in the vocabulary: {unknown}",
        check=lambda evidence: bool(evidence.unknown),
    ),
    Flag(
        name="repetition",
        message="the translation repeats itself",
        check=lambda evidence: (
            has_repetition(evidence.target_ids) and not has_repetition(evidence.source_ids)
        ),
    ),
    Flag(
        name="not_translated",
        message="a run without spaces, too long for the model, was copied",
        check=lambda evidence: evidence.has_copied_part,
    ),
    Flag(
        name="copied",
        message="the source was copied, not translated",
        check=lambda evidence: evidence.is_translated and is_copy(evidence.cleaned, evidence.text),
    ),
    Flag(
        name="too_short",
        message="the translation is far shorter than the source",
        check=lambda evidence: is_too_short(evidence.source_ids, evidence.target_ids),
    ),
    Flag(
        name="too_long",
        message="the translation is far longer than the source",
        check=lambda evidence: is_too_long(evidence.source_ids, evidence.target_ids),
    ),
    Flag(
        name=CONTENT_MISSING,
        message="a part of the source may be missing from the translation",
        check=lambda evidence: evidence.lacks_content,
    ),
    Flag(
        name="low_confidence",
        message="the model gave the translation a low probability",
        check=lambda evidence: any(map(is_unlikely, evidence.hypotheses)),
    ),
    Flag(
        name="placeholder_missing",
        message="a link, placeholder or other protected part is missing, doubled or out of order",
        check=lambda evidence: not evidence.is_complete,
    ),
    Flag(
        name="numbers_changed",
        message="the numbers are not those of the source",
        check=lambda evidence: not evidence.has_numbers,
    ),
    Flag(
        name="missing_term",
        message="glossary term missing from the translation: {missing}",
        check=lambda evidence: bool(evidence.missing),
    ),
)

# Worth knowing, but harmless.
NOTES: tuple[Flag, ...] = (
    Flag(
        name="blank",
        message="nothing to translate",
        check=lambda evidence: evidence.n_parts == 0,
        is_shown=False,
    ),
    Flag(
        name="split",
        message="longer than the model can read; translated in parts",
        check=lambda evidence: evidence.is_split,
        is_shown=False,
    ),
    Flag(
        name="sentences",
        message="several sentences, translated one by one",
        check=lambda evidence: evidence.n_sentences > 1,
        is_shown=False,
    ),
    Flag(
        name="nothing_to_translate",
        message="only numbers, links or symbols: copied",
        check=lambda evidence: (
            evidence.n_sentences > 0 and not evidence.is_translated and not evidence.has_copied_part
        ),
        is_shown=False,
    ),
    Flag(
        name="recased",
        message="capitals that the model hardly knows: translated without, then put back",
        check=lambda evidence: evidence.is_recased,
    ),
    Flag(
        name="control_characters",
        message="control characters were dropped",
        check=lambda evidence: (
            evidence.cleaned != evidence.source
            and CONTROL_CHARACTERS.search(evidence.source) is not None
        ),
    ),
    Flag(
        name="unseen_words",
        message="words not seen in training (translation may be wrong): {unseen}",
        check=lambda evidence: bool(evidence.unseen),
    ),
    Flag(
        name="byte_order_mark",
        message="a byte order mark was dropped",
        check=None,
    ),
)


def find_flags(evidence: Evidence) -> tuple[str, ...]:
    """Return the names of the flags that apply, in the order of FLAGS."""
    return _apply(FLAGS, evidence)


def find_notes(evidence: Evidence) -> tuple[str, ...]:
    """Return the names of the notes that apply, in the order of NOTES."""
    return _apply(NOTES, evidence)


def explain_flag(
    name: str,
    *,
    unseen: Sequence[str] = (),
    unknown: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> str | None:
    """Return the message of a flag or note with the words it is about; None if it is not shown."""
    known = {flag.name: flag for flag in (*FLAGS, *NOTES)}
    flag = known[name]
    if not flag.is_shown:
        return None
    return flag.message.format(
        unseen=list_words(unseen), unknown=list_words(unknown), missing=list_words(missing)
    )


def is_unlikely(hypothesis: Hypothesis) -> bool:
    """Return whether the mean log-probability per token, [EOS] included, is below MIN_LOG_PROB."""
    return hypothesis.log_prob / (len(hypothesis.ids) + 1) < MIN_LOG_PROB


def is_too_short(source: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether the target has far fewer tokens than the source, or none at all."""
    return _is_far_longer(source, target) or (len(source) > 0 and len(target) == 0)


def is_too_long(source: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether the target has far more tokens than the source."""
    return _is_far_longer(target, source)


def lacks_length(
    source: str, target: str, source_ids: Sequence[int], target_ids: Sequence[int]
) -> bool:
    """Return whether a sentence has a translation that is too short to be all of it."""
    has_few_tokens = len(target_ids) < MIN_TOKENS_SHARE * len(source_ids)
    is_short = has_few_tokens and len(target) < MIN_CHARACTERS_SHARE * len(source)
    return is_short and len(PHRASE_WORD.findall(source)) >= MIN_CHECKED


def has_gap(log_probs: Sequence[float]) -> bool:
    """Return whether a translation leaves something out, by the log-probabilities of its tokens.

    After a gap the model expects what is missing, so the next token is very unlikely.
    """
    return min(log_probs, default=0.0) < MIN_TOKEN_LOG_PROB


def has_repetition(ids: Sequence[int]) -> bool:
    """Return whether a run of a few tokens is repeated many times in a row."""
    if len(ids) - len(set(ids)) < MIN_REPEATED:  # nearly always: skip the search
        return False
    for period in range(1, MAX_PERIOD + 1):
        n_equal = 0  # tokens in a row that equal the token one period before
        for i in range(period, len(ids)):
            n_equal = n_equal + 1 if ids[i] == ids[i - period] else 0
            if n_equal + period >= max(MIN_TIMES * period, MIN_TOKENS):
                return True
    return False


def is_copy(source: str, text: str) -> bool:
    """Return whether the text has the same words as the source, in any case.

    A single word is not counted as a copy, because it may be a name.
    """
    source, text = source.casefold(), text.casefold()
    first_source, first_text = PHRASE_WORD.search(source), PHRASE_WORD.search(text)
    if first_source is None or first_text is None or first_source[0] != first_text[0]:
        return False  # nearly always: skip finding all words
    n_words = 0
    for one, other in zip_longest(PHRASE_WORD.finditer(source), PHRASE_WORD.finditer(text)):
        if one is None or other is None or one[0] != other[0]:
            return False
        n_words += one[0].isalpha()
    return n_words > 1


def _apply(flags: Sequence[Flag], evidence: Evidence) -> tuple[str, ...]:
    return tuple(flag.name for flag in flags if flag.check is not None and flag.check(evidence))


def _is_far_longer(ids: Sequence[int], other: Sequence[int]) -> bool:
    return len(ids) > MAX_RATIO * len(other) + EXTRA
