"""Where texts are split and which of their terms are required, at the limits."""

from dataclasses import replace

import pytest

from transduce.config import DecodeConfig, ModelConfig
from transduce.decode.options import TranslateOptions
from transduce.decode.segmentation import Segmenter
from transduce.errors import UsageError
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.terms import Glossary

PLAIN = TranslateOptions(DecodeConfig())


def limited(folder: ModelFolder, max_positions: int) -> Segmenter:
    """Return the segmenter of a model that has learned so many positions."""
    shape = folder.config.model.model_dump()
    config = ModelConfig(**{**shape, "positions": "learned", "max_positions": max_positions})
    return Segmenter([replace(folder, config=FolderConfig(model=config))])


def test_a_text_that_just_fits_is_not_split_and_one_token_more_is(
    untrained_folder: ModelFolder,
) -> None:
    text = "I love you, I love you"
    n = len(untrained_folder.source_vocabulary.encode(text))
    [fits] = limited(untrained_folder, n + 1).prepare([text], PLAIN)
    assert ([part.text for part in fits.parts], fits.is_split) == ([text], False)
    [split] = limited(untrained_folder, n).prepare([text], PLAIN)
    assert [part.text for part in split.parts] == ["I love you,", "I love you"]
    assert (split.is_split, split.n_sentences) == (True, 1)


def test_a_prefix_may_fill_all_positions_but_that_of_the_end(untrained_folder: ModelFolder) -> None:
    prefix = "I love you"
    n = len(untrained_folder.target_vocabulary.encode(prefix))
    [prepared] = limited(untrained_folder, n + 1).prepare(["I"], replace(PLAIN, prefix=prefix))
    assert len(prepared.parts[0].readings[0].search_input.prefix) == n
    with pytest.raises(UsageError, match=f"writes at most {n - 1}"):
        limited(untrained_folder, n).prepare(["I"], replace(PLAIN, prefix=prefix))


def test_a_protected_word_beside_a_glossary_term_is_still_protected(
    untrained_folder: ModelFolder,
) -> None:
    """They touch, but share no character."""
    options = replace(PLAIN, glossary=Glossary([("愛", ("amore",))]))
    [prepared] = Segmenter([untrained_folder]).prepare(["愛{name}"], options)
    [reading] = prepared.parts[0].readings
    assert [match.term.source for match in reading.terms] == ["愛"]
    assert [part.text for part in reading.protected] == ["{name}"]
    assert reading.source.text == "愛"


def test_a_glossary_term_inside_a_protected_part_is_left_alone(
    untrained_folder: ModelFolder,
) -> None:
    options = replace(PLAIN, glossary=Glossary([("name", ("nome",))]))
    [prepared] = Segmenter([untrained_folder]).prepare(["I love {name}"], options)
    [reading] = prepared.parts[0].readings
    assert (reading.terms, [part.text for part in reading.protected]) == ((), ["{name}"])
