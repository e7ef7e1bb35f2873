"""Substitution: a glossary term takes the place of the model's own word, and only that."""

import numpy as np
import pytest

from transduce.decode.alignment import find_units
from transduce.decode.engines.base import SearchInput
from transduce.decode.insertion import AlignedText
from transduce.decode.readings import Reading
from transduce.decode.substitution import (
    MAX_COMBINATIONS,
    MIN_MASS,
    Substitution,
    choose_forms,
    find_substitutions,
)
from transduce.text.case import TITLE, UPPER, Casing
from transduce.text.edits import Edit, EditedText, edit
from transduce.text.terms import Glossary, Term, TermMatch


def substituted(
    source: str,
    text: str,
    links: dict[int, dict[int, float]],
    own: list[str],
    *entries: tuple[str, ...],
) -> str:
    """Return the text with the terms of a glossary; links[j][i] is attention of target unit j."""
    glossary = Glossary([(phrase, tuple(forms)) for phrase, *forms in entries])
    matches = tuple(glossary.find(source))
    reading = Reading(EditedText(source, source), SearchInput(()), terms=matches)
    units = find_units(source), find_units(text)
    weights = np.zeros((len(units[1]), len(units[0])), dtype=np.float32)
    for j, row in links.items():
        for i, weight in row.items():
            weights[j, i] = weight
    forms = [list(match.term.targets) for match in matches]
    found = find_substitutions(reading, text, AlignedText(*units, weights), own, forms)
    return edit(text, next(choose_forms(found))).text


ONE_TO_ONE = {0: {0: 1.0}, 1: {1: 1.0}, 2: {2: 1.0}}


def test_the_word_that_attends_to_the_term_is_replaced() -> None:
    text = substituted("the cat sleeps", "il gatto dorme", ONE_TO_ONE, ["gatto"], ("cat", "micio"))
    assert text == "il micio dorme"


def test_a_term_that_is_there_already_is_left_alone() -> None:
    text = substituted("the cat sleeps", "il Micio dorme", ONE_TO_ONE, [""], ("cat", "micio"))
    assert text == "il Micio dorme"


def test_a_term_that_occurs_twice_is_put_in_twice_even_if_one_is_there() -> None:
    links = {0: {0: 1.0}, 1: {1: 1.0}, 2: {2: 1.0}}
    text = substituted("cat and cat", "micio e gatto", links, ["gatto"] * 2, ("cat", "micio"))
    assert text == "micio e micio"


def test_the_models_own_word_for_the_term_outweighs_the_attention() -> None:
    """The attention is a bit higher on the verb, but the model calls a cat `gatto`."""
    links = {0: {0: 1.0}, 1: {1: 0.4}, 2: {1: 0.5, 2: 0.5}}
    for own, expected in (("gatti", "il micio dorme"), ("cane", "il gatto micio")):
        text = substituted("the cat sleeps", "il gatto dorme", links, [own], ("cat", "micio"))
        assert text == expected


@pytest.mark.parametrize(
    ("mass", "is_replaced"), [(MIN_MASS - 0.001, False), (MIN_MASS + 0.001, True)]
)
def test_a_word_needs_some_attention_to_the_term(mass: float, is_replaced: bool) -> None:
    text = substituted("the cat", "il gatto", {1: {1: mass}}, ["cane"], ("cat", "micio"))
    assert text == ("il micio" if is_replaced else "il gatto")


def test_a_hyphenated_word_is_replaced_as_a_whole() -> None:
    text = substituted("the cat", "il gatto-tigre", {1: {1: 1.0}}, [""], ("cat", "micio"))
    assert text == "il micio"


def test_a_hyphen_that_joins_nothing_stays() -> None:
    text = substituted("house and cat", "Haupt- und", {0: {0: 1.0}}, [""], ("house", "Neben"))
    assert text == "Neben- und"


def test_in_a_script_without_spaces_only_what_attends_to_the_term_is_replaced() -> None:
    links = {0: {0: 1.0}, 1: {1: 0.6}, 2: {1: 0.5}, 3: {2: 1.0}}
    text = substituted("I love cats", "我喜欢猫", links, [""], ("love", "恨"))
    assert text == "我恨猫"


def test_punctuation_is_never_replaced() -> None:
    text = substituted("the cat", "il .", {1: {1: 1.0}}, [""], ("cat", "micio"))
    assert text == "il ."


def test_two_terms_do_not_take_the_same_word() -> None:
    links = {0: {0: 0.6, 1: 0.4}, 1: {0: 0.4, 1: 0.3}}
    text = substituted("big cat", "uno due", links, ["", ""], ("big", "grosso"), ("cat", "micio"))
    assert text == "grosso micio"


def test_a_term_at_the_beginning_gets_the_capital_of_the_word_it_replaces() -> None:
    links = {0: {0: 1.0}}
    assert (
        substituted("cats sleep", "Gatti dormono", links, [""], ("cats", "mici")) == "Mici dormono"
    )
    assert (
        substituted("cats sleep", "gatti dormono", links, [""], ("cats", "mici")) == "mici dormono"
    )


@pytest.mark.parametrize(
    ("sentence", "styles", "forms", "expected"),
    [
        ("My Black Cat Sleeps", {3: TITLE, 13: TITLE}, ("micio nero",), "Il Micio Nero Dorme"),
        ("My Black Cat Sleeps", {3: TITLE}, ("l'amico",), "Il L'amico Dorme"),
        ("My black cat Sleeps", {13: TITLE}, ("micio",), "Il micio Dorme"),
        ("my BLACK CAT sleeps", {3: UPPER, 9: UPPER}, ("micio",), "Il MICIO Dorme"),
        ("My Black Cat Sleeps", {3: TITLE}, ("black Cat",), "Il Black Cat Dorme"),
        ("My Black Cat SLEEPS", {13: UPPER}, ("micio",), "Il micio Dorme"),  # not a title
        ("My Black Cat Sleeps", None, ("micio",), "Il micio Dorme"),
    ],
)
def test_a_term_has_the_capitals_of_its_words_in_the_sentence(
    sentence: str, styles: dict[int, str] | None, forms: tuple[str, ...], expected: str
) -> None:
    casing = None if styles is None else Casing(is_upper=False, styles=styles)
    source = EditedText(sentence, sentence.lower())
    match = TermMatch(Term("black cat", forms), 3, 12)
    reading = Reading(source, SearchInput(()), terms=(match,), casing=casing)
    text = "Il Gatto Dorme"
    weights = np.zeros((3, 4), dtype=np.float32)
    weights[1, 2] = 1.0
    aligned = AlignedText(find_units(source.text), find_units(text), weights)
    found = find_substitutions(reading, text, aligned, [""], [forms])
    assert edit(text, next(choose_forms(found))).text == expected


def test_a_verbatim_term_keeps_its_case_in_a_title() -> None:
    source = EditedText("My Acme Sleeps Well", "my acme sleeps well")
    term = TermMatch(Term("iAcme", ("iAcme",)), 3, 7)
    casing = Casing(is_upper=False, styles={3: TITLE, 8: TITLE})
    reading = Reading(source, SearchInput(()), terms=(term,), casing=casing)
    units = find_units(source.text), find_units("Il Gatto Dorme")
    weights = np.eye(3, 4, dtype=np.float32)
    found = find_substitutions(
        reading, "Il Gatto Dorme", AlignedText(*units, weights), [""], [["iAcme"]]
    )
    assert [each.forms for each in found] == [("iAcme",)]


def with_number(text: str, links: dict[int, dict[int, float]], own: str) -> str:
    """Return a translation of `he has 35 cats` whose number is to be put in."""
    source = "he has 35 cats"
    match = TermMatch(Term("35", ("35",)), 7, 9)
    reading = Reading(EditedText(source, source), SearchInput(()), numbers=(match,))
    weights = np.zeros((len(find_units(text)), 4), dtype=np.float32)
    for j, row in links.items():
        for i, weight in row.items():
            weights[j, i] = weight
    aligned = AlignedText(find_units(source), find_units(text), weights)
    found = find_substitutions(reading, text, aligned, [own], [["35"]])
    return edit(text, next(choose_forms(found))).text


@pytest.mark.parametrize(
    ("text", "own", "expected"),
    [
        ("ha 53 gatti", "", "ha 35 gatti"),  # a number, but another one
        ("ha 3.550,5 gatti", "", "ha 35 gatti"),  # all of it
        ("ha trenta gatti", "trenta", "ha 35 gatti"),  # what the model writes for the number
        ("ha trenta gatti", "", "ha trenta gatti"),  # another word stays
        ("ha l'35 gatti", "", "ha l'35 gatti"),
        ("ha 35 gatti", "", "ha 35 gatti"),  # it is there
    ],
)
def test_a_number_takes_the_place_of_a_number_only(text: str, own: str, expected: str) -> None:
    assert with_number(text, {1: {2: 1.0}}, own) == expected


def test_all_combinations_of_forms_are_offered_the_first_one_first_up_to_a_limit() -> None:
    two = [Substitution(0, 1, ("a", "b")), Substitution(2, 3, ("x", "y"))]
    assert [[each.replacement for each in edits] for edits in choose_forms(two)] == [
        ["a", "x"], ["a", "y"], ["b", "x"], ["b", "y"],
    ]  # fmt: skip
    many = [Substitution(i, i + 1, tuple("abcd")) for i in range(9)]
    assert len(list(choose_forms(many))) == MAX_COMBINATIONS
    assert list(choose_forms([])) == [[]]
    assert next(choose_forms([Substitution(3, 5, ("z",))])) == [Edit(3, 5, "z")]
