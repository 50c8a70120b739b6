"""True verdicts from true shares, and the score of given ones. Pure.

The definition is that of the pipeline, applied to shares that are known exactly: no_demand where so little demand is
left that no cause could reach MIN_SHARE; else the largest share if it reaches MIN_SHARE and is ahead; else mixed.
Where the truth lies within a margin of another answer, that answer is as right: both of two causes that are as good as
tied (and mixed), the cause and mixed around MIN_SHARE, no_demand and the rest around 1 − MIN_SHARE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetscope.contracts.derived import STATE_NAMES

MIN_SHARE: Final = 0.20
MARGIN: Final = 0.02
"""Shares nearer than this are as good as tied; what cut slots make uncertain comes on top."""
WITHHELD: Final = "insufficient_data"
MISSING: Final = "missing"
"""Stands for the verdict of a window that the pipeline never wrote."""

NO_DEMAND: Final = "no_demand"
MIXED: Final = "mixed"
CANDIDATES: Final = tuple(name for name in STATE_NAMES if name not in {NO_DEMAND, "unresolved", "unknown"})
LABELS: Final = (*CANDIDATES, NO_DEMAND, MIXED)
_COLUMNS: Final = [STATE_NAMES.index(name) for name in CANDIDATES]
_IDLE: Final = STATE_NAMES.index(NO_DEMAND)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TrueVerdicts:
    """``label`` (W,) indexes LABELS; ``accepted`` (W, LABELS) says which answers count as right."""

    label: NDArray[np.int64]
    accepted: Bools


def true_verdicts(share: Floats, cut: Floats) -> TrueVerdicts:
    """Of true shares (W, STATE_NAMES) with ``cut`` (W,) as their uncertainty."""
    causes, idle = share[:, _COLUMNS], share[:, _IDLE]
    ranked = np.sort(causes, axis=1)
    first, second = ranked[:, -1], ranked[:, -2]
    margin = MARGIN + cut
    named = (first >= MIN_SHARE) & (first > second)
    label = np.where(named, np.argmax(causes, axis=1), LABELS.index(MIXED))
    label = np.where(idle > 1.0 - MIN_SHARE, LABELS.index(NO_DEMAND), label)

    busy = idle <= 1.0 - MIN_SHARE + margin
    accepted = np.zeros((len(share), len(LABELS)), dtype=np.bool_)
    near_top = (causes >= (first - margin)[:, None]) & (causes >= (MIN_SHARE - margin)[:, None])
    accepted[:, :len(CANDIDATES)] = near_top & busy[:, None]
    accepted[:, LABELS.index(NO_DEMAND)] = idle > 1.0 - MIN_SHARE - margin
    accepted[:, LABELS.index(MIXED)] = busy & ((first < MIN_SHARE + margin) | (first - second <= margin))
    accepted[np.arange(len(label)), label] = True
    return TrueVerdicts(label.astype(np.int64), accepted)


@dataclass(frozen=True, slots=True)
class VerdictScore:
    """``confusion[true][given]`` counts windows."""

    accuracy: float | None
    macro_f1: float | None
    confusion: dict[str, dict[str, int]]
    per_cause: dict[str, dict[str, float | int | None]]


def answers(true: TrueVerdicts, given: Sequence[str]) -> Counter[tuple[str, str]]:
    """Counted (true, given) of ``given`` (W,): LABELS, WITHHELD, MISSING or any other name, which is always wrong.

    A right answer counts under its own name, also where the truth is nearer to another one.
    """
    code = {name: index for index, name in enumerate(LABELS)}
    pairs: Counter[tuple[str, str]] = Counter()
    for row, answer in enumerate(given):
        right = answer in code and bool(true.accepted[row, code[answer]])
        pairs[answer if right else LABELS[true.label[row]], answer] += 1
    return pairs


def score(pairs: Counter[tuple[str, str]]) -> VerdictScore:
    """Score of counted (true, given) pairs.

    F1 of a cause is 2·right / (2·right + given wrongly + missed). ``macro_f1`` is the plain mean over the causes that
    occur in truth: a cause that is given and never true has no F1 of its own and counts as a miss of the true one.
    """
    occurs = sorted({true for true, _ in pairs})
    per_cause: dict[str, dict[str, float | int | None]] = {}
    for name in occurs:
        right = pairs[name, name]
        of_true = sum(n for (true, _), n in pairs.items() if true == name)
        of_given = sum(n for (_, answer), n in pairs.items() if answer == name)
        per_cause[name] = {"windows": of_true, "precision": right / of_given if of_given else None,
                           "recall": right / of_true, "f1": 2 * right / (of_true + of_given)}
    total = sum(pairs.values())
    confusion = {name: {answer: pairs[name, answer] for answer in sorted({a for t, a in pairs if t == name})}
                 for name in occurs}
    f1 = [float(scores["f1"] or 0.0) for scores in per_cause.values()]
    return VerdictScore(sum(pairs[name, name] for name in occurs) / total if total else None,
                        sum(f1) / len(f1) if f1 else None, confusion, per_cause)
