"""The next event: a tournament tree over the due times of all entities; of equal times the lowest entity wins."""

from __future__ import annotations

from simulator.engine.layout import NEVER, Ints, compiled


@compiled
def set_due(due: Ints, winners: Ints, entity: int, at_ns: int) -> None:
    """Entity's next event is at ``at_ns``."""
    if due[entity] == at_ns:
        return
    due[entity] = at_ns
    node = (len(winners) + entity) >> 1
    half = len(winners) >> 1
    if node >= half:
        left = (node << 1) - len(winners)
        winners[node] = left if due[left] <= due[left + 1] else left + 1
        node >>= 1
    while node >= 1:
        left = winners[node << 1]
        right = winners[(node << 1) + 1]
        winners[node] = left if due[left] <= due[right] else right
        node >>= 1


@compiled
def clear_due(due: Ints, winners: Ints, entity: int) -> None:
    """Entity has no next event."""
    set_due(due, winners, entity, int(NEVER))  # int: numba would compile a copy for the literal


def tree_size(entities: int) -> int:
    """Smallest power of two of at least two that holds ``entities``; also the length of both arrays."""
    size = 2
    while size < entities:
        size *= 2
    return size


def start_tree(due: Ints, winners: Ints) -> None:
    """Make the tree of given due times."""
    half = len(winners) // 2
    for node in range(len(winners) - 1, 0, -1):
        left, right = (2 * node - len(winners), 2 * node - len(winners) + 1) if node >= half \
            else (winners[2 * node], winners[2 * node + 1])
        winners[node] = left if due[left] <= due[right] else right
