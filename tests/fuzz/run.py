"""Damaged messages against the codec for a while: python tests/fuzz/run.py --seconds 600 [--seed 1] [--case 17].

Every case follows from (seed, number), so that a finding is repeated with --seed and --case. The work is done in a
process of its own with limited memory: a crash, a hang and a memory blow-up are findings like an exception is.
Exit code 0: none found, 1: found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import struct
import sys
import time
import traceback
from multiprocessing.sharedctypes import Synchronized

from fleetscope.contracts import CONTRACTS, Contract
from fleetscope.contracts.codec import Encoded, encode
from tests.support.contract_batches import content_of, message, outcome, plain

MEMORY_BYTES = 4 * 1024**3
HANG_S = 30.0
WORDS = (0, 1, 4, 8, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def damaged(seed: int, case: int) -> tuple[Encoded, Contract]:
    """The message of a case and the contract it says it follows."""
    chance = random.Random(f"{seed}/{case}")
    contract = CONTRACTS[chance.choice(sorted(CONTRACTS))]
    good = encode(plain(contract, chance.randint(0, 6)))
    kind = chance.randrange(4)
    if kind == 0:
        return Encoded(good.key, _bent(good.value, chance), good.headers), contract
    if kind == 1:
        headers = list(good.headers)
        at = chance.randrange(len(headers))
        headers[at] = (headers[at][0], _bent(headers[at][1] or b"0", chance))
        return Encoded(good.key, good.value, tuple(headers)), contract
    return message(_bent(content_of(good), chance), good), contract


def _bent(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(len(out)) if out else 0
        kind = chance.randrange(6)
        if kind == 0 and out:
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            word = struct.pack("<I", chance.choice(WORDS))
            at &= ~3
            out[at:at + 4] = word
        elif kind == 2:
            out[at & ~7:(at & ~7) + 8] = struct.pack("<q", chance.choice((0, -1, 1 << 40, -(1 << 63), (1 << 63) - 1)))
        elif kind == 3:
            del out[at:at + chance.randrange(1, 64)]
        elif kind == 4:
            start = chance.randrange(len(out)) if out else 0
            out[at:at] = out[start:start + chance.randrange(1, 64)]
        elif out:
            out[at] = chance.randrange(256)
    return bytes(out)


def work(seed: int, first: int, deadline: float, at: Synchronized[int]) -> None:
    """Run cases from ``first`` on until ``deadline`` (time.monotonic); exits 1 at the first finding."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    case = first
    while time.monotonic() < deadline:
        at.value = case
        try:
            outcome(*damaged(seed, case))
        except Exception:  # noqa: BLE001 - any exception is a finding
            traceback.print_exc()
            sys.exit(1)
        case += 1


def run(seed: int, seconds: float) -> int:
    """Run for ``seconds``; the exit code."""
    context = multiprocessing.get_context("spawn")
    at = context.Value("q", 0)
    deadline = time.monotonic() + seconds
    worker = context.Process(target=work, args=(seed, 0, deadline, at))
    worker.start()
    seen, since = -1, time.monotonic()
    while worker.is_alive():
        worker.join(1.0)
        if at.value != seen:
            seen, since = at.value, time.monotonic()
        elif time.monotonic() - since > HANG_S:
            worker.kill()
            worker.join()
    if worker.exitcode:
        print(f"finding: exit code {worker.exitcode}; repeat with --seed {seed} --case {at.value}", file=sys.stderr)
        return 1
    print(f"{at.value + 1} damaged messages of seed {seed}: all rejected or valid")
    return 0


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--case", type=int, help="run this one case in this process")
    options = parser.parse_args()
    if options.case is None:
        return run(options.seed, options.seconds)
    print(outcome(*damaged(options.seed, options.case)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
