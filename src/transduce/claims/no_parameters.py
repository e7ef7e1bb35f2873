"""Attention without any trained matrix already relates words, if their vectors do."""

import itertools
import math

import torch
from torch import Tensor

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab, grammar_pairs, mean
from transduce.claims.similar_words import kinds
from transduce.model.attention import attention_weights

MORE = 1.2  # a ratio of weights from which the first is clearly larger


def run(
    lab: Lab, *, meaningful: bool = True, control_meaningful: bool = False, n_sentences: int = 150
) -> Result:
    """Compute softmax(X X^T / sqrt(d)) on word vectors: do words attend to their class?"""
    here, control = (
        mean_weights(lab, is_own, n_sentences) for is_own in (meaningful, control_meaningful)
    )
    is_own_class_attracted = here[0] > MORE * control[0]
    shown = {"the model's vectors": here[:2], "shuffled": control[:2]}
    return conclude(
        judge(control[0] < MORE * control[1], here[0] > MORE * here[1]),
        "Without any matrix, a word gives another word of its class (noun, adjective, verb, name) "
        f"{here[0] / here[1]:.2f} times the weight of a word of another class: {here[0]:.4f} "
        f"against {here[1]:.4f}. It keeps {here[2]:.0%} for itself. The vectors are the trained "
        f"embedding; with shuffled vectors the weights are {control[0]:.4f} and "
        f"{control[1]:.4f}: "
        + (
            "so words of the same class attract each other."
            if is_own_class_attracted
            else "so words of other classes repel each other; the same class does not attract."
        ),
        f"With vectors shuffled among the words the ratio is {control[0] / control[1]:.2f}: the "
        "relation is learned and in the vectors, attention only reads it.",
        ("word vectors", "weight on a word of the same class", "of another class", "on itself"),
        [("the model's", *here), ("shuffled (control)", *control)],
        bars("Mean weight on another word", ["same class", "another class"], shown),
    )


def mean_weights(lab: Lab, is_own: bool, n_sentences: int) -> tuple[float, float, float]:
    """Return the mean weight on other words of the same class, of another class, on itself."""
    translator = lab.grammar_translator
    classes = {word: kind.split(":")[0] for word, kind in kinds().items()}
    table = translator.model.source_embedding.weight.detach()
    spelled = [translator.source_vocabulary.encode(word)[0] for word in classes]
    random = torch.Generator().manual_seed(1)
    same: list[float] = []
    other: list[float] = []
    itself: list[float] = []
    for number, pair in enumerate(grammar_pairs(n_sentences)):
        if number == 0 or not is_own:  # shuffled again for each sentence
            order = (
                torch.arange(len(spelled))
                if is_own
                else torch.randperm(len(spelled), generator=random)
            )
            vectors = dict(
                zip(classes, table[spelled][order] * math.sqrt(table.shape[1]), strict=True)
            )
        words = [word for word in pair.source.split() if word in classes]
        if len(words) < 3:
            continue
        x = torch.stack([vectors[word] for word in words])
        weights: Tensor = attention_weights(x[None, None], x[None, None])[0, 0]
        for i, j in itertools.product(range(len(words)), repeat=2):
            weight = weights[i, j].item()
            if i == j:
                itself.append(weight)
            elif words[i] == words[j]:
                continue  # another occurrence of the same word
            elif classes[words[i]] == classes[words[j]]:
                same.append(weight)
            else:
                other.append(weight)
    return mean(same), mean(other), mean(itself)
