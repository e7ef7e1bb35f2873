"""Rules: functions that forbid or favour pieces while searching."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import chain, islice, pairwise, product

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.decode.search import NEVER, Rows, Rule
from transduce.decode.words import Words
from transduce.text.terms import PHRASE_WORD, is_word_character
from transduce.text.vocabulary import PAD, SOS, UNKNOWN

LogProbs = Float[Tensor, "row vocab"]
SPACES = re.compile(r"\s+")
NO_TEXT = torch.tensor((PAD, SOS, UNKNOWN))
MOST_SPACED = 64  # ways of putting spaces around the signs of a phrase


def only_text(rows: Rows, log_probs: LogProbs) -> LogProbs:
    """A translation is made of text and ends in [EOS]."""
    return log_probs.index_fill_(1, NO_TEXT, NEVER)


def begin_with(prefixes: Sequence[Sequence[int]], rules: Sequence[Rule]) -> Rule:
    """Each sentence begins with pieces that are given, whatever the other rules say; their log-probabilities stay the model's."""

    def rule(rows: Rows, log_probs: LogProbs) -> LogProbs:
        place = rows.prefixes.shape[1] - 1
        given = [
            (row, prefixes[sentence][place])
            for row, sentence in enumerate(rows.sentences.tolist())
            if place < len(prefixes[sentence])
        ]
        kept = [float(log_probs[row, piece]) for row, piece in given]
        for each in rules:
            log_probs = each(rows, log_probs)
        for (row, piece), log_prob in zip(given, kept, strict=True):
            log_probs[row] = NEVER
            log_probs[row, piece] = log_prob
        return log_probs

    return rule


def no_repeat(n: int) -> Rule:
    """No n pieces in a row are written twice (Paulus et al. 2018)."""

    def rule(rows: Rows, log_probs: LogProbs) -> LogProbs:
        if rows.prefixes.shape[1] <= n:
            return log_probs
        for row, (_, *written) in enumerate(rows.prefixes.tolist()):
            end = written[len(written) - n + 1 :]
            again = [
                written[i + n - 1]
                for i in range(len(written) - n + 1)
                if written[i : i + n - 1] == end
            ]
            log_probs[row, again] = NEVER
        return log_probs

    return rule


def forbid(phrases: Sequence[str], words: Words) -> Rule:
    """No phrase is written as whole words, however it is spelled and spaced and in whatever case.

    A piece is forbidden where it would complete a phrase; so a longer word whose first pieces spell the phrase is lost too.
    """
    surfaces = [text.casefold() for text in words.surfaces]
    ordered = sorted((text, i) for i, text in enumerate(surfaces) if text)
    # Whether a phrase begins with a word, and what has been written of it -> the pieces that complete it.
    completions: dict[tuple[bool, str], list[int]] = {}
    wanted = [form for phrase in phrases for form in _spaced(phrase)]
    for phrase in wanted:
        for i in range(len(phrase)):
            written = (is_word_character(phrase[0]), phrase[:i])
            completions.setdefault(written, []).extend(_completing(phrase[i:], ordered))
    whole = [
        i for i, text in enumerate(surfaces) if any(_stands_in(phrase, text) for phrase in wanted)
    ]
    longest = max(map(len, wanted), default=0)

    def rule(rows: Rows, log_probs: LogProbs) -> LogProbs:
        log_probs[:, whole] = NEVER
        for row, prefix in enumerate(rows.prefixes[:, -longest - 1 :].tolist()):
            text = SPACES.sub(" ", "".join(surfaces[i] for i in prefix))
            for written in {text, text.rstrip()}:  # one more space changes nothing
                for n in range(min(longest, len(written)) + 1):
                    start = len(written) - n
                    is_inside = start > 0 and is_word_character(written[start - 1])
                    for is_word in (False,) if is_inside else (False, True):
                        if pieces := completions.get((is_word, written[start:])):
                            log_probs[row, pieces] = NEVER
        return log_probs

    return rule


def _spaced(phrase: str) -> list[str]:
    """A phrase with and without a space on either side of its signs."""
    words = PHRASE_WORD.findall(phrase.casefold())
    between = [
        (" ",) if is_word_character(a[-1]) and is_word_character(b[0]) else ("", " ")
        for a, b in pairwise(words)
    ]
    gaps = islice(product(*between), MOST_SPACED)
    return ["".join(chain.from_iterable(zip(words, (*gap, ""), strict=True))) for gap in gaps]


def _completing(rest: str, ordered: Sequence[tuple[str, int]]) -> list[int]:
    """The pieces that begin with the rest of a phrase and then end, or go on with something else than its last word."""
    found = []
    for text, i in ordered[bisect_left(ordered, (rest, -1)) :]:
        if not text.startswith(rest):
            break
        if len(text) == len(rest) or _is_between(rest[-1], text[len(rest)]):
            found.append(i)
    return found


def _stands_in(phrase: str, text: str) -> bool:
    """Whether a piece holds a whole phrase behind a sign or space of its own."""
    place = text.find(phrase, 1)
    while place > 0:
        end = place + len(phrase)
        if _is_between(text[place - 1], phrase[0]) and (
            end == len(text) or _is_between(phrase[-1], text[end])
        ):
            return True
        place = text.find(phrase, place + 1)
    return False


def _is_between(before: str, after: str) -> bool:
    """Whether a word ends, or none is, between two characters."""
    return not (is_word_character(before) and is_word_character(after))
