"""Split texts into sentences, by the rules of their language."""

import re
from collections.abc import Sequence
from itertools import pairwise

import sentencex

from transduce.text.segments import Segment

FALLBACK = "en"  # the rules for texts whose language is not known
RARE_SPACE = re.compile(r"[^\S \n]")  # sentencex 1.0 fails on some of these, such as U+0085
SENTENCE_START = re.compile(r"(?<=[.!?…])[\"'”’»)\]]{0,3} +\w")
# What sentencex takes for the end of a sentence in some languages: initials, titles before a name.
ABBREVIATION = re.compile(
    r"(?<!\w)(?:[^\W\d_]|MM|Dr|Prof|Mr|Mrs|Ms|Mme|Mlle|Mgr|Ste?|Sig|Dott|Sra?|Srta|Hr)\.\s*$"
)
ABBREVIATIONS_KNOWN_IN = "en"  # the language whose abbreviations sentencex knows
POSSIBLE_END = re.compile(r"[^\w\s,;:'’(\[–—-]")
WORD_CHARACTER = re.compile(r"\w")
# In tokenized text the full stop of a sentence is between spaces, that of an abbreviation is not.
TOKENIZED_STOP = re.compile(r" \.\s")
TOKENIZED_END = re.compile(r" [.!?]+\s")
TOKENIZED_QUOTE = re.compile(r"(?:\"|&quot;|'')(?:\s|$)")
MAX_PARAGRAPH = 1 << 20  # a longer text is no paragraph: only what is too long is split
# sentencex takes quadratic time, so it sees a long text in windows. Sentences that end in the last
# part of a window are looked at again in the next one: what follows may decide where they end.
WINDOW, MARGIN = 4096, 2048  # characters
LAST_WORD_START = re.compile(r".*\s(?=\S)", re.DOTALL)
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?=[-_.]|$)")
# Three-letter codes of ISO 639 that people use, and the two letters that the rules go by.
TWO_LETTERS = {
    "ara": "ar",
    "bul": "bg",
    "cat": "ca",
    "ces": "cs",
    "chi": "zh",
    "cze": "cs",
    "dan": "da",
    "deu": "de",
    "dut": "nl",
    "ell": "el",
    "eng": "en",
    "est": "et",
    "fin": "fi",
    "fra": "fr",
    "fre": "fr",
    "ger": "de",
    "gre": "el",
    "heb": "he",
    "hin": "hi",
    "hrv": "hr",
    "hun": "hu",
    "ita": "it",
    "jpn": "ja",
    "kor": "ko",
    "lav": "lv",
    "lit": "lt",
    "nld": "nl",
    "nor": "no",
    "pol": "pl",
    "por": "pt",
    "ron": "ro",
    "rus": "ru",
    "slk": "sk",
    "slv": "sl",
    "spa": "es",
    "srp": "sr",
    "swe": "sv",
    "tur": "tr",
    "ukr": "uk",
    "vie": "vi",
    "zho": "zh",
}
UNKNOWN_CODES = {"src", "trg", "tgt", "und", "txt", "raw", "tok", "bpe", "xx", "mul"}


def known_language(name: str | None) -> str | None:
    """Return the code of a language that rules can be chosen by, or None if it is not known.

    `name` is what a model says about its language: `en`, `eng`, `en-US`, or something else.
    """
    match = LANGUAGE_CODE.match((name or "").lower())
    if match is None or match[0] in UNKNOWN_CODES:
        return None
    return TWO_LETTERS.get(match[0], match[0])


def split_sentences(text: str, language: str | None) -> list[Segment]:
    """Return the sentences of a text, each with the white space after it.

    Joined with their gaps, they give the text. White space before the first sentence is the gap of
    an empty segment. A blank text has no sentences.
    """
    lengths = _sentence_lengths(text, language or FALLBACK)
    if len(lengths) == 1 and not (text[:1].isspace() or text[-1:].isspace()):
        return [Segment(text, "")]  # nearly always
    segments: list[Segment] = []
    start = 0
    for length in lengths:
        sentence = text[start : start + length]
        start += length
        body = sentence.strip()
        before = sentence[: len(sentence) - len(sentence.lstrip())]
        if before:
            last = segments.pop() if segments else Segment("", "")
            segments.append(Segment(last.text, last.gap + before))
        if body:
            segments.append(Segment(body, sentence[len(before) + len(body) :]))
    return segments if any(each.text for each in segments) else []


def has_several_sentences(text: str, language: str | None) -> bool:
    """Return whether a text has more than one sentence."""
    end = POSSIBLE_END.search(text)
    if end is None or WORD_CHARACTER.search(text, end.end()) is None:  # most lines of a corpus
        return False
    return sum(bool(segment.text) for segment in split_sentences(text, language)) > 1


def _sentence_lengths(text: str, language: str) -> list[int]:
    """Return the lengths of the sentences, their sum being that of the text."""
    if len(text) > MAX_PARAGRAPH:
        return [len(text)]
    if " ." in text and TOKENIZED_STOP.search(text):
        return _tokenized_lengths(text)
    shown = RARE_SPACE.sub(" ", text)
    if shown.islower():  # some rules find no sentence that begins with a small letter
        shown = SENTENCE_START.sub(_capitalize, shown)
    sentences = _in_windows(shown, language)
    if len(sentences) > 1 and language != ABBREVIATIONS_KNOWN_IN:
        sentences = _join_abbreviations(sentences)
    return list(map(len, sentences))


def _in_windows(text: str, language: str) -> list[str]:
    """Return the sentences of a text by the rules of sentencex, in linear time."""
    sentences: list[str] = []
    start = begun = 0  # of the window, of its first sentence
    while len(text) - start > WINDOW:
        window = text[start : start + WINDOW]
        end = 0
        for sentence in _segment(window, language):
            if end + len(sentence) > WINDOW - MARGIN:
                break
            end += len(sentence)
            sentences.append(text[begun : start + end])
            begun = start + end
        start += end or _word_start(window)
    for sentence in _segment(text[start:], language):
        start += len(sentence)
        sentences.append(text[begun:start])
        begun = start
    return sentences


def _word_start(window: str) -> int:
    """Return where a window without a sentence end is cut: before a word, if it has any."""
    found = LAST_WORD_START.match(window, 0, WINDOW - MARGIN)
    return found.end() if found is not None else WINDOW - MARGIN


def _segment(text: str, language: str) -> list[str]:
    """Return the sentences of a text by the rules of sentencex; if these fail, the whole text."""
    try:
        sentences: list[str] = sentencex.segment(language, text)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust: a fault of sentencex
            raise
        return [text]
    return sentences if sum(map(len, sentences)) == len(text) else [text]


def _join_abbreviations(sentences: Sequence[str]) -> list[str]:
    """Return the sentences, those that end with an abbreviation joined with the next one."""
    groups: list[list[str]] = []
    for sentence in sentences:
        if groups and ABBREVIATION.search(groups[-1][-1]):
            groups[-1].append(sentence)
        else:
            groups.append([sentence])
    return ["".join(group) for group in groups]


def _capitalize(match: re.Match[str]) -> str:
    text = match[0]
    capital = text[-1].upper()
    return text[:-1] + capital if len(capital) == 1 else text


def _tokenized_lengths(text: str) -> list[int]:
    """Return the lengths of the sentences of a text with spaces around its punctuation."""
    ends = [0]
    n_quotes = 0
    for match in TOKENIZED_END.finditer(text):
        end = match.end()
        n_quotes += len(TOKENIZED_QUOTE.findall(text, ends[-1], end))
        quote = TOKENIZED_QUOTE.match(text, end)
        if quote is not None and n_quotes % 2 == 1:
            end = quote.end()
            n_quotes += 1
        ends.append(end)
    ends.append(len(text))
    return [end - start for start, end in pairwise(ends) if end > start]
