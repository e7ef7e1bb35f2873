"""A toy language and its translation, which a model learns in seconds.

English word order and Italian agreement: "the red cat of a girl sees the house often" is "il gatto
rosso di una ragazza vede la casa spesso". An adjective follows its noun and agrees with it. Phrases
nest, so sentences can be made longer than any in training.
"""

import random
from collections.abc import Iterator

from transduce.grammar import is_held_out
from transduce.text.corpus import Pair


def _dictionary(entries: str) -> dict[str, str]:
    """Return translations by English word, from entries such as "cat/gatto dog/cane"."""
    return dict(entry.split("/") for entry in entries.split())


NOUNS = _dictionary(
    "cat/gatto dog/cane boy/ragazzo horse/cavallo book/libro train/treno girl/ragazza "
    "house/casa car/macchina flower/rosa queen/regina table/tavola"
)
ADJECTIVES = _dictionary(  # Italian stems, without the ending -o or -a
    "red/ross new/nuov white/bianc black/ner small/piccol good/buon tall/alt rich/ricc"
)
VERBS = _dictionary(
    "sees/vede loves/ama finds/trova hears/sente follows/segue wants/vuole takes/prende has/ha"
)
ADVERBS = _dictionary("often/spesso never/mai today/oggi again/ancora")
Words = list[tuple[str, str]]  # English, Italian


def sentences(
    n: int, seed: int, split: str = "train", nested: tuple[int, int] = (0, 1)
) -> Iterator[Pair]:
    """Yield `n` sentence pairs with their word alignment.

    Each noun phrase contains from `nested[0]` to `nested[1]` others. Some combinations of subject
    and verb occur only in the split "held-out".
    """
    rng = random.Random(seed)
    while n:
        subject, verb = phrase(rng, rng.randint(*nested)), rng.choice(list(VERBS.items()))
        parts = [subject, [verb], phrase(rng, rng.randint(*nested))]
        subject_word = subject[1] if len(subject) > 2 else subject[-1]  # the word after the article
        if is_held_out(f"{subject_word[0]} {verb[0]}") != (split == "held-out"):
            continue
        if rng.random() < 0.5:
            parts.append([rng.choice(list(ADVERBS.items()))])
        words = [word for part in parts for word in part]
        order = italian_order([source for source, _ in words])
        source, target = (
            " ".join(source for source, _ in words),
            " ".join(words[i][1] for i in order),
        )
        yield Pair(source, target, tuple(sorted((i, j) for j, i in enumerate(order))))
        n -= 1


def phrase(rng: random.Random, depth: int) -> Words:
    """Return the words of a noun phrase: article, perhaps an adjective, noun, nested phrases."""
    source, target = rng.choice(list(NOUNS.items()))
    is_feminine = target.endswith("a")
    definite = ("the", "la" if is_feminine else "il")
    indefinite = ("a", "una" if is_feminine else "un")
    article = rng.choice((definite, indefinite))
    middle = []
    if rng.random() < 0.5:
        adjective, stem = rng.choice(list(ADJECTIVES.items()))
        middle.append((adjective, stem + ("a" if is_feminine else "o")))
    words = [article, *middle, (source, target)]
    return [*words, ("of", "di"), *phrase(rng, depth - 1)] if depth else words


def italian_order(source: list[str]) -> list[int]:
    """Return the index of the source word at each target position: noun before adjective."""
    order = list(range(len(source)))
    for i, word in enumerate(source):
        if word in ADJECTIVES:
            order[i], order[i + 1] = i + 1, i
    return order
