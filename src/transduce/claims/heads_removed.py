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

    def without(removed: Sequence[tuple[str, int]]) -> Evaluation:
        edits: list[Edit] = [{"op": "mute", "at": at, "head": head} for at, head in removed]
        edited = shared_copy(model)
        instrument(edited, edits if muted else [], None)
        return evaluate(edited, examples)

    complete = without([])
    alone = {each: without([each]) for each in heads}
    order = sorted(heads, key=lambda each: alone[each].loss)
    counts = range(len(heads) + 1)
    least_first = [without(order[:n]).exact_accuracy for n in counts]
    most_first = [without(list(reversed(order))[:n]).exact_accuracy for n in counts]
    n_alone = sum(
        evaluation.exact_accuracy >= complete.exact_accuracy - ALONE
        for evaluation in alone.values()
    )
    n_together = max(
        n for n, share in enumerate(least_first) if share >= complete.exact_accuracy - TOGETHER
    )
    jobs = classify_heads(lab, n_sentences // 4)
    kinds = sorted({*jobs.values()})
    half = len(heads) / 2
    is_most_together = n_together > half
    has_functions = len(kinds) > 2
    shown = {"least important first": least_first, "most important first": most_first}
    return conclude(
        judge(
            most_first[len(heads) // 2] < complete.exact_accuracy / 2,
            n_alone > half,
            is_most_together,
            has_functions,
        ),
        f"Of {len(heads)} heads {n_alone} can be muted one at a time while at least "
        f"{1 - ALONE:.0%} of translations stay the same. Muted together, the least important "
        f"first, {n_together} can be removed before more than {TOGETHER:.0%} change: "
        f"{'more than half' if is_most_together else 'not more than half'}, so it is "
        f"{'shown' if is_most_together else 'not shown'} that most can be removed. "
        f"{'Different' if has_functions else 'No different'} functions are found: heads mostly "
        f"look at {', '.join(kinds)}.",
        f"In the opposite order, removing the first {n_together} heads leaves "
        f"{most_first[n_together]:.0%} of translations unchanged: heads are not all alike.",
        ("head", "mostly looks at", "translations unchanged without it", "loss without it"),
        [
            (head_name(*each), jobs[each], evaluation.exact_accuracy, evaluation.loss)
            for each, evaluation in alone.items()
        ],
        lines("Translations unchanged, by heads removed", counts, shown),
    )


def head_name(at: str, head: int) -> str:
    """Return the name of a head for people, counted from 1."""
    stack, layer, kind = at.split(".")
    stack_name = {"enc": "encoder", "dec": "decoder"}[stack]
    return f"{stack_name} {int(layer) + 1}, {kind}, head {head + 1}"


def classify_heads(lab: Lab, n_sentences: int) -> dict[tuple[str, int], str]:
    """Return what each head mostly looks at, as text."""
    seen: dict[tuple[str, int], list[dict[str, float]]] = {}
    for found in record_each(lab.translator.model, lab.own_translations(n_sentences)):
        for at in heads_per_attention(lab.translator.model):
            for head, weights in enumerate(found[f"{at}.weights"]):
                seen.setdefault((at, head), []).append(weight_by_position(weights))
    jobs = {}
    for each, found_at in seen.items():
        shares = {name: mean([one[name] for one in found_at]) for name in found_at[0]}
        largest = shares.pop("one word")
        name = max(shares, key=shares.__getitem__)
        if shares[name] > 0.4:
            jobs[each] = name
        elif largest > 0.6:
            jobs[each] = "one word of its choice"
        else:
            jobs[each] = "many words"
    return jobs


def weight_by_position(weights: Tensor) -> dict[str, float]:
    """Return the mean weight of a head at some positions relative to the query."""
    rows, columns = (torch.arange(n) for n in weights.shape)
    offset = columns[None, :] - rows[:, None]
    per_row = {
        "the same position": (weights * (offset == 0)).sum(dim=1),
        "the position before": (weights * (offset == -1)).sum(dim=1),
        "the position after": (weights * (offset == 1)).sum(dim=1),
        "the last token": weights[:, -1],
        "the first token": weights[:, 0],
        "one word": weights.max(dim=1).values,
    }
    return {name: values.mean().item() for name, values in per_row.items()}
