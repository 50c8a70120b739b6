from __future__ import annotations

from simulator.scenario import Source, parse_scenario
from simulator.topology.hosts import HostSpec, host_specs
from simulator.topology.jobs import Replica, placements, worlds


def placed(values: dict[str, object], hosts: int = 2, devices: int = 4) -> tuple[list[HostSpec], list[Replica]]:
    scenario = parse_scenario(values, Source("test"))
    specs = host_specs(scenario, hosts, devices)
    return specs, placements(scenario, specs)


def job(**more: object) -> dict[str, object]:
    return {"kind": "serving", **more}


def test_without_parallelism_every_device_is_a_replica_and_a_world_of_its_own() -> None:
    specs, replicas = placed({"jobs": [job()]})
    assert [(r.name, r.first_rank, r.places) for r in replicas[:2]] == [("llm-serve", 0, ((0, 0),)),
                                                                       ("llm-serve", 1, ((0, 1),))]
    assert worlds(specs, replicas) == [((host, device),) for host in range(2) for device in range(4)]


def test_a_job_for_each_host_numbers_its_ranks_from_zero_on_every_host() -> None:
    _, replicas = placed({"jobs": [job(per_host=True, tensor_parallel=2)]})
    assert [(r.name, r.first_rank, r.places[0]) for r in replicas] == [
        ("llm-serve-0", 0, (0, 0)), ("llm-serve-0", 2, (0, 2)), ("llm-serve-1", 0, (1, 0)), ("llm-serve-1", 2, (1, 2))]


def test_training_is_one_replica_over_all_devices_and_one_world() -> None:
    specs, replicas = placed({"jobs": [{"kind": "training"}]})
    assert len(replicas) == 1
    assert worlds(specs, replicas) == [tuple((host, device) for host in range(2) for device in range(4))]


def test_devices_below_one_switch_are_one_world_whatever_runs_on_them() -> None:
    specs, replicas = placed({"pcie": {"layout": "switched", "devices_per_switch": 2},
                              "jobs": [job(devices=[0, 2])]}, hosts=1)
    assert [r.places for r in replicas] == [((0, 0),), ((0, 2),)]
    assert worlds(specs, replicas) == [((0, 0), (0, 1)), ((0, 2), (0, 3))]


def test_a_job_without_places_takes_what_is_left() -> None:
    _, replicas = placed({"jobs": [job(hosts=[0], devices=[1]), job(name="rest")]}, hosts=2, devices=2)
    assert [(r.name, r.places) for r in replicas] == [
        ("llm-serve", ((0, 1),)), ("rest", ((0, 0),)), ("rest", ((1, 0),)), ("rest", ((1, 1),))]
