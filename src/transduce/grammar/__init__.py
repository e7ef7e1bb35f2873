"""Generated corpora: English-Italian sentences, and letters to copy, reverse or sort.

- `sampling`: choose words that go together
- `syntax`: build a sentence in both languages, with its word alignment
- `lexicon`: the words
- `inflection`: their regular forms

Training and held-out sentences differ in composition: a tenth of all combinations of two words
(red + car, buy + horse) occurs only in held-out sentences. Each of the two words also occurs in
training, in other combinations.
"""

import random
import zlib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Literal

from transduce.errors import UsageError
from transduce.grammar.lexicon import NAMES
from transduce.grammar.sampling import draw
from transduce.grammar.syntax import Sentence
from transduce.text.corpus import Pair

TASKS = ("en-it", "copy", "reverse", "sort")
Split = Literal["train", "held-out"]


def generate(task: str, n: int, *, seed: int, split: Split = "train") -> Iterator[Pair]:
    """Yield `n` pairs of a task, the same ones for the same seed."""
    if task == "en-it":
        return (sentence.pair() for sentence in sentences(n, seed=seed, split=split))
    if task in TASKS:
        return _sequences(task, n, seed, split)
    raise UsageError(f"unknown task {task!r}; choose one of {', '.join(TASKS)}")


def sentences(n: int, *, seed: int, split: Split = "train") -> Iterator[Sentence]:
    """Yield `n` English-Italian sentences.

    Training sentences have no held-out combination; held-out sentences have at least one.
    """
    rng = random.Random(seed)
    while n > 0:
        sentence = draw(rng)
        is_held_out_sentence = any(map(_is_held_out, sentence.combinations))
        if is_held_out_sentence == (split == "held-out") and not _is_unnatural(sentence):
            n -= 1
            yield sentence


def _is_unnatural(sentence: Sentence) -> bool:
    """Return whether a sentence is grammatical but would not be said.

    - "You all love your dog": your is tuo, but voi goes with vostro.
    - "Every girl loves their dog": suo or loro?
    - "Every girl never sleeps": one says "no girl ever sleeps".
    - "Maria loves Maria's dog": one says "her dog".
    """
    texts = [word.text.removesuffix("'s") for word in sentence.english]
    if "all" in texts and "your" in texts:
        return True
    if ("their" in texts or "never" in texts) and any(
        a == "every" and b != "day" for a, b in pairwise(texts)
    ):
        return True
    return any(texts.count(name) > 1 for name, _ in NAMES)


def is_held_out(text: str) -> bool:
    """Return whether a combination or sequence is in the held-out tenth, which training never sees.

    A checksum decides, so the answer is the same on every machine.
    """
    return zlib.crc32(f"held out: {text}".encode()) % 10 == 0


_is_held_out = cache(is_held_out)  # the same combinations occur many times


def _sequences(task: str, n: int, seed: int, split: Split) -> Iterator[Pair]:
    """Yield letters, with the same letters copied, reversed or sorted as target."""
    rng = random.Random(seed)
    while n > 0:
        letters = rng.choices("abcdefghijklmnop", k=rng.randint(1, 10))
        source = " ".join(letters)
        if is_held_out(source) != (split == "held-out"):
            continue
        order = list(range(len(letters)))
        if task == "reverse":
            order.reverse()
        elif task == "sort":
            order.sort(key=letters.__getitem__)
        n -= 1
        yield Pair(
            source,
            " ".join([letters[i] for i in order]),
            tuple(sorted((i, j) for j, i in enumerate(order))),
        )
