"""Lines that are hard to translate, and a check that holds for the output of any input."""

import json
import random
from pathlib import Path

from transduce.grammar import generate

HOSTILE: list[bytes] = [
    b"",
    b" \t  ",
    b"\xe3\x80\x80",  # an ideographic space
    b"Does Maria love the cat? " * 40_000,
    b"lovely" * 170_000,
    b"\0",
    b"I lo\0ve \0you",
    "\u202eI love you\u202c \u2066x\u2069".encode(),
    "שלום עולם أهلا".encode(),
    "👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 🇮🇹 e\u0323\u0301".encode(),
    b"\xed\xa0\x80",  # half a surrogate pair
    b"I love \xed\xa0\x80 you",
    b"[EOS] [PAD] [SOS] [UNK] <s> </s> <unk> <0x0A>",
    b"[EOS]",
    "▁I▁love▁you ▁".encode(),
    "Я люблю тебя 我爱你 ฉันรักคุณ 𝔘𝔫𝔦\U0010fffd".encode(),
    bytes(range(11, 256)),
    b"\xff\xfe\xfd",
    b"I love \xc3",
    "I love\u2028you\u2029and\u0085me\vand\fher\x1c\x1d\x1e".encode(),
    "\u2028\u0085\v\f".encode(),
    b"\xef\xbb\xbfI love you",
    b"I love you\r",
    b"I love\ryou\r\r",
    b"\\n \\u2028 %s {name} \"quoted\" 'too' <b>&amp;</b>",
    b"x" * 600,
    ("e" + "\u0301" * 3000).encode(),
    b"0123456789" * 300,
    b"(" * 700 + b")" * 700,
    b"la " * 400,
    b'{"source": "I love you"}',
    "\ufffd".encode(),
]
ALPHABET = [
    b" ",
    b"I",
    b"love",
    b"the",
    b"cat",
    b"?",
    "è".encode(),
    "愛".encode(),
    "👩\u200d".encode(),
    b"\0",
    b"\xff",
]
ALPHABET += [
    b"\xed\xa0\x80",
    "\u2028".encode(),
    "\u0301".encode(),
    b"\r",
    b"\v",
    b"[EOS]",
    "▁".encode(),
    b"\xc3",
    b"7",
]


def fuzz(n: int, seed: int) -> list[bytes]:
    """Return random lines.

    In turn: a sentence, a sentence with one byte changed, a mixture of ALPHABET, random bytes.
    """
    chance = random.Random(seed)
    sentences = [pair.source.encode() for pair in generate("en-it", n, seed=seed)]
    lines = []
    for i, sentence in enumerate(sentences):
        place = chance.randrange(len(sentence))
        kinds = (
            sentence,
            sentence[:place] + chance.randbytes(1) + sentence[place + 1 :],
            b"".join(chance.choices(ALPHABET, k=chance.randrange(12))),
            chance.randbytes(chance.randrange(20)),
        )
        lines.append(kinds[i % 4].replace(b"\n", b""))
    return lines


def is_valid(line: bytes) -> bool:
    """Return whether a line is UTF-8 without U+FFFD."""
    try:
        return "\ufffd" not in line.decode()
    except UnicodeDecodeError:
        return False


def check(lines: list[bytes], out: bytes, report: Path) -> None:
    """Check that there is one output line and one record in the report per input line.

    No output line contains a line break of any kind, and invalid bytes are flagged.
    """
    assert out.endswith(b"\n")
    written = out.decode().split("\n")[:-1]
    assert len(written) == len(lines)
    for line in written:
        assert line.splitlines() in ([], [line]), line[:80]
    records = [json.loads(line) for line in report.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [record["line"] for record in records] == list(range(1, len(lines) + 1))
    for line, text, record in zip(lines, written, records, strict=True):
        assert ("invalid_characters" in record["flags"]) == (not is_valid(line)), line[:80]
        assert text or "blank" in record["notes"] or record["flags"], line[:80]
        assert "blank" not in record["notes"] or not text
