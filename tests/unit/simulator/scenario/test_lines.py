from __future__ import annotations

import pytest

from simulator.scenario.lines import line_of

TEXT = '''# a comment = 1
description = "x"

[fleet]
hosts = 2
[[fleet.groups]]
hosts = 1
[[fleet.groups]]
hosts = 3  # second
pcie.lanes = 4
[[jobs]]
name = "a"
[jobs.arrivals]
per_s = {dist = "uniform", low = 1, high = 2}
[[jobs]]
[jobs.arrivals]
per_s = 5
'''


@pytest.mark.parametrize(("path", "line"), [
    (("description",), 2), (("fleet",), 4), (("fleet", "hosts"), 5), (("fleet", "groups", 0, "hosts"), 7),
    (("fleet", "groups", 1, "hosts"), 9), (("fleet", "groups", 1, "pcie", "lanes"), 10), (("jobs", 0), 11),
    (("jobs", 0, "arrivals", "per_s"), 14), (("jobs", 0, "arrivals", "per_s", "low"), 14),
    (("jobs", 1, "arrivals", "per_s"), 17), (("jobs", 1, "name"), 15), (("fleet", "absent"), 4), (("nothing",), None),
])
def test_a_key_is_found_where_it_stands_or_at_the_table_that_holds_it(path: tuple[str | int, ...],
                                                                      line: int | None) -> None:
    assert line_of(TEXT, path) == line
