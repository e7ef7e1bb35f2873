"""One pass over the target, as in training, equals decoding step by step."""

import torch
from torch import Tensor

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, grammar_pairs
from transduce.inspection.record import instrument
from transduce.model import Transformer
from transduce.model.weights import shared_copy
from transduce.text.vocabulary import EOS, SOS

SAME, OTHER = 1e-3, 1e-1  # differences of equal logits, and of different ones


def run(
    lab: Lab, *, mask: bool = True, control_mask: bool = False, n_sentences: int = 20
) -> Result:
    """Translate greedily with a cache; then give the decoder the whole translation at once."""
    steps = decode_step_by_step(lab, n_sentences)
    here, control = (
        [largest_difference(lab.translator.model, *each, has_mask) for each in steps]
        for has_mask in (mask, control_mask)
    )
    n_steps = sum(target.shape[1] for _, target, _ in steps)
    return conclude(
        judge(max(control) > OTHER, max(here) < SAME),
        f"In {n_sentences} translations, {n_steps} steps, one pass over all tokens gives the same "
        f"logits as the single steps, within {max(here):.1e}.",
        "Without the mask the pass sees the tokens it should predict, and the logits differ by "
        f"up to {max(control):.1f}.",
        ("one pass over the target", "largest difference of a logit", "steps"),
        [("with the mask", max(here), n_steps), ("without it (control)", max(control), n_steps)],
        bars(
            "Largest difference, by sentence",
            range(1, n_sentences + 1),
            {"with the mask": here, "without": control},
        ),
    )


def decode_step_by_step(lab: Lab, n_sentences: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return source, target and the logits of each greedy step, for each sentence."""
    model, found = lab.translator.model, []
    for pair in grammar_pairs(n_sentences):
        source = torch.tensor([[*lab.translator.source_vocabulary.encode(pair.source), EOS]])
        with torch.inference_mode():
            cache = model.start(source, torch.ones_like(source, dtype=torch.bool))
            written, rows = [SOS], []
            while written[-1] != EOS and len(written) < 60:
                hidden, cache = model.decode(torch.tensor([written[-1:]]), cache)
                rows.append(model.logits(hidden)[0, 0])
                written.append(int(rows[-1].argmax()))
        found.append((source, torch.tensor([written[:-1]]), torch.stack(rows)))
    return found


def largest_difference(
    model: Transformer, source: Tensor, target: Tensor, steps: Tensor, has_mask: bool
) -> float:
    """Return the largest difference between the logits of the steps and of one pass."""
    model = shared_copy(model)
    instrument(model, [] if has_mask else [{"op": "no_mask"}], None)
    with torch.inference_mode():
        return float(
            (model(source, torch.ones_like(source, dtype=torch.bool), target)[0] - steps)
            .abs()
            .max()
        )
