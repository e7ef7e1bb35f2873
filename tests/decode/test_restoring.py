"""Restoring: what was masked, removed or recased is put back where it belongs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.decode.alignment import find_units
from transduce.decode.engines.base import SearchInput
from transduce.decode.insertion import AlignedText
from transduce.decode.readings import Reading, remove_parts
from transduce.decode.restoring import restore
from transduce.text.case import TITLE, UPPER, Casing
from transduce.text.edits import Edit, EditedText, edit
from transduce.text.protected import TERM, ProtectedPart, find_protected

NOTHING = SearchInput(())


def aligned(source: str, target: str, links: dict[int, int]) -> AlignedText:
    """All attention of target unit j goes to source unit links[j]; without a link, to none."""
    source_units, target_units = find_units(source), find_units(target)
    weights = np.zeros((len(target_units), len(source_units)), dtype=np.float32)
    for j, i in links.items():
        weights[j, i] = 1.0
    return AlignedText(source_units, target_units, weights)


def monotone(source: str, target: str) -> AlignedText:
    n = min(len(find_units(source)), len(find_units(target)))
    return aligned(source, target, {j: j for j in range(n)})


def removed(sentence: str) -> Reading:
    parts = find_protected(sentence, with_numbers=True)
    source = edit(sentence, remove_parts(sentence, parts))
    return Reading(source, NOTHING, protected=tuple(parts))


@pytest.mark.parametrize(
    ("sentence", "read"),
    [
        ("Tom sees {a} now", "Tom sees now"),
        ("{a} sees Tom", "sees Tom"),
        ("Tom sees {a}", "Tom sees"),
        ("Tom sees {a}.", "Tom sees."),
        ("Tom ({a}) sleeps", "Tom sleeps"),
        ("Tom's {a}'s cat", "Tom's cat"),
        ("Tom {a} sees {b} now", "Tom sees now"),
        ("Tom [{a}], a man", "Tom, a man"),
        ("{a}", ""),
    ],
)
def test_removed_parts_take_a_space_and_their_brackets_along(sentence: str, read: str) -> None:
    assert edit(sentence, remove_parts(sentence, find_protected(sentence))).text == read


@given(st.text(alphabet="ab {}().,'s", max_size=30))
def test_removing_parts_never_overlaps_and_leaves_every_other_letter(sentence: str) -> None:
    parts = find_protected(sentence)
    read = edit(sentence, remove_parts(sentence, parts)).text
    rest = "".join(
        character
        for i, character in enumerate(sentence)
        if not any(part.start <= i < part.end for part in parts)
    )
    assert len([c for c in rest if c in "ab"]) == sum(map(read.count, "ab"))


@pytest.mark.parametrize(
    ("sentence", "text", "links", "expected"),
    [
        # Monotone: the same place.
        ("I see {a} now", "io vedo ora", {0: 0, 1: 1, 2: 2}, "io vedo {a} ora"),
        ("{a} I see", "io vedo", {0: 0, 1: 1}, "{a} io vedo"),
        ("I see {a}", "io vedo", {0: 0, 1: 1}, "io vedo {a}"),
        ("I see {a}.", "io vedo.", {0: 0, 1: 1, 2: 2}, "io vedo {a}."),
        # The words changed places: in the middle it would be on the wrong side of both.
        ("black {a} cat", "gatto nero", {0: 1, 1: 0}, "{a} gatto nero"),
        ("the cat {a} sleeps", "dorme il gatto", {0: 2, 1: 0, 2: 1}, "dorme il gatto {a}"),
        # What was before the punctuation at the end stays before it, what was after stays after.
        ("I see {a}.", "io vedo.", {0: 0, 1: 1, 2: 0}, "io vedo {a}."),
        ("I see. {a}", "io vedo.", {0: 0, 1: 1, 2: 2}, "io vedo. {a}"),
        # Tags adjoin their word; other parts have a space on either side.
        ("<b>I</b> see", "io vedo", {0: 0, 1: 1}, "<b>io</b> vedo"),
        ("I <b>see</b> now", "io vedo ora", {0: 0, 1: 1, 2: 2}, "io <b>vedo</b> ora"),
        # Two parts keep their order.
        ("{a} I see {b}", "io vedo", {0: 0, 1: 1}, "{a} io vedo {b}"),
        # Scripts without spaces.
        ("I see {a} now", "我看现在", {0: 0, 1: 1, 2: 2, 3: 2}, "我看{a}现在"),
    ],
)
def test_removed_parts_return_where_the_fewest_links_are_crossed(
    sentence: str, text: str, links: dict[int, int], expected: str
) -> None:
    reading = removed(sentence)
    found = restore(reading, text, aligned(reading.source.text, text, links))
    assert found is not None
    assert found.is_complete
    assert found.target.text == expected


def test_a_part_does_not_split_a_word_with_an_apostrophe() -> None:
    reading = removed("the {a} water")
    found = restore(reading, "l'eau", aligned("the water", "l'eau", {0: 0, 1: 0, 2: 1}))
    assert found is not None
    assert found.target.text in ("{a} l'eau", "l'eau {a}")


def test_a_part_does_not_split_an_entity_of_tokenized_text() -> None:
    reading = removed("say &quot; {a} stop &quot; now")
    text = "sagt &quot; stopp &quot; jetzt"
    found = restore(reading, text, monotone(reading.source.text, text))
    assert found is not None
    assert found.target.text == "sagt &quot; {a} stopp &quot; jetzt"
    last = removed("say &quot; {a}")
    for links in ({0: 0, 1: 1, 2: 2, 3: 0}, {0: 0, 1: 0, 2: 0, 3: 3}):
        found = restore(last, "sagt &quot;", aligned(last.source.text, "sagt &quot;", links))
        assert found is not None
        assert "&quot;" in found.target.text


@given(st.permutations(list(range(5))), st.integers(0, 5), st.integers(0, 5))
def test_every_part_comes_back_once_and_in_order(order: list[int], first: int, second: int) -> None:
    words = ["one", "two", "three", "four", "five"]
    places = sorted((first, second))
    given_words = [
        *words[: places[0]],
        "{a}",
        *words[places[0] : places[1]],
        "{b}",
        *words[places[1] :],
    ]
    reading = removed(" ".join(given_words))
    text = " ".join(words[i].upper() for i in order)
    found = restore(reading, text, aligned(" ".join(words), text, dict(enumerate(order))))
    assert found is not None
    assert found.is_complete
    assert found.target.text.count("{a}") == found.target.text.count("{b}") == 1
    assert found.target.text.index("{a}") < found.target.text.index("{b}")
    assert [w for w in found.target.text.split() if w.isupper()] == text.split()


def masked(sentence: str, *masks: str) -> Reading:
    parts = find_protected(sentence)
    edits = [Edit(part.start, part.end, mask) for part, mask in zip(parts, masks, strict=True)]
    return Reading(edit(sentence, edits), NOTHING, protected=tuple(parts), masks=masks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("io vedo Tom e Ken", "io vedo {a} e {b}"),
        ("Tom, Ken", "{a}, {b}"),
        ("io vedo Tom", None),  # one is lost
        ("Tom e Ken e Tom", None),  # one is doubled
        ("Ken e Tom", None),  # out of order
        ("Tomaso e Ken", None),  # inside a word
    ],
)
def test_masks_are_replaced_only_if_they_are_there_once_and_in_order(
    text: str, expected: str | None
) -> None:
    found = restore(masked("I see {a} and {b}", "Tom", "Ken"), text, None)
    assert (found.target.text if found else None) == expected
    assert found is None or found.is_complete


def test_a_part_that_the_model_also_wrote_itself_makes_the_text_incomplete() -> None:
    """It would be there twice."""
    found = restore(masked("I see {a} now", "Tom"), "io vedo Tom {a}", None)
    assert found is not None
    assert not found.is_complete


def test_a_name_that_the_model_should_have_copied_is_looked_for() -> None:
    part = ProtectedPart(0, 4, "Acme", TERM)
    reading = Reading(EditedText("Acme sleeps", "Acme sleeps"), NOTHING, kept=(part,))
    for text, is_complete in (("Acme dorme", True), ("Akme dorme", False), ("Acme Acme", False)):
        found = restore(reading, text, None)
        assert found is not None
        assert found.is_complete == is_complete


def test_capitals_of_a_sentence_are_put_on_all_words_but_not_on_what_was_copied() -> None:
    sentence = "SEE {name} NOW"
    parts = find_protected(sentence)
    source = edit(sentence, [Edit(0, 3, "see"), Edit(4, 10, "Tom"), Edit(11, 14, "now")])
    reading = Reading(
        source, NOTHING, protected=tuple(parts), masks=("Tom",), casing=Casing(is_upper=True)
    )
    found = restore(reading, "vedi Tom ora, è là", None)
    assert found is not None
    assert found.target.text == "VEDI {name} ORA, È LÀ"


def test_capitals_of_single_words_follow_the_alignment() -> None:
    sentence = "the BLACK Cat"
    source = edit(sentence, [Edit(4, 9, "black"), Edit(10, 13, "cat")])
    casing = Casing(is_upper=False, styles={4: UPPER, 10: TITLE})
    reading = Reading(source, NOTHING, casing=casing)
    found = restore(
        reading, "il gatto nero", aligned(source.text, "il gatto nero", {0: 0, 1: 2, 2: 1})
    )
    assert found is not None
    assert found.target.text == "il Gatto NERO"
    unaligned = restore(reading, "il gatto nero", aligned(source.text, "il gatto nero", {0: 0}))
    assert unaligned is not None
    assert unaligned.target.text == "il gatto nero"


def test_a_term_is_not_put_inside_what_was_copied() -> None:
    reading = masked("see {a}", "Tom")
    found = restore(reading, "vedi Tom", None, [Edit(0, 4, "guarda"), Edit(5, 8, "Ken")])
    assert found is not None
    assert found.target.text == "guarda {a}"


def test_with_an_empty_translation_the_part_is_all_there_is() -> None:
    reading = removed("see {a}")
    found = restore(reading, "", monotone("see", ""))
    assert found is not None
    assert found.target.text == "{a}"
