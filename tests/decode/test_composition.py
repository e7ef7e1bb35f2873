"""From the hypotheses of the parts of a text to its translation, with hypotheses made by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from transduce.config import DecodeConfig
from transduce.decode.composition import Composer
from transduce.decode.engines.base import SearchInput
from transduce.decode.hypotheses import Hypothesis
from transduce.decode.load import load
from transduce.decode.options import Sampling, TranslateOptions
from transduce.decode.readings import Reading
from transduce.decode.segmentation import Part, PreparedText, Segmenter
from transduce.decode.translation import Translation
from transduce.model_folder import ModelFolder
from transduce.text.edits import EditedText
from transduce.text.terms import Term, TermMatch


def compose(
    folder: ModelFolder,
    hypotheses: Sequence[Hypothesis],
    terms: Sequence[tuple[Term, ...]] | None = None,
    **settings: object,
) -> Translation:
    """Compose a text whose parts have these best hypotheses; each part is one other word."""
    words = ["I", "love", "you"][: len(hypotheses)]
    inputs = [
        SearchInput(tuple(folder.source_vocabulary.encode(word)), part_number=number)
        for number, word in enumerate(words)
    ]
    parts = []
    for word, search_input, of_part in zip(words, inputs, terms or [()] * len(words), strict=True):
        matches = tuple(TermMatch(term, 0, len(word)) for term in of_part)
        source = EditedText(word, word)
        reading = Reading(source, search_input, terms=matches, is_constrained=True)
        parts.append(Part(word, " " if word != words[-1] else "", (reading,)))
    found = {each: [best] for each, best in zip(inputs, hypotheses, strict=True)}
    return compose_all(folder, parts, found, TranslateOptions(DecodeConfig(**settings)))


def compose_all(
    folder: ModelFolder,
    parts: list[Part],
    found: dict[SearchInput, list[Hypothesis]],
    options: TranslateOptions,
) -> Translation:
    composer = Composer(folder, Segmenter([folder]))
    text = "".join(part.text + part.gap for part in parts)
    prepared = PreparedText(text, text, parts, len(parts), is_split=False)
    composed = [composer.compose_part(part, found, options) for part in parts]
    return composer.compose(prepared, composed, options)


def hypothesis(folder: ModelFolder, text: str, mean: float = -0.1, **more: bool) -> Hypothesis:
    ids = tuple(folder.target_vocabulary.encode(text))
    return Hypothesis(ids, mean * (len(ids) + 1), score=mean, **more)


@pytest.mark.parametrize("doubtful", [0, 1, 2])
def test_a_doubt_about_any_part_is_a_doubt_about_the_whole(
    untrained_folder: ModelFolder, doubtful: int
) -> None:
    def flags(**of_doubtful: object) -> tuple[str, ...]:
        parts = [
            hypothesis(untrained_folder, word, **(of_doubtful if number == doubtful else {}))
            for number, word in enumerate(("Io", "amo", "te"))
        ]
        return compose(untrained_folder, parts).flags

    assert flags() == ()
    assert flags(truncated=True) == ("truncated",)
    assert flags(mean=-2.0) == ("low_confidence",)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("kind", ["power", "paper"])
def test_the_score_of_parts_is_that_of_one_hypothesis_with_all_their_tokens(
    untrained_folder: ModelFolder, alpha: float, kind: str
) -> None:
    parts = [
        hypothesis(untrained_folder, "Io amo", mean=-0.5),
        hypothesis(untrained_folder, "te", mean=-0.25),
    ]
    found = compose(untrained_folder, parts, alpha=alpha, length_penalty=kind)
    n_tokens = sum(len(part.ids) + 1 for part in parts)  # with the [EOS] of each
    length = n_tokens if kind == "power" else (5 + n_tokens) / 6
    assert found.score == pytest.approx(sum(part.log_prob for part in parts) / length**alpha)
    assert found.text == "Io amo te"


def test_a_term_must_stand_in_the_translation_of_its_own_part(
    untrained_folder: ModelFolder,
) -> None:
    terms = [(Term("I", ("amo",)),), (Term("love", ("amo",)),)]
    parts = [hypothesis(untrained_folder, "Io"), hypothesis(untrained_folder, "amo")]
    assert compose(untrained_folder, parts, terms).missing == ("I",)
    assert compose(untrained_folder, parts[::-1], terms).missing == ("love",)


def compose_one(
    folder: ModelFolder, hypotheses: list[Hypothesis], options: TranslateOptions
) -> Translation:
    """Compose the translation of a text of one part."""
    search_input = SearchInput(tuple(folder.source_vocabulary.encode("I")))
    part = Part("I", "", (Reading(EditedText("I", "I"), search_input),))
    return compose_all(folder, [part], {search_input: hypotheses}, options)


def test_several_hypotheses_are_returned_if_requested_even_if_there_is_one_only(
    untrained_folder: ModelFolder,
) -> None:
    texts = ["Io", "amo", "te"]
    hypotheses = [hypothesis(untrained_folder, text) for text in texts]

    def alternatives(n_found: int, **how: int) -> int:
        options = TranslateOptions(DecodeConfig(beam=3), **how)
        found = compose_one(untrained_folder, hypotheses[:n_found], options).alternatives
        assert [each.text for each in found] == texts[: len(found)]
        return len(found)

    assert alternatives(3) == 0
    assert alternatives(1, alternatives=1) == 1
    assert alternatives(1, n_best=2) == 1
    assert alternatives(3, n_best=2) == 2
    assert alternatives(3, alternatives=3) == 3


def test_of_hypotheses_with_the_same_text_only_the_best_is_returned(
    untrained_folder: ModelFolder,
) -> None:
    first, second = hypothesis(untrained_folder, "Io"), hypothesis(untrained_folder, "amo")
    worse = replace(first, score=first.score - 1)
    options = TranslateOptions(DecodeConfig(beam=3), n_best=3)
    found = compose_one(untrained_folder, [first, worse, second], options).alternatives
    assert [(each.text, each.score) for each in found] == [
        ("Io", first.score),
        ("amo", second.score),
    ]


def test_equal_parts_of_a_text_are_drawn_each_for_itself() -> None:
    translator = load(engine="torch")
    sentence = "Does Maria love the cat?"
    n = 1 + translator.max_source_tokens() // len(translator.source_vocabulary.encode(sentence))
    hot = Sampling(temperature=5.0)
    [drawn] = translator.translate([" ".join([sentence] * n)], sampling=hot)
    [first] = translator.translate([sentence], sampling=hot)
    assert "sentences" in drawn.notes
    assert drawn.text.startswith(first.text), "the first part is drawn as a text of its own"
    assert not drawn.text.startswith(f"{first.text} {first.text}")
