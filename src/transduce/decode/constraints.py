"""Constrained beam search: every finished hypothesis contains its required terms.

Dynamic beam allocation (Post & Vilar 2018, vectorised as by Hu et al. 2019): candidates are put
into banks by how many tokens of their terms they have written, and the beam takes the best of each
bank in turn. So hypotheses that have begun a term are not crowded out by hypotheses that never
begin it. A sentence without terms has one bank, which is plain beam search.

Hypotheses with terms are compared by what the model chose. The tokens of a term were not
its choice, and most of their cost is forgiven, the more the model attended to the term's source
words when the term was begun. Otherwise an unusual term is delayed until the sentence is over and
then appended.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.decode.hypotheses import Hypothesis, Penalty
from transduce.decode.search import NEVER, Candidates, Rows, top_k
from transduce.decode.words import FIRST, INSIDE, Ids, RequiredTerm, Words
from transduce.text.terms import is_word_character
from transduce.text.vocabulary import EOS, SOS

FORGIVEN = 0.9  # share of the log-probability of a term's tokens
MIN_ATTENTION = 1e-3  # lower attention to a term's source words counts as this


class Progress(NamedTuple):
    """Which of its terms a hypothesis contains, and which one it has begun."""

    tail: str = ""  # the end of its text
    met: frozenset[int] = frozenset()  # indices of the terms it contains
    closing: int | None = None  # the term just met, whose last word might still be lengthened
    path: Ids = ()  # the tokens so far of a term that has begun
    recent: Ids = ()  # as `path`, but kept when the term is met: another term may begin inside it
    written: int = 0  # tokens of the terms that are met
    bonus: float = 0.0  # added to the score for comparisons, for the terms that are met
    path_bonus: float = 0.0  # the same for the term that has begun
    closing_tokens: int = 0  # the share of `closing` in `written`
    closing_bonus: float = 0.0  # the share of `closing` in `bonus`

    @property
    def bank(self) -> int:
        """Tokens of terms that are met or begun."""
        return self.written + len(self.path)

    def reopened(self) -> "Progress":
        """Return the progress if the last word is lengthened: `closing` is not met after all."""
        if self.closing is None:
            return self
        return self._replace(
            met=self.met - {self.closing},
            closing=None,
            written=self.written - self.closing_tokens,
            bonus=self.bonus - self.closing_bonus,
        )


class TermConstraint:
    """The required terms of one sentence."""

    def __init__(self, terms: Sequence[RequiredTerm], words: Words) -> None:
        self.terms, self.words = terms, words
        longest = max(len(target) for term in terms for target in term.targets)
        self._tail_length = longest + 3  # with room for the characters before a term
        # Path -> the tokens that may follow it, each with the index of its term.
        self._next: dict[Ids, list[tuple[int, int]]] = {}
        self._inside: dict[Ids, list[Ids]] = {}  # results of _begun_inside
        for number, term in enumerate(self.terms):
            for spelling in term.spellings:
                start = 1 if spelling[0] in (INSIDE, FIRST) else 0
                for end in range(start, len(spelling)):
                    self._next.setdefault(spelling[:end], []).append((spelling[end], number))

    def next_tokens(self, progress: Progress, room: int | None = None) -> set[int]:
        """Return the tokens that continue the term that has begun, or begin another.

        With `room`, return all tokens, and only those, after which the missing terms need at most
        that many more.
        """
        paths = [progress.path] if progress.path and room is None else self._paths(progress)
        tokens = set()
        for path in paths:
            for token, number in self._next.get(path, ()):
                if number in progress.met:
                    continue
                after = progress._replace(path=(*path, token))
                if room is None or self.n_needed(after) <= room:
                    tokens.add(token)
        return tokens

    def advance(
        self, progress: Progress, token: int, log_prob: float, attention: Sequence[float]
    ) -> Progress:
        """Return the progress after one more token.

        `log_prob` is the token's, `attention` the weights of the source tokens when it was written.
        """
        if self.words.continues_word[token] and is_word_character(progress.tail[-1:]):
            progress = progress.reopened()
        met, written = progress.met, progress.written
        tail = (progress.tail + self.words.surfaces[token])[-self._tail_length :]
        path, path_bonus = self._follow(progress, token, attention)
        path_bonus = path_bonus - FORGIVEN * log_prob if path else 0.0
        newly_met = [
            number
            for number, term in enumerate(self.terms)
            if number not in met and (path in term.spellings or self._ends_with(tail, number))
        ]
        if not newly_met:
            return Progress(
                tail=tail,
                met=met,
                path=path,
                recent=path,
                written=written,
                bonus=progress.bonus,
                path_bonus=path_bonus,
            )
        closing = max(newly_met, key=lambda number: self._mass(number, attention))
        met |= {closing}
        n_tokens, bonus = max(1, len(path)), max(0.0, path_bonus)
        is_continued = any(number not in met for _, number in self._next.get(path, ()))
        return Progress(
            tail=tail,
            met=met,
            closing=closing,
            path=path if is_continued else (),  # another, longer term has begun with this one
            recent=path,
            written=written + n_tokens,
            bonus=progress.bonus + bonus,
            closing_tokens=n_tokens,
            closing_bonus=bonus,
        )

    def n_needed(self, progress: Progress) -> int:
        """Return how many more tokens the missing terms need.

        The tokens of the begun path are credited to one term only.
        """
        depth = len(progress.path)
        total = most_saved = 0
        for number, term in enumerate(self.terms):
            if number in progress.met:
                continue
            whole = min(
                len(spelling) for spelling in term.spellings if spelling[0] not in (INSIDE, FIRST)
            )
            rests = [
                len(spelling) - depth
                for spelling in term.spellings
                if depth and spelling[:depth] == progress.path
            ]
            total += whole
            most_saved = max(most_saved, whole - min(rests, default=whole))
        return total - most_saved

    def _paths(self, progress: Progress) -> list[Ids]:
        """Return the paths that the next token may continue.

        The hypothesis may be in a term, in another that began inside that one, or before a term.
        """
        begun = [progress.path, *self._begun_inside(progress.recent)]
        paths: list[Ids] = [path for path in dict.fromkeys(begun) if path]
        paths.append(())
        if not is_word_character(progress.tail[-1:]):
            paths.append((INSIDE,))
        if _begins_sentence(progress.tail):
            paths.append((FIRST,))
        return paths

    def _begun_inside(self, recent: Ids) -> list[Ids]:
        """Return the ends of the last tokens with which a term begins. Cached: calls repeat."""
        if recent not in self._inside:
            ends = (recent[i:] for i in range(len(recent)))
            self._inside[recent] = [end for end in ends if end in self._next]
        return self._inside[recent]

    def _follow(
        self, progress: Progress, token: int, attention: Sequence[float]
    ) -> tuple[Ids, float]:
        """Return the path that a token leads to and its bonus, or an empty path."""

        def n_needed_after(path: Ids) -> int:
            return self.n_needed(progress._replace(path=(*path, token)))

        continued: dict[Ids, list[int]] = {}  # the paths that go on with the token, with its terms
        for path in self._paths(progress):
            numbers = [
                number
                for next_token, number in self._next.get(path, ())
                if next_token == token and number not in progress.met
            ]
            if numbers:
                continued[path] = numbers
        if not continued:
            return (), 0.0
        path = min(continued, key=n_needed_after)
        is_beginning = path in ((), (INSIDE,), (FIRST,))
        if not is_beginning:
            return (*path, token), progress.path_bonus
        mass = max(self._mass(number, attention) for number in continued[path])
        return (*path, token), math.log(max(mass, MIN_ATTENTION))

    def _mass(self, number: int, attention: Sequence[float]) -> float:
        """Return the sum of the attention weights of a term's source tokens."""
        term = self.terms[number]
        return sum(attention[term.start : term.end])

    def _ends_with(self, tail: str, number: int) -> bool:
        """Return whether the text ends with a term as whole words."""
        term = self.terms[number]
        for target in (*term.targets, *term.first):
            if tail.endswith(target):
                before = tail[: len(tail) - len(target)]
                is_whole = not (is_word_character(before[-1:]) and is_word_character(target[0]))
                if is_whole and (target in term.targets or _begins_sentence(before)):
                    return True
        return False


def _begins_sentence(before: str) -> bool:
    return before.rstrip()[-1:] in ("", ".", "!", "?")


class Offer(NamedTuple):
    """A candidate of a sentence with terms."""

    bank: int  # tokens of terms that it has written
    beam: int  # index of the hypothesis it continues
    token: int
    score: float
    compared: float  # the score with the bonus of its terms


NO_OFFER = Offer(bank=0, beam=0, token=0, score=NEVER, compared=NEVER)


class Constraints:
    """The terms of the sentences of a batch, as a rule and a selection for `search`.

    The constraint of a sentence without terms is None. `attention` returns the attention weights
    of the current time step, a row for each hypothesis.
    """

    def __init__(
        self,
        constraints: Sequence[TermConstraint | None],
        max_lengths: Sequence[int],
        attention: Callable[[], Float[Tensor, "row source"]],
    ) -> None:
        self._constraints = constraints
        self._max_lengths = max_lengths
        self._attention = attention
        # By sentence and prefix; rows that were dropped (score minus infinity) are not in it.
        self._progress: dict[tuple[int, Ids], Progress] = {
            (i, (SOS,)): Progress() for i in range(len(constraints))
        }

    def rule(self, rows: Rows, log_probs: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        """Forbid [EOS] before all terms are met, and tokens that leave too little room for them."""
        for row, (sentence, prefix) in enumerate(
            zip(rows.sentences.tolist(), rows.prefixes.tolist(), strict=True)
        ):
            constraint = self._constraints[sentence]
            progress = self._progress.get((sentence, tuple(prefix)))
            if constraint is None or progress is None:
                continue
            room = self._max_lengths[sentence] - len(prefix) - 1  # after one more token, and [EOS]

            may_lengthen = progress.closing is not None and is_word_character(progress.tail[-1:])
            reopened = progress.reopened()
            if may_lengthen and room < constraint.n_needed(reopened._replace(path=())):
                lengthening = torch.tensor(constraint.words.continues_word)
                lengthening[list(constraint.next_tokens(reopened, room))] = False
                log_probs[row].masked_fill_(lengthening, NEVER)

            if len(progress.met) == len(constraint.terms):
                continue
            log_probs[row, EOS] = NEVER
            if room < constraint.n_needed(progress._replace(path=())):
                allowed = list(constraint.next_tokens(progress, room))
                kept = log_probs[row, allowed]
                log_probs[row] = NEVER
                log_probs[row, allowed] = kept
        return log_probs

    def select(
        self,
        rows: Rows,
        scores: Float[Tensor, "sentence width"],
        log_probs: Float[Tensor, "sentence width vocab"],
        n: int,
    ) -> Candidates:
        """Select the n best continuations; the banks of a sentence with terms take turns."""
        plain = top_k(rows, scores, log_probs, n)
        width = scores.shape[1]
        sentences = rows.sentences.view(-1, width)[:, 0].tolist()
        constrained = [
            i for i, sentence in enumerate(sentences) if self._constraints[sentence] is not None
        ]
        if not constrained:
            return plain
        prefixes = [tuple(prefix) for prefix in rows.prefixes.tolist()]
        attention = self._attention().tolist()
        best = log_probs.argmax(dim=2).tolist()
        offers: dict[int, list[Offer]] = {}
        for i in constrained:
            own = slice(i * width, (i + 1) * width)
            continuations = self._continuations(sentences[i], prefixes[own], best[i])
            likeliest = zip(plain.beam[i].tolist(), plain.token[i].tolist(), strict=True)
            offers[i] = self._make_offers(
                sentences[i],
                prefixes[own],
                attention[own],
                list(dict.fromkeys((*likeliest, *continuations))),
                scores[i],
                log_probs[i],
            )
        return _allocate_offers(plain, offers, n)

    def rank(
        self, sentence: int, hypotheses: Sequence[Hypothesis], penalty: Penalty
    ) -> list[Hypothesis]:
        """Sort finished hypotheses as they were compared; their scores stay the model's."""
        if self._constraints[sentence] is None:
            return list(hypotheses)

        def compared(hypothesis: Hypothesis) -> float:
            bonus = self._progress[sentence, (SOS, *hypothesis.ids, EOS)].bonus
            return (hypothesis.log_prob + bonus) / penalty(len(hypothesis.ids) + 1)

        return sorted(hypotheses, key=compared, reverse=True)

    def _continuations(
        self, sentence: int, prefixes: Sequence[Ids], best: Sequence[int]
    ) -> list[tuple[int, int]]:
        """Return (beam, token) of each hypothesis' best token and of its next tokens of terms."""
        constraint = self._constraints[sentence]
        assert constraint is not None, "a sentence with terms"
        found = []
        for beam, prefix in enumerate(prefixes):
            progress = self._progress.get((sentence, prefix))
            of_terms = sorted(constraint.next_tokens(progress)) if progress is not None else []
            found += [(beam, token) for token in (best[beam], *of_terms)]
        return found

    def _make_offers(
        self,
        sentence: int,
        prefixes: Sequence[Ids],
        attention: Sequence[Sequence[float]],
        continuations: Sequence[tuple[int, int]],
        scores: Float[Tensor, " width"],
        log_probs: Float[Tensor, "width vocab"],
    ) -> list[Offer]:
        """Return the possible continuations of a sentence as offers, and note their progress."""
        constraint = self._constraints[sentence]
        assert constraint is not None, "a sentence with terms"
        beams = [beam for beam, _ in continuations]
        tokens = [token for _, token in continuations]
        gains = log_probs[beams, tokens]
        totals = (scores[beams] + gains).tolist()
        offers = []
        for beam, token, gain, total in zip(beams, tokens, gains.tolist(), totals, strict=True):
            before = self._progress.get((sentence, prefixes[beam]))
            if before is None or total == NEVER:
                continue
            after = before
            if token != EOS:
                after = constraint.advance(before, token, gain, attention[beam])
            self._progress[sentence, (*prefixes[beam], token)] = after
            compared = total + after.bonus + max(0.0, after.path_bonus)
            offers.append(Offer(after.bank, beam, token, total, compared))
        return offers


def _allocate_offers(plain: Candidates, offers: dict[int, list[Offer]], n: int) -> Candidates:
    """Return the plain candidates, with those of the sentences with terms replaced by offers."""
    most = max(n, *(len(each) for each in offers.values()))
    table = torch.tensor(
        [each + [NO_OFFER] * (most - len(each)) for each in offers.values()]
    )  # sentence offer field
    bank, beam, token, score, compared = table.unbind(dim=2)
    order = allocate(bank.long(), compared)[:, :n]

    n_missing = n - plain.score.shape[1]
    found = Candidates(*(torch.nn.functional.pad(each, (0, n_missing)) for each in plain))
    found.score[:, n - n_missing :] = NEVER
    replaced = torch.tensor(list(offers))
    for whole, part in zip(found, (beam, token, score), strict=True):
        whole[replaced] = part.gather(1, order).to(whole.dtype)
    return found


def allocate(
    bank: Int[Tensor, "sentence offer"], score: Float[Tensor, "sentence offer"]
) -> Int[Tensor, "sentence offer"]:
    """Return the order in which offers are taken.

    The best offer of each bank comes first, then the second best of each, and so on; impossible
    offers come last. Within a round the bank with most tokens comes first, then the others by
    their scores.
    """
    by_score = score.sort(dim=1, descending=True, stable=True).indices
    bank, score = bank.gather(1, by_score), score.gather(1, by_score)
    n_offers = bank.shape[1]
    is_earlier = torch.ones(n_offers, n_offers, dtype=torch.bool).tril(-1)
    is_same_bank = bank[:, :, None] == bank[:, None, :]
    round_number = (is_same_bank & is_earlier).sum(dim=2)  # better offers of the same bank
    is_possible = score.isfinite()
    fullest = bank.masked_fill(~is_possible, -1).amax(dim=1, keepdim=True)
    key = 2 * round_number + (bank != fullest).long()
    key = key.masked_fill(~is_possible, 2 * n_offers)  # higher than any other key
    return by_score.gather(1, key.sort(dim=1, stable=True).indices)
