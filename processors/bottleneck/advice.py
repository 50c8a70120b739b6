"""One sentence an engineer can act on, by cause."""

from __future__ import annotations

from typing import Final

ADVICE: Final[dict[str, str]] = {
    "compute": "Kernels run near peak arithmetic throughput: only less work, lower precision or more devices help.",
    "memory_bandwidth": "Kernels wait for device memory: fuse them, raise the batch or move fewer bytes for each flop.",
    "on_chip_memory": "On-chip memory bandwidth binds: change tiling or data layout so that operands are reused.",
    "interconnect": "The on-chip or device interconnect binds: place data nearer to the engine that uses it.",
    "latency": "Kernels reach neither compute nor memory limits: give each more parallel work or fuse small ones.",
    "throttled": "The device ran below its full clock: check power and temperature limits and cooling.",
    "bank_conflict": "Accesses collide in memory banks: pad or swizzle the layout of shared operands.",
    "spill": "Kernels spill registers: reduce live values or tile sizes, or change compiler settings.",
    "dma_stall": "Kernels stall on their own DMA: prefetch earlier or double-buffer.",
    "kernel_unattributed": "Kernels take the time but their work is unknown: have the compiler report flops and bytes "
                           "and state the device's peaks in the inventory.",
    "collective_network": "Exposed collectives run at the speed of the bus: overlap them with compute or send less.",
    "collective_wait": "Exposed collectives wait for a late peer: find the straggling rank and what it was doing.",
    "pcie_h2d": "Exposed uploads fill the PCIe link: overlap them with compute, upload less, or check the link's width "
                "and speed.",
    "pcie_d2h": "Exposed downloads fill the PCIe link: overlap them with compute, keep results on the device, or check "
                "the link's width and speed.",
    "pcie_small": "Exposed transfers pay set-up and latency, not bytes: merge small copies or let the device fetch.",
    "pcie_queueing": "Exposed transfers wait for others on a shared path: spread devices over root ports, move copies "
                     "of neighbours out of the way or schedule them apart.",
    "host": "The device idles while the host prepares the next step: profile the host code, launch asynchronously or "
            "capture launches as a graph.",
    "host_input": "The device idles while the host prepares input: more loader workers, faster decoding or storage, or "
                  "move preprocessing to the device; prefetch at least one batch ahead.",
    "host_contention": "The thread that feeds the device waits for a processor: pin it, reserve cores for it and move "
                       "other work off the host.",
    "host_pageable": "The device idles while the host stages pageable memory: allocate these buffers pinned and copy "
                     "asynchronously.",
    "launch_overhead": "Work is submitted and the device still idles: use fewer, larger launches or a captured graph.",
    "dependency": "The device waits for work elsewhere: shorten or overlap the awaited copy or kernel.",
    "no_demand": "The device had nothing to do: no bottleneck here; send it more requests or give it back.",
    "mixed": "No single cause stands out: look at the shares and start with the largest.",
    "insufficient_data": "Too much of this window's data is missing for a verdict: look at coverage, drops and lost "
                         "batches first.",
}
