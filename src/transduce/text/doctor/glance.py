"""A glance at the first pairs before training: a second or two, and only what is alarming."""

from collections.abc import Iterable
from itertools import islice

import numpy as np

from transduce.text.corpus import Languages, Pair
from transduce.text.doctor.checks import log_ratio
from transduce.text.doctor.examination import Finding, Judge, Tally
from transduce.text.doctor.faults import BLANK, WRONG_LANGUAGE
from transduce.text.doctor.languages import LanguageJudge, open_judge
from transduce.text.drift import find_drifts

MOST_PAIRS = 10_000
MOST_JUDGED = 2000  # about so many are judged by their language, evenly: that is the slow part


def quick_look(pairs: Iterable[Pair], languages: Languages | None = None) -> list[str]:
    """Warnings about the first 10,000 pairs, a line each; none if nothing is alarming. Lines are counted from 1 as they come.

    A fault is alarming from the share on that its `Fault` states.
    """
    seen = list(islice(pairs, MOST_PAIRS))
    judge = Judge(float(np.median([log_ratio(pair) for pair in seen])) if seen else 0.0)
    opened = open_judge(languages)
    of_languages = opened if isinstance(opened, LanguageJudge) else None
    every = max(1, len(seen) // MOST_JUDGED)
    tally = Tally()
    for line, pair in enumerate(seen, start=1):
        notes = judge.notes(line, pair)
        if of_languages and not notes and line % every == 0 and (other := of_languages.note(line, pair)):
            notes.append((WRONG_LANGUAGE, other))
        tally.add("", line, pair, notes)
    n_usable = len(seen) - tally.counts.get(BLANK, 0)
    if not n_usable:
        return []  # whoever reads the whole corpus will say so, if no pair follows
    warnings = []
    if n_usable == 1:
        warnings.append(f"only 1 of {len(seen):,} pairs is usable: nothing can be learnt from it but itself")
    if of_languages and of_languages.are_swapped:
        a, b = of_languages.languages
        warnings.append(f"the two sides look swapped: the source is mostly {b}, the target mostly {a}")
    findings = tally.findings(of_languages.n_pairs if of_languages else 0)
    warnings += [_warning(finding) for finding in findings if finding.is_alarming]
    if drifts := find_drifts([len(pair.source) for pair in seen], [len(pair.target) for pair in seen]):
        warnings.append(f"source and target seem out of step from about line {drifts[0].line:,} on")
    return warnings


def _warning(finding: Finding) -> str:
    example = finding.examples[0]
    share = f"{100 * finding.share:.2g}" if finding.share < 0.995 else "100"
    return f"{share} % of the pairs {finding.fault.says}, e.g. line {example.line:,}"
