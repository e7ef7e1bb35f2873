"""Rules: functions that forbid tokens while searching."""

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
from transduce.text.vocabulary import EOS, PAD, SOS, UNKNOWN

LogProbs = Float[Tensor, "row vocab"]
SPACES = re.compile(r"\s+")
NOT_TEXT = torch.tensor((PAD, SOS, UNKNOWN))
MAX_SPACINGS = 64  # variants of a phrase, with and without spaces around its punctuation


def only_text(rows: Rows, log_probs: LogProbs) -> LogProbs:
    """Forbid all special tokens but [EOS]."""
    return log_probs.index_fill_(1, NOT_TEXT, NEVER)


def not_empty(rows: Rows, log_probs: LogProbs) -> LogProbs:
    """Forbid [EOS] before anything is written, as CTranslate2 does."""
    if rows.prefixes.shape[1] == 1:
        log_probs[:, EOS] = NEVER
    return log_probs


def begin_with(prefixes: Sequence[Sequence[int]], rules: Sequence[Rule]) -> Rule:
    """Return a rule that makes each sentence begin with the given tokens, then applies `rules`.

    The prefix may contain tokens that `rules` forbid. Its log-probabilities stay the model's.
    """

    def rule(rows: Rows, log_probs: LogProbs) -> LogProbs:
        place = rows.prefixes.shape[1] - 1
        given = [
            (row, prefixes[sentence][place])
            for row, sentence in enumerate(rows.sentences.tolist())
            if place < len(prefixes[sentence])
        ]
        kept = [float(log_probs[row, token]) for row, token in given]
        for each in rules:
            log_probs = each(rows, log_probs)
        for (row, token), log_prob in zip(given, kept, strict=True):
            log_probs[row] = NEVER
            log_probs[row, token] = log_prob
        return log_probs

    return rule


def no_repeat(n: int) -> Rule:
    """Return a rule that blocks repeated n-grams of tokens (Paulus et al. 2018)."""

    def rule(rows: Rows, log_probs: LogProbs) -> LogProbs:
        if rows.prefixes.shape[1] <= n:
            return log_probs
        for row, (_, *written) in enumerate(rows.prefixes.tolist()):
            last = written[len(written) - n + 1 :]
            repeating = [
                written[i + n - 1]
                for i in range(len(written) - n + 1)
                if written[i : i + n - 1] == last
            ]
            log_probs[row, repeating] = NEVER
        return log_probs

    return rule


def forbid(phrases: Sequence[str], words: Words) -> Rule:
    """Return a rule that forbids phrases as whole words, in any tokenization, spacing and case.

    A token is forbidden where it would complete a phrase. So a longer word whose first tokens
    spell the phrase is forbidden too.
    """
    surfaces = [text.casefold() for text in words.surfaces]
    ordered = sorted((text, i) for i, text in enumerate(surfaces) if text)
    # (whether the phrase begins with a word, its part written so far) -> tokens that complete it.
    completions: dict[tuple[bool, str], list[int]] = {}
    variants = [variant for phrase in phrases for variant in _spacings(phrase)]
    for phrase in variants:
        for i in range(len(phrase)):
            written = (is_word_character(phrase[0]), phrase[:i])
            completions.setdefault(written, []).extend(_completing(phrase[i:], ordered))
    whole = [
        i for i, text in enumerate(surfaces) if any(_is_inside(phrase, text) for phrase in variants)
    ]
    longest = max(map(len, variants), default=0)

    def rule(rows: Rows, log_probs: LogProbs) -> LogProbs:
        log_probs[:, whole] = NEVER
        for row, prefix in enumerate(rows.prefixes[:, -longest - 1 :].tolist()):
            text = SPACES.sub(" ", "".join(surfaces[i] for i in prefix))
            for written in {text, text.rstrip()}:  # a trailing space does not end a phrase
                for n in range(min(longest, len(written)) + 1):
                    start = len(written) - n
                    is_inside_word = start > 0 and is_word_character(written[start - 1])
                    forbidden = list(completions.get((False, written[start:]), ()))
                    if not is_inside_word:
                        forbidden += completions.get((True, written[start:]), ())
                    if forbidden:
                        log_probs[row, forbidden] = NEVER
        return log_probs

    return rule


def _spacings(phrase: str) -> list[str]:
    """Return a phrase with and without spaces around its punctuation, in lower case."""
    words = PHRASE_WORD.findall(phrase.casefold())
    between = [
        (" ",) if is_word_character(a[-1]) and is_word_character(b[0]) else ("", " ")
        for a, b in pairwise(words)
    ]
    gaps = islice(product(*between), MAX_SPACINGS)
    return ["".join(chain.from_iterable(zip(words, (*gap, ""), strict=True))) for gap in gaps]


def _completing(rest: str, ordered: Sequence[tuple[str, int]]) -> list[int]:
    """Return the tokens that begin with the rest of a phrase and do not lengthen its last word."""
    found = []
    for text, i in ordered[bisect_left(ordered, (rest, -1)) :]:
        if not text.startswith(rest):
            break
        if len(text) == len(rest) or _is_boundary(rest[-1], text[len(rest)]):
            found.append(i)
    return found


def _is_inside(phrase: str, text: str) -> bool:
    """Return whether a token contains a whole phrase after leading punctuation or a space."""
    place = text.find(phrase, 1)
    while place > 0:
        end = place + len(phrase)
        begins = _is_boundary(text[place - 1], phrase[0])
        ends = end == len(text) or _is_boundary(phrase[-1], text[end])
        if begins and ends:
            return True
        place = text.find(phrase, place + 1)
    return False


def _is_boundary(before: str, after: str) -> bool:
    """Return whether there is a word boundary between two adjacent characters."""
    return not (is_word_character(before) and is_word_character(after))
