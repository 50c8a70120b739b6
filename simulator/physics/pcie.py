"""PCIe: what a link carries, and what a transfer takes.

raw = GT/s · lanes · encoding / 8, encoding 0.8 (generations 1 and 2), 128/130 (3 to 5), 236/256 (6: FLIT).
Packets carry MPS bytes at most behind framing, header and check: 24 B for writes and read requests, 20 B for
completions. Acknowledgements, flow control and skips take a further share. In FLIT mode they and the framing are inside
the encoding. A read waits for its completions: no more than tags · MRRS bytes are under way in one round trip.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from simulator.machine import Machine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Direction = Literal["h2d", "d2h"]
"""h2d: the device reads host memory; d2h: it writes host memory."""

FLIT_GT_S: Final = 64.0
WRITE_HEADER_BYTES: Final = 24
"""Framing with sequence number 4, header with a 64-bit address 16, check 4."""
COMPLETION_HEADER_BYTES: Final = 20
"""Framing with sequence number 4, header 12, check 4."""
FRAMING_BYTES: Final = 8
"""Framing and check, which FLIT mode does without."""
PROTOCOL_SHARE: Final = 0.095
"""Acknowledgements, flow control and skips; measured systems lie between 0.076 and 0.10."""
ROUND_TRIP_NS: Final = 900.0
"""Read of host memory through a root complex of a server, unloaded."""
RETRAIN_NS: Final = 10_000_000.0
"""Recovery that changes speed or width: no packet passes."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link as negotiated. ``completion_bytes``: payload of one completion, a multiple of the read boundary (64 or
    128 B) and at most MPS; 0: MPS."""

    gt_s: float
    lanes: int
    mps_bytes: int = 256
    mrrs_bytes: int = 512
    completion_bytes: int = 0
    tags: int = 256
    round_trip_ns: float = ROUND_TRIP_NS
    protocol_share: float = PROTOCOL_SHARE

    @property
    def flit(self) -> bool:
        """Whether packets travel in units of fixed size (generation 6)."""
        return self.gt_s >= FLIT_GT_S

    @property
    def raw_bytes_per_s(self) -> float:
        """Each direction, after encoding."""
        encoding = 0.8 if self.gt_s <= 5.0 else 236 / 256 if self.flit else 128 / 130
        return self.gt_s * 1e9 * self.lanes * encoding / 8

    @property
    def packet_bytes_per_s(self) -> float:
        """Each direction, left for packets with their headers."""
        return self.raw_bytes_per_s * (1.0 if self.flit else 1.0 - self.protocol_share)

    def wire_bytes_a_byte(self, direction: Direction) -> float:
        """Bytes on the data's own side of the link for one byte of payload."""
        payload = self.mps_bytes if direction == "d2h" else self.completion_bytes or self.mps_bytes
        return (payload + self.header_bytes(direction)) / payload

    def request_bytes_a_byte(self) -> float:
        """Bytes towards the host for one byte that the device reads: its read requests."""
        return self.header_bytes("d2h") / self.mrrs_bytes

    def tag_limit_bytes_per_s(self) -> float:
        """Most that the device can read with all its requests under way."""
        return self.tags * self.mrrs_bytes / self.round_trip_ns * 1e9

    def ceiling_bytes_per_s(self, direction: Direction) -> float:
        """Payload a second of long transfers with the link to themselves."""
        wire = self.packet_bytes_per_s / self.wire_bytes_a_byte(direction)
        return min(wire, self.tag_limit_bytes_per_s()) if direction == "h2d" else wire

    def d2h_beside_bytes_per_s(self, h2d_bytes_per_s: float) -> float:
        """Ceiling of writes while the device reads at a rate: the requests share the writes' side of the link."""
        left = self.packet_bytes_per_s - h2d_bytes_per_s * self.request_bytes_a_byte()
        return max(left, 0.0) / self.wire_bytes_a_byte("d2h")

    def header_bytes(self, direction: Direction) -> int:
        """What precedes and follows the payload of one packet; a read request is as long as that of a write."""
        header = WRITE_HEADER_BYTES if direction == "d2h" else COMPLETION_HEADER_BYTES
        return header - (FRAMING_BYTES if self.flit else 0)


def link_of(machine: Machine, *, gt_s: float | None = None, lanes: int | None = None,
            round_trip_ns: float = ROUND_TRIP_NS) -> Link:
    """The machine's link, or what it becomes in a slot (or by a fault) of at most this speed and width."""
    return Link(min(machine.pcie_gt_s, gt_s or machine.pcie_gt_s), min(machine.pcie_lanes, lanes or machine.pcie_lanes),
                machine.pcie_mps_bytes, machine.pcie_mrrs_bytes, tags=machine.dma_tags, round_trip_ns=round_trip_ns)


def setup_ns(link: Link, machine: Machine, direction: Direction) -> float:
    """α of a transfer: descriptor and doorbell, and a round trip for reads; writes are posted and need half of one."""
    return machine.dma_setup_ns + link.round_trip_ns * (1.0 if direction == "h2d" else 0.5)


def transfer_ns(sizes: Ints, link: Link, machine: Machine, direction: Direction) -> Floats:
    """α + s/β of transfers alone on the link."""
    return setup_ns(link, machine, direction) + sizes / link.ceiling_bytes_per_s(direction) * 1e9


def half_size_bytes(link: Link, machine: Machine, direction: Direction) -> float:
    """α·β: a transfer of this size spends half its time on set-up."""
    return setup_ns(link, machine, direction) * 1e-9 * link.ceiling_bytes_per_s(direction)


def packets(payload_bytes: Ints, link: Link, direction: Direction) -> Ints:
    """Packets that carry transfers; each transfer starts a packet of its own."""
    payload = link.mps_bytes if direction == "d2h" else link.completion_bytes or link.mps_bytes
    return -(-payload_bytes // payload)


def wire_bytes(h2d_bytes: Ints, d2h_bytes: Ints, link: Link) -> tuple[Ints, Ints]:
    """(received, sent) by the device with headers, of transfers in either direction; acknowledgements not counted."""
    completion, write = link.header_bytes("h2d"), link.header_bytes("d2h")
    received = h2d_bytes + packets(h2d_bytes, link, "h2d") * completion
    requests = -(-h2d_bytes // link.mrrs_bytes)
    return received, d2h_bytes + packets(d2h_bytes, link, "d2h") * write + requests * write


def replay_share(replays_per_s: float, link: Link) -> float:
    """Share of a busy direction that replays take: each sends again what was under way for one acknowledgement."""
    return min(replays_per_s * link.round_trip_ns * 1e-9, 1.0)
