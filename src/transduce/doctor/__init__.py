"""The corpus doctor: find faults in a corpus, report them with examples, write a cleaned copy.

- `faults`: the kinds of faults, read from `faults.toml`
- `checks`: faults of a single pair
- `repeats`: duplicates, and pairs shared with held-out sets
- `languages`: sides in the wrong language
- `measure`: line counts, lengths and drift
- `examination`: everything together, for a whole corpus or for a sample before training
- `clean`: the cleaned copy
- `summary`: the result as text and as JSON
"""

from transduce.doctor.clean import reason_not_to_clean, write_clean
from transduce.doctor.examination import Diagnosis, FaultExample, Finding, check_sample, examine
from transduce.doctor.faults import FAULTS, Fault

__all__ = [
    "FAULTS",
    "Diagnosis",
    "Fault",
    "FaultExample",
    "Finding",
    "check_sample",
    "examine",
    "reason_not_to_clean",
    "write_clean",
]
