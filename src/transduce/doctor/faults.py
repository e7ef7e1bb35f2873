"""The kinds of faults a corpus can have, read from `faults.toml` in the order of the report."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault.

    `description` completes a sentence that begins with "37 pairs". A cleaned copy omits the pairs
    if `is_dropped`. From `alarm_threshold` on, a share of all pairs, the fault is alarming: it is
    marked in the report and leads to a warning before training.
    """

    name: str
    description: str
    advice: str
    is_dropped: bool
    alarm_threshold: float


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FAULT_BY_NAME = {name: Fault(name, **row) for name, row in _TABLES.items()}
FAULTS = tuple(FAULT_BY_NAME.values())

MISALIGNED = FAULT_BY_NAME["misaligned"]
BLANK = FAULT_BY_NAME["blank"]
INVALID = FAULT_BY_NAME["not UTF-8"]
MOJIBAKE = FAULT_BY_NAME["mojibake"]
LEAKED = FAULT_BY_NAME["leaked pair"]
WRONG_LANGUAGE = FAULT_BY_NAME["wrong language"]
COPY = FAULT_BY_NAME["copy"]
RATIO = FAULT_BY_NAME["length ratio"]
TOO_LONG = FAULT_BY_NAME["too long"]
DUPLICATE = FAULT_BY_NAME["duplicate"]
NEAR_DUPLICATE = FAULT_BY_NAME["near duplicate"]
MANY_TARGETS = FAULT_BY_NAME["many translations"]
LEAKED_SOURCE = FAULT_BY_NAME["leaked source"]
NUMBERS = FAULT_BY_NAME["numbers"]
MARKUP = FAULT_BY_NAME["markup"]
CONTROL_CHARACTERS = FAULT_BY_NAME["control characters"]
