from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from transduce.config import ModelConfig
from transduce.decode.generator import Generator, until
from transduce.decode.options import Sampling
from transduce.errors import ModelError
from transduce.model import LanguageModel
from transduce.model_folder import FolderConfig, ModelFolder
from transduce.text.vocabulary import EOS, PAD, SOS, UNKNOWN, learn_vocabulary

TEXT = "the cat sat on the mat\nthe dog sat on the log\n"


def make(window: int = 13, positions: str = "sinusoidal") -> Generator:
    vocabulary = learn_vocabulary(TEXT.split("\n"), "char", 999, exact=False, is_text=True)
    torch.manual_seed(0)
    config = ModelConfig(
        kind="decoder-only",
        norm="pre",
        vocab_size=len(vocabulary),
        n_layers=2,
        d_model=22,
        d_ff=37,
        n_heads=2,
        window=window,
        positions=positions,
    )
    folder = ModelFolder(
        FolderConfig(model=config), LanguageModel(config).eval(), vocabulary, vocabulary
    )
    with torch.no_grad():  # larger embeddings, so that the distributions are not nearly uniform
        folder.model.embedding.weight.mul_(3)
    return Generator(folder)


def greedy_without_cache(generator: Generator, prompt: str, tokens: int) -> list[int]:
    """Greedy generation without a cache: read the window, append, drop the first if it is full."""
    read = generator.vocabulary.encode(prompt) or [SOS]
    written: list[int] = []
    with torch.inference_mode():
        while len(written) < tokens:
            logits = generator.model(torch.tensor([read[-generator.window :]]))[0, -1]
            logits[[PAD, SOS, UNKNOWN]] = float("-inf")
            written.append(int(logits.argmax()))
            if written[-1] == EOS:
                break
            read.append(written[-1])
    return written


@pytest.mark.parametrize("prompt", ["", "the cat", TEXT * 3])
def test_generation_with_the_cache_equals_generation_without(
    prompt: str,
) -> None:
    generator = make()
    greedy = Sampling(temperature=0.0)
    found = [token.id for token in generator.draw(generator.context(prompt), 40, greedy)]
    assert found == greedy_without_cache(generator, prompt, 40)
    assert len(found) > generator.window or found[-1] == EOS


def test_the_same_seed_gives_the_same_text_and_another_seed_another() -> None:
    generator = make()
    texts = [generator.generate("the", 30, Sampling(seed=seed))[0].text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_top_k_of_one_is_greedy() -> None:
    generator = make()
    greedy, one = (
        generator.generate("the", 30, how)[0].text
        for how in (Sampling(temperature=0.0), Sampling(top_k=1))
    )
    assert greedy == one


def test_several_texts_differ_and_each_can_be_generated_alone() -> None:
    generator = make()
    three = generator.generate("the", 30, Sampling(), n=3)
    assert len({generation.text for generation in three}) == 3
    assert generator.generate("the", 30, Sampling(first=2))[0] == three[2]


def test_the_stream_is_the_text_in_parts() -> None:
    generator = make()
    parts = list(generator.stream("the", 30, Sampling(seed=3)))
    assert "".join(parts) == generator.generate("the", 30, Sampling(seed=3))[0].text
    assert len(parts) > 5


def test_log_probabilities_are_those_of_one_pass_over_the_whole() -> None:
    generator = make(window=50)
    context = generator.context("the")
    drawn = list(generator.draw(context, 20, Sampling(seed=4)))
    ids = [*context, *(token.id for token in drawn)]
    with torch.inference_mode():
        log_probs = torch.log_softmax(generator.model(torch.tensor([ids])), dim=-1)[0]
    for t, token in enumerate(drawn):
        assert token.log_prob == pytest.approx(
            float(log_probs[len(context) - 1 + t, token.id]), abs=1e-4
        )


def test_log_probabilities_stay_those_of_the_window_while_it_slides() -> None:
    generator = make(window=7)
    context = generator.context("the cat")
    read = list(context)
    for drawn in generator.draw(context, 20, Sampling(seed=4)):
        with torch.inference_mode():
            log_probs = torch.log_softmax(generator.model(torch.tensor([read[-7:]]))[0, -1], dim=-1)
        assert drawn.log_prob == pytest.approx(float(log_probs[drawn.id]), abs=1e-4)
        read.append(drawn.id)
    assert len(read) > 2 * 7


def test_a_prompt_longer_than_the_window_is_cut_and_marked() -> None:
    generator = make()
    greedy = Sampling(temperature=0.0)
    [long], [end] = generator.generate(TEXT, 5, greedy), generator.generate(TEXT[-13:], 5, greedy)
    assert (long.is_prompt_cut, end.is_prompt_cut) == (True, False)
    assert long.text == end.text


@pytest.mark.parametrize(
    ("texts", "stop", "expected"),
    [
        (["ab", "c"], [], "abc"),
        (["ab", "cd", "ef"], ["cd"], "ab"),
        (["a", "b", "c", "d"], ["bcx", "cd"], "ab"),
        (["a", "b"], ["bc"], "ab"),
        (["xSTOPy"], ["STOP", "x"], ""),
        (["a"], [""], "a"),
    ],
)
def test_a_text_ends_before_the_first_stop_string_however_it_arrives(
    texts: list[str], stop: list[str], expected: str
) -> None:
    assert "".join(until(iter(texts), stop)) == expected


def test_the_possible_beginning_of_a_stop_string_is_held_back() -> None:
    def texts() -> Iterator[str]:
        yield from ("a", "ST", "OP")

    assert list(until(texts(), ["STOP"])) == ["a", "", ""]


def test_half_a_character_is_held_back_until_its_bytes_are_there() -> None:
    generator = make()
    ids = generator.vocabulary.encode("aé€")
    assert list(generator._texts(iter(ids))) == ["a", "é", "€"]


def test_bytes_that_make_no_character_are_held_back_for_four_tokens_at_most() -> None:
    generator = make()
    [continuation] = generator.vocabulary.encode_piece("<0x80>")
    [letter] = generator.vocabulary.encode("t")
    texts = list(generator._texts(iter([*[continuation] * 4, letter])))
    assert texts == ["\ufffd" * 4, "t"]


def test_a_model_with_learned_positions_generates_past_its_window() -> None:
    generator = make(positions="learned")
    assert len(generator.generate("the", 40, Sampling())[0].pieces) > 13


def test_a_translation_model_cannot_generate(untrained_folder: ModelFolder) -> None:
    with pytest.raises(
        ModelError, match="this is a translation model and cannot generate; use translate"
    ):
        Generator(replace(untrained_folder))
