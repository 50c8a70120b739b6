"""True causes of every device-nanosecond, and the state of the pipeline's accounting each belongs to.

The pipeline never sees these names: they are written beside the stream, for grading.
"""

from __future__ import annotations

from typing import Final

CAUSES: Final[tuple[tuple[str, str, str], ...]] = (
    # cause, state of contract `windows`, what it means
    ("compute_matrix", "compute", "arithmetic of the matrix engine at its achievable peak"),
    ("compute_vector", "compute", "arithmetic of the vector or scalar engine at its achievable peak"),
    ("memory_bandwidth", "memory_bandwidth", "device memory at its achievable bandwidth, useful bytes"),
    ("on_chip_memory", "on_chip_memory", "on-chip memory at its bandwidth, without conflicts"),
    ("interconnect", "interconnect", "the network on chip at its bandwidth"),
    ("latency", "latency", "pipeline fill, dependent accesses, resources that did not overlap"),
    ("throttled", "throttled", "what full clock would have saved"),
    ("bank_conflict", "bank_conflict", "what conflict-free on-chip accesses would have saved"),
    ("spill", "spill", "what enough on-chip memory would have saved"),
    ("dma_stall", "dma_stall", "what a device memory without other users (copies, collectives) would have saved"),
    ("collective_network", "collective_network", "exposed collective, moving bytes"),
    ("collective_wait", "collective_wait", "exposed collective, waiting for a peer"),
    ("pcie_h2d_bandwidth", "pcie_h2d", "exposed copy to the device: bytes at the negotiated link's own ceiling"),
    ("pcie_d2h_bandwidth", "pcie_d2h", "exposed copy from the device, likewise"),
    ("pcie_small", "pcie_small", "exposed copy: set-up and latency of each transfer, tags"),
    ("pcie_queueing", "pcie_queueing", "exposed copy: what sole use of the shared path would have saved"),
    ("host_launch", "host", "idle: the host was in calls or framework code and had not submitted the next work"),
    ("host_input", "host_input", "idle: the host prepared input"),
    ("host_contention", "host_contention", "idle: the host's thread waited for a processor"),
    ("host_pageable", "host_pageable", "idle: the host copied pageable memory"),
    ("launch_overhead", "launch_overhead", "idle: submitted, on its way through driver and device"),
    ("dependency", "dependency", "idle: waiting for an event of nothing that runs on this device"),
    ("no_demand", "no_demand", "idle: no request pending"),
)

NAMES: Final = tuple(name for name, _, _ in CAUSES)
CODE: Final = {name: code for code, name in enumerate(NAMES)}
STATE_OF: Final = {name: state for name, state, _ in CAUSES}
