"""What is wrong with a corpus: counted, shown by example, and cleaned into a copy.

`faults` lists the kinds, `checks` sees them in a single pair, `repeats` across pairs and sets, `languages` and `measure` in whole
sides. `examination` puts them together, `clean` writes the copy, `glance` is the quick look before every training.
"""

from transduce.text.doctor.clean import why_no_copy, write_clean
from transduce.text.doctor.examination import Diagnosis, Example, Finding, examine
from transduce.text.doctor.faults import FAULTS, Fault
from transduce.text.doctor.glance import quick_look
from transduce.text.doctor.measure import Place

__all__ = [
    "FAULTS",
    "Diagnosis",
    "Example",
    "Fault",
    "Finding",
    "Place",
    "examine",
    "quick_look",
    "why_no_copy",
    "write_clean",
]
