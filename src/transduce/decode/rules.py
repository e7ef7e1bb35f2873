"""Rules: functions that forbid tokens while searching."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise, product

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.decode.search import NEVER, Rows, Rule
from transduce.decode.words import Words
from transduce.errors import DataError
from transduce.text.terms import MAX_QUOTED, MAX_TERM_LENGTH, PHRASE_WORD, is_word_character
from transduce.text.vocabulary import EOS, PAD, SOS, UNKNOWN

LogProbs = Float[Tensor, "row vocab"]
SPACES = re.compile(r"\s+")
NOT_TEXT = torch.tensor((PAD, SOS, UNKNOWN))
MAX_SPACINGS = 64  # variants of a phrase, with and without spaces around its punctuation
MAX_FORBIDDEN = 1_000_000  # characters of all forbidden phrases together


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

    Raise DataError for a phrase or a list that would take too long to search for.
    """
    _check_sizes(phrases)
    surfaces = [text.casefold() for text in words.surfaces]
    variants = {variant for phrase in phrases for variant in _spacings(phrase)}
    completions = _Completions(variants, surfaces)
    whole = _containing(variants, surfaces)
    longest = max(map(len, variants), default=0)

    def rule(rows: Rows, log_probs: LogProbs) -> LogProbs:
        log_probs[:, whole] = NEVER
        for row, prefix in enumerate(rows.prefixes[:, -longest - 1 :].tolist()):
            text = SPACES.sub(" ", "".join(surfaces[i] for i in prefix))[-longest - 1 :]
            for written in {text, text.rstrip()}:  # a trailing space does not end a phrase
                for tokens in completions.after(written):
                    if len(tokens):
                        log_probs[row, tokens] = NEVER
        return log_probs

    return rule


class _Completions:
    """Finds the tokens that would complete a phrase after some text."""

    def __init__(self, phrases: Collection[str], surfaces: Sequence[str]) -> None:
        self._phrases = sorted(phrases)
        self._first_characters = {phrase[0] for phrase in phrases}
        self._longest = max(map(len, phrases), default=0)
        self._surfaces = sorted((text, i) for i, text in enumerate(surfaces) if text)
        # What a phrase begins with -> tokens that complete it. Filled when it is first written.
        self._found: dict[str, Tensor] = {}
        words = [phrase for phrase in self._phrases if is_word_character(phrase[0])]
        others = [phrase for phrase in self._phrases if not is_word_character(phrase[0])]
        self._whole_words = self._completing(words)
        self._whole_others = self._completing(others)

    def after(self, text: str) -> Iterator[Tensor]:
        """Yield tokens that complete a phrase, for each part of it that the text may end with."""
        yield self._whole_others
        if not text or not is_word_character(text[-1]):
            yield self._whole_words
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start] not in self._first_characters:
                continue
            if start > 0 and not _is_boundary(text[start - 1], text[start]):
                continue
            begun = text[start:]
            if begun in self._found:
                yield self._found[begun]
            elif next(self._begun_with(begun), None) is not None:
                self._found[begun] = self._completing(self._begun_with(begun), len(begun))
                yield self._found[begun]

    def _begun_with(self, text: str) -> Iterator[str]:
        """Yield the phrases that begin with a text, in order."""
        for i in range(bisect_left(self._phrases, text), len(self._phrases)):
            if not self._phrases[i].startswith(text):
                return
            yield self._phrases[i]

    def _completing(self, phrases: Iterable[str], n_written: int = 0) -> Tensor:
        """Return the tokens that begin with the rest of a phrase and do not lengthen its end."""
        found: set[int] = set()
        for phrase in phrases:
            rest = phrase[n_written:]
            first = bisect_left(self._surfaces, (rest, -1)) if rest else len(self._surfaces)
            for k in range(first, len(self._surfaces)):
                text, i = self._surfaces[k]
                if not text.startswith(rest):
                    break
                if len(text) == len(rest) or _is_boundary(rest[-1], text[len(rest)]):
                    found.add(i)
        return torch.tensor(sorted(found), dtype=torch.long)


def _check_sizes(phrases: Sequence[str]) -> None:
    """Raise DataError for forbidden phrases that would take too much time or memory."""
    for phrase in phrases:
        if len(phrase) > MAX_TERM_LENGTH:
            raise DataError(
                f"forbidden phrase {phrase[:MAX_QUOTED]!r} has {len(phrase):,} characters, "
                f"more than {MAX_TERM_LENGTH}; shorten it"
            )
    n_characters = sum(map(len, phrases))
    if n_characters > MAX_FORBIDDEN:
        raise DataError(
            f"the forbidden phrases have {n_characters:,} characters together, "
            f"more than {MAX_FORBIDDEN:,}; remove some"
        )


def _spacings(phrase: str) -> list[str]:
    """Return a phrase with and without spaces around its punctuation, in lower case."""
    words = PHRASE_WORD.findall(phrase.casefold())
    between = [
        (" ",) if is_word_character(a[-1]) and is_word_character(b[0]) else ("", " ")
        for a, b in pairwise(words)
    ]
    gaps = islice(product(*between), MAX_SPACINGS)
    return ["".join(chain.from_iterable(zip(words, (*gap, ""), strict=True))) for gap in gaps]


def _containing(phrases: Collection[str], surfaces: Sequence[str]) -> Tensor:
    """Return the tokens that contain a whole phrase after leading punctuation or a space."""
    is_word = {character: is_word_character(character) for character in set("".join(surfaces))}
    longest = max(map(len, phrases), default=0)

    def contains(text: str) -> bool:
        # Where a word may begin or end inside the token; its end is such a place too.
        bounds = [k for k in range(1, len(text)) if not (is_word[text[k - 1]] and is_word[text[k]])]
        bounds.append(len(text))
        for i, start in enumerate(bounds):
            for end in bounds[i + 1 :]:
                if end - start > longest:
                    break
                if text[start:end] in phrases:
                    return True
        return False

    found = [i for i, text in enumerate(surfaces) if contains(text)]
    return torch.tensor(found, dtype=torch.long)


def _is_boundary(before: str, after: str) -> bool:
    """Return whether there is a word boundary between two adjacent characters."""
    return not (is_word_character(before) and is_word_character(after))
