"""The scenario of the first simulator: one replica a device, collection faults as shares of batches."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fleetscope.errors import UsageError
from simulator.faults.settings import Clocks, Collection

SCENARIOS: Final = Path(__file__).parents[1] / "scenarios"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Requests(_Part):
    """Demand on each device: Poisson arrivals, geometric-like lengths."""

    per_s: float = Field(1.2, ge=0, le=10_000)
    prompt_tokens: int = Field(512, ge=1, le=131_072)
    output_tokens: int = Field(128, ge=1, le=131_072)
    running_at_start: int = Field(10, ge=0, le=4_096)
    max_batch: int = Field(16, ge=1, le=4_096)


class Model(_Part):
    """A decoder-only transformer; weights and activations of the given widths."""

    name: str = "chat-8b"
    version: str = "1.4.0"
    layers: int = Field(32, ge=1, le=512)
    hidden: int = Field(4_096, ge=64)
    kv_width: int = Field(1_024, ge=16, description="key (or value) elements a token and layer")
    ffn: int = Field(14_336, ge=64)
    vocab: int = Field(128_256, ge=2)
    weight_bytes: int = Field(2, ge=1, le=8)
    activation_bytes: int = Field(2, ge=1, le=8)


class Device(_Part):
    """Peaks are nominal; efficiencies say what a kernel alone on the device reaches of them."""

    kind: str = "infer-24"
    flops_per_s: float = Field(121e12, gt=0)
    vector_flops_per_s: float = Field(15e12, gt=0)
    memory_bytes_per_s: float = Field(300e9, gt=0)
    memory_bytes: int = Field(24_000_000_000, gt=0)
    flops_efficiency: float = Field(0.7, gt=0, le=1)
    memory_efficiency: float = Field(0.85, gt=0, le=1)
    kernel_overhead_ns: int = Field(1_500, ge=0)
    clock_mhz: float = Field(2_040.0, gt=0)
    idle_w: float = Field(16.0, ge=0)
    busy_w: float = Field(72.0, ge=0)
    tick_hz: tuple[int, ...] = (1_000_000_000, 100_000_000, 19_200_000)
    driver_version: str = "555.42.2"
    firmware_version: str = "96.4.1"


class Link(_Part):
    """The device's PCIe link as negotiated, and what device and slot could do."""

    width_lanes: int = Field(8, ge=1, le=32)
    speed_gt_s: float = Field(16.0, gt=0, le=128)
    max_width_lanes: int = Field(8, ge=1, le=32)
    max_speed_gt_s: float = Field(16.0, gt=0, le=128)
    mps_bytes: int = Field(256, ge=128, le=4_096)
    latency_ns: int = Field(1_200, ge=0)


class Host(_Part):
    """What the host costs: times of one call, medians."""

    launch_ns: int = Field(5_000, ge=100)
    call_gap_ns: int = Field(1_500, ge=0)
    scheduler_ns: int = Field(300_000, ge=0)
    launch_latency_ns: int = Field(2_500, ge=0)


class Swap(_Part):
    """Key-value cache moved over PCIe in every step, in each direction."""

    h2d_bytes: int = Field(0, ge=0)
    d2h_bytes: int = Field(0, ge=0)
    copies: int = Field(8, ge=1, le=1_024)


class Scenario(_Part):
    """One scenario; every part has defaults (the `serving` scenario)."""

    name: str = "serving"
    description: str = ""
    team: str = "inference"
    requests: Requests = Requests()
    model: Model = Model()
    device: Device = Device()
    link: Link = Link()
    host: Host = Host()
    swap: Swap = Swap()
    clocks: Clocks = Clocks()
    collection: Collection = Collection()


def scenario_names() -> list[str]:
    """Names of the scenarios that come with the package."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def load_scenario(name_or_path: str | Path) -> Scenario:
    """A scenario by name or from a TOML file; UsageError names file, key and reason."""
    text = str(name_or_path)
    path = Path(text)
    if path.suffix != ".toml":
        if text not in scenario_names():
            raise UsageError(f"there is no scenario {text!r}; known are {', '.join(scenario_names())}, "
                             "or give the path of a .toml file")
        path = SCENARIOS / f"{text}.toml"
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"scenario {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"scenario {path}: {error}") from error
    try:
        return Scenario(**{"name": path.stem, **values})
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"scenario {path}: {'.'.join(str(p) for p in first['loc'])}: {first['msg']}") from error
