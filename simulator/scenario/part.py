"""What every section of a scenario has in common: unknown keys are refused and nothing changes once it is read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A section of a scenario."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
