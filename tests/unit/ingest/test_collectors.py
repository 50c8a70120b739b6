"""Every collector on small inputs of its format: whole, malformed, cut off, not offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.collectors.amdgpu import AmdGpu
from ingest.collectors.block import Block
from ingest.collectors.cpu import Cpu
from ingest.collectors.infiniband import InfiniBand
from ingest.collectors.interrupts import MAX_LINES, Interrupts
from ingest.collectors.memory import Memory
from ingest.collectors.network import Network
from ingest.collectors.pressure import Pressure
from ingest.hostroot import HostRoot
from ingest.reading import Collector, Reading
from tests.unit.ingest.files import put

Series = dict[tuple[str, str | None], Reading]


def collect(collector: Collector, root: Path) -> tuple[Series, dict[str, int]]:
    """Readings by counter and instance, and what was unreadable by reason."""
    with HostRoot(root) as files:
        readings = collector.collect(files)
        assert all(reading.collector == collector.name for reading in readings)
        assert {reading.counter for reading in readings} <= {d.name for d in collector.descriptors}
        return ({(r.counter, r.instance): r for r in readings},
                {str(reason): count for (_, reason), count in files.unreadable.items()})


def test_cpu_time_is_kept_in_the_kernels_own_ticks(tmp_path: Path) -> None:
    put(tmp_path, {"proc/stat": "cpu  10 1 5 100 7 0 2 1 3 0\ncpu0 10 1 5 100 7 0 2 1 3 0\nintr 5 1\n"})
    found, bad = collect(Cpu(), tmp_path)
    assert found["cpu_idle", "total"].raw == 100
    assert found["cpu_steal", "cpu0"].raw == 1
    assert len(found) == 20
    assert not bad


def test_cpu_modes_an_old_kernel_lacks_are_missing_not_zero(tmp_path: Path) -> None:
    put(tmp_path, {"proc/stat": "cpu 10 1 5 100\n"})
    found, bad = collect(Cpu(), tmp_path)
    assert (found["cpu_steal", "total"].raw, found["cpu_steal", "total"].status) == (None, "missing")
    assert found["cpu_idle", "total"].raw == 100
    assert not bad


def test_malformed_cpu_lines_are_counted_and_the_others_kept(tmp_path: Path) -> None:
    put(tmp_path, {"proc/stat": "cpu 1 2 3 4\ncpu0 1 x 3 4\ncpux 1 2 3 4\ncpu1 -1 2 3 4\ncpu2 1 2 3\ncpu3 1 2 3 4\n"
                                "cpu4 1"})
    found, bad = collect(Cpu(), tmp_path)
    assert {instance for _, instance in found} == {"total", "cpu3"}
    assert bad == {"malformed": 4, "truncated": 1}


def test_memory_is_in_bytes_and_absent_keys_are_missing(tmp_path: Path) -> None:
    put(tmp_path, {"proc/meminfo": "MemTotal:  2048 kB\nMemFree: many kB\nBuffers: 5\nHugePages_Total: 0\n"})
    found, bad = collect(Memory(), tmp_path)
    assert found["memory_total", None].value == 2048 * 1024
    assert found["memory_free", None].status == "missing"
    assert found["memory_available", None].value is None
    assert bad == {"malformed": 2}


def test_without_meminfo_there_are_no_readings_and_one_count(tmp_path: Path) -> None:
    assert collect(Memory(), tmp_path) == ({}, {"missing": 1})


def test_pressure_has_totals_in_us_and_the_average_in_percent(tmp_path: Path) -> None:
    line = "avg10=1.50 avg60=0.00 avg300=0.00 total="
    put(tmp_path, {"proc/pressure/cpu": f"some {line}77\n", "proc/pressure/io": f"some {line}5\nfull {line}4\n",
                   "proc/pressure/memory": f"some {line}N/A\nfull avg10=nan total=3\nother {line}1\n"})
    found, bad = collect(Pressure(), tmp_path)
    assert found["pressure_some_us", "cpu"].raw == 77
    assert found["pressure_some_avg10", "cpu"].value == 1.5
    assert found["pressure_full_us", "io"].raw == 4
    assert not any(instance == "memory" for _, instance in found)
    assert bad == {"malformed": 3}


INTERRUPTS = """           CPU0       CPU1
 24:          1          2  IO-APIC   5-edge      eth0-tx
NMI:          3          4   Non-maskable interrupts
ERR:          9
 25:          1
nonsense

"""


def test_interrupts_are_summed_over_cpus_and_named_after_their_action(tmp_path: Path) -> None:
    put(tmp_path, {"proc/interrupts": INTERRUPTS,
                   "proc/stat": "intr 500 1 2 3\nctxt 6\nprocesses 7\nsoftirq 9 1 2 3 4 5 6 7 8 9 10\nctxt\n"})
    found, bad = collect(Interrupts(), tmp_path)
    assert found["interrupts", "24/eth0-tx"].raw == 3
    assert found["interrupts", "NMI"].raw == 7
    assert found["interrupts", "ERR"].raw == 9
    assert found["interrupts_total", None].raw == 500
    assert found["softirqs", "RCU"].raw == 10
    assert bad == {"malformed": 3}


def test_interrupt_lines_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    lines = "".join(f"{n}: {n} chip dev{n}\n" for n in range(MAX_LINES + 7))
    put(tmp_path, {"proc/interrupts": f" CPU0\n{lines}", "proc/stat": "ctxt 1\n"})
    found, bad = collect(Interrupts(), tmp_path)
    assert sum(counter == "interrupts" for counter, _ in found) == MAX_LINES
    assert bad == {"over_limit": 7}


def test_network_takes_bytes_and_faults_of_both_directions(tmp_path: Path) -> None:
    numbers = " ".join(str(n) for n in range(1, 17))
    lines = f"  eth0:{numbers}\neth0:1: {numbers}\n eth1: 1 2\n: {numbers}\n"
    put(tmp_path, {"proc/net/dev": f"Inter-| x\n face | y\n{lines}"})
    found, bad = collect(Network(), tmp_path)
    assert found["network_rx_bytes", "eth0"].raw == 1
    assert found["network_tx_bytes", "eth0"].raw == 9
    assert found["network_tx_dropped", "eth0:1"].raw == 12
    assert bad == {"malformed": 2}


def test_block_devices_count_sectors_of_512_bytes(tmp_path: Path) -> None:
    put(tmp_path, {"proc/diskstats": "8 0 sda 10 0 4 6 20 0 8 12 3 15 18 0 0 0 0\n7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n"
                                     "8 1 sda1 1 2\n8 2\n\n7 1 loop1 1 0 2 0 0 0 0 0 0 0 0\n"})
    found, bad = collect(Block(), tmp_path)
    assert found["disk_read_bytes", "sda"].raw == 4 * 512
    assert found["disk_write_bytes", "sda"].raw == 8 * 512
    assert found["disk_busy_ms", "sda"].raw == 15
    assert found["disk_in_flight", "sda"].value == 3
    assert {instance for _, instance in found} == {"sda", "loop1"}
    assert bad == {"malformed": 3}


def test_infiniband_data_is_in_words_of_four_bytes_and_what_is_not_offered_is_missing(tmp_path: Path) -> None:
    base = "sys/class/infiniband/mlx5_0/ports/1"
    put(tmp_path, {f"{base}/counters/port_xmit_data": "100\n", f"{base}/counters/symbol_error": "65535\n",
                   f"{base}/counters/port_rcv_data": "N/A (no PMA)\n", f"{base}/counters/link_downed": "rubbish\n",
                   f"{base}/rate": "100 Gb/sec (4X EDR)\n"})
    found, bad = collect(InfiniBand(), tmp_path)
    assert found["ib_tx_bytes", "port1"].raw == 400
    assert found["ib_symbol_errors", "port1"].status == "saturated"
    assert (found["ib_rx_bytes", "port1"].raw, found["ib_rx_bytes", "port1"].status) == (None, "missing")
    assert found["ib_link_downed", "port1"].status == "missing"
    assert bad == {"malformed": 1}


def test_a_card_is_named_by_its_pci_address_and_a_refused_file_is_missing(tmp_path: Path) -> None:
    device = "sys/devices/pci0000:00/0000:03:00.0"
    put(tmp_path, {f"{device}/mem_info_vram_total": "1000\n", f"{device}/mem_info_vram_used": "400\n",
                   f"{device}/gpu_busy_percent": "N/A\n", "sys/class/drm/card0-DP-1/status": "off\n"})
    (tmp_path / "sys/class/drm/card0").mkdir()
    (tmp_path / "sys/class/drm/card0/device").symlink_to("../../../devices/pci0000:00/0000:03:00.0")
    with HostRoot(tmp_path) as root:
        readings = {r.counter: r for r in AmdGpu().collect(root)}
        facts = {f.attribute: f for f in AmdGpu().inventory(root)}
        assert dict(root.unreadable) == {("amdgpu", "malformed"): 1}
    assert readings["gpu_memory_used"].value == 400
    assert readings["gpu_memory_used"].device == "0000:03:00.0"
    assert readings["gpu_busy"].status == "missing"
    assert "gpu_pcie_replays" not in readings
    assert (facts["memory_bytes"].kind, facts["memory_bytes"].number) == ("device", 1000)


@pytest.mark.parametrize("collector", [InfiniBand(), AmdGpu()])
def test_a_host_without_such_devices_has_no_fault(tmp_path: Path, collector: Collector) -> None:
    assert collect(collector, tmp_path) == ({}, {})
