"""`fleetscope report`: its options and its one JSON document."""

from __future__ import annotations

import pytest

from fleetscope.cli.report import since_ns
from fleetscope.errors import UsageError


@pytest.mark.parametrize(("text", "ns"), [("90s", 90 * 10**9), ("2h", 7_200 * 10**9), ("7d", 604_800 * 10**9),
                                          ("all", None)])
def test_lengths_are_a_number_and_a_unit(text: str, ns: int | None) -> None:
    assert since_ns(text) == ns


@pytest.mark.parametrize("text", ["", "6", "h", "-1h", "0s", "1.5h", "6 h", "1w", "٣h", "9" * 30 + "s"])
def test_other_lengths_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"--since .*: must be a number and s, m, h or d") as caught:
        since_ns(text)
    assert "\n" not in str(caught.value)
