"""What is wrong with a corpus: counted, shown by example, and cleaned into a copy.

`faults` lists the kinds, `checks` sees them in a single pair, `repeats` across pairs and sets, `languages` and `measure` in whole
sides. `examination` puts them together, for the whole corpus or for a quick look before training, and `clean` writes the copy.
"""

from transduce.doctor.clean import why_no_copy, write_clean
from transduce.doctor.examination import Diagnosis, Example, Finding, check_sample, examine
from transduce.doctor.faults import FAULTS, Fault

__all__ = [
    "FAULTS",
    "Diagnosis",
    "Example",
    "Fault",
    "Finding",
    "check_sample",
    "examine",
    "why_no_copy",
    "write_clean",
]
