"""The claims of the paper and of texts about it, each tested by an experiment with a control.

One module per claim: its `run(lab, ...)` measures and returns a `Result`. The texts are in
claims.toml. To add a claim, write both under the same name.

An experiment takes its cause as an argument (`mask=False`), so that a test can remove the cause and
expect another verdict.
"""

import tomllib
from functools import cache
from pathlib import Path

from transduce.claims.claim import Claim

SOURCES = (
    "Texts that explain the paper: T1 a journal-club note; T2 a long walk-through with training "
    "and inference; T3 a study log on the Illustrated Transformer; T4 an introduction, part 2; "
    "T5 an explanation in plain words."
)


@cache
def claims() -> dict[str, Claim]:
    """Return the registry: all claims by name, in the order of the paper."""
    texts = tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))
    return {name: Claim(name=name, **fields) for name, fields in texts.items()}
