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
    toy_pairs = list(toy.sentences(n_sentences, TEST_SEED, "held-out"))
    models = {
        "half-trained small model": (lab.train(recipe=HALF_TRAINED).translator, toy_pairs),
        "finished model": (lab.grammar_translator, grammar_pairs(n_sentences)),
    }
    found = {
        name: [search_with(translator, pairs, width) for width in widths]
        for name, (translator, pairs) in models.items()
    }
    first, last = found["half-trained small model"][0], found["half-trained small model"][-1]
    greedy, wide = first[3], last[3]
    gained = sum(b and not a for a, b in zip(greedy, wide, strict=True))
    lost = sum(a and not b for a, b in zip(greedy, wide, strict=True))
    rows = [
        (f"{name}, beam {width}", *row[:3])
        for name, results in found.items()
        for width, row in zip(widths, results, strict=True)
    ]
    titles = {
        "Share of sentences scored higher than greedy, by beam": 0,
        "Share of exact translations, by beam": 2,
    }
    finds_higher_scores = max(row[0] for row in found["half-trained small model"]) > 0.02
    helps = sign_test(gained, lost) < SIGNIFICANCE_LEVEL
    finished = found["finished model"]
    return conclude(
        judge(first[0] == 0, finds_higher_scores, helps),  # beam 1 must be greedy search itself
        f"For a half-trained model beam {widths[-1]} finds a translation that the model itself "
        f"scores higher than the greedy one in {last[0]:.0%} of sentences: errors of the search, "
        f"not of the model. Exact translations go from {first[2]:.1%} to {last[2]:.1%}, "
        f"{gained} sentences gained and {lost} lost: "
        f"{'clearly more' if helps else 'not clearly more'}. With the finished model there is "
        f"almost nothing to gain: a higher score in {finished[-1][0]:.0%}, exact translations "
        f"{', '.join(f'{row[2]:.1%}' for row in finished)} with beams of "
        f"{', '.join(map(str, widths))}.",
        f"Beam 1 is greedy search: it finds a higher score in {first[0]:.0%}. In {last[1]:.0%} of "
        "sentences the correct translation scores lower than the one found: errors of the model, "
        "which no search can repair.",
        ("search", "scored higher than greedy", "correct one scored lower", "exact"),
        rows,
        *[
            bars(
                title,
                widths,
                {name: [row[:3][column] for row in results] for name, results in found.items()},
            )
            for title, column in titles.items()
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
    """Return the p-value of the one-sided sign test: the chance of so many gains by a fair coin."""
    n = gained + lost
    return sum(math.comb(n, k) for k in range(gained, n + 1)) / 2**n
