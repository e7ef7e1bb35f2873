"""Terms that every finished hypothesis holds: constrained beam search by dynamic beam allocation.

Post & Vilar 2018, vectorised as by Hu et al. 2019: candidates are put into banks by how many pieces of their terms they have
written, and the beam takes the best of each bank in turn, so that hypotheses on their way to a term are not crowded out by
hypotheses that never begin it. Sentences without terms have one bank, which is plain beam search.

Hypotheses with terms are compared by what the model chose. The pieces of a term were not its choice, and most of their cost is
forgiven, the more the model attended to the term's source words when the term was begun. Otherwise an unusual term is put off
until the sentence is over, and appended to it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.decode.hypotheses import Hypothesis, Penalty
from transduce.decode.search import NEVER, Candidates, Rows, top_k
from transduce.decode.words import FIRST, INSIDE, Pieces, RequiredTerm, Words
from transduce.text.terms import is_word_character
from transduce.text.vocabulary import EOS, SOS

FORGIVEN = 0.9  # of the log-probability of a term's pieces
LEAST_ATTENTION = 1e-3  # where nobody looked at all


class Progress(NamedTuple):
    """How far a hypothesis is with its terms."""

    tail: str = ""  # the end of what it has written
    met: frozenset[int] = frozenset()  # numbers of terms
    closing: int | None = None  # the term just met, whose last word might still grow into another
    path: Pieces = ()  # the pieces of a term that has begun
    recent: Pieces = ()  # the path up to here, also if it has just met its term: another term may begin inside it
    written: int = 0  # pieces of the terms that are met
    bonus: float = (
        0.0  # what is added to the score when hypotheses are compared: for terms that are met
    )
    path_bonus: float = 0.0  # and for the one that has begun
    credit: tuple[int, float] = (
        0,
        0.0,
    )  # pieces and bonus of the term just met, lost if it grows into another word

    @property
    def bank(self) -> int:
        """Pieces of terms."""
        return self.written + len(self.path)

    def reopened(self) -> "Progress":
        """The progress if the last word grows: the term that it ended is not met after all."""
        if self.closing is None:
            return self
        n_pieces, bonus = self.credit
        return self._replace(
            met=self.met - {self.closing},
            closing=None,
            written=self.written - n_pieces,
            bonus=self.bonus - bonus,
        )


class TermConstraint:
    """The terms of one sentence."""

    def __init__(self, terms: Sequence[RequiredTerm], words: Words) -> None:
        self.terms, self.words = terms, words
        self._longest = 3 + max(len(target) for term in terms for target in term.targets)
        self._next: dict[
            Pieces, list[tuple[int, int]]
        ] = {}  # path -> what may follow, and for which term
        for number, term in enumerate(self.terms):
            for spelling in term.spellings:
                for end in range(spelling[0] in (INSIDE, FIRST), len(spelling)):
                    self._next.setdefault(spelling[:end], []).append((spelling[end], number))

    def wanted(self, progress: Progress, room: int | None = None) -> set[int]:
        """The pieces that bring a hypothesis further: those of the term it is in, or the beginnings of terms.

        With `room`, all those, and only those, after which the terms still missing need no more pieces than that.
        """
        paths = [progress.path] if progress.path and room is None else self._paths(progress)
        steps = [(path, *step) for path in paths for step in self._next.get(path, ())]
        return {
            piece
            for path, piece, term in steps
            if term not in progress.met
            and (room is None or self.needed(progress._replace(path=(*path, piece))) <= room)
        }

    def advance(
        self, progress: Progress, piece: int, log_prob: float, attention: Sequence[float]
    ) -> Progress:
        """The progress after one more piece, of this log-probability, written while the model attended to the source so."""
        if self.words.goes_on[piece] and is_word_character(progress.tail[-1:]):
            progress = progress.reopened()
        met, written = progress.met, progress.written
        tail = (progress.tail + self.words.surfaces[piece])[-self._longest :]
        path, bonus = self._follow(progress, piece, attention)
        bonus = bonus - FORGIVEN * log_prob if path else 0.0
        done = [
            number
            for number, term in enumerate(self.terms)
            if number not in met and (path in term.spellings or self._ends_with(tail, number))
        ]
        if not done:
            return Progress(tail, met, None, path, path, written, progress.bonus, bonus)
        first = max(done, key=lambda number: self._mass(number, attention))
        credit = (max(1, len(path)), max(0.0, bonus))
        total = progress.bonus + credit[1]
        met |= {first}
        shared = (
            path if any(term not in met for _, term in self._next.get(path, ())) else ()
        )  # a longer one goes on
        return Progress(tail, met, first, shared, path, written + credit[0], total, credit=credit)

    def needed(self, progress: Progress) -> int:
        """Pieces that must still be written; what has begun serves one term only."""
        depth, total, most_saved = len(progress.path), 0, 0
        for number, term in enumerate(self.terms):
            if number not in progress.met:
                whole = min(
                    len(spelling)
                    for spelling in term.spellings
                    if spelling[0] not in (INSIDE, FIRST)
                )
                begun = [
                    len(s) - depth for s in term.spellings if depth and s[:depth] == progress.path
                ]
                total += whole
                most_saved = max(most_saved, whole - min(begun, default=whole))
        return total - most_saved

    def _paths(self, progress: Progress) -> list[Pieces]:
        """The paths on which a hypothesis may be: in a term, in another that began inside that one, before one."""
        begun = [progress.path, *(progress.recent[i:] for i in range(len(progress.recent)))]
        paths = [*filter(None, dict.fromkeys(begun)), ()]
        if not is_word_character(progress.tail[-1:]):
            paths.append((INSIDE,))
        return [*paths, (FIRST,)] if _begins_sentence(progress.tail) else paths

    def _follow(
        self, progress: Progress, piece: int, attention: Sequence[float]
    ) -> tuple[Pieces, float]:
        """The path that a piece leads to, and its bonus: in the term that has begun, or at the beginning of one."""
        for path in sorted(
            self._paths(progress),
            key=lambda path: self.needed(progress._replace(path=(*path, piece))),
        ):
            terms = [
                term
                for next_one, term in self._next.get(path, ())
                if next_one == piece and term not in progress.met
            ]
            if terms:
                begins = path in ((), (INSIDE,), (FIRST,))
                mass = max(self._mass(term, attention) for term in terms)
                return (*path, piece), math.log(
                    max(mass, LEAST_ATTENTION)
                ) if begins else progress.path_bonus
        return (), 0.0

    def _mass(self, number: int, attention: Sequence[float]) -> float:
        return sum(attention[self.terms[number].start : self.terms[number].end])

    def _ends_with(self, tail: str, number: int) -> bool:
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


class Constraints:
    """The terms of the sentences of a batch: a rule and a selection for `search`. None: a sentence without terms."""

    def __init__(
        self, demands: Sequence[TermConstraint | None], max_lengths: Sequence[int]
    ) -> None:
        self._demands = demands
        self._max_lengths = max_lengths
        # Progress follows from what was written.
        self._known: dict[tuple[int, Pieces], Progress] = {
            (i, (SOS,)): Progress() for i in range(len(demands))
        }

    def rule(self, rows: Rows, log_probs: Float[Tensor, "row vocab"]) -> Float[Tensor, "row vocab"]:
        """Nobody ends before all terms are met, and nothing is written after which there is no room for those still missing."""
        for row, (sentence, prefix) in enumerate(
            zip(rows.sentences.tolist(), rows.prefixes.tolist(), strict=True)
        ):
            demand = self._demands[sentence]
            if demand is None:
                continue
            progress = self._known.get((sentence, tuple(prefix)))
            if progress is None:  # a row that is given up, its score is minus infinity
                continue
            room = (
                self._max_lengths[sentence] - len(prefix) - 1
            )  # after one more piece, [EOS] apart
            grows = progress.closing is not None and is_word_character(progress.tail[-1:])
            if grows and room < demand.needed(progress.reopened()._replace(path=())):
                growing = torch.tensor(
                    demand.words.goes_on
                )  # pieces that would lengthen the last word
                growing[list(demand.wanted(progress.reopened(), room))] = False
                log_probs[row].masked_fill_(growing, NEVER)
            if len(progress.met) == len(demand.terms):
                continue
            log_probs[row, EOS] = NEVER
            if room < demand.needed(progress._replace(path=())):
                wanted = list(demand.wanted(progress, room))
                kept = log_probs[row, wanted]
                log_probs[row] = NEVER
                log_probs[row, wanted] = kept
        return log_probs

    def select(
        self,
        rows: Rows,
        scores: Float[Tensor, "sentence width"],
        log_probs: Float[Tensor, "sentence width vocab"],
        n: int,
    ) -> Candidates:
        """The n best continuations, the banks taking turns."""
        plain = top_k(rows, scores, log_probs, n)
        width = scores.shape[1]
        sentences = rows.sentences[::width].tolist()
        bound = [i for i, sentence in enumerate(sentences) if self._demands[sentence] is not None]
        if not bound:
            return plain
        prefixes, attention = rows.prefixes.tolist(), rows.cache.attention.tolist()
        best = log_probs.argmax(dim=2).tolist()
        offers: list[tuple[int | float, ...]] = []
        for i in bound:
            demand = self._demands[sentences[i]]
            assert demand is not None, "a sentence that is bound"
            chosen = dict.fromkeys(
                zip(plain.beam[i].tolist(), plain.piece[i].tolist(), strict=True)
            )
            for beam in range(width):
                progress = self._known.get((sentences[i], tuple(prefixes[i * width + beam])))
                wanted = sorted(demand.wanted(progress)) if progress is not None else []
                chosen |= dict.fromkeys((beam, piece) for piece in (best[i][beam], *wanted))
            beams, pieces = (list(each) for each in zip(*chosen, strict=True))
            gains = log_probs[i, beams, pieces]
            totals = (scores[i, beams] + gains).tolist()
            for beam, piece, gain, total in zip(beams, pieces, gains.tolist(), totals, strict=True):
                row = i * width + beam
                before = self._known.get((sentences[i], tuple(prefixes[row])))
                if before is None or total == NEVER:
                    continue
                after = (
                    demand.advance(before, piece, gain, attention[row]) if piece != EOS else before
                )
                self._known[sentences[i], (*prefixes[row], piece)] = after
                offers.append(
                    (
                        len(offers),
                        i,
                        after.bank,
                        beam,
                        piece,
                        total,
                        total + after.bonus + max(0.0, after.path_bonus),
                    )
                )
        return self._allocated(plain, bound, offers, n)

    def rank(
        self, sentence: int, hypotheses: Sequence[Hypothesis], penalty: Penalty
    ) -> list[Hypothesis]:
        """Finished hypotheses in the order in which they were compared; their scores stay the model's."""
        if self._demands[sentence] is None:
            return list(hypotheses)

        def compared(hypothesis: Hypothesis) -> float:
            bonus = self._known[sentence, (SOS, *hypothesis.ids, EOS)].bonus
            return (hypothesis.log_prob + bonus) / penalty(len(hypothesis.ids) + 1)

        return sorted(hypotheses, key=compared, reverse=True)

    def _allocated(
        self,
        plain: Candidates,
        bound: Sequence[int],
        offers: Sequence[tuple[int | float, ...]],
        n: int,
    ) -> Candidates:
        """The plain candidates, with those of the bound sentences replaced."""
        by_sentence = {i: [offer for offer in offers if offer[1] == i] for i in bound}
        most = max(n, *(len(each) for each in by_sentence.values()))
        nothing = (0, 0, 0, 0, 0, NEVER, NEVER)
        table = torch.tensor(
            [each + [nothing] * (most - len(each)) for each in by_sentence.values()]
        )  # bound offer 7
        *_, bank, beam, piece, score, compared = table.unbind(dim=2)
        order = allocate(bank.long(), compared)[:, :n]
        found = [torch.nn.functional.pad(each, (0, n - each.shape[1])) for each in plain]
        found[2][:, plain.score.shape[1] :] = NEVER
        for whole, part in zip(found, (beam, piece, score), strict=True):
            whole[torch.tensor(bound)] = part.gather(1, order).to(whole.dtype)
        return Candidates(*found)


def allocate(
    bank: Int[Tensor, "sentence offer"], score: Float[Tensor, "sentence offer"]
) -> Int[Tensor, "sentence offer"]:
    """The order in which offers are taken: the best of each bank, then the second best of each, and so on; what is impossible last.

    Within a round the bank with most pieces comes first, then the others by their scores.
    """
    by_score = score.sort(dim=1, descending=True, stable=True).indices
    bank, score = bank.gather(1, by_score), score.gather(1, by_score)
    earlier = torch.ones(2 * [bank.shape[1]], dtype=torch.bool).tril(-1)
    turn = ((bank[:, :, None] == bank[:, None, :]) & earlier).sum(
        dim=2
    )  # better offers of the same bank
    alive = score.isfinite()
    fullest = bank.masked_fill(~alive, -1).amax(dim=1, keepdim=True)
    key = 2 * turn + (bank != fullest) + (~alive) * 2 * bank.shape[1]
    return by_score.gather(1, key.sort(dim=1, stable=True).indices)
