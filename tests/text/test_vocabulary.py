import io

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transduce.errors import ConfigError, DataError, ModelError
from transduce.text.vocabulary import (
    EOS,
    PAD,
    SOS,
    SPECIAL_TOKENS,
    UNKNOWN,
    Vocabulary,
    _limit_lengths,
    choose_vocabulary_size,
    learn_vocabulary,
)

ANY_TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("▁ [SOE]<0x41>\u2028\ufdd0\0\r\t"),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
@example("▁")
@example("a▁b ▁ \ufdd0▁")
def test_no_character_is_ever_lost(vocabulary: Vocabulary, text: str) -> None:
    assert vocabulary.decode(vocabulary.encode(text)) == text


@settings(max_examples=100, deadline=None)
@given(text=ANY_TEXT)
def test_text_cannot_forge_a_special_token(vocabulary: Vocabulary, text: str) -> None:
    spelled = f"[SOS]{text}[EOS][PAD][UNK]</s><unk>"
    assert not {PAD, SOS, EOS, UNKNOWN} & set(vocabulary.encode(spelled))
    assert vocabulary.decode(vocabulary.encode(spelled)) == spelled


def test_special_tokens_are_omitted_when_decoding(vocabulary: Vocabulary) -> None:
    ids = vocabulary.encode("Ti amo molto")
    assert vocabulary.decode([SOS, *ids, EOS, PAD, PAD]) == "Ti amo molto"


def test_a_batch_is_encoded_like_its_texts(vocabulary: Vocabulary) -> None:
    texts = ["I love you", "", "a▁b", "Ti amo molto", " two  spaces "]
    assert vocabulary.encode_batch(texts) == [vocabulary.encode(text) for text in texts]


def test_tokens_are_shown_in_readable_form(vocabulary: Vocabulary) -> None:
    assert [vocabulary.token(i) for i in range(4)] == list(SPECIAL_TOKENS)
    assert "".join(vocabulary.tokens("molto")).replace("##", "") == "molto"
    assert vocabulary.tokens("ü")[-2:] == ["<0xC3>", "<0xBC>"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_text_gives_the_same_vocabulary(grammar_lines: list[str], kind: str) -> None:
    assert learn_vocabulary(grammar_lines, kind, 500) == learn_vocabulary(grammar_lines, kind, 500)


def test_a_vocabulary_survives_a_round_trip_through_bytes(vocabulary: Vocabulary) -> None:
    again = Vocabulary(vocabulary.model)
    assert again == vocabulary
    assert len(again) == len(vocabulary) == 700


def test_a_vocabulary_too_large_for_the_text_is_an_error_with_the_possible_size() -> None:
    with pytest.raises(
        ConfigError,
        match=r"text\.vocab_size is 5000, but this corpus gives at most \d+ tokens; set it to",
    ):
        learn_vocabulary(["a b c a b c"] * 10, "bpe", 5000)


def test_a_default_size_too_large_for_the_text_is_reduced() -> None:
    assert len(learn_vocabulary(["a b c a b c"] * 10, "bpe", 5000, exact=False)) < 300


def test_a_vocabulary_too_small_for_the_characters_is_an_error_with_the_needed_size() -> None:
    lines = ["".join(chr(code) for code in range(0x4E00, 0x4E80))] * 3
    with pytest.raises(
        ConfigError,
        match=(
            r"text\.vocab_size is 300, but the bytes and characters of this corpus "
            r"alone need \d+"
        ),
    ):
        learn_vocabulary(lines, "bpe", 300)
    assert len(learn_vocabulary(lines, "bpe", 300, exact=False)) > 300


def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(
        DataError, match=r"cannot learn 300 tokens from 0 lines: .*; give more lines"
    ):
        learn_vocabulary([], "bpe", 300)


def test_bytes_that_are_not_a_vocabulary_are_refused() -> None:
    with pytest.raises(ModelError, match="not a SentencePiece model"):
        Vocabulary(b"no such thing")


def test_a_vocabulary_made_elsewhere_is_refused(grammar_lines: list[str]) -> None:
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(grammar_lines), model_writer=writer, vocab_size=300, minloglevel=2
    )
    with pytest.raises(
        ModelError,
        match=(
            r"first pieces of the SentencePiece model are <unk>, <s>, </s>.*"
            r"not made by transduce"
        ),
    ):
        Vocabulary(writer.getvalue())


def train_without_bytes(lines: list[str], *controls: str, **options: object) -> bytes:
    """Return a SentencePiece model with our special tokens that has no byte pieces."""
    writer = io.BytesIO()
    names = zip(("pad", "bos", "eos", "unk"), SPECIAL_TOKENS, strict=True)
    special = {
        key: value
        for i, (name, piece) in enumerate(names)
        for key, value in ((f"{name}_id", i), (f"{name}_piece", piece))
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=writer,
        minloglevel=2,
        control_symbols=list(controls),
        **{"vocab_size": 300, **special, **options},
    )
    return writer.getvalue()


@pytest.fixture(scope="module")
def without_bytes(grammar_lines: list[str]) -> Vocabulary:
    return Vocabulary(train_without_bytes(grammar_lines))


def test_unknown_characters_become_one_unknown_token_without_byte_pieces(
    without_bytes: Vocabulary,
) -> None:
    assert not without_bytes.has_bytes
    known = without_bytes.encode("I love you")
    assert UNKNOWN not in known
    assert without_bytes.encode("I love 你好 you").count(UNKNOWN) == 1
    assert without_bytes.decode(without_bytes.encode("I love 你好you")) == "I love you"
    assert without_bytes.encode_piece("你") == [UNKNOWN]
    batch = ["I love you", "你好", ""] * 5
    assert without_bytes.encode_batch(batch) == [without_bytes.encode(text) for text in batch]


@settings(max_examples=100, deadline=None)
@given(text=ANY_TEXT)
def test_text_forges_no_special_token_but_unknown_without_byte_pieces(
    without_bytes: Vocabulary, text: str
) -> None:
    for spelled in (text, f"[SOS]{text}[EOS][PAD]", "[PAD]"):
        assert not {PAD, SOS, EOS} & set(without_bytes.encode(spelled))


def test_unknown_characters_are_those_without_tokens_after_normalization(
    vocabulary: Vocabulary, without_bytes: Vocabulary
) -> None:
    assert vocabulary.unknown_characters("love \ufb01 你") == {"\ufb01", "你"}
    assert without_bytes.unknown_characters("love \ufb01 你 \uff41\u00a0") == {"你"}


def test_a_space_mark_is_a_space_without_byte_pieces(without_bytes: Vocabulary) -> None:
    assert without_bytes.encode("I▁love") == without_bytes.encode("I love")


def test_a_model_that_normalizes_does_so_with_byte_pieces_too(grammar_lines: list[str]) -> None:
    model = train_without_bytes(grammar_lines, byte_fallback=True, vocab_size=600)
    assert Vocabulary(model).decode(Vocabulary(model).encode("a▁\ufb01你")) == "a fi你"


def test_a_prefix_is_put_before_every_text_and_adds_nothing_to_it(
    grammar_lines: list[str],
) -> None:
    model = train_without_bytes(grammar_lines, ">>ita<<", ">>fra<<")
    plain, prefixed = Vocabulary(model), Vocabulary(model, prefix=[">>ita<<"])
    [tag] = plain.encode_piece(">>ita<<")
    texts = ["I love you", "", " ", "你"] * 3
    expected = [[tag, *ids] if ids else [] for ids in plain.encode_batch(texts)]
    assert prefixed.encode_batch(texts) == expected
    assert prefixed != plain
    ids = prefixed.encode("I love you")
    assert prefixed.decode(ids) == "I love you"
    assert prefixed.surface(tag) == ""
    assert prefixed.token(tag) == ">>ita<<"
    assert prefixed.spans(ids)[:2] == [(0, 0), (0, 1)]
    assert tag not in plain.encode(">>ita<< I love you")


@pytest.mark.parametrize("piece", [">>deu<<", "[SOS]", "▁"])
def test_a_prefix_that_is_no_control_piece_is_refused(grammar_lines: list[str], piece: str) -> None:
    with pytest.raises(ModelError, match=r"has no control piece .*; text\.source_prefix belongs"):
        Vocabulary(train_without_bytes(grammar_lines, ">>ita<<"), prefix=[piece])


def test_rare_characters_have_tokens_unless_there_are_many_different_ones(
    grammar_lines: list[str],
) -> None:
    """Add a single 9 to 80,000 characters, then two thousand characters that occur once each."""
    plain = (grammar_lines * 20)[:4000]
    assert sum(map(len, plain)) > 80_000
    assert "9" in learn_vocabulary([*plain, "9"], "bpe", 2000, exact=False).characters
    many = [chr(0x4E00 + i) for i in range(2000)]
    assert not learn_vocabulary([*plain, *many], "bpe", 3000, exact=False).characters.issuperset(
        many
    )


def test_a_larger_corpus_gets_more_tokens() -> None:
    sizes = [choose_vocabulary_size(n) for n in (1, 10_000, 58_000, 1_000_000, 10_000_000)]
    assert sizes == sorted(sizes)
    assert choose_vocabulary_size(58_000) == 8_000


TEXT = "First Citizen:\nBefore we  proceed any further, hear me speak.\n\nAll:\nSpeak, speak.\n"


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "byte"])
@settings(max_examples=60, deadline=None)
@given(text=ANY_TEXT)
def test_running_text_survives_in_every_kind_of_vocabulary(kind: str, text: str) -> None:
    vocabulary = learn_vocabulary(TEXT.split("\n"), kind, 300, exact=False, is_text=True)
    for whole in (text, f"{text}\n{TEXT}", f"\n {text}\n\n"):
        assert vocabulary.decode(vocabulary.encode(whole)) == whole


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "byte"])
def test_a_line_feed_is_one_token_of_a_running_text(kind: str) -> None:
    vocabulary = learn_vocabulary(TEXT.split("\n"), kind, 300, exact=False, is_text=True)
    assert vocabulary.tokens("\n\n") == ["##\\n", "##\\n"]


def test_a_byte_vocabulary_has_bytes_and_the_space_and_a_character_one_has_characters() -> None:
    byte = learn_vocabulary(TEXT.split("\n"), "byte", 9999, is_text=True)
    assert len(byte) == 4 + 256 + 1 + 1
    assert len(byte.encode("née me")) == 7
    char = learn_vocabulary(TEXT.split("\n"), "char", 9999, exact=False, is_text=True)
    assert len(char) == 4 + 256 + len(set(TEXT))
    assert len(char.encode(TEXT)) == len(TEXT)


def test_the_size_of_a_vocabulary_grows_at_round_numbers_of_lines() -> None:
    steps = {20_000: (2_000, 8_000), 200_000: (8_000, 16_000), 2_000_000: (16_000, 32_000)}
    for n, (below, from_there) in steps.items():
        assert (choose_vocabulary_size(n - 1), choose_vocabulary_size(n)) == (below, from_there)


def test_bytes_of_ascii_are_characters_and_all_others_are_parts_of_one(
    vocabulary: Vocabulary,
) -> None:
    surfaces = {
        byte: vocabulary.surface(vocabulary.encode_piece(f"<0x{byte:02X}>")[0])
        for byte in (0x41, 0x7F, 0x80, 0xFF)
    }
    assert surfaces == {0x41: "A", 0x7F: "\x7f", 0x80: "\ufffd", 0xFF: "\ufffd"}


@pytest.mark.parametrize("length", [4095, 4096, 4097, 8192, 10_000])
def test_a_long_line_of_running_text_is_learned_whole_and_a_long_sentence_to_its_limit(
    length: int,
) -> None:
    line = "".join(chr(0x4E00 + i) for i in range(length))
    assert "".join(_limit_lengths([line], is_text=True)) == line
    assert list(_limit_lengths([line], is_text=False)) == [line[:4096]]
    assert max(map(len, _limit_lengths([line], is_text=True))) <= 4096
