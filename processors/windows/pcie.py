"""Effective bandwidth of a PCIe link: what a payload can reach at best.

raw = GT/s · lanes · encoding / 8. A transaction carries at most MPS bytes of payload behind its header and framing;
acknowledgements, flow control and skips take a further share. From generation 6 on (64 GT/s, FLIT) acknowledgements
and checks are inside the encoding and the framing of each packet is gone. The table of these formulas is the prior: a
ceiling measured on the host is better and wins where the inventory states one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Direction = Literal["h2d", "d2h"]

FLIT_FROM_GT_S: Final = 64.0
PROTOCOL_SHARE: Final = 0.09
"""ACK, flow control and skip before FLIT; measured systems lie between 0.076 and 0.10."""
WRITE_HEADER_BYTES: Final = 24
READ_HEADER_BYTES: Final = 20
FRAMING_BYTES: Final = 8
"""Part of both headers (start, sequence number, LCRC) that FLIT does without."""
DEFAULT_MPS_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Link:
    """A negotiated link; ``mps_bytes`` is the maximum payload of one packet."""

    speed_gt_s: float
    width_lanes: float
    mps_bytes: float = DEFAULT_MPS_BYTES

    def raw_bytes_per_s(self) -> float:
        """After encoding, before packets."""
        return self.speed_gt_s * 1e9 * self.width_lanes * _encoding(self.speed_gt_s) / 8

    def effective_bytes_per_s(self, direction: Direction) -> float:
        """Payload at best. ``h2d`` is the device reading host memory (completions of MPS size), ``d2h`` its writes."""
        header = READ_HEADER_BYTES if direction == "h2d" else WRITE_HEADER_BYTES
        share = 1.0 - PROTOCOL_SHARE
        if self.speed_gt_s >= FLIT_FROM_GT_S:
            header, share = header - FRAMING_BYTES, 1.0
        return self.raw_bytes_per_s() * share * self.mps_bytes / (self.mps_bytes + header)


def _encoding(speed_gt_s: float) -> float:
    if speed_gt_s <= 5.0:
        return 0.8
    return 128 / 130 if speed_gt_s < FLIT_FROM_GT_S else 236 / 256
