"""`fleetscope agent`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetscope.cli.common import JsonOption, console, out, print_json, settings

if TYPE_CHECKING:
    from rich.table import Table

    from ingest.hostroot import HostRoot
    from ingest.links.prober import Prober


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("agent", epilog="Example: fleetscope agent --once --json")(agent)


def agent(
    once: Annotated[bool, typer.Option("--once", help="Print one reading and leave; needs no server.")] = False,
    as_json: JsonOption = False,
    root: Annotated[Path, typer.Option(help="Folder that contains proc and sys.")] = Path("/"),
    period: Annotated[float, typer.Option(min=0.05, help="Seconds between readings.")] = 1.0,
    host: Annotated[str, typer.Option(help="Host id; default: this machine's name.")] = "",
    duration: Annotated[float | None, typer.Option(min=0.0, help="Stop after so many seconds.")] = None,
    peers: Annotated[str, typer.Option(
        envvar="FLEETSCOPE_PEERS", help="Hosts to exchange clock stamps with: host=address:port,host=[address]:port.",
    )] = "",
    probe_port: Annotated[int | None, typer.Option(
        min=0, max=65_535, envvar="FLEETSCOPE_PROBE_PORT",
        help="UDP port at which other hosts' probes are answered; 0: any. Without it and --peers there is none.",
    )] = None,
    probe_address: Annotated[str, typer.Option(
        envvar="FLEETSCOPE_PROBE_ADDRESS", help="Address of that port; default: all of this host.")] = "",
    probe_key_file: Annotated[Path | None, typer.Option(
        envvar="FLEETSCOPE_PROBE_KEY_FILE", help="Key shared by all hosts; FLEETSCOPE_PROBE_KEY may hold it instead.",
    )] = None,
) -> None:
    """Read this host's processors, memory, disks, network, PCIe links and clocks, and publish them to Kafka.

    Runs until Ctrl-C or SIGTERM, then sends what waits. FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS names the broker.

    With --once it prints one reading instead: as a table, or with --json as one document.

    With --peers it also exchanges stamps with other hosts, so that times of all of them can be compared to within
    microseconds.
    """
    import platform

    from ingest.hostroot import HostRoot

    host = host or platform.node() or "localhost"
    with HostRoot(root) as files:
        files.require_proc()
        prober = _prober(host, peers, probe_port, probe_address, probe_key_file)
        if once:
            _print_once(host, files, prober, as_json)
        else:
            _publish(host, files, prober, period, duration, as_json)


def _prober(host: str, peers: str, port: int | None, address: str, key_file: Path | None) -> Prober | None:
    """None where neither peers nor a port are given. Raises UsageError for bad peers or keys, or a port in use."""
    from ingest.clocks import LinuxClocks
    from ingest.links.peers import parse_peers, read_key
    from ingest.links.prober import Prober

    found = parse_peers(peers, host)
    if not found and port is None:
        return None
    return Prober(host, found, read_key(key_file), LinuxClocks(), port=port or 0, address=address)


def _print_once(host: str, root: HostRoot, prober: Prober | None, as_json: bool) -> None:
    from ingest.clocks import LinuxClocks
    from ingest.document import read_once

    document = read_once(host, root, LinuxClocks(), prober)
    if as_json:
        print_json(document)
    else:
        _print_tables(document)


def _publish(host: str, root: HostRoot, prober: Prober | None, period: float, duration: float | None,
             as_json: bool) -> None:
    import os
    import signal
    import threading

    from fleetscope.contracts.topics import CLOCK_LINKS, RAW_TOPICS
    from fleetscope.errors import RetryError
    from fleetscope.stream.kafka import KafkaStream
    from ingest.agent import Agent

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    stream = KafkaStream(settings().kafka)
    try:
        stream.ensure_topics([*RAW_TOPICS.values(), CLOCK_LINKS])
        producer = stream.producer(f"{host}/agent")
        running = Agent(host, producer, root, period, salt=os.getpid(), prober=prober)
        port = "" if prober is None else f", probes at UDP port {prober.port}"
        console().print(f"{host}: reading every {period:g} s{port}; stop with Ctrl-C")
        running.run(stop, duration)
        producer.close()
    finally:
        stream.close()
    sent = {p.producer_id: p.totals() for p in (running.own, running.links)}
    links = [] if prober is None else prober.report()
    if as_json:
        print_json({"host": host, "producers": sent, "unacknowledged_batches": len(running.outbox), "links": links})
    for link in links:
        console().print(_link_line(link))
    for name, totals in sent.items():
        console().print(f"{name}: {totals['rows']:,} rows in {totals['batches']:,} batches, {totals['dropped']:,} rows "
                        "dropped")
    if len(running.outbox):
        raise RetryError(f"the broker did not acknowledge the last {len(running.outbox)} batches")


def _print_tables(document: dict[str, Any]) -> None:
    from rich.markup import escape

    printer = out()
    printer.print(f"[bold]{escape(document['host'])}[/bold] at {document['time']}, root {escape(document['root'])}")
    printer.print(_readings_table(document["readings"], _jiffies_hz(document)))
    printer.print(_links_table([c for c in document["inventory"] if c["kind"] == "link"]))
    for clock in document["clocks"]:
        printer.print(f"{clock['clock']} is {clock['offset_ns']:,} ns ahead of {clock['against']}, "
                      f"± {clock['bound_ns']:,} ns")
    for link in document["links"]:
        printer.print(_link_line(link))
    hidden = sum(not _is_shown(r) for r in document["readings"])
    printer.print(f"{hidden} readings are not shown: counters at zero and single cpus; --json has them all.")
    for fault in document["unreadable"]:
        printer.print(f"[yellow]not readable[/yellow]: {fault['collector']}: {fault['reason']} × {fault['count']}, "
                      f"first {escape(fault['example'])}")


def _link_line(link: dict[str, Any]) -> str:
    """For example: b at 10.0.0.2:7100: round trip 31.2 µs at least, 40.1 µs median, 0.0 % lost; 12 ns ahead, ± 9 ns."""
    from rich.markup import escape

    start = f"{escape(link['host'])} at {escape(link['address'])}: "
    if link["rtt_min_ns"] is None:
        other = "; somebody else answers there" if link["wrong_host"] else ""
        return f"{start}[yellow]no answer[/yellow] to {link['sent']} probes{other}"
    line = (f"{start}round trip {link['rtt_min_ns'] / 1000:,.1f} µs at least, {link['rtt_median_ns'] / 1000:,.1f} µs "
            f"median, {link['loss']:.1%} lost")
    if link.get("offset_ns") is None:
        return line
    return f"{line}; its monotonic_raw is {link['offset_ns']:,} ns ahead of this one, ± {link['bound_ns']:,} ns"


def _jiffies_hz(document: dict[str, Any]) -> int:
    rates = [c["attributes"]["hz"] for c in document["inventory"] if c["component"] == "jiffies"]
    return int(rates[0]) if rates else 100


def _is_shown(reading: dict[str, Any]) -> bool:
    single_cpu = reading["collector"] == "cpu" and reading["instance"] != "total"
    return reading["status"] != "ok" or (reading["value"] != 0 and not single_cpu)


def _readings_table(readings: list[dict[str, Any]], jiffies_hz: int) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from ingest.people import amount

    table = Table("source", "counter", "of", "value", title="Readings", title_justify="left")
    table.columns[3].justify = "right"
    source = ""
    for r in readings:
        if _is_shown(r):
            status = "" if r["status"] == "ok" else f" ({r['status']})"
            table.add_row("" if r["collector"] == source else r["collector"], r["counter"].removeprefix("agent_"),
                          escape(" ".join(filter(None, (r["device"], r["instance"])))),
                          amount(r["value"], r["unit"], jiffies_hz) + status)
            source = r["collector"]
    return table


def _links_table(links: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("link", "hangs on", "state", title="Links and PCI functions", title_justify="left")
    for link in links:
        table.add_row(link["component"], link["parent"] or "", _link_state(link["attributes"]))
    return table


def _link_state(attributes: dict[str, Any]) -> str:
    """For example: bridge 1022:1634, x4 of x8, 8 of 8 GT/s, below its maximum: 0000:01:00.0 can do no more."""
    from rich.markup import escape

    from ingest.people import pci_class

    if "class" not in attributes:
        return escape(", ".join(f"{name} {value}" for name, value in attributes.items()))
    vendor, device = attributes.get("vendor", "")[2:], attributes.get("device_id", "")[2:]
    parts = [f"{pci_class(attributes['class'])} {vendor}:{device}"]
    if "width" in attributes:
        parts.append(attributes["width"])
    if "speed_gt_s" in attributes:
        parts.append(f"{attributes['speed_gt_s']:g} of {attributes.get('max_speed_gt_s', 0):g} GT/s")
    if attributes.get("degraded"):
        parts.append("[red]degraded: both ends can do more[/red]")
    elif attributes.get("below_maximum"):
        parts.append(f"below its maximum: {attributes.get('limited_by', 'the other end')} can do no more")
    if "listed" in attributes:
        parts.append(attributes["listed"])
    return ", ".join(parts)
