"""Where two parallel files drifted apart: found by the lengths of their lines.

Translations have lengths in proportion. Beside its own translation a line is about as long as expected; beside the translation of
another line it is not. A drift is a line from which on line n of the source fits line n + shift of the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LEAST_LINES = 20  # fewer say nothing
WINDOW = 20  # lines that are shifted together at first; the places are then found to the line
NEAR = 8  # shifts looked for around 0, and around what one file has more
MOST_BETWEEN = 40  # a larger difference than this is looked for as a whole, or nearly so
FALSE_ALARM = 1e-3  # chance of a drift found in files that have none
LEAST_SPREAD = 0.05  # of the logarithm of lengths: rounding and chance
STRAY = 0.1  # share of lines whose length says nothing
LEAST_CORRELATION = 0.4  # of the lengths of a stretch of lines that stand beside their translations
GAIN = 0.2  # by so much it must be better with the shift than without

Lengths = Sequence[int] | NDArray[np.integer]
Floats = NDArray[np.float64]
Spreads = tuple[float, float]  # of a line beside its translation, and beside any other line


@dataclass(frozen=True, slots=True)
class Drift:
    """From this line of the source on (counted from 1), line n of the source fits line n + shift of the target."""

    line: int
    shift: int


def likely_drift(source: Lengths, target: Lengths) -> int | None:
    """The line, from 1, at which one file most likely lacks lines that the other has; None if that cannot be told."""
    found = find_drifts(source, target)
    return found[0].line if found else None


def find_drifts(source: Lengths, target: Lengths) -> tuple[Drift, ...]:
    """All places at which two files drift apart or together again, from the lengths of their lines.

    The likeliest sequence of shifts is sought (Viterbi), a line's length beside another's being log-normal. Each change of shift
    must explain the lengths better by log(lines * shifts / FALSE_ALARM) nats: in files without a drift a wrong shift is that much
    better, from any given line on, with probability below FALSE_ALARM / (lines * shifts) (a likelihood ratio is a martingale).
    That holds for lines that are independent and translations of each other; so that files sorted by length, or unrelated ones,
    raise no alarm, the lengths must also be correlated, and better by GAIN. Files of unequal length drift for certain, and
    only the place is sought: both ends must fit. Of a stretch shorter than some 100 lines nothing can be said.
    """
    if min(len(source), len(target)) < LEAST_LINES:
        return ()
    if len(source) > len(
        target
    ):  # from the side of the shorter file, what the longer one has more is a single jump
        return _from_the_other_side(find_drifts(target, source))
    a, b = (np.log1p(np.asarray(lengths, dtype=np.float64)) for lengths in (source, target))
    a, b = a - a.mean(), b - b.mean()
    extra = len(b) - len(a)
    shifts = _shifts(extra)
    toll = float(np.log(len(a) * len(shifts) / FALSE_ALARM))
    wide = float(np.sqrt(a.var() + b.var())) + LEAST_SPREAD  # of unrelated lines
    spread = min(_spread(_difference(a, b, shift)) for shift in shifts)
    found: list[Drift] = []
    for _ in range(
        2
    ):  # the second time with the spread of lines that stand beside their translations
        path = _best_path(a, b, (spread, wide), shifts, toll)
        found = _places(a, b, (spread, wide), path)
        spread = _spread(_differences(a, b, found))
    return tuple(_drop_doubtful(a, b, found))


def _shifts(extra: int) -> list[int]:
    around = {near + shift for near in (0, extra) for shift in range(-NEAR, NEAR + 1)}
    between = range(min(0, extra), max(0, extra) + 1) if abs(extra) <= MOST_BETWEEN else ()
    return sorted({*around, *between})


def _difference(a: Floats, b: Floats, shift: int) -> Floats:
    """By how much each line is longer than expected beside the line at a shift; NaN where there is none."""
    difference = np.full(len(a), np.nan)
    first, last = max(0, -shift), min(len(a), len(b) - shift)
    if first < last:
        np.subtract(a[first:last], b[first + shift : last + shift], out=difference[first:last])
    return difference


def _differences(a: Floats, b: Floats, drifts: list[Drift]) -> Floats:
    differences = _difference(a, b, 0)
    for drift in drifts:
        differences[drift.line - 1 :] = _difference(a, b, drift.shift)[drift.line - 1 :]
    return differences


def _spread(differences: Floats) -> float:
    """The standard deviation, by the median, which strays do not move."""
    known = differences[np.isfinite(differences)]
    return max(float(np.median(np.abs(known))) / 0.6745, LEAST_SPREAD) if known.size else np.inf


def _costs(differences: Floats, spreads: Spreads) -> Floats:
    """Minus the log-likelihood of lines: normal around the expected length, or as wide as unrelated lines."""
    spread, wide = spreads
    squares = np.square(np.nan_to_num(differences, nan=wide))
    fits = (1 - STRAY) / spread * np.exp(-0.5 / spread**2 * squares)
    strays = STRAY / wide * np.exp(-0.5 / wide**2 * squares)
    return -np.log(fits + strays + 1e-300)


def _best_path(a: Floats, b: Floats, spreads: Spreads, shifts: list[int], toll: float) -> list[int]:
    """The shift of each window in the cheapest path; a change costs the toll."""
    extra = len(b) - len(a)
    starts = np.arange(0, len(a), WINDOW)
    windows = np.stack(
        [np.add.reduceat(_costs(_difference(a, b, shift), spreads), starts) for shift in shifts],
        axis=1,
    )
    total = np.where(np.array(shifts) == 0, 0.0, toll)
    came_from = np.empty(windows.shape, dtype=np.int16)
    states = np.arange(len(shifts))
    for number, cost in enumerate(windows):
        best = int(total.argmin())
        stays = total <= total[best] + toll
        came_from[number] = np.where(stays, states, best)
        total = np.where(stays, total, total[best] + toll) + cost
    if extra:  # the last lines belong together, or else there is one more change, at the very end
        total = total + np.where(np.array(shifts) == extra, 0.0, toll)
    path = [int(total.argmin())]
    for row in came_from[:0:-1]:
        path.append(int(row[path[-1]]))
    return [shifts[state] for state in reversed(path)]


def _places(a: Floats, b: Floats, spreads: Spreads, path: list[int]) -> list[Drift]:
    """The changes along a path, each to the line: where the lines before it and those after it together fit best."""
    extra = len(b) - len(a)
    changes = [
        (n, before, after)
        for n, (before, after) in enumerate(pairwise([0, *path]))
        if before != after
    ]
    if extra and path[-1] != extra:
        changes.append((len(path), path[-1], extra))
    found: list[Drift] = []
    for number, before, after in changes:
        first, last = max(0, (number - 2) * WINDOW), min(len(a), (number + 2) * WINDOW)
        costs = [_costs(_difference(a, b, shift)[first:last], spreads) for shift in (before, after)]
        balance = np.concatenate(([0.0], np.cumsum(costs[0] - costs[1])))
        found.append(Drift(first + 1 + int(np.argmin(balance)), after))
    return found


def _drop_doubtful(a: Floats, b: Floats, drifts: list[Drift]) -> list[Drift]:
    """Without the stretches hardly better correlated than with the shift before; unequal files end as they must."""
    kept = [Drift(1, 0)]
    for number, drift in enumerate(drifts):
        is_last = number == len(drifts) - 1
        stretch = slice(drift.line - 1, len(a) if is_last else drifts[number + 1].line - 1)
        before, now = (
            _correlation(a, b, stretch, shift) for shift in (kept[-1].shift, drift.shift)
        )
        is_certain = is_last and len(a) != len(b)
        if drift.shift != kept[-1].shift and (
            is_certain or now > max(LEAST_CORRELATION, before + GAIN)
        ):
            kept.append(drift)
    return kept[1:]


def _from_the_other_side(drifts: tuple[Drift, ...]) -> tuple[Drift, ...]:
    """The same drifts, told by lines of the other file."""
    before = [0, *(drift.shift for drift in drifts)]
    return tuple(
        Drift(drift.line + min(drift.shift, shift), -drift.shift)
        for drift, shift in zip(drifts, before, strict=False)
    )


def _correlation(a: Floats, b: Floats, stretch: slice, shift: int) -> float:
    first, last = max(stretch.start, -shift), min(stretch.stop, len(b) - shift)
    if last - first < 3:
        return 0.0
    x, y = a[first:last], b[first + shift : last + shift]
    if x.std() == 0 or y.std() == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
