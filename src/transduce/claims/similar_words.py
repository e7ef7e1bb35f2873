"""Do words of similar meaning get similar vectors?"""

from functools import cache

import torch
from torch.nn import functional as F

from transduce.claims.claim import Result, bars, conclude, judge
from transduce.claims.lab import Lab
from transduce.grammar import lexicon


@cache
def kinds() -> dict[str, str]:
    """Return the words of the grammar by kind: `noun:animal`, `verb`, `adjective`, `name`."""
    found = {noun.english: f"noun:{noun.kind}" for noun in lexicon.NOUNS}
    found |= {adjective.english: "adjective" for adjective in lexicon.ADJECTIVES}
    found |= {verb.lemma: "verb" for verb in lexicon.VERBS}
    return found | {name: "name" for name, _ in lexicon.NAMES}


def run(lab: Lab, *, meaningful: bool = True, control_meaningful: bool = False) -> Result:
    """Check whether the nearest vector is of the same class and, for nouns, of the same kind."""
    here, control = (nearest(lab, is_own) for is_own in (meaningful, control_meaningful))
    finds_class = here[0] > 2 * control[0] and here[0] > 0.5
    finds_kind = here[1] > 2 * control[1] and here[1] > 0.5
    shown = {"the model's vectors": here[:2], "shuffled": control[:2]}
    return conclude(
        judge(control[0] < 0.6, finds_class, finds_kind),
        f"Among {here[4]:.0f} words the nearest is of the same class (noun, verb, adjective, name) "
        f"for {here[0]:.0%} of words, and of the same kind (animal, food, place, ...) for "
        f"{here[1]:.0%} of nouns. The mean cosine is {here[2]:.3f} within a class and "
        f"{here[3]:.3f} between classes.",
        f"With the vectors shuffled among the words it is {control[0]:.0%} and {control[1]:.0%}.",
        (
            "word vectors",
            "nearest is of the same class",
            "nearest is of the same kind (nouns)",
            "cosine within a class",
            "between classes",
        ),
        [("the model's", *here[:4]), ("shuffled (control)", *control[:4])],
        bars("Share of words whose nearest word is of the same", ["class", "kind (nouns)"], shown),
    )


def nearest(lab: Lab, is_own: bool) -> tuple[float, float, float, float, float]:
    """Return five numbers about the nearest neighbours of words that are one token.

    They are the share of words with a neighbour of the same class, the share of nouns with one of
    the same kind, the mean cosine within a class, between classes, and the number of words.
    """
    vocabulary = lab.grammar_translator.source_vocabulary
    spelled = {word: vocabulary.encode(word) for word in kinds()}
    words = [word for word, ids in spelled.items() if len(ids) == 1]
    names = [kinds()[word] for word in words]
    table = lab.grammar_translator.model.source_embedding.weight.detach()
    vectors = F.normalize(table[[spelled[word][0] for word in words]], dim=-1)
    if not is_own:
        vectors = vectors[torch.randperm(len(words), generator=torch.Generator().manual_seed(1))]
    cosines = vectors @ vectors.T
    near = cosines.clone().fill_diagonal_(-1).argmax(dim=1).tolist()
    classes = [name.split(":")[0] for name in names]
    nouns = [i for i, name in enumerate(classes) if name == "noun"]
    is_same = torch.tensor([[a == b for b in classes] for a in classes])
    within = is_same & ~torch.eye(len(words), dtype=torch.bool)
    return (
        sum(classes[i] == classes[j] for i, j in enumerate(near)) / len(words),
        sum(names[i] == names[near[i]] for i in nouns) / len(nouns),
        cosines[within].mean().item(),
        cosines[~is_same].mean().item(),
        float(len(words)),
    )
