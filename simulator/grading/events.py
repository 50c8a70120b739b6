"""Counts what became of the rows of a simulated fleet."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from fleetscope.contracts.raw import RAW as RAW_CONTRACTS
from fleetscope.contracts.topics import RAW_TOPICS
from fleetscope.store.abstract import Store
from simulator.fleet import FleetConfig
from simulator.truth import Tally, Truth

Events = dict[str, int | None]

_WITHOUT_TABLE: Final = frozenset({"clock_samples"})
"""Contracts whose rows end as segments and are not stored themselves."""


def events_by_contract(store: Store, truth: Truth, config: FleetConfig) -> dict[str, Events]:
    """``events`` of every raw contract."""
    epochs = sorted({*config.epochs, *(batch.epoch for batch in truth.starts())})
    return {contract.name: events(store, truth, config, epochs, contract.name) for contract in RAW_CONTRACTS}


def events(store: Store, truth: Truth, config: FleetConfig, epochs: list[int], contract: str) -> Events:
    """Rows of one contract: produced by the truth, the rest by what the store holds of these hosts and epochs."""
    stored, duplicate = (None, None) if contract in _WITHOUT_TABLE else _identities(store, config, epochs, contract)
    coverage = _coverage(store, config, epochs, contract)
    return {
        "produced": truth.tallies.get(contract, Tally()).produced, "stored": stored, "late": coverage["late"],
        "dead_letter": _dead_letters(store, config, contract), "dropped_by_producer": coverage["dropped"],
        "lost": coverage["lost"], "redelivered": coverage["redelivered"], "duplicate": duplicate,
    }


def _identities(store: Store, config: FleetConfig, epochs: list[int], table: str) -> tuple[int, int]:
    """Distinct identities in ``table`` and the rows beyond them."""
    result = store.query(
        "SELECT sum(n) AS all_rows, sum(u) AS identities FROM (SELECT count() AS n, groupBitmap(toUInt32(row)) AS u "
        f"FROM {table} WHERE host IN {{hosts:Array(String)}} AND epoch IN {{epochs:Array(Int64)}} "
        "GROUP BY host, producer, epoch, sequence)", {"hosts": config.host_names, "epochs": epochs})
    rows, identities = _number(result, "all_rows"), _number(result, "identities")
    return identities, rows - identities


def _coverage(store: Store, config: FleetConfig, epochs: list[int], contract: str) -> dict[str, int]:
    columns = ("late", "dropped", "lost", "redelivered")
    sums = ", ".join(f"sum({name}_rows) AS {name}_total" for name in columns)
    result = store.query(
        f"SELECT {sums} FROM coverage WHERE host IN {{hosts:Array(String)}} "
        "AND source_epoch IN {epochs:Array(Int64)} AND contract = {contract:String}",
        {"hosts": config.host_names, "epochs": epochs, "contract": contract})
    return {name: _number(result, f"{name}_total") for name in columns}


def _dead_letters(store: Store, config: FleetConfig, contract: str) -> int:
    """Rows that the headers of dead letters of the contract's topic claimed, each message once."""
    result = store.query(
        "SELECT sum(claimed) AS total FROM (SELECT any(rows) AS claimed FROM dead_letters "
        "WHERE topic = {topic:String} AND host IN {hosts:Array(String)} GROUP BY topic, partition, offset)",
        {"topic": RAW_TOPICS[contract].name, "hosts": config.host_names})
    return _number(result, "total")


def _number(result: pa.Table, column: str) -> int:
    return int(result.column(column)[0].as_py() or 0)
