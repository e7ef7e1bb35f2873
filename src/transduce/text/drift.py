"""Find where two parallel files drift apart, from the lengths of their lines.

The length of a line is roughly proportional to that of its translation, but not to that of another
line. At a drift the shift between the files changes: from there on, line n of the source fits line
n + shift of the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

MIN_LINES = 20  # fewer are not enough evidence
WINDOW = 20  # lines with a common shift in the first search; the exact line is found afterwards
NEARBY_SHIFTS = 8  # searched on both sides of 0 and of the difference in length
MAX_BETWEEN = 40  # up to this difference in length, all shifts between 0 and it are searched
FALSE_ALARM = 1e-3  # probability of finding a drift in files that have none
MIN_SPREAD = 0.05  # standard deviation of log lengths due to rounding and chance
OUTLIER_SHARE = 0.1  # of lines whose length says nothing about their translation
MIN_CORRELATION = 0.4  # of the lengths in an aligned stretch
MIN_CORRELATION_GAIN = 0.2  # by which a shift must improve the correlation
MAD_TO_DEVIATION = 0.6745  # median absolute deviation of a standard normal distribution

Lengths = Sequence[int] | NDArray[np.integer]
Floats = NDArray[np.float64]
Spreads = tuple[float, float]  # of length differences: to the translation, and to any other line


@dataclass(frozen=True, slots=True)
class Drift:
    """A change of alignment: from `line` on, source line n fits target line n + `shift`.

    Lines count from 1.
    """

    line: int
    shift: int


def likely_drift(source: Lengths, target: Lengths) -> int | None:
    """Return the line, counted from 1, at which two files start to drift apart; None if unknown."""
    found = find_drifts(source, target)
    return found[0].line if found else None


def find_drifts(source: Lengths, target: Lengths) -> tuple[Drift, ...]:
    """Return all lines at which two files drift apart or become aligned again.

    `source` and `target` are the lengths of their lines. The likeliest sequence of shifts is found
    with the Viterbi algorithm; the length of a line given that of its translation is log-normal.

    Each change of shift must explain the lengths better by log(lines * shifts / FALSE_ALARM) nats.
    In files without a drift, a wrong shift is that much better from a given line on with a
    probability below FALSE_ALARM / (lines * shifts), since a likelihood ratio is a martingale. This
    holds for independent lines that are translations of each other. To avoid false alarms for files
    sorted by length, or for unrelated files, the lengths must also be correlated, and better by
    MIN_CORRELATION_GAIN than without the shift.

    Files of unequal length drift for certain, so only the place is searched: both ends must fit.
    Stretches shorter than about 100 lines cannot be found.
    """
    if min(len(source), len(target)) < MIN_LINES:
        return ()
    if len(source) > len(target):
        # Seen from the shorter file, a surplus of the longer one is a single jump.
        return _swap_sides(find_drifts(target, source))

    a, b = (np.log1p(np.asarray(lengths, dtype=np.float64)) for lengths in (source, target))
    a, b = a - a.mean(), b - b.mean()
    shifts = _candidate_shifts(len(b) - len(a))
    change_cost = float(np.log(len(a) * len(shifts) / FALSE_ALARM))
    unrelated_spread = float(np.sqrt(a.var() + b.var())) + MIN_SPREAD
    spread = min(_spread(_differences_at(a, b, shift)) for shift in shifts)
    found: list[Drift] = []
    # In the second round the spread is that of aligned lines only.
    for _ in range(2):
        spreads = spread, unrelated_spread
        path = _best_path(a, b, spreads, shifts, change_cost)
        found = _locate_changes(a, b, spreads, path)
        spread = _spread(_differences_along(a, b, found))
    return tuple(_drop_doubtful(a, b, found))


def _candidate_shifts(surplus: int) -> list[int]:
    """Return the shifts to search; `surplus` is the number of target lines minus source lines."""
    nearby = range(-NEARBY_SHIFTS, NEARBY_SHIFTS + 1)
    shifts = {center + shift for center in (0, surplus) for shift in nearby}
    if abs(surplus) <= MAX_BETWEEN:
        shifts.update(range(min(0, surplus), max(0, surplus) + 1))
    return sorted(shifts)


def _differences_at(a: Floats, b: Floats, shift: int) -> Floats:
    """Return a[n] - b[n + shift] for each line n; NaN where the target has no such line."""
    differences = np.full(len(a), np.nan)
    first, last = max(0, -shift), min(len(a), len(b) - shift)
    if first < last:
        np.subtract(a[first:last], b[first + shift : last + shift], out=differences[first:last])
    return differences


def _differences_along(a: Floats, b: Floats, drifts: list[Drift]) -> Floats:
    """Return the length difference of each line, at the shift that applies to it."""
    differences = _differences_at(a, b, 0)
    for drift in drifts:
        start = drift.line - 1
        differences[start:] = _differences_at(a, b, drift.shift)[start:]
    return differences


def _spread(differences: Floats) -> float:
    """Return the standard deviation, estimated from the median, which is robust to outliers."""
    known = differences[np.isfinite(differences)]
    if not known.size:
        return np.inf
    return max(float(np.median(np.abs(known))) / MAD_TO_DEVIATION, MIN_SPREAD)


def _costs(differences: Floats, spreads: Spreads) -> Floats:
    """Return the negative log-likelihood of each line: a mixture of aligned lines and outliers."""
    spread, unrelated_spread = spreads
    squares = np.square(np.nan_to_num(differences, nan=unrelated_spread))
    aligned = (1 - OUTLIER_SHARE) / spread * np.exp(-0.5 / spread**2 * squares)
    outliers = OUTLIER_SHARE / unrelated_spread * np.exp(-0.5 / unrelated_spread**2 * squares)
    return -np.log(aligned + outliers + 1e-300)


def _best_path(
    a: Floats, b: Floats, spreads: Spreads, shifts: list[int], change_cost: float
) -> list[int]:
    """Return the shift of each window on the cheapest path (Viterbi)."""
    surplus = len(b) - len(a)
    starts = np.arange(0, len(a), WINDOW)
    window_costs = np.stack(
        [np.add.reduceat(_costs(_differences_at(a, b, s), spreads), starts) for s in shifts],
        axis=1,
    )  # [window, shift]
    total = np.where(np.array(shifts) == 0, 0.0, change_cost)
    previous = np.empty(window_costs.shape, dtype=np.int16)
    states = np.arange(len(shifts))
    for number, cost in enumerate(window_costs):
        best = int(total.argmin())
        stays = total <= total[best] + change_cost
        previous[number] = np.where(stays, states, best)
        total = np.where(stays, total, total[best] + change_cost) + cost
    if surplus:
        # The last lines must be aligned; any other shift costs one more change at the end.
        total = total + np.where(np.array(shifts) == surplus, 0.0, change_cost)

    path = [int(total.argmin())]
    for number in range(len(previous) - 1, 0, -1):
        path.append(int(previous[number][path[-1]]))
    return [shifts[state] for state in reversed(path)]


def _locate_changes(a: Floats, b: Floats, spreads: Spreads, path: list[int]) -> list[Drift]:
    """Return the changes along a path of windows, each placed at the line that fits best."""
    surplus = len(b) - len(a)
    changes = [
        (window, before, after)
        for window, (before, after) in enumerate(pairwise([0, *path]))
        if before != after
    ]
    if surplus and path[-1] != surplus:
        changes.append((len(path), path[-1], surplus))

    found: list[Drift] = []
    for window, before, after in changes:
        first, last = max(0, (window - 2) * WINDOW), min(len(a), (window + 2) * WINDOW)
        costs_before = _costs(_differences_at(a, b, before)[first:last], spreads)
        costs_after = _costs(_differences_at(a, b, after)[first:last], spreads)
        balance = np.concatenate(([0.0], np.cumsum(costs_before - costs_after)))
        found.append(Drift(first + 1 + int(np.argmin(balance)), after))
    return found


def _drop_doubtful(a: Floats, b: Floats, drifts: list[Drift]) -> list[Drift]:
    """Drop drifts that hardly improve the correlation of the stretch that follows.

    The last drift of files of unequal length is certain, and always kept.
    """
    kept = [Drift(1, 0)]
    for number, drift in enumerate(drifts):
        is_last = number == len(drifts) - 1
        end = len(a) if is_last else drifts[number + 1].line - 1
        stretch = slice(drift.line - 1, end)
        shift_before = kept[-1].shift
        before = _correlation(a, b, stretch, shift_before)
        after = _correlation(a, b, stretch, drift.shift)
        is_certain = is_last and len(a) != len(b)
        is_better = after > max(MIN_CORRELATION, before + MIN_CORRELATION_GAIN)
        if drift.shift != shift_before and (is_certain or is_better):
            kept.append(drift)
    return kept[1:]


def _swap_sides(drifts: tuple[Drift, ...]) -> tuple[Drift, ...]:
    """Return the same drifts with source and target exchanged."""
    swapped = []
    shift_before = 0
    for drift in drifts:
        line = drift.line + min(drift.shift, shift_before)
        swapped.append(Drift(line, -drift.shift))
        shift_before = drift.shift
    return tuple(swapped)


def _correlation(a: Floats, b: Floats, stretch: slice, shift: int) -> float:
    """Return the correlation of the lengths in a stretch at a shift; 0 if it is undefined."""
    first, last = max(stretch.start, -shift), min(stretch.stop, len(b) - shift)
    if last - first < 3:
        return 0.0
    x, y = a[first:last], b[first + shift : last + shift]
    if x.std() == 0 or y.std() == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
