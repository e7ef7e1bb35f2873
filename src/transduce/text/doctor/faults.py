"""The kinds of faults a corpus can have, in the order in which they are reported."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault.

    `says` goes on from "37 pairs": what is wrong with them. `drops`: a cleaned copy leaves such pairs out. `alarming`: from this
    share of the pairs on it is reported before training, and marked in the report.
    """

    name: str
    says: str
    advice: str
    drops: bool
    alarming: float


MISALIGNED = Fault(
    "misaligned",
    "stand in a stretch where one side is shifted against the other",
    "a line is missing, or is one too many, at both ends of the stretch: put it right there",
    drops=True,
    alarming=0.0,
)
BLANK = Fault(
    "blank",
    "have nothing on one side or on both",
    "training leaves them out; where there are many, look how the files were made",
    drops=True,
    alarming=0.1,
)
INVALID = Fault(
    "not UTF-8",
    "have bytes that are not UTF-8, or the U+FFFD that once replaced some",
    "convert the file from what it is, for example: iconv -f latin1 -t utf-8",
    drops=True,
    alarming=0.001,
)
MOJIBAKE = Fault(
    "mojibake",
    "were read in the wrong encoding once (Ã© for é, â€™ for ’)",
    "convert the files again from where they came from",
    drops=True,
    alarming=0.01,
)
LEAKED = Fault(
    "leaked pair",
    "are in a held-out set too, but for case, digits and punctuation",
    "take them out of training: scores on that set would be too good to be true",
    drops=True,
    alarming=0.0001,
)
WRONG_LANGUAGE = Fault(
    "wrong language",
    "have a side in the other language",
    "if nearly all are: exchange --source and --target; if some: they teach the model to leave text untranslated",
    drops=True,
    alarming=0.02,
)
COPY = Fault(
    "copy",
    "are copies (source = target)",
    "they teach the model to copy instead of translating",
    drops=True,
    alarming=0.05,
)
RATIO = Fault(
    "length ratio",
    "have one side far too long for the other",
    "mostly a translation of something else, or of a part only",
    drops=True,
    alarming=0.05,
)
TOO_LONG = Fault(
    "too long",
    "are too long to be a sentence",
    "split them into sentences: training leaves out what is longer than data.max_length pieces",
    drops=True,
    alarming=0.05,
)
DUPLICATE = Fault(
    "duplicate",
    "repeat an earlier pair",
    "each repetition weighs as much as a new sentence; one is enough",
    drops=True,
    alarming=0.2,
)
NEAR_DUPLICATE = Fault(
    "near duplicate",
    "repeat an earlier pair but for case, digits, punctuation and space",
    "harmless if few; they teach digits and punctuation, so they are kept",
    drops=False,
    alarming=0.3,
)
MANY_TARGETS = Fault(
    "many translations",
    "have a source that came with several other translations before",
    "the model learns their mixture; a sign of wrongly aligned boilerplate",
    drops=False,
    alarming=0.1,
)
LEAKED_SOURCE = Fault(
    "leaked source",
    "have the source of a held-out pair, with another translation",
    "scores on that set may be flattered; short phrases are usual",
    drops=False,
    alarming=0.02,
)
NUMBERS = Fault(
    "numbers",
    "have a number of two digits or more on one side only",
    "look at some: a number may be a word on the other side, or the pair may be wrong",
    drops=False,
    alarming=0.1,
)
MARKUP = Fault(
    "markup",
    "have tags, entities or templates in the text",
    "strip them unless the model shall translate marked-up text",
    drops=False,
    alarming=0.05,
)
CONTROL_CHARACTERS = Fault(
    "control characters",
    "have control characters in the text",
    "harmless: training and the cleaned copy take the characters out and keep the pair",
    drops=False,
    alarming=0.1,
)

FAULTS = (
    MISALIGNED,
    BLANK,
    INVALID,
    MOJIBAKE,
    LEAKED,
    WRONG_LANGUAGE,
    COPY,
    RATIO,
    TOO_LONG,
    DUPLICATE,
    NEAR_DUPLICATE,
    MANY_TARGETS,
    LEAKED_SOURCE,
    NUMBERS,
    MARKUP,
    CONTROL_CHARACTERS,
)
