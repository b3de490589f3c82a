"""The kubelet's resource managers against recorded answers of the real ones.

A recorded line is ``{"case": …, "answer": …}`` as ``slurmtwin_e2e.pinning`` writes them;
``python -m slurmtwin.worlds.pinning FILE`` compares all of a file.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurmtwin.models.kubelet.cpu_distribution import AllocatorHangsError
from slurmtwin.models.kubelet.cpu_manager import CpuPolicyOptions, ManagerStartError
from slurmtwin.models.kubelet.cpu_topology import CpuTopology, LogicalCpu, list_form, set_of
from slurmtwin.models.kubelet.cpu_topology import members as members_of
from slurmtwin.models.kubelet.memory_manager import MEMORY
from slurmtwin.models.kubelet.node_resources import (
    Admission,
    Host,
    KubeletConfiguration,
    NodeResources,
)
from slurmtwin.models.kubelet.pod_resources import ContainerResources, PodResources
from slurmtwin.models.kubelet.topology_manager import DEFAULT_MAX_NUMA_NODES

Fields = dict[str, Any]
HUGE_PAGES = "hugepages-2Mi"


def host_of(machine: Fields) -> Host:
    """The host of a recorded case."""
    memory: dict[int, dict[str, int]] = {}
    for node in machine["numa"]:
        pages = sum(each["size_kib"] * 1024 * each["count"] for each in node["hugepages"])
        memory[node["id"]] = {MEMORY: node["memory"] - pages}
        if pages:
            memory[node["id"]][HUGE_PAGES] = pages
    return Host(
        CpuTopology(LogicalCpu(**cpu) for cpu in machine["cpus"]),
        memory,
        {node["id"]: tuple(node["distances"]) for node in machine["numa"]},
    )


def configuration_of(kubelet: Fields) -> KubeletConfiguration:
    """The kubelet's settings of a recorded case."""
    reserved = kubelet["reserved_cpus"]
    topology_options = kubelet["topology_options"]
    return KubeletConfiguration(
        cpu_policy=kubelet["cpu_policy"],
        cpu_options=CpuPolicyOptions(**{name.replace("-", "_"): True for name in kubelet["cpu_options"]}),
        reserved_cpus=set_of(int(cpu) for cpu in reserved.split(",")) if reserved else 0,
        reserved_cpu_count=-(-kubelet["reserved_milli_cpu"] // 1000),
        topology_policy=kubelet["topology_policy"],
        topology_scope=kubelet["topology_scope"],
        prefer_closest_numa_nodes="prefer-closest-numa-nodes" in topology_options,
        max_allowable_numa_nodes=int(topology_options.get("max-allowable-numa-nodes", DEFAULT_MAX_NUMA_NODES)),
        memory_policy=kubelet["memory_policy"],
        reserved_memory_bytes={
            each["numa"]: {MEMORY: each["memory"], HUGE_PAGES: each["hugepages_2mi"]}
            for each in kubelet["reserved_memory"]
        },
    )


def _container(fields: Fields) -> ContainerResources:
    memory = {MEMORY: fields["memory"]}
    if fields["hugepages_2mi"]:
        memory[HUGE_PAGES] = fields["hugepages_2mi"]
    return ContainerResources(fields["name"], fields["cpu_milli"], memory, fields["restartable"])


def pod_of(fields: Fields) -> PodResources:
    """The pod of a recorded step."""
    return PodResources(
        fields["uid"],
        fields["guaranteed"],
        tuple(_container(each) for each in fields["containers"]),
        tuple(_container(each) for each in fields["init"]),
    )


def replay(case: Fields) -> Fields:
    """What the model answers to a case, in the form of the oracle's answer.

    It ends with a restart whose outcome is a matter of chance, marked ``chance``.
    """
    node = NodeResources(host_of(case["machine"]), configuration_of(case["kubelet"]))
    try:
        node.start()
    except ManagerStartError as error:
        return {"start": str(error).partition(":")[0], "steps": []}
    steps: list[Fields] = []
    try:
        for step in case["steps"]:
            steps.append(_step(node, step))
            if step["op"] == "restart" and node.start_by_chance:
                steps[-1]["chance"] = True
                break
    except AllocatorHangsError:
        steps.append({"hangs": True})
    return {"start": "", "steps": steps}


def _step(node: NodeResources, step: Fields) -> Fields:
    operation = step["op"]
    if node.cpu is None and operation not in ("wipe", "restart", "remove"):
        return {"error": "stopped"}
    error, admissions = "", []
    settings = configuration_of(step["kubelet"]) if step.get("kubelet") else None
    try:
        match operation:
            case "admit":
                admissions = [node.admit(pod_of(step["pod"]))]
            case "start":
                node.container_started(step["uid"], step["container"])
            case "remove":
                node.remove(step["uid"])
            case "restart":
                admissions = node.start(settings)
            case "wipe":
                node.wipe(settings)
    except ManagerStartError as refused:
        error = str(refused).partition(":")[0]
    return {"error": error, "admissions": list(map(_admission, admissions)), **_state(node)}


def _admission(admission: Admission) -> Fields:
    return {"uid": admission.uid, "admit": admission.admitted, "reason": admission.reason}


def _state(node: NodeResources) -> Fields:
    if node.cpu is None or node.memory is None:
        return {"default": "", "cpus": {}, "memory": {}, "free": {}, "groups": {}}
    cpus, memory = node.cpu.checkpoint, node.memory.checkpoint
    return {
        "default": list_form(cpus.default),
        "cpus": {
            uid: {name: list_form(held) for name, held in containers.items()}
            for uid, containers in cpus.entries.items()
        },
        "memory": {
            uid: {
                name: [
                    {
                        "numa": list(members_of(block.numa)),
                        "type": block.resource,
                        "size": block.size_bytes,
                    }
                    for block in sorted(blocks, key=lambda block: block.resource)
                ]
                for name, blocks in containers.items()
            }
            for uid, containers in memory.entries.items()
        },
        "free": {str(number): dict(each.free) for number, each in memory.nodes.items()},
        "groups": {str(number): list(members_of(each.group)) for number, each in memory.nodes.items()},
    }


@dataclass(slots=True)
class Comparison:
    """Counts over compared sequences; ``mismatches`` name the first difference of each."""

    sequences: int = 0
    steps: int = 0
    admissions: int = 0
    with_rejection: int = 0
    hangs: int = 0
    by_chance: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    mismatches: list[str] = field(default_factory=list)

    def add(self, number: int, case: Fields, answer: Fields) -> None:
        """Compares one sequence."""
        answered = [admission for step in answer["steps"] or [] for admission in _admissions(step)]
        self.sequences += 1
        self.steps += len(answer["steps"] or [])
        self.admissions += len(answered)
        self.with_rejection += any(not each["admit"] for each in answered)
        self.hangs += any(step["hangs"] for step in answer["steps"] or [])
        self.reasons.update(each["reason"] for each in answered if each["reason"])
        ours = replay(case)
        self.by_chance += by_chance(ours)
        if difference := first_difference(answer, ours):
            self.mismatches.append(f"sequence {number}: {difference}")


def _admissions(step: Fields) -> list[Fields]:
    return step.get("admissions") or []


def first_difference(answer: Fields, ours: Fields) -> str | None:
    """Where the model's answer departs from the real managers', or None."""
    if answer["start"] != ours["start"]:
        return f"start: real {answer['start'] or 'starts'!r}, model {ours['start'] or 'starts'!r}"
    real_steps = answer["steps"] or []
    if by_chance(ours):
        restart = real_steps[len(ours["steps"]) - 1]
        if restart["error"] not in ("", "memory"):
            return f"restart: real {restart['error']!r}, model starts or refuses for memory"
        real_steps = real_steps[: len(ours["steps"]) - 1]
        ours = {**ours, "steps": ours["steps"][:-1]}
    if len(real_steps) != len(ours["steps"]):
        return f"steps: real {len(real_steps)}, model {len(ours['steps'])}"
    for number, (real, model) in enumerate(zip(real_steps, ours["steps"], strict=True)):
        if real["hangs"] or model.get("hangs"):
            if real["hangs"] != model.get("hangs", False):
                return f"step {number}: hangs: real {real['hangs']}, model {not real['hangs']}"
            continue
        for key in ("error", "admissions", "default", "cpus", "memory", "free", "groups"):
            if (real[key] or None) != (model.get(key) or None):
                return f"step {number}: {key}: real {real[key]}, model {model.get(key)}"
    return None


def by_chance(ours: Fields) -> bool:
    """Whether the model's answer ends with a restart that chance decides."""
    return bool(ours["steps"]) and ours["steps"][-1].get("chance", False)


def recorded(path: Path) -> Iterator[tuple[Fields, Fields]]:
    """Cases and answers of a recorded file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            yield fields["case"], fields["answer"]


def compare(path: Path) -> Comparison:
    """Replays all sequences of a recorded file."""
    result = Comparison()
    for number, (case, answer) in enumerate(recorded(path)):
        result.add(number, case, answer)
    return result


def main() -> int:
    """Prints the comparison as JSON; exit code 1 on a mismatch."""
    result = compare(Path(sys.argv[1]))
    sys.stdout.write(
        json.dumps(
            {
                "sequences": result.sequences,
                "steps": result.steps,
                "admissions": result.admissions,
                "with_rejection": result.with_rejection,
                "hangs": result.hangs,
                "by_chance": result.by_chance,
                "reasons": dict(sorted(result.reasons.items())),
                "mismatches": result.mismatches,
            },
            indent=1,
        )
        + "\n"
    )
    return 1 if result.mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
