"""English constituency parsing as translation, from words to a bracketed tree (section 6.3).

    python examples/parsing.py [--sentences 8000] [--steps 800]

The paper shows that the Transformer is not limited to translation. Here a treebank is generated,
and a small model learns to write the tree of a sentence. It is scored on unseen sentences by
labelled F1, which compares the labels and boundaries of constituents.

    the girl with a dog sees the house of Anna
    (S (NP (NP DT NN ) (PP IN (NP DT NN ) ) ) (VP VB (NP (NP DT NN ) (PP IN (NP NNP ) ) ) ) )

The word before "with" decides what it belongs to: after a person to the person, after a thing to
the verb.
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
Span = tuple[str, int, int]  # label, index of the first word, index after the last word


def noun_phrase(rng: random.Random, depth: int) -> tuple[list[str], str, bool]:
    """Return words, their tree, and whether the last noun is a person.

    At most `depth` noun phrases are nested in it.
    """
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
    """Return a sentence and its tree."""
    subject, subject_tree, _ = noun_phrase(rng, 2)
    words, tree, is_person = noun_phrase(rng, 2)
    verb_phrase = f"VB {tree}"
    if not is_person and rng.random() < 0.4:
        tool, tool_tree, _ = noun_phrase(rng, 1)
        words, verb_phrase = [*words, "with", *tool], f"{verb_phrase} (PP IN {tool_tree} )"
    text = " ".join([*subject, rng.choice(VERBS), *words])
    return text, f"(S {subject_tree} (VP {verb_phrase} ) )"


def treebank(n: int, seed: int, without: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """Return `n` different sentences with their trees, none of them in `without`."""
    rng, found = random.Random(seed), {}
    while len(found) < n:
        text, tree = sentence(rng)
        if text not in without:
            found[text] = tree
    return list(found.items())


def spans(tree: str) -> Counter[Span]:
    """Return the constituents of a tree; none if the text is not a tree."""
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
    """Return the harmonic mean of precision and recall of constituents, in percent."""
    pairs = [(spans(tree), spans(correct)) for tree, correct in zip(trees, gold, strict=True)]
    n_correct = sum((found & correct).total() for found, correct in pairs)
    n_found = sum(found.total() for found, _ in pairs)
    n_gold = sum(correct.total() for _, correct in pairs)
    return 100 * 2 * n_correct / max(1, n_found + n_gold)


def main(n_sentences: int, steps: int, n_test: int = 300) -> float:
    """Generate a treebank, train a parser, and return its labelled F1 on unseen sentences."""
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
