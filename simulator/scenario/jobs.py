"""Jobs: who works, where, and what. One kind a planner; its settings are those of the planner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from simulator.scenario.mirror import Mirror, mirror, section
from simulator.work.hosts import HostCosts
from simulator.work.plan import WARM_UP_NS, Planner, Seat
from simulator.work.recommendation import RecommendationConfig, RecommendationPlanner
from simulator.work.serving import ServingConfig, ServingPlanner
from simulator.work.training import TrainingConfig, TrainingPlanner
from simulator.work.vision import VisionConfig, VisionPlanner

if TYPE_CHECKING:
    HostSection = Mirror
else:
    HostSection = mirror(HostCosts)


class Job(Mirror):
    """What every kind has. Without ``hosts`` and ``devices`` a job takes all devices that are left."""

    kind: str
    name: str = Field("job", min_length=1, max_length=200)
    team: str = Field("inference", min_length=1, max_length=200)
    hosts: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(None, min_length=1)
    devices: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(None, min_length=1, description="on each host")
    per_host: bool = Field(False, description="a job of its own on each host, its name followed by the host's number")
    numa_node: int | None = Field(None, ge=0, le=7, description="node of the host's threads and buffers; None: the "
                                  "one the device hangs on")
    host: HostSection = Field({}, validate_default=True)

    @property
    def costs(self) -> HostCosts:
        """What its processes cost the host."""
        costs: HostCosts = self.host.made
        return costs

    def ranks_of_replica(self, devices: int) -> int:
        """Ranks that one planner drives, of a job with so many devices."""
        return {"serving": getattr(self.made, "ranks", 1), "training": devices}.get(self.kind, 1)

    def planner(self, key: tuple[int, ...], seats: Sequence[Seat], first_group: int, start_ns: int = WARM_UP_NS) \
            -> Planner:
        """The planner of one replica. UsageError where its work does not fit on its seats."""
        config: Any = self.made
        if isinstance(config, ServingConfig):
            return ServingPlanner(config, key, seats, first_group=first_group, start_ns=start_ns)
        if isinstance(config, TrainingConfig):
            return TrainingPlanner(replace(config, ranks=len(seats)), key, seats, first_group=first_group,
                                   start_ns=start_ns)
        if isinstance(config, VisionConfig):
            return VisionPlanner(config, key, seats, start_ns=start_ns)
        return RecommendationPlanner(config, key, seats, start_ns=start_ns)


Serving = section("Serving", Job, ServingConfig, kind=(Literal["serving"], ...), name=(str, "llm-serve"))
Training = section("Training", Job, TrainingConfig, without=("ranks",), kind=(Literal["training"], ...),
                   name=(str, "train"), team=(str, "research"))
VisionJob = section("VisionJob", Job, VisionConfig, kind=(Literal["vision"], ...), name=(str, "vision"),
                    team=(str, "vision"))
RecommendationJob = section("RecommendationJob", Job, RecommendationConfig, kind=(Literal["recommendation"], ...),
                            name=(str, "recommend"), team=(str, "ranking"))

if TYPE_CHECKING:
    AnyJob = Job
else:
    AnyJob = Annotated[Serving | Training | VisionJob | RecommendationJob, Field(discriminator="kind")]
