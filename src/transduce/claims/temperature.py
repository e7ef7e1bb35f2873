"""Temperature flattens or sharpens the distribution of the next word and keeps its maximum."""

from itertools import pairwise

import torch

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, grammar_pairs, record_each
from transduce.decode.options import Sampling
from transduce.decode.sampling import reshape_distribution

TEMPERATURES = (0.25, 0.5, 1.0, 2.0, 4.0)


def run(lab: Lab, *, applied: bool = True, n_sentences: int = 20) -> Result:
    """Measure the distributions of all steps at several temperatures, and sample translations."""
    logits = torch.cat(
        [
            found["logits"]
            for found in record_each(lab.translator.model, lab.own_translations(n_sentences))
        ]
    )
    log_probs = torch.log_softmax(logits, dim=-1)
    texts = [pair.source for pair in grammar_pairs(n_sentences)]
    greedy = [each.text for each in lab.translator.translate(texts, beam=1)]
    entropies, kept, equal = [], [], []
    for temperature in TEMPERATURES:
        used = temperature if applied else 1.0
        changed = reshape_distribution(log_probs, used, 0, 1.0)
        entropies.append(-(changed.exp() * changed).nan_to_num().sum(dim=-1).mean().item())
        kept.append((changed.argmax(dim=-1) == log_probs.argmax(dim=-1)).float().mean().item())
        drawn = lab.translator.translate(texts, sampling=Sampling(used, seed=1))
        equal.append(sum(a.text == b for a, b in zip(drawn, greedy, strict=True)) / len(texts))
    steps = [b - a for a, b in pairwise(entropies)]
    plain = -(log_probs.exp() * log_probs).nan_to_num().sum(dim=-1).mean().item()
    # The control: adding a constant to all logits does not change their softmax.
    shifted = torch.log_softmax(logits + 3.0, dim=-1)
    control = -(shifted.exp() * shifted).nan_to_num().sum(dim=-1).mean().item()
    is_ordered = min(steps) > 0 and min(kept) == 1
    names = [f"{temperature:g}" for temperature in TEMPERATURES]
    return conclude(
        judge(abs(control - plain) < 1e-3, is_ordered, equal[0] > equal[-1]),
        f"Over {len(logits)} steps the mean entropy is {entropies[0]:.3f} nats at temperature "
        f"{TEMPERATURES[0]}, {entropies[2]:.3f} at 1 and {entropies[-1]:.2f} at "
        f"{TEMPERATURES[-1]:g}; the best token stays the best in {min(kept):.0%} of steps. "
        f"Sampled translations equal the greedy one in {equal[0]:.0%}, {equal[2]:.0%} and "
        f"{equal[-1]:.0%} of sentences.",
        "Adding the same number to all logits, unlike dividing them, changes nothing: "
        f"{control:.3f}.",
        ("temperature", "mean entropy, nats", "best token unchanged", "samples equal to greedy"),
        [
            *zip(names, entropies, kept, equal, strict=True),
            ("3 added to all logits (control)", control, 1.0, ""),
        ],
        bars("Mean entropy of the next token, nats, by temperature", names, {"": entropies}),
        bars("Share of samples equal to greedy search", names, {"": equal}),
    )
