"""How protected parts are copied: which words a model copies reliably, found by trying.

Some words, often names, come out of a model as they went in, wherever they stand; so do some
numbers. A protected part is masked by such a word: a number by a number, anything else by a name.
A model's frequent names and some numbers are tried in made-up contexts, once: what is found is
kept in the cache folder of the user.
"""

import contextlib
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeGuard

from transduce.convert.cache import find_other_writers, make_private_folders, user_cache
from transduce.decode.alignment import find_units
from transduce.errors import ModelError
from transduce.log import Log
from transduce.model_folder import ModelFolder
from transduce.storage import read_json, replace_file, sha256, to_json
from transduce.text.protected import NUMBER, ProtectedPart, has_letter
from transduce.text.vocabulary import SPECIAL_TOKENS, Vocabulary

Translate = Callable[[Sequence[str]], list[str]]

FORMAT = 2  # of the search for masks; part of the name of its result
N_CANDIDATES = 32
N_CONTEXTS = 12
MIN_NAME_LENGTH = 3
N_CONTEXT_WORDS = 300  # the most frequent words, of which contexts are made
CONTEXT_LENGTHS = (3, 8)  # words
MIN_COPIED = 0.75  # share of the contexts: a copy is verified each time it is used
MAX_MASKS = 4  # of each kind
NUMBERS = ("10", "20", "30", "50", "15", "12", "25", "40", "5", "7", "8", "6")  # tried as masks


class Masks(NamedTuple):
    """Words that a model copies, most reliable first."""

    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    def choose(self, parts: Sequence[ProtectedPart], sentence: str) -> tuple[str, ...]:
        """Return a mask for each part of a sentence; none if there are too few."""
        used = {sentence[start:end] for start, end in find_units(sentence)}
        names = [each for each in self.names if each not in used]
        numbers = [each for each in self.numbers if each not in used]
        chosen = []
        for part in parts:
            free = names if part.kind != NUMBER or has_letter(part.text) else numbers
            if not free:
                return ()
            chosen.append(free.pop(0))
        return tuple(chosen)


def find_masks(folders: Sequence[ModelFolder], translate: Translate, log: Log) -> Masks:
    """Return the words that a model copies reliably, from the cache if they were found before.

    Several folders are an ensemble.
    """
    fingerprints = [each.fingerprint or "" for each in folders]
    cache = user_cache("masks")
    if not all(fingerprints) or cache is None:
        return try_masks(folders[0], translate)
    key = sha256(" ".join((*fingerprints, str(FORMAT))).encode())[:32]
    path = cache / f"{key}.json"
    with contextlib.suppress(OSError, ModelError):
        if find_other_writers(path) is None:
            record = read_json(path, "cache")
            names, numbers = record.get("names"), record.get("numbers")
            if _is_words(names) and _is_words(numbers):
                return Masks(tuple(names), tuple(numbers))
    log("testing which words the model copies, to mask links and placeholders (once per model)")
    found = try_masks(folders[0], translate)
    with contextlib.suppress(OSError):  # without a cache they are tried again
        make_private_folders(path.parent)
        replace_file(path, to_json(found._asdict()))
    return found


def _is_words(value: object) -> TypeGuard[list[str]]:
    return (
        isinstance(value, list)
        and len(value) <= MAX_MASKS
        and all(isinstance(each, str) and each.isalnum() for each in value)
    )


def try_masks(folder: ModelFolder, translate: Translate) -> Masks:
    """Return the words that a model copies most reliably; none if there are none."""
    names = find_candidates(folder)
    contexts = _make_contexts(folder.source_vocabulary)
    if not contexts:
        return Masks()
    candidates = [*names, *NUMBERS]
    texts = [
        " ".join((*words[:place], candidate, *words[place:]))
        for candidate in candidates
        for words, place in contexts
    ]
    outputs = iter(translate(texts))
    n_copied: dict[str, int] = {}
    for candidate in candidates:
        found = [next(outputs) for _ in contexts]
        n_copied[candidate] = sum(_words(text).count(candidate) == 1 for text in found)

    def best(of_kind: Sequence[str]) -> tuple[str, ...]:
        reliable = (each for each in of_kind if n_copied[each] >= MIN_COPIED * len(contexts))
        return tuple(sorted(reliable, key=lambda each: -n_copied[each])[:MAX_MASKS])

    return Masks(best(names), best(NUMBERS))


def find_candidates(folder: ModelFolder) -> list[str]:
    """Return the most frequent words that look like names and are one token on both sides."""
    source, target = folder.source_vocabulary, folder.target_vocabulary
    words = _frequent_words(source, is_name=True)
    both = [word for word in words if len(target.encode(word)) == 1]
    if folder.words is not None:  # in the language, and never with a small letter
        both = [each for each in both if each in folder.words and each.lower() not in folder.words]
    return both[:N_CANDIDATES]


def _make_contexts(vocabulary: Vocabulary) -> list[tuple[list[str], int]]:
    """Return lists of frequent words, each with a place between them."""
    words = _frequent_words(vocabulary, is_name=False)[:N_CONTEXT_WORDS]
    rng = random.Random(1)
    contexts = []
    for _ in range(N_CONTEXTS if words else 0):
        chosen = rng.choices(words, k=rng.randint(*CONTEXT_LENGTHS))
        contexts.append((chosen, rng.randint(0, len(chosen))))
    return contexts


def _frequent_words(vocabulary: Vocabulary, *, is_name: bool) -> list[str]:
    """Return the words that are one token, the most frequent first."""
    found = []
    for i in range(len(SPECIAL_TOKENS), len(vocabulary)):
        surface = vocabulary.surface(i)
        word = surface[1:]
        if not surface.startswith(" ") or not word.isalpha():
            continue
        is_title = word[0].isupper() and word[1:].islower() and len(word) >= MIN_NAME_LENGTH
        if is_title if is_name else word.islower():
            found.append(word)
    return found


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in find_units(text)]
