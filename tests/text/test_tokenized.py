"""Tokenized text is detected, and ordinary prose is not."""

import re

import pytest

from transduce.grammar import generate
from transduce.text.tokenized import is_lower_case, looks_tokenized, looks_untokenized

ENGLISH = """It was late, and the rain had not stopped; nobody spoke.
"Well," she said, "that's it. We can't go on like this, can we?"
Mr. Smith's dog (the old one) barked at 3.5 million people... twice.
In the U.S. prices rose by 0.5 %, i.e. less than expected.
See https://example.org/a.b,c or write to me@example.org & wait.
He paused . . . and then went on - slowly.
The R&D department, A.M. & P.M. shifts and so on, costs $1,000.50.
Twenty-one men-of-war don't sail; they're waiting.""".splitlines()
GERMAN = """Es war spät, und der Regen hatte nicht aufgehört; niemand sprach.
»Nun«, sagte sie, »das war's. So geht's nicht weiter, oder?«
Der Hund von Hrn. Schmidt (der alte) bellte z. B. um 3,5 Uhr.
Das kostet 1.000,50 Euro, d. h. weniger als erwartet.
Am 3. Mai 1999 kam er, wie immer, zu spät ...
Ein Mann mit Hut, einer Brille und Hund steht am Straßenrand.""".splitlines()
FRENCH = [
    "Tu viens ? Oui , peut-être.",
    "Quoi ! Il dort : c'est vrai ; je le sais.",
    "« Non », dit-elle.",
    "Ah !",
] * 2
FRENCH[0] = FRENCH[4] = "Tu viens ? Oui, peut-être."


def tokenize(line: str) -> str:
    """Tokenize a line roughly as Moses does."""
    return " ".join(re.findall(r"\w+|[^\w\s]", line)).replace("'", "&apos;")


@pytest.mark.parametrize("prose", [ENGLISH, GERMAN, FRENCH], ids=["english", "german", "french"])
def test_prose_looks_tokenized_only_after_tokenization(prose: list[str]) -> None:
    assert looks_tokenized(prose) is None
    assert looks_untokenized(prose)
    if prose is not FRENCH:  # too few of its lines have a full stop or a comma
        assert looks_tokenized(list(map(tokenize, prose)))
    assert looks_untokenized(list(map(tokenize, prose))) is None


@pytest.mark.parametrize("task", ["en-it", "copy", "reverse", "sort"])
def test_generated_text_never_looks_tokenized(task: str) -> None:
    """Try the whole text, the text in lower case, and each line by itself."""
    lines = [text for pair in generate(task, 300, seed=2) for text in pair[:2]]
    for some in (lines, [line.lower() for line in lines], *([line] for line in lines)):
        assert looks_tokenized(some) is None


def test_the_evidence_names_the_most_frequent_trace() -> None:
    lines = ["the cat sleeps .", "a dog , a cat", "the dog sleeps .", "nothing"]
    assert looks_tokenized(lines) == "' .' and the like in 3 of 4 lines"
    assert (
        looks_untokenized(["The cat sleeps.", "A dog"]) == "'sleeps.' and the like in 1 of 2 lines"
    )


@pytest.mark.parametrize(
    "line",
    ["it &apos;s", "dog 's bone", "do n't", "well @-@ known", "low@@ er", "\u2581The\u2581cat"],
)
def test_traces_of_tokenizers_are_found(line: str) -> None:
    assert looks_tokenized([line])


def test_in_a_text_without_capitals_fewer_traces_are_enough() -> None:
    lines = ["the cat sleeps"] * 9 + ["the cat sleeps ."]
    assert looks_tokenized(lines)
    assert looks_tokenized(["The cat", *lines]) is None
    assert is_lower_case(lines)
    assert not is_lower_case(["12 34", "猫"])


def test_exactly_a_fifth_of_the_lines_is_not_enough_evidence_and_one_line_more_is() -> None:
    lines = [*["The cat sleeps ."] * 20, *["The cat sleeps."] * 80]
    assert looks_tokenized(lines) is None
    assert looks_tokenized([*lines, lines[0]]) is not None
