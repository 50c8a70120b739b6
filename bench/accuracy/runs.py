"""One graded run in a process of its own, and the file that lets an interrupted series go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

COMMAND: Final = (sys.executable, "-m", "fleetscope.cli.main", "score", "--json")
_REFUSED: Final = 2
"""Exit code for wrong usage."""
_LAST_WORDS: Final = 300
"""Characters of an error that are kept."""


@dataclass(frozen=True, slots=True)
class Run:
    """What is run; None: the scenario's own size."""

    scenario: str
    seed: int
    seconds: float | None = None
    hosts: int | None = None
    devices: int | None = None

    def whole(self) -> Run:
        """The same at the scenario's own size."""
        return Run(self.scenario, self.seed)

    def arguments(self) -> list[str]:
        """Of the command line."""
        return [word for name, value in asdict(self).items() if value is not None
                for word in (f"--{name}", f"{value:g}" if isinstance(value, float) else str(value))]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. ``document`` is the score or None; ``error`` says why there is none, or what is not right.

    ``whole``: the size asked for was refused, and it ran at the scenario's own.
    """

    run: Run
    document: dict[str, Any] | None
    error: str | None
    elapsed_s: float
    whole: bool = False

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of_plain(cls, value: Mapping[str, Any]) -> Outcome:
        """From ``plain``; KeyError or TypeError where it is none."""
        return cls(Run(**value["run"]), value["document"], value["error"], value["elapsed_s"],
                   value["whole"])


def execute(run: Run, timeout_s: float) -> Outcome:
    """Run and grade; at the scenario's own size where what it plans does not fit the one asked for.

    Never raises for what a run does: a run that fails is an outcome that says so.
    """
    outcome, code = _once(run, timeout_s)
    if code == _REFUSED and outcome.document is None and run != run.whole():
        return replace(_once(run.whole(), timeout_s)[0], run=run, whole=True)
    return outcome


def _once(run: Run, timeout_s: float) -> tuple[Outcome, int | None]:
    """The outcome and the exit code; None where the time was over."""
    began = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETSCOPE_")}
    try:
        done = subprocess.run([*COMMAND, *run.arguments()], capture_output=True, text=True, timeout=timeout_s,
                              env=environment, check=False)
    except subprocess.TimeoutExpired:
        return Outcome(run, None, f"not done after {timeout_s:g} s", time.monotonic() - began), None
    elapsed = time.monotonic() - began
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return Outcome(run, None, _last_line(done.stderr) or f"exit code {done.returncode}", elapsed), done.returncode
    error = f"exit code {done.returncode}: rows are not accounted for" if done.returncode else None
    return Outcome(run, document, error, elapsed), done.returncode


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LAST_WORDS] if lines else ""


class Journal:
    """Outcomes of a series, a JSON line each, written as they come; what another code version wrote is dropped."""

    def __init__(self, path: Path, version: str, *, resume: bool) -> None:
        self._path = path
        self._version = version
        self.done: dict[Run, Outcome] = self._read() if resume else {}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(map(self._line, self.done.values())), encoding="utf-8")

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome."""
        self.done[outcome.run] = outcome
        with self._path.open("a", encoding="utf-8") as file:
            file.write(self._line(outcome))

    def remove(self) -> None:
        """The series is complete."""
        self._path.unlink(missing_ok=True)

    def _line(self, outcome: Outcome) -> str:
        return json.dumps({"version": self._version, **outcome.plain()}) + "\n"

    def _read(self) -> dict[Run, Outcome]:
        """Only whole lines of this version whose run gave a document: what failed is run again."""
        found: dict[Run, Outcome] = {}
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except OSError:
            return found
        for line in lines:
            try:
                value = json.loads(line)
                outcome = Outcome.of_plain(value)
            except (ValueError, KeyError, TypeError):
                continue  # cut off by an interruption
            if value["version"] == self._version and outcome.document is not None:
                found[outcome.run] = outcome
        return found
