"""Beam search finds better translations than greedy search."""

import math

from transduce.claims import toy
from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import TEST_SEED, Lab, grammar_pairs
from transduce.decode.translator import Translator
from transduce.text.corpus import Pair

WIDTHS = (1, 2, 4, 8)
SIGNIFICANCE_LEVEL = 0.05  # of the sign test, over sentences that only one search has correct
HALF_TRAINED = {"steps": 130, "warmup_steps": 60}


def run(lab: Lab, *, widths: tuple[int, ...] = WIDTHS, n_sentences: int = 150) -> Result:
    """Search with wider beams: are the translations scored higher, and are they correct?

    Examines a half-trained small model, which is unsure, and a finished one.
    """
    young = lab.train(recipe=HALF_TRAINED).translator
    students = {
        "half-trained small model": (
            young,
            list(toy.sentences(n_sentences, TEST_SEED, "held-out")),
        ),
        "finished model": (lab.grammar_translator, grammar_pairs(n_sentences)),
    }
    found = {
        name: [search_with(*student, width) for width in widths]
        for name, student in students.items()
    }
    greedy, wide = (found["half-trained small model"][i][3] for i in (0, -1))
    gained, lost = (
        sum(a and not b for a, b in zip(*both, strict=True))
        for both in ((wide, greedy), (greedy, wide))
    )
    rows = [
        (f"{name}, beam {width}", *row[:3])
        for name, results in found.items()
        for width, row in zip(widths, results, strict=True)
    ]
    titles = {
        "Share of sentences scored higher than greedy, by beam": 0,
        "Share of exact translations, by beam": 2,
    }
    first, last = found["half-trained small model"][0], found["half-trained small model"][-1]
    finds, helps = (
        max(row[0] for row in found["half-trained small model"]) > 0.02,
        sign_test(gained, lost) < SIGNIFICANCE_LEVEL,
    )
    return conclude(
        judge(first[0] == 0, finds, helps),  # beam 1 must be greedy search itself
        f"For a half-trained model beam {widths[-1]} finds a translation the model itself scores "
        "higher than the "
        f"greedy one in {last[0]:.0%} of sentences: errors of the search, not of the model. Exact "
        "translations go from "
        f"{first[2]:.1%} to {last[2]:.1%}, {gained} sentences gained and {lost} lost: "
        f"{'clearly more' if helps else 'not clearly more'}. With the finished model there is next "
        "to nothing to gain: a "
        f"higher score in {found['finished model'][-1][0]:.0%}, exact "
        f"{', '.join(f'{row[2]:.1%}' for row in found['finished model'])} with beams of "
        f"{', '.join(map(str, widths))}.",
        f"Beam 1 is greedy search: it finds something better in {first[0]:.0%}. In {last[1]:.0%} "
        "of sentences the "
        "right translation scores lower than what was found: errors of the model, which no search "
        "repairs.",
        ("search", "scored higher than greedy", "right one scored lower", "exact"),
        rows,
        *[
            bars(
                title,
                widths,
                {name: [row[:3][place] for row in results] for name, results in found.items()},
            )
            for title, place in titles.items()
        ],
    )


def search_with(
    translator: Translator, pairs: list[Pair], beam: int
) -> tuple[float, float, float, list[bool]]:
    """Translate with a beam. Return three shares, and which translations are exact.

    The shares of sentences: scored higher than the greedy translation; scored higher than the
    reference; exact.
    """
    texts = [pair.source for pair in pairs]
    greedy, found = (translator.translate(texts, beam=width) for width in (1, beam))
    references = translator.score([(pair.source, pair.target) for pair in pairs])
    better = sum(b.score > a.score + 1e-4 for a, b in zip(greedy, found, strict=True))
    wrong = sum(b.score > r.score + 1e-4 for b, r in zip(found, references, strict=True))
    exact = [each.text == pair.target for each, pair in zip(found, pairs, strict=True)]
    return better / len(pairs), wrong / len(pairs), sum(exact) / len(pairs), exact


def sign_test(gained: int, lost: int) -> float:
    """Return the probability that a fair coin gives at least this many gains."""
    n = gained + lost
    return sum(math.comb(n, k) for k in range(gained, n + 1)) / 2**n
