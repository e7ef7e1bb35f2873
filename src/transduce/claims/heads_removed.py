"""Heads have different functions, and most of them can be removed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from transduce.claims.claim import Result, conclude, judge, lines
from transduce.claims.lab import Evaluation, Lab, evaluate, mean, record_each
from transduce.inspection.edits import Edit
from transduce.inspection.record import heads_per_attention, instrument
from transduce.model.weights import shared_copy

ALONE, TOGETHER = 0.01, 0.05  # share of sentences that may change


def run(lab: Lab, *, muted: bool = True, n_sentences: int = 100) -> Result:
    """Mute each head, then more and more of them, the least important first.

    Measures how many of the model's own translations stay the same.
    """
    examples = lab.own_translations(n_sentences)
    model = lab.translator.model
    heads = [
        (at, head) for at, n_heads in heads_per_attention(model).items() for head in range(n_heads)
    ]

    def without(some: Sequence[tuple[str, int]]) -> Evaluation:
        edits: list[Edit] = [{"op": "mute", "at": at, "head": head} for at, head in some]
        bent = shared_copy(model)
        instrument(bent, edits if muted else [], None)
        return evaluate(bent, examples)

    whole = without([])
    alone = {each: without([each]) for each in heads}
    order = sorted(heads, key=lambda each: alone[each].loss)
    least_first, most_first = (
        [without(some[:n]).exact_accuracy for n in range(len(heads) + 1)]
        for some in (order, order[::-1])
    )
    n_alone = sum(
        evaluation.exact_accuracy >= whole.exact_accuracy - ALONE for evaluation in alone.values()
    )
    n_together = max(
        n for n, share in enumerate(least_first) if share >= whole.exact_accuracy - TOGETHER
    )
    jobs = classify_heads(lab, n_sentences // 4)
    kinds = sorted({*jobs.values()})
    together = n_together > len(heads) / 2
    is_most = (n_alone > len(heads) / 2, together, len(kinds) > 2)
    shown = {"least needed first": least_first, "most needed first": most_first}
    return conclude(
        judge(most_first[len(heads) // 2] < whole.exact_accuracy / 2, *is_most),
        f"Of {len(heads)} heads {n_alone} can be muted one at a time and at least {1 - ALONE:.0%} "
        "of translations "
        f"stay the same; muted together, the least needed first, {n_together} can go before more "
        "than "
        f"{TOGETHER:.0%} change: {'more than half' if together else 'not more than half'}, so that "
        "most can be removed is "
        f"{'shown' if together else 'not shown'}. {'Different' if is_most[2] else 'No different'} "
        "jobs are seen: heads "
        f"mostly look at {', '.join(kinds)}.",
        f"Removed in the opposite order, the first {n_together} heads leave "
        f"{most_first[n_together]:.0%} of "
        "translations as they were: heads are not all alike.",
        ("head", "mostly looks at", "translations unchanged without it", "loss without it"),
        [
            (head_name(*each), jobs[each], evaluation.exact_accuracy, evaluation.loss)
            for each, evaluation in alone.items()
        ],
        lines("Translations unchanged, by heads removed", range(len(heads) + 1), shown),
    )


def head_name(at: str, head: int) -> str:
    """Return the name of a head for people, counted from 1."""
    stack, layer, kind = at.split(".")
    return f"{stack}oder {int(layer) + 1}, {kind}, head {head + 1}"


def classify_heads(lab: Lab, n_sentences: int) -> dict[tuple[str, int], str]:
    """Return where most of the weight of each head goes."""
    seen: dict[tuple[str, int], list[dict[str, float]]] = {}
    for found in record_each(lab.translator.model, lab.own_translations(n_sentences)):
        for at in heads_per_attention(lab.translator.model):
            for head, weights in enumerate(found[f"{at}.weights"]):
                seen.setdefault((at, head), []).append(weight_by_position(weights))
    jobs = {}
    for each, found_at in seen.items():
        shares = {name: mean([one[name] for one in found_at]) for name in found_at[0]}
        sharpest = shares.pop("one word")
        name = max(shares, key=shares.__getitem__)
        jobs[each] = (
            name
            if shares[name] > 0.4
            else "one word of its choice"
            if sharpest > 0.6
            else "many words"
        )
    return jobs


def weight_by_position(weights: Tensor) -> dict[str, float]:
    """Return the mean weight of a head at some positions relative to the query."""
    rows, columns = (torch.arange(n) for n in weights.shape)
    offset = columns[None, :] - rows[:, None]
    per_row = {
        "the same place": (weights * (offset == 0)).sum(dim=1),
        "the place before": (weights * (offset == -1)).sum(dim=1),
        "the place after": (weights * (offset == 1)).sum(dim=1),
        "the last token": weights[:, -1],
        "the first token": weights[:, 0],
        "one word": weights.max(dim=1).values,
    }
    return {name: values.mean().item() for name, values in per_row.items()}
