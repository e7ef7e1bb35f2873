"""Edited texts: each character is found again, forwards and backwards."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.text.edits import Edit, EditedText, edit


@st.composite
def edited_texts(draw: st.DrawFn) -> EditedText:
    """Draw a text with edits that do not overlap, insertions and deletions among them."""
    text = draw(st.text(alphabet="abc ", max_size=20))
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    edits = [
        Edit(start, end, draw(st.text(alphabet="XYZ", max_size=3)))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
    ]
    return edit(text, edits)


def test_a_worked_example() -> None:
    edited = edit("the cat sleeps", [Edit(4, 7, "lion"), Edit(0, 3, ""), Edit(14, 14, "!")])
    assert edited.text == " lion sleeps!"
    assert [edited.to_edited(i) for i in (0, 3, 4, 5, 7, 8, 14)] == [0, 0, 1, 1, 5, 6, 13]
    assert [edited.to_original(i) for i in (0, 1, 4, 5, 6, 12)] == [3, 4, 4, 7, 8, 14]


def test_edits_may_be_given_in_any_order_but_not_overlap() -> None:
    one, other = Edit(0, 1, "X"), Edit(2, 3, "Y")
    assert edit("abc", [other, one]) == edit("abc", [one, other])
    with pytest.raises(AssertionError, match="do not overlap"):
        edit("abc", [Edit(0, 2, "X"), Edit(1, 3, "Y")])


def test_insertions_at_one_place_keep_their_order() -> None:
    assert edit("ab", [Edit(1, 1, "X"), Edit(1, 1, "Y")]).text == "aXYb"


@given(edited_texts())
def test_the_text_is_the_original_with_each_replacement_in_its_place(edited: EditedText) -> None:
    expected, done = "", 0
    for start, end, replacement in edited.edits:
        expected += edited.original[done:start] + replacement
        done = end
    assert edited.text == expected + edited.original[done:]


@given(edited_texts())
def test_a_character_that_was_not_replaced_is_found_there_and_back(edited: EditedText) -> None:
    replaced = {i for start, end, _ in edited.edits for i in range(start, end)}
    for i, character in enumerate(edited.original):
        place = edited.to_edited(i)
        if i not in replaced:
            assert edited.text[place] == character
            assert edited.to_original(place) == i


@given(edited_texts())
def test_places_never_go_backwards_and_stay_inside(edited: EditedText) -> None:
    forwards = [edited.to_edited(i) for i in range(len(edited.original) + 1)]
    backwards = [edited.to_original(i) for i in range(len(edited.text) + 1)]
    assert forwards == list(accumulate(forwards, max))
    assert backwards == list(accumulate(backwards, max))
    assert forwards[-1] <= len(edited.text)
    assert backwards[-1] == len(edited.original)


@given(st.text(max_size=20))
def test_without_edits_nothing_moves(text: str) -> None:
    edited = edit(text, [])
    assert edited == EditedText(text, text)
    assert all(edited.to_edited(i) == edited.to_original(i) == i for i in range(len(text) + 1))
