"""The vector of a word depends on the words around it."""

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, mean, record_each
from transduce.data.batch import encode_example
from transduce.grammar import lexicon
from transduce.inspection.edits import Edit
from transduce.inspection.record import heads_per_attention

FRAME, PLACE = "I see the {} {}", 3
ADJECTIVES = ("red", "new", "white", "small", "expensive")


def run(lab: Lab, *, attention: bool = True, n_nouns: int = 24) -> Result:
    """Measure how much the noun changes the vector of "red" in "I see the red ...".

    Also measure whether the vector of the adjective shows the noun's gender in Italian.
    """
    here, control = (
        measure(lab, [] if has_it else mute_all(lab), n_nouns) for has_it in (attention, False)
    )
    (cosines, accuracy), (control_cosines, control_accuracy) = here, control
    n_layers = len(cosines) - 1
    labels = ["embedding", *(str(i + 1) for i in range(n_layers))]
    shown = {"cosine of two vectors": cosines, "gender of the noun found": accuracy}
    return conclude(
        judge(control_cosines[-1] > 0.9999, cosines[-1] < 0.99, accuracy[-1] > 0.8),
        "Before the first layer an adjective has one vector, whatever follows. After layer "
        f"{n_layers} the cosine of two of its vectors is {cosines[-1]:.2f} on average, and the "
        "gender of the following noun in Italian can be read from the adjective's vector for "
        f"{accuracy[-1]:.0%} of new nouns.",
        "With all heads of the encoder muted the vectors stay the same (cosine "
        f"{control_cosines[-1]:.2f}) and show the gender for {control_accuracy[-1]:.0%}, as many "
        "as by guessing.",
        (
            "after layer",
            "cosine of two vectors of one word",
            "gender of the noun found",
            "cosine, heads muted (control)",
            "gender found, heads muted",
        ),
        [*zip(labels, cosines, accuracy, control_cosines, control_accuracy, strict=True)],
        bars("From the adjective's vector, by layer", labels, shown),
    )


def mute_all(lab: Lab) -> list[Edit]:
    """Return edits that mute every head of the encoder."""
    found = heads_per_attention(lab.grammar_translator.model).items()
    return [
        {"op": "mute", "at": at, "head": h}
        for at, n_heads in found
        if at.startswith("enc")
        for h in range(n_heads)
    ]


def measure(lab: Lab, edits: Sequence[Edit], n_nouns: int) -> tuple[list[float], list[float]]:
    """Return two lists by layer, means over several adjectives.

    They are the mean cosine of two vectors of one adjective, and the share of new nouns whose
    gender can be read from its vector.
    """
    translator = lab.grammar_translator
    vocabulary = translator.source_vocabulary
    singles = [noun for noun in lexicon.NOUNS if len(vocabulary.encode(noun.english)) == 1]
    genders = [
        [noun.english for noun in singles if noun.gender == gender][: n_nouns // 2]
        for gender in ("f", "m")
    ]
    nouns = [noun for both in zip(*genders, strict=False) for noun in both]  # f, m, f, m, ...
    is_feminine = torch.arange(len(nouns)) % 2 == 0
    half = len(nouns) // 4 * 2  # even, so that both genders are equally frequent
    cosines, accuracy = [], []
    for adjective in ADJECTIVES:
        texts = [FRAME.format(adjective, noun) for noun in nouns]
        examples = [encode_example(vocabulary.encode(text), []) for text in texts]
        layers: list[list[Tensor]] = [
            [] for _ in range(translator.model.config.encoder.n_layers + 1)
        ]
        for found in record_each(translator.model, examples, edits):
            for i, layer in enumerate(layers):
                layer.append(found["enc.0.self.in" if i == 0 else f"enc.{i - 1}.ff.norm"][PLACE])
        vectors = [torch.stack(layer) for layer in layers]
        pairs = torch.tensor(list(itertools.combinations(range(len(nouns)), 2))).T
        cosines.append(
            [F.cosine_similarity(each[pairs[0]], each[pairs[1]]).mean().item() for each in vectors]
        )
        accuracy.append([gender_accuracy(each, is_feminine, half) for each in vectors])
    return [mean(layer) for layer in zip(*cosines, strict=True)], [
        mean(layer) for layer in zip(*accuracy, strict=True)
    ]


def gender_accuracy(vectors: Tensor, is_feminine: Tensor, half: int) -> float:
    """Classify vectors by the nearer of two class means; return the share that is correct.

    The means are those of the first `half` vectors; the others are classified.
    """
    seen, new = vectors[:half], vectors[half:]
    is_seen_feminine = is_feminine[:half]
    means = torch.stack([seen[~is_seen_feminine].mean(dim=0), seen[is_seen_feminine].mean(dim=0)])
    distances = torch.cdist(new, means)
    predicted = distances[:, 1] < distances[:, 0] - 1e-5
    return (predicted == is_feminine[half:]).float().mean().item()
