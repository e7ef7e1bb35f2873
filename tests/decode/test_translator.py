import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce.config import DecodeConfig, ModelConfig
from transduce.data.batch import encode_source, pad
from transduce.decode.engines.base import (
    MAX_BATCH_TOKENS,
    SearchInput,
    SearchResult,
    make_batches,
    max_target_length,
    search_all,
)
from transduce.decode.engines.torch import TorchEngine
from transduce.decode.load import load
from transduce.decode.options import EngineName, Sampling, TranslateOptions
from transduce.decode.translator import Translator
from transduce.errors import DataError, ModelError, UsageError
from transduce.grammar import generate
from transduce.model.weights import build
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.terms import Glossary
from transduce.text.vocabulary import EOS, PAD, SOS

HELD_OUT = list(generate("en-it", 200, seed=77, split="held-out"))
SOURCES = [pair.source for pair in HELD_OUT]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(engine="torch")


def greedy_without_cache(translator: Translator, text: str) -> str:
    """Greedy search without a cache: read everything again at every step."""
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


def test_the_built_in_model_translates_the_examples_of_the_documentation(
    translator: Translator,
) -> None:
    found = translator.translate(["I love you very much", "Your cat is a lovely cat"])
    assert [translation.text for translation in found] == [
        "Ti amo molto",
        "Il tuo gatto è un bel gatto",
    ]


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
    monkeypatch.setattr("transduce.decode.engines.base.MAX_BATCH_TOKENS", 100)
    assert [t.text for t in translator.translate(texts)] == [t.text for t in whole]
    assert [t.source for t in whole] == texts
    assert (whole[7].text, whole[8].text) == ("", "")


@given(
    lengths=st.lists(st.integers(1, 300), max_size=600),
    width=st.integers(1, 8),
    n_workers=st.integers(1, 5),
    most=st.integers(1, 100),
)
def test_batches_contain_every_sentence_once_and_spread_evenly_over_workers(
    lengths: list[int], width: int, n_workers: int, most: int
) -> None:
    batches = make_batches([SearchInput((9,) * n) for n in lengths], width, n_workers, most)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    shortest_first = [lengths[i] for batch in reversed(batches) for i in batch]
    assert shortest_first == sorted(lengths)
    assert all(len(batch) <= most for batch in batches)
    rounds = math.ceil(len(lengths) / (n_workers * most))
    if (max(lengths, default=0) + 1) * width * most <= MAX_BATCH_TOKENS:
        assert len(batches) <= rounds * n_workers


def test_words_that_were_not_in_the_training_text_are_named(translator: Translator) -> None:
    [found] = translator.translate(["I love elephants and xylophones, elephants!"])
    assert found.unseen == ("elephants", "xylophones", ",", "!")
    assert translator.translate(["I love you very much"])[0].unseen == ()


def test_a_model_without_a_word_list_names_no_unseen_words(untrained_folder: ModelFolder) -> None:
    assert Translator(replace(untrained_folder, words=None)).unseen_words("elephants") == ()


def test_the_maximum_length_is_the_input_plus_fifty_unless_set(
    untrained_folder: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that never writes [EOS] is stopped, and the translation is marked truncated."""
    translator = Translator(untrained_folder)
    monkeypatch.setattr(
        translator.model, "logits", lambda hidden: torch.arange(700.0).expand(len(hidden), 700)
    )
    source = SearchInput(tuple(translator.source_vocabulary.encode("I love you")))
    [[free]] = search_all(translator.torch_engine, [source], TranslateOptions(DecodeConfig(beam=1)))
    [[bound]] = search_all(
        translator.torch_engine, [source], TranslateOptions(DecodeConfig(beam=1, max_length=5))
    )
    assert (len(bound.ids), bound.truncated) == (5, True)
    assert (len(free.ids), free.truncated) == (len(source.ids) + 50, True)


def test_sampling_depends_on_the_seed_alone(translator: Translator) -> None:
    def draw(seed: int) -> list[str]:
        hot = Sampling(temperature=1.5, seed=seed)
        return [
            translation.text for translation in translator.translate(SOURCES[:20], sampling=hot)
        ]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_sampling_at_temperature_zero_is_greedy(translator: Translator) -> None:
    cold = translator.translate(SOURCES[:20], sampling=Sampling(temperature=0.0))
    assert [t.text for t in cold] == [t.text for t in translator.translate(SOURCES[:20], beam=1)]


def test_a_single_string_is_refused_with_the_remedy(translator: Translator) -> None:
    with pytest.raises(TypeError, match=r"write translate\(\[text\]\)"):
        translator.translate("I love you")


def test_a_model_with_learned_positions_reads_and_writes_only_within_them(
    untrained_folder: ModelFolder,
) -> None:
    shape = untrained_folder.config.model.model_dump()
    config = ModelConfig(**{**shape, "positions": "learned", "max_positions": 11})
    model = build(config).eval()
    translator = Translator(
        replace(untrained_folder, config=FolderConfig(model=config), weights=model)
    )
    [found] = translator.translate(
        ["I love you very much and I love you very much and I love you very much"]
    )
    assert "split" in found.notes
    assert (
        max_target_length(SearchInput(tuple(range(10))), TranslateOptions(DecodeConfig()), config)
        == 11
    )


def test_texts_may_come_from_a_generator(translator: Translator) -> None:
    assert [t.text for t in translator.translate(text for text in ["I love you very much"])] == [
        "Ti amo molto"
    ]


def test_a_lone_surrogate_is_replaced_and_flagged(translator: Translator) -> None:
    [found] = translator.translate(["I love \udcff you"])
    assert found.flags[0] == "invalid_characters"
    assert found.unknown == ("\ufffd",)


def test_weights_that_are_nan_are_an_error(untrained_folder: ModelFolder) -> None:
    with torch.no_grad():
        next(untrained_folder.model.parameters()).fill_(float("nan"))
    translator = Translator(untrained_folder)
    for work in (
        lambda: translator.translate(["I love you"]),
        lambda: translator.translate(["I love you"], sampling=Sampling()),
        lambda: list(translator.stream("I love you")),
        lambda: translator.score([("I love you", "Ti amo")]),
    ):
        with pytest.raises(ModelError, match="the model's scores are NaN"):
            work()


def test_words_after_a_copied_run_keep_their_numbers_in_the_alignment(
    translator: Translator,
) -> None:
    [alone, after] = translator.translate(["I love you", "x" * 9000 + " I love you"], details=True)
    links = [tuple(map(int, link.split("-"))) for link in alone.alignment.split()]
    assert after.alignment == " ".join(f"{i + 1}-{j + 1}" for i, j in links)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0; expected 0, or 0.01 to 100"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "expected top_k >= 0, 0 < top_p <= 1, seed >= 0"),
        ({"top_k": -1}, "expected top_k >= 0"),
        ({"seed": -1}, "seed >= 0"),
    ],
)
def test_invalid_sampling_options_are_refused(how: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Sampling(**how)


def test_a_draw_does_not_depend_on_its_neighbours(translator: Translator) -> None:
    hot = Sampling(temperature=1.5)
    together = translator.translate(SOURCES[:10], sampling=hot)
    alone = [
        translator.translate([text], sampling=replace(hot, first=i))[0]
        for i, text in enumerate(SOURCES[:10])
    ]
    assert [t.text for t in together] == [t.text for t in alone]


def test_no_translation_holds_a_line_break(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator.target_vocabulary, "decode", lambda ids: "a\r\nb\u2028c\n")
    assert translator.translate(["I love you"])[0].text == "a b c "


def test_a_language_model_cannot_translate(untrained_folder: ModelFolder) -> None:
    config = ModelConfig(**{**untrained_folder.config.model.model_dump(), "kind": "decoder-only"})
    folder = replace(untrained_folder, config=FolderConfig(model=config), weights=build(config))
    with pytest.raises(ModelError, match="this is a language model and cannot translate"):
        Translator(folder)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_a_translation_has_the_score_that_score_gives_it(engine: EngineName, alpha: float) -> None:
    """The search scores step by step, `score` scores all positions at once."""
    translator = load(engine=engine)
    found = translator.translate(SOURCES[:100], alpha=alpha, details=True)
    scored = translator.score([(each.source, each.text) for each in found], alpha=alpha)
    for each, again in zip(found, scored, strict=True):
        assert each.score == pytest.approx(again.score, abs=1e-4)
        assert each.token_scores == pytest.approx(again.token_scores, abs=1e-4)
        assert (each.pieces, each.alignment) == (again.pieces, again.alignment)
        assert each.score == pytest.approx(
            sum(each.token_scores) / len(each.token_scores) ** alpha, abs=1e-4
        )


def disturbed(folder: ModelFolder) -> ModelFolder:
    """Return the same model with other weights."""
    model = copy.deepcopy(folder.model)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(
                0.1 * parameter.std() * torch.randn(parameter.shape) if parameter.dim() > 1 else 0.0
            )
    return replace(folder, weights=model)


def test_an_ensemble_of_a_model_with_itself_equals_the_model(translator: Translator) -> None:
    twice = Translator(translator.folder, translator.folder)
    for alone, together in zip(
        translator.translate(SOURCES[:30]), twice.translate(SOURCES[:30]), strict=True
    ):
        assert together.text == alone.text
        assert together.score == pytest.approx(alone.score, abs=1e-4)


def test_an_ensemble_averages_the_probabilities_of_its_models(translator: Translator) -> None:
    other = disturbed(translator.folder)
    together = Translator(translator.folder, other)
    pairs = [(pair.source, pair.target) for pair in HELD_OUT[:10]]
    alone = [each.score(pairs) for each in (translator, Translator(other))]
    for one, two, both in zip(*alone, together.score(pairs), strict=True):
        by_hand = [
            math.log((math.exp(a) + math.exp(b)) / 2)
            for a, b in zip(one.token_scores, two.token_scores, strict=True)
        ]
        assert one.token_scores != pytest.approx(two.token_scores, abs=1e-3)
        assert both.token_scores == pytest.approx(by_hand, abs=1e-4)
    found = together.translate(SOURCES[:20], details=True)
    assert [t.score for t in found] == pytest.approx(
        [sum(t.token_scores) / len(t.token_scores) for t in found], abs=1e-4
    )
    assert str(together.torch_engine).startswith("torch, 2 models together, float32, threads: ")


def test_models_with_different_vocabularies_cannot_form_an_ensemble(
    translator: Translator, untrained_folder: ModelFolder
) -> None:
    with pytest.raises(ModelError, match="must have the same vocabulary; train them with one"):
        Translator(translator.folder, untrained_folder)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_the_n_best_are_different_and_sorted_and_the_first_is_the_translation(
    engine: EngineName,
) -> None:
    translator = load(engine=engine)
    plain = translator.translate(SOURCES[:20], beam=5)
    for found, alone in zip(
        translator.translate(SOURCES[:20], beam=5, n_best=4), plain, strict=True
    ):
        scores = [each.score for each in found.alternatives]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        assert found.alternatives[0].text == found.text == alone.text
        assert (
            found.score
            == pytest.approx(scores[0], abs=1e-6)
            == pytest.approx(alone.score, abs=1e-4)
        )
        assert len({each.text for each in found.alternatives}) > 1


def test_alternatives_begin_with_the_prefix_and_differ_in_the_token_after_it(
    translator: Translator,
) -> None:
    for text, prefix in (
        ("Your cat is a lovely cat", "Il tuo gatto"),
        ("I love you", ""),
        ("She sleeps", "Lei"),
    ):
        [found] = translator.translate([text], prefix=prefix, alternatives=5)
        n = len(translator.target_vocabulary.encode(prefix)) if prefix else 0
        ids = [translator.target_vocabulary.encode(each.text) for each in found.alternatives]
        scores = [each.score for each in found.alternatives]
        assert len(ids) == 5
        assert all(each.text.startswith(prefix) for each in found.alternatives)
        assert len({tuple(each[n : n + 1]) for each in ids}) == 5
        assert scores == sorted(scores, reverse=True)


def test_each_text_may_have_a_prefix_of_its_own_which_is_respected(translator: Translator) -> None:
    prefixes = ["Il gatto", "", "Perché", "La signora molto"]
    found = translator.translate(SOURCES[:4], prefix=prefixes)
    assert all(each.text.startswith(prefix) for each, prefix in zip(found, prefixes, strict=True))
    assert found[1].text == translator.translate([SOURCES[1]])[0].text
    again = translator.score([(each.source, each.text) for each in found])
    assert [each.score for each in found] == pytest.approx([each.score for each in again], abs=1e-4)
    with pytest.raises(
        UsageError, match="2 prefixes for 1 texts; expected one for each text, or one"
    ):
        translator.translate(["I love you"], prefix=["a", "b"])


def test_a_prefix_that_the_model_would_have_written_changes_nothing(translator: Translator) -> None:
    plain = translator.translate(SOURCES[:20], beam=1)
    begun = [" ".join(each.text.split()[:2]) for each in plain]
    found = translator.translate(SOURCES[:20], beam=1, prefix=begun)
    assert [t.text for t in found] == [t.text for t in plain]


def test_a_stream_joined_is_the_greedy_translation(translator: Translator) -> None:
    long = "Does Maria love the cat? " * (translator.max_source_tokens() // 4)
    for text in (*SOURCES[:15], "I love 愛 and \u2028 zebras", long, "x" * 9000, "", "  "):
        [whole] = translator.translate([text], beam=1)
        parts = list(translator.stream(text))
        assert "".join(parts) == whole.text
        assert all(parts)
        assert len(parts) > 1 or len(whole.text.split()) < 2 or "not_translated" in whole.flags


@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_n_tokens_in_a_row_are_written_twice(translator: Translator, n: int) -> None:
    hot = Sampling(temperature=5.0)
    for how in ({"beam": 4}, {"beam": 1}, {"sampling": hot}):
        for found in translator.translate(
            [*SOURCES[:8], "la la la la la la"], no_repeat=n, details=True, **how
        ):
            runs = [found.pieces[i : i + n] for i in range(len(found.pieces) - n + 1)]
            assert len(runs) == len(set(runs))


def test_equal_lines_are_searched_once_but_sampled_separately(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_searched: list[int] = []
    begin = TorchEngine.begin

    def counted(
        self: TorchEngine, inputs: list[SearchInput], options: TranslateOptions
    ) -> Iterator[SearchResult]:
        n_searched.append(len(inputs))
        return begin(self, inputs, options)

    monkeypatch.setattr(TorchEngine, "begin", counted)
    texts = ["I love you", "We sleep", "I love you", "I love\x07 you", ""] * 20
    found = translator.translate(texts)
    assert n_searched == [2]
    assert [t.source for t in found] == texts
    assert {t.text for t in found} == {"Ti amo", "Dormiamo", ""}
    long = "Does Maria love the cat? " * translator.max_source_tokens()
    assert len(translator.translate([long])[0].text) > len(long) / 2
    assert n_searched.pop() == 1, "equal parts of a long line, too"
    drawn = translator.translate(
        ["Your cat is a lovely cat"] * 20, sampling=Sampling(temperature=2.0)
    )
    assert n_searched == [2, 20]
    assert len({t.text for t in drawn}) > 10


def test_a_line_that_is_too_long_is_split_translated_and_joined(translator: Translator) -> None:
    sentence = "Does Maria love the cat?"
    n = 1 + translator.max_source_tokens() // len(translator.source_vocabulary.encode(sentence))
    text = f"{sentence}  " * n + "We sleep"
    [whole] = translator.translate([text], split=False)
    assert whole.text == "Maria ama il gatto?  " * n + "Dormiamo"
    assert whole.notes == ("split",)
    [found] = translator.translate([text])
    assert (found.text, found.notes) == (whole.text, ("sentences",))
    assert found.flags == ()


def test_a_run_of_more_tokens_than_the_model_can_read_is_copied_and_flagged(
    translator: Translator,
) -> None:
    run = "愛x" * 300
    assert len(translator.source_vocabulary.encode(run)) > 512
    [found] = translator.translate([f"We sleep {run} We sleep"])
    assert found.text == f"Dormiamo {run} Dormiamo"
    assert "not_translated" in found.flags
    assert found.notes[0] == "split"


@pytest.mark.parametrize("has_it", [False, True])
def test_bf16_runs_where_the_processor_has_it_and_is_refused_elsewhere(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, has_it: bool
) -> None:
    monkeypatch.setattr("transduce.hardware.has_bfloat16", lambda device: has_it)
    if not has_it:
        with pytest.raises(
            UsageError,
            match="bf16 would be slower: this processor has no bfloat16 instructions; omit",
        ):
            Translator(translator.folder, precision="bf16")
        return
    rough = Translator(translator.folder, precision="bf16", engine="auto")
    assert str(rough.engine(TranslateOptions(DecodeConfig()))[0]).startswith(
        "torch, bf16, threads: "
    )
    exact = translator.translate(SOURCES[:20], beam=1)
    found = rough.translate(SOURCES[:20], beam=1)
    assert [t.score for t in found] != [t.score for t in exact]
    assert sum(a.text == b.text for a, b in zip(found, exact, strict=True)) >= 18
    with pytest.raises(
        UsageError,
        match="the ctranslate2 engine does not support bf16; omit --engine or --precision",
    ):
        Translator(translator.folder, precision="bf16", engine="ctranslate2")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"n_best": 5, "beam": 4},
            r"n_best is 5; expected 1 to the beam size \(4\), or 1 with sampling",
        ),
        ({"n_best": 0}, "n_best is 0; expected 1 to the beam size"),
        ({"n_best": 2, "sampling": Sampling()}, "n_best is 2; expected 1 to the beam size"),
        ({"alternatives": 129}, "alternatives is 129; expected 0 to 128"),
        ({"no_repeat": -1}, "no_repeat is -1; expected 0 or more"),
        (
            {"alternatives": 2, "sampling": Sampling()},
            "alternatives cannot be combined with sampling or n_best",
        ),
    ],
)
def test_invalid_options_are_refused(
    translator: Translator, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        translator.translate(["I love you"], **asked)


def test_a_second_translator_has_all_threads_after_the_first_has_worked(
    translator: Translator,
) -> None:
    before = torch.get_num_threads()
    Translator(translator.folder, n_threads=3).translate(SOURCES)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"alternatives": 2, "protect": True},
            "alternatives cannot be combined with glossary or protect; omit one of them",
        ),
        (
            {"alternatives": 2, "glossary": Glossary([("cat", ("gatto",))])},
            "alternatives cannot be combined with glossary or protect",
        ),
        ({"forbid": [" "]}, "forbid contains an empty phrase"),
    ],
)
def test_options_that_cannot_be_combined_are_refused(
    translator: Translator, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        translator.translate(["I love you"], **asked)


def test_a_pair_that_is_too_long_is_not_scored(translator: Translator) -> None:
    with pytest.raises(
        DataError,
        match=r"pair 1,002 has 60\d and \d tokens, more than the 512 that can be scored; split 'I",
    ):
        translator.score([("I", "Io"), ("I " * 600, "Io")], first=1001)


def test_a_prefix_longer_than_the_positions_of_a_model_is_refused(
    untrained_folder: ModelFolder,
) -> None:
    shape = untrained_folder.config.model.model_dump()
    config = ModelConfig(**{**shape, "positions": "learned", "max_positions": 5})
    bound = Translator(
        replace(untrained_folder, config=FolderConfig(model=config), weights=build(config).eval())
    )
    with pytest.raises(
        UsageError, match=r"the prefix has \d+ tokens, but this model writes at most 4"
    ):
        bound.translate(["I love you"], prefix="I love you very much and I love you")


def test_a_prefix_that_contains_a_forbidden_phrase_is_kept(translator: Translator) -> None:
    [found] = translator.translate(["I love you very much"], prefix="Ti amo", forbid=["amo"])
    assert found.text.startswith("Ti amo")


def test_a_term_with_a_letter_that_has_no_piece_is_met_beside_others(
    translator: Translator,
) -> None:
    glossary = Glossary([("love", ("Łódź",)), ("much", ("tanto",))])
    [found] = translator.translate(["I love you very much"], glossary=glossary)
    assert found.missing == ()
    assert "Łódź" in found.text
    assert "tanto" in found.text


def test_a_glossary_in_decomposed_letters_is_found() -> None:
    assert [
        found.term.targets for found in Glossary([("cafe\u0301", ("bar",))]).find("the café")
    ] == [("bar",)]
