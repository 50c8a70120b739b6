"""Public, versioned contracts: every batch that crosses a topic is one of these."""

from __future__ import annotations

from typing import Final

from fleetscope.contracts.derived import ALIGNED, DERIVED, REQUESTS
from fleetscope.contracts.raw import RAW
from fleetscope.contracts.schema import Column, Contract

CONTRACTS: Final[dict[str, Contract]] = {c.name: c for c in (*RAW, *ALIGNED, *DERIVED, *REQUESTS)}

__all__ = ["CONTRACTS", "Column", "Contract"]
