"""A kind of device with overrides, as sections state it: ``machine = "infer-24"`` or ``machine = {kind = …, …}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

from fleetscope.errors import UsageError
from simulator.machine import Machine, load_machine

DEFAULT: Final = "infer-24"


def _whole(given: Any) -> Any:
    """The machine's every figure: those of the kind, and what the section states in their place."""
    if isinstance(given, Machine):
        return given
    stated = {"kind": given} if isinstance(given, str) else given
    if not isinstance(stated, Mapping):
        raise ValueError("must be the name of a machine or a table")
    if Machine.model_fields.keys() <= stated.keys():
        return stated
    try:
        kind = load_machine(str(stated.get("kind", DEFAULT)))
    except UsageError as error:
        raise ValueError(str(error)) from error
    return {**kind.model_dump(), **stated, "kind": kind.kind}


MachineChoice = Annotated[Machine, BeforeValidator(_whole)]
