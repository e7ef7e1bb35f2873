from dataclasses import replace
from typing import Any

import pytest
import torch

from transduce.checkpoint import FolderConfig, ModelFolder, build
from transduce.config import DecodeConfig, ModelConfig
from transduce.data.batch import encode_source, pad
from transduce.decode import translator as module
from transduce.decode.load import load
from transduce.decode.sample import Sampling
from transduce.decode.translator import Translator
from transduce.errors import DataError, ModelError, UsageError
from transduce.text.grammar import generate
from transduce.text.vocabulary import EOS, PAD, SOS

HELD_OUT = list(generate("en-it", 200, seed=77, split="held-out"))
SOURCES = [pair.source for pair in HELD_OUT]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load()


def greedy_without_cache(translator: Translator, text: str) -> str:
    """The slow road: read everything again at every step."""
    source = pad([encode_source(translator.source_vocabulary.encode(text))])
    written = [SOS]
    with torch.inference_mode():
        while len(written) < 60:
            logits = translator.model(source, source != PAD, torch.tensor([written]))[0, -1]
            logits[[PAD, SOS, 3]] = float("-inf")
            written.append(int(logits.argmax()))
            if written[-1] == EOS:
                break
    return translator.target_vocabulary.decode(written)


def test_the_built_in_model_says_what_the_texts_promise(translator: Translator) -> None:
    found = translator.translate(["I love you very much", "Your cat is a lovely cat"])
    assert [translation.text for translation in found] == ["Ti amo molto", "Il tuo gatto è un bel gatto"]


def test_the_built_in_model_translates_at_least_98_percent_of_held_out_sentences_exactly(
    translator: Translator,
) -> None:
    found = [translation.text for translation in translator.translate(SOURCES)]
    assert sum(text == pair.target for text, pair in zip(found, HELD_OUT, strict=True)) >= 196


def test_greedy_with_the_cache_equals_greedy_without(translator: Translator) -> None:
    found = translator.translate(SOURCES[:20], beam=1)
    assert [translation.text for translation in found] == [
        greedy_without_cache(translator, text) for text in SOURCES[:20]
    ]


@pytest.mark.parametrize("beam", [1, 4])
def test_a_batch_translates_like_single_sentences(translator: Translator, beam: int) -> None:
    together = translator.translate(SOURCES[:20], beam=beam)
    for translation in together:
        [alone] = translator.translate([translation.source], beam=beam)
        assert alone.text == translation.text
        assert alone.score == pytest.approx(translation.score, abs=1e-4)


def test_order_is_kept_and_blank_stays_blank_whatever_the_batches(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*SOURCES[:7], "", "   ", *SOURCES[7:12]]
    whole = translator.translate(texts)
    monkeypatch.setattr(module, "ROWS_TOKENS", 100)
    assert [t.text for t in translator.translate(texts)] == [t.text for t in whole]
    assert [t.source for t in whole] == texts
    assert (whole[7].text, whole[8].text) == ("", "")


def test_words_that_were_not_in_the_training_text_are_named(translator: Translator) -> None:
    [found] = translator.translate(["I love elephants and xylophones, elephants!"])
    assert found.unseen == ("elephants", "xylophones", ",", "!")
    assert translator.translate(["I love you very much"])[0].unseen == ()


def test_a_model_that_kept_no_words_names_none(untrained_folder: ModelFolder) -> None:
    assert Translator(replace(untrained_folder, words=None)).unseen_words("elephants") == ()


def test_the_maximum_length_is_the_input_plus_fifty_unless_said(
    untrained_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that would never end of itself is stopped, and says so."""
    translator = Translator(untrained_folder)
    monkeypatch.setattr(translator.model, "logits", lambda hidden: torch.arange(700.0).expand(len(hidden), 700))
    source = translator.source_vocabulary.encode("I love you")
    [[free]] = translator.search([source], DecodeConfig(beam=1))
    [[bound]] = translator.search([source], DecodeConfig(beam=1, max_length=5))
    assert (len(bound.ids), bound.truncated) == (5, True)
    assert (len(free.ids), free.truncated) == (len(source) + 50, True)


def test_sampling_depends_on_the_seed_alone(translator: Translator) -> None:
    def draw(seed: int) -> list[str]:
        hot = Sampling(temperature=1.5, seed=seed)
        return [translation.text for translation in translator.translate(SOURCES[:20], sampling=hot)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_sampling_at_temperature_zero_is_greedy(translator: Translator) -> None:
    cold = translator.translate(SOURCES[:20], sampling=Sampling(temperature=0.0))
    assert [t.text for t in cold] == [t.text for t in translator.translate(SOURCES[:20], beam=1)]


def test_a_single_string_is_refused_with_the_remedy(translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"write translate\(\[text\]\)"):
        translator.translate("I love you")


def test_an_endless_text_is_cut_and_says_so(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PIECES", 5)
    short, long = translator.translate(["I love you very much", "I love you very much today"], max_length=9)
    assert (short.text, short.cut) == ("Ti amo molto", False)
    assert (long.text, long.cut) == ("Ti amo molto", True)


def test_a_model_with_learned_positions_reads_and_writes_no_further_than_they_go(untrained_folder: ModelFolder) -> None:
    shape = untrained_folder.config.model.model_dump()
    config = ModelConfig(**{**shape, "positions": "learned", "max_positions": 11})
    model = build(config).eval()
    translator = Translator(replace(untrained_folder, config=FolderConfig(model=config), model=model))
    [found] = translator.translate(["I love you very much and I love you very much and I love you very much"])
    assert found.cut
    assert translator.limit(10, DecodeConfig()) == 11


def test_texts_may_come_from_a_generator(translator: Translator) -> None:
    assert [t.text for t in translator.translate(text for text in ["I love you very much"])] == ["Ti amo molto"]


def test_half_a_surrogate_pair_is_refused(translator: Translator) -> None:
    with pytest.raises(DataError, match="half of a surrogate pair"):
        translator.translate(["a \udcff b"])


def test_a_model_whose_weights_are_not_numbers_says_so(untrained_folder: ModelFolder) -> None:
    with torch.no_grad():
        next(untrained_folder.model.parameters()).fill_(float("nan"))
    with pytest.raises(ModelError, match="the model's scores are not numbers"):
        Translator(untrained_folder).translate(["I love you"])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0: wanted 0, or 0.01 to 100"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "wanted top_k >= 0, 0 < top_p <= 1, seed >= 0"),
        ({"top_k": -1}, "wanted top_k >= 0"),
        ({"seed": -1}, "seed >= 0"),
    ],
)
def test_impossible_ways_of_drawing_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Sampling(**how)


def test_a_draw_does_not_depend_on_its_neighbours(translator: Translator) -> None:
    hot = Sampling(temperature=1.5)
    together = translator.translate(SOURCES[:10], sampling=hot)
    alone = [translator.translate([text], sampling=replace(hot, first=i))[0] for i, text in enumerate(SOURCES[:10])]
    assert [t.text for t in together] == [t.text for t in alone]


def test_no_translation_holds_a_line_break(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator.target_vocabulary, "decode", lambda ids: "a\r\nb\u2028c\n")
    assert translator.translate(["I love you"])[0].text == "a b\u2028c "


def test_a_language_model_cannot_translate(untrained_folder: ModelFolder) -> None:
    config = ModelConfig(**{**untrained_folder.config.model.model_dump(), "kind": "decoder-only"})
    folder = replace(untrained_folder, config=FolderConfig(model=config), model=build(config))
    with pytest.raises(ModelError, match="this is a language model, it cannot translate"):
        Translator(folder)
