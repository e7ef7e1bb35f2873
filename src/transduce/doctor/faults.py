"""The kinds of faults a corpus can have, in the order in which they are reported: those of `faults.toml`."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


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


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FAULT = {name: Fault(name, **row) for name, row in _TABLES.items()}
FAULTS = tuple(FAULT.values())
MISALIGNED = FAULT["misaligned"]
BLANK = FAULT["blank"]
INVALID = FAULT["not UTF-8"]
MOJIBAKE = FAULT["mojibake"]
LEAKED = FAULT["leaked pair"]
WRONG_LANGUAGE = FAULT["wrong language"]
COPY = FAULT["copy"]
RATIO = FAULT["length ratio"]
TOO_LONG = FAULT["too long"]
DUPLICATE = FAULT["duplicate"]
NEAR_DUPLICATE = FAULT["near duplicate"]
MANY_TARGETS = FAULT["many translations"]
LEAKED_SOURCE = FAULT["leaked source"]
NUMBERS = FAULT["numbers"]
MARKUP = FAULT["markup"]
CONTROL_CHARACTERS = FAULT["control characters"]
