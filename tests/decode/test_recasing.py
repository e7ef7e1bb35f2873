"""Capitals that a model hardly knows: which words it reads instead."""

from dataclasses import replace

import pytest

from transduce.decode.recasing import UNCHANGED, WordForms
from transduce.model_folder import ModelFolder
from transduce.text.case import TITLE, UPPER
from transduce.text.edits import edit
from transduce.text.protected import find_protected

KNOWN = {"Where", "where", "is", "the", "station", "Maria", "NATO", "I", "we", "a", "man", "old"}


@pytest.fixture
def forms(untrained_folder: ModelFolder) -> WordForms:
    return WordForms(replace(untrained_folder, words=frozenset(KNOWN)))


def read(forms: WordForms, text: str) -> str:
    return edit(text, forms.recase(text, find_protected(text)).edits).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WHERE IS THE STATION ?", "Where is the station ?"),
        ("MARIA IS OLD", "Maria is old"),  # a name keeps its capital
        ("NATO IS OLD", "NATO is old"),  # known in capitals
        ("WHERE IS {name} ?", "Where is {name} ?"),  # a protected part has no case
        ("Where Is The Old Station", "Where is the old station"),
        ("Where is the STATION ?", "Where is the station ?"),  # for emphasis
    ],
)
def test_words_are_read_in_the_form_that_the_model_knows(
    forms: WordForms, text: str, expected: str
) -> None:
    assert read(forms, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Where is the station ?",
        "where is the station ?",
        "Maria",
        "NATO",
        "I",
        "ZZYZX ZZYXZ",  # nothing that the model knows better
        "Where is ZZYZX ?",
        "42 !",
    ],
)
def test_what_the_model_knows_or_nobody_knows_stays(forms: WordForms, text: str) -> None:
    if not text.isupper():
        assert forms.recase(text, []) == UNCHANGED
    assert read(forms, text).casefold() == text.casefold()


def test_a_sentence_in_capitals_is_changed_if_half_of_its_words_are_unfamiliar(
    untrained_folder: ModelFolder,
) -> None:
    for known, is_changed in (({"IS", "old"}, True), ({"IS", "OLD"}, False)):
        forms = WordForms(replace(untrained_folder, words=frozenset(known)))
        assert (forms.recase("IS OLD", []) != UNCHANGED) == is_changed


def test_what_is_put_back_says_which_words_had_capitals(forms: WordForms) -> None:
    upper = forms.recase("WHERE IS THE STATION ?", [])
    assert upper.casing is not None
    assert upper.casing.is_upper
    title = forms.recase("Where Is The Old Station", [])
    assert title.casing is not None
    assert (title.casing.is_upper, title.casing.styles) == (
        False,
        {6: TITLE, 9: TITLE, 13: TITLE, 17: TITLE},
    )
    single = forms.recase("Where is the STATION ?", [])
    assert single.casing is not None
    assert (single.casing.is_upper, single.casing.styles) == (False, {13: UPPER})


def test_a_model_without_a_word_list_goes_by_its_vocabulary(untrained_folder: ModelFolder) -> None:
    """A form that is fewer tokens, or a more frequent one, is known better."""
    forms = WordForms(replace(untrained_folder, words=None))
    vocabulary = untrained_folder.source_vocabulary
    [lower], upper = vocabulary.encode("friend"), vocabulary.encode("FRIEND")
    assert len(upper) > 1
    assert lower
    assert read(forms, "MY FRIEND SEES YOU").lower() == "my friend sees you"
    assert "friend" in read(forms, "MY FRIEND SEES YOU")
