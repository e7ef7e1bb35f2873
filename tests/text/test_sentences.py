"""Sentences: nothing is lost between them, and each language has its rules."""

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from transduce.text import sentences
from transduce.text.segments import Segment
from transduce.text.sentences import has_several_sentences, known_language, split_sentences


def texts_of(text: str, language: str | None = "en") -> list[str]:
    return [segment.text for segment in split_sentences(text, language)]


@given(st.text(alphabet="aB.!?…\"')( \t\n\u0085\u2028\u3000。猫", max_size=60))
def test_sentences_and_their_gaps_are_the_text(text: str) -> None:
    for language in ("en", "de", "ja", None):
        segments = split_sentences(text, language)
        if not text.strip():
            assert segments == []
            continue
        assert "".join(segment.text + segment.gap for segment in segments) == text
        assert all(not segment.gap.strip() for segment in segments)
        assert all(segment.text == segment.text.strip() for segment in segments)
        assert all(segment.text for segment in segments[1:])


@given(st.text(max_size=60))
def test_any_text_is_split_without_loss(text: str) -> None:
    segments = split_sentences(text, "en")
    joined = "".join(segment.text + segment.gap for segment in segments)
    assert joined == (text if text.strip() else "")


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "en",
            "I love you. Where is the station? Tom is not here today. I have to go home now.",
            ["I love you.", "Where is the station?", "Tom is not here today.",
             "I have to go home now."],
        ),
        ("en", "Dr. Smith met Mr. Jones at 5 p.m. today.", None),
        ("en", "It costs 3.50 dollars.", None),
        ("en", "He said: \"Stop. Now.\" Then he left.", ['He said: "Stop. Now."', "Then he left."]),
        ("en", "Well... I do not know.", None),
        ("de", "Am 3. Mai kam z. B. Herr Müller.", None),
        ("de", "Ein Hund läuft. Zwei schlafen.", ["Ein Hund läuft.", "Zwei schlafen."]),
        ("fr", "M. Dupont est là. Où est-il ?", ["M. Dupont est là.", "Où est-il ?"]),
        ("fr", "Je vois J.-P. Sartre, Mme. Blanc et le Dr. Noir. Et toi ?",
            ["Je vois J.-P. Sartre, Mme. Blanc et le Dr. Noir.", "Et toi ?"]),
        ("it", "G. Verdi scrive.", None),
        ("en", "It was plan B. Then he left.", ["It was plan B.", "Then he left."]),
        ("ja", "猫が好き。犬も好き。", ["猫が好き。", "犬も好き。"]),
        ("en", "no end here", None),
        ("en", "a man sleeps. two dogs run.", ["a man sleeps.", "two dogs run."]),
    ],
)  # fmt: skip
def test_the_rules_of_a_language(language: str, text: str, expected: list[str] | None) -> None:
    assert texts_of(text, language) == (expected or [text])


def test_the_original_spacing_is_kept() -> None:
    assert split_sentences("  One cat.  Two cats.\tThree. ", "en") == [
        Segment("", "  "),
        Segment("One cat.", "  "),
        Segment("Two cats.", "\t"),
        Segment("Three.", " "),
    ]


def test_tokenized_text_ends_its_sentences_between_spaces_only() -> None:
    text = "a man sleeps . two u.s. dogs run ! why ?"
    assert texts_of(text) == ["a man sleeps .", "two u.s. dogs run !", "why ?"]
    for quote in ("&quot;", '"', "''"):
        quoted = f"he says {quote} stop . {quote}"
        assert texts_of(quoted) == [quoted]
        assert texts_of(f"{quoted} a man sleeps .") == [quoted, "a man sleeps ."]
        assert texts_of(f"a man sleeps . {quote} stop {quote}") == [
            "a man sleeps .", f"{quote} stop {quote}",
        ]  # fmt: skip


def test_a_text_longer_than_any_paragraph_is_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "MAX_PARAGRAPH", 20)
    assert texts_of("One cat. Two cats ok") == ["One cat.", "Two cats ok"]
    assert texts_of("One cat. Two cats ok.") == ["One cat. Two cats ok."]


def test_a_splitter_that_fails_leaves_the_text_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):  # the name that Rust gives it
        pass

    def panic(language: str, text: str) -> list[str]:
        raise PanicException

    monkeypatch.setattr(sentencex, "segment", panic)
    assert texts_of("One cat. Two cats.") == ["One cat. Two cats."]
    monkeypatch.setattr(sentencex, "segment", lambda language, text: ["another text"])
    assert texts_of("One cat. Two cats.") == ["One cat. Two cats."]


def test_an_interrupt_is_not_a_failure_of_the_splitter(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(language: str, text: str) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(sentencex, "segment", interrupt)
    with pytest.raises(KeyboardInterrupt):
        split_sentences("One cat. Two cats.", "en")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("eng", "en"),
        ("ger", "de"),
        ("en-US", "en"),
        ("zh_CN", "zh"),
        ("de.tok", "de"),
        ("nds", "nds"),
        ("src", None),
        ("txt", None),
        ("english", None),
        ("", None),
        (None, None),
    ],
)
def test_the_language_that_a_model_names(name: str | None, code: str | None) -> None:
    assert known_language(name) == code


@pytest.mark.parametrize(
    ("text", "has_several"),
    [
        ("One cat.", False),
        ("One cat, two cats: three cats - four", False),
        ("Dr. Smith sleeps.", False),
        ("One cat. Two cats.", True),
        ("One cat! Two", True),
        ("猫が好き。犬も好き。", True),
        ("a man sleeps . two dogs run .", True),
        ("", False),
        (" ... ", False),
    ],
)
def test_lines_with_several_sentences_are_recognized(text: str, has_several: bool) -> None:
    assert has_several_sentences(text, "en") == has_several


@given(st.text(alphabet="aB.!?…\"') \t。猫,", max_size=40))
def test_the_quick_look_misses_no_second_sentence(text: str) -> None:
    n_sentences = sum(bool(segment.text) for segment in split_sentences(text, "en"))
    has_words = sum(any(map(str.isalnum, each)) for each in texts_of(text)) > 1
    assert has_several_sentences(text, "en") or n_sentences < 2 or not has_words


ORDINARY = {
    "en": 'Dr. Smith met Mr. Jones at 5 p.m. today. "Stop. Now," he said. It costs 3.50 dollars! '
    "Tom's dog (a big one. Really.) sleeps... Where is it? I do not know. ",
    "de": "Am 3. Mai kam z. B. Herr Müller. „Ein Hund läuft. Schnell!“, rief er. Warum? "
    'Er sagte: "Das ist gut." Zwei schlafen, usw. Es kostet 3,50 Euro. ',
    "fr": "M. Dupont est là. Où est-il ? « Ici. Là-bas ! » dit-elle. J.-P. Sartre écrit. "
    "Il dort... L'homme de l'autre rue (le grand. Oui.) vient. ",
}


@pytest.mark.parametrize("language", ORDINARY)
def test_windows_do_not_change_the_sentences(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ORDINARY[language] * (20_000 // len(ORDINARY[language]))
    in_windows = split_sentences(text, language)
    monkeypatch.setattr(sentences, "WINDOW", len(text))
    assert in_windows == split_sentences(text, language)


@given(st.text(alphabet="aB.!?…\"') \t。猫", max_size=60))
def test_nothing_is_lost_between_windows(text: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sentences, "WINDOW", 8)
        monkeypatch.setattr(sentences, "MARGIN", 4)
        segments = split_sentences(text, "fr")
    joined = "".join(segment.text + segment.gap for segment in segments)
    assert joined == (text if text.strip() else "")


def test_a_sentence_longer_than_a_window_is_one_sentence() -> None:
    long = "One cat, " * 1000 + "and no dog."
    assert texts_of(f"It is. {long} Two cats.") == ["It is.", long, "Two cats."]


@pytest.mark.parametrize("unit", ["A. ", "+.", "-.", "../", "Dr. ", "我…。", "<!--", "`", "One. "])
@pytest.mark.parametrize("language", ["en", "it"])
def test_the_library_sees_a_long_text_a_few_times_in_short_windows(
    unit: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes quadratic time, and no signal is handled before it returns."""
    seen: list[int] = []
    segment = sentencex.segment

    def count(language: str, text: str) -> list[str]:
        seen.append(len(text))
        return segment(language, text)

    monkeypatch.setattr(sentencex, "segment", count)
    text = unit * (50_000 // len(unit))
    split_sentences(text, language)
    assert max(seen) <= sentences.WINDOW
    assert sum(seen) <= 4 * len(text)


@pytest.mark.parametrize("unit", ["=", ".", "A. ", "! ", "Dr. ", '" ', "a . ", "Hi 😀. ", "x", "`"])
def test_long_lines_are_split_in_linear_time(unit: str) -> None:
    """A quadratic search would take minutes: the test's time limit would end it."""
    text = unit * (200_000 // len(unit))
    for language in ("en", "fr"):
        has_several_sentences(text, language)
        split_sentences(text, language)
