"""Print the translation of each n-best list that is nearest to the reference.

This is sequence-level interpolation (Kim & Rush 2016, section 3.3).

transduce translate -m MODEL --beam 8 --n-best 8 < SOURCE | python nearest.py REFERENCE > NEAREST
"""

import itertools
import sys
from pathlib import Path

from sacrebleu.metrics import BLEU

bleu = BLEU(tokenize="none", effective_order=True)
references = Path(sys.argv[1]).read_text(encoding="utf-8").split("\n")[:-1]
lists = itertools.groupby(
    (line.split(" ||| ") for line in sys.stdin), key=lambda fields: int(fields[0])
)
for number, (reference, (i, found)) in enumerate(zip(references, lists, strict=True)):
    assert i == number
    print(
        max(
            (fields[1] for fields in found),
            key=lambda text: bleu.sentence_score(text, [reference]).score,
        )
    )
