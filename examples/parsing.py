"""English constituency parsing as translation: from words to a bracketed tree (section 6.3 of the paper).

    python examples/parsing.py [--sentences 8000] [--steps 800]

The paper showed that the Transformer is good for more than translation. Here a treebank is generated, a small model learns to write
the tree of a sentence, and is scored on sentences that it has not seen by labelled F1: which constituents, from where to where.

    the girl with a dog sees the house of Anna
    (S (NP (NP DT NN ) (PP IN (NP DT NN ) ) ) (VP VB (NP (NP DT NN ) (PP IN (NP NNP ) ) ) ) )

Where "with" belongs is decided by the word before it: after a person it belongs to the person, after a thing to the verb.
"""

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console

import transduce

PEOPLE = ("girl", "boy", "teacher", "doctor", "farmer", "queen")
THINGS = ("house", "car", "book", "table", "garden", "letter")
VERBS = ("sees", "finds", "paints", "moves", "opens", "sells")
ADJECTIVES = ("red", "old", "small", "new", "heavy")
NAMES = ("Anna", "Maria", "Paul", "John")
Span = tuple[str, int, int]


def noun_phrase(rng: random.Random, depth: int) -> tuple[list[str], str, bool]:
    """Words, their tree, and whether a person is meant last."""
    if rng.random() < 0.2:
        return [rng.choice(NAMES)], "(NP NNP )", True
    is_person = rng.random() < 0.5
    words = [rng.choice(("the", "a")), rng.choice(PEOPLE if is_person else THINGS)]
    tags = "DT NN"
    if rng.random() < 0.3:
        words.insert(1, rng.choice(ADJECTIVES))
        tags = "DT JJ NN"
    tree = f"(NP {tags} )"
    if depth and rng.random() < 0.35:
        inner, inner_tree, inner_person = noun_phrase(rng, depth - 1)
        preposition = rng.choice(("of", "with")) if is_person else "of"
        return [*words, preposition, *inner], f"(NP {tree} (PP IN {inner_tree} ) )", inner_person
    return words, tree, is_person


def sentence(rng: random.Random) -> tuple[str, str]:
    """A sentence and its tree."""
    subject, subject_tree, _ = noun_phrase(rng, 2)
    words, tree, is_person = noun_phrase(rng, 2)
    verb_phrase = f"VB {tree}"
    if not is_person and rng.random() < 0.4:
        tool, tool_tree, _ = noun_phrase(rng, 1)
        words, verb_phrase = [*words, "with", *tool], f"{verb_phrase} (PP IN {tool_tree} )"
    return " ".join(
        [*subject, rng.choice(VERBS), *words]
    ), f"(S {subject_tree} (VP {verb_phrase} ) )"


def treebank(n: int, seed: int, without: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """`n` different sentences with their trees, none of them among `without`."""
    rng, found = random.Random(seed), {}
    while len(found) < n:
        text, tree = sentence(rng)
        if text not in without:
            found[text] = tree
    return list(found.items())


def spans(tree: str) -> Counter[Span]:
    """The constituents of a tree: label, first word, word after the last. What is not a tree has none."""
    found: Counter[Span] = Counter()
    open_at: list[tuple[str, int]] = []
    position = 0
    for token in tree.split():
        if token.startswith("("):
            open_at.append((token[1:], position))
        elif token == ")":
            if not open_at:
                return Counter()
            label, start = open_at.pop()
            found[label, start, position] += 1
        else:
            position += 1
    return found if not open_at else Counter()


def labelled_f1(trees: list[str], gold: list[str]) -> float:
    """The harmonic mean of precision and recall of constituents, in percent."""
    pairs = [(spans(tree), spans(right)) for tree, right in zip(trees, gold, strict=True)]
    n_right = sum((found & right).total() for found, right in pairs)
    n_found, n_gold = (sum(pair[i].total() for pair in pairs) for i in (0, 1))
    return 100 * 2 * n_right / max(1, n_found + n_gold)


def main(n_sentences: int, steps: int, n_test: int = 300) -> float:
    """Generate, train, parse, score."""
    test = treebank(n_test, seed=2)
    train = treebank(n_sentences, seed=1, without=frozenset(text for text, _ in test))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, side in (("words", 0), ("trees", 1)):
            (folder / name).write_text(
                "".join(f"{pair[side]}\n" for pair in train), encoding="utf-8"
            )
        parser = transduce.train(
            folder / "run",
            folder / "words",
            folder / "trees",
            preset="nano",
            settings=[
                {
                    "text": {"kind": "unigram", "joint": False},
                    "data": {"batch_tokens": 1024, "valid_pairs": 100},
                },
                {
                    "train": {
                        "steps": steps,
                        "schedule": "cosine",
                        "validate_every": steps,
                        "save_every": steps,
                    }
                },
                {"train": {"warmup_steps": max(1, steps // 5), "average_last": 1}},
            ],
            console=Console(stderr=True, soft_wrap=True),
        )
    found = [
        translation.text for translation in parser.translate([text for text, _ in test], beam=1)
    ]
    f1 = labelled_f1(found, [tree for _, tree in test])
    print(f"{test[0][0]}\n{found[0]}")
    print(f"labelled F1 on {n_test} unseen sentences: {f1:.1f}")
    return f1


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--sentences", type=int, default=8000)
    options.add_argument("--steps", type=int, default=800)
    given = options.parse_args()
    main(given.sentences, given.steps)
