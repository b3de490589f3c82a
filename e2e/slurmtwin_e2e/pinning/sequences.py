"""Random sequences of pods on one node: what the oracle and the model both go through."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from slurmtwin_e2e.pinning.hosts import MIB, host, kubelet, legal_pairs

LENGTH = range(20, 31)


def cases(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """``count`` cases; each run of them goes through all legal option and policy pairs."""
    pairs = legal_pairs()
    for number in range(count):
        random = Random(f"{seed}/{number}")  # noqa: S311 - cases, not secrets
        options, policy = pairs[number % len(pairs)]
        machine = host(random)
        settings = kubelet(random, machine, options, policy)
        steps = _Sequence(random, machine, settings).steps()
        yield {"machine": machine, "kubelet": settings, "steps": steps}


class _Sequence:
    """Draws steps while it remembers, as far as that can be known, which pods are there."""

    def __init__(self, random: Random, machine: dict[str, Any], settings: dict[str, Any]) -> None:
        self._random = random
        self._machine = machine
        self._settings = settings
        self._pods: list[dict[str, Any]] = []
        self._started = 0
        self._steps: list[dict[str, Any]] = []

    def steps(self) -> list[dict[str, Any]]:
        length = self._random.choice(LENGTH)
        while len(self._steps) < length:
            draw = self._random.random()
            if draw < 0.5 or not self._pods:
                self._admit()
            elif draw < 0.68:
                self._remove()
            elif draw < 0.86:
                self._start()
            elif draw < 0.96:
                self._steps.append({"op": "restart"})
            else:
                self._reconfigure()
        return self._steps

    def _admit(self) -> None:
        uid = f"pod-{sum(step['op'] == 'admit' for step in self._steps)}"
        guaranteed = self._random.random() < 0.9
        pages = bool(self._machine["numa"][0]["hugepages"]) and self._random.random() < 0.3
        names = iter(range(10))
        pod = {
            "uid": uid,
            "guaranteed": guaranteed,
            "init": [
                self._container(f"i{next(names)}", pages, restartable=self._random.random() < 0.3)
                for _ in range(self._random.choice((0, 0, 0, 1, 2)))
            ],
            "containers": [
                self._container(f"c{next(names)}", pages, restartable=False)
                for _ in range(self._random.choice((1, 1, 1, 2, 3)))
            ],
        }
        self._pods.append(pod)
        self._steps.append({"op": "admit", "pod": pod})

    def _container(self, name: str, pages: bool, *, restartable: bool) -> dict[str, Any]:
        cpus = len(self._machine["cpus"])
        most = max(1, cpus // self._random.choice((1, 2, 3, 4, 8)))
        milli = 1000 * self._random.randint(1, most)
        if self._random.random() < 0.1:
            milli = self._random.choice((100, 500, 1500))
        node = self._machine["numa"][0]["memory"]
        return {
            "name": name,
            "cpu_milli": milli,
            "memory": self._random.randint(1, max(2, node // (512 * MIB))) * 256 * MIB,
            "hugepages_2mi": self._random.choice((0, 64, 128)) * MIB if pages else 0,
            "restartable": restartable,
        }

    def _remove(self) -> None:
        pod = self._pods.pop(self._random.randrange(len(self._pods)))
        self._steps.append({"op": "remove", "uid": pod["uid"]})

    def _start(self) -> None:
        """A container starts; half the time it is one that ran before and starts again."""
        pod = self._random.choice(self._pods)
        container = self._random.choice([*pod["init"], *pod["containers"]])
        self._started += 1
        identity = {"uid": pod["uid"], "container": container["name"]}
        self._steps.append({"op": "start", "id": f"run-{self._started}", **identity})
        if self._random.random() < 0.5:
            self._steps.append({"op": "stop", "id": f"run-{self._started}"})
            self._started += 1
            self._steps.append({"op": "start", "id": f"run-{self._started}", **identity})

    def _reconfigure(self) -> None:
        """A restart with other settings, mostly refused, then the cure: drain and wipe."""
        random = self._random
        options, policy = random.choice(legal_pairs())
        changed = random.choice(
            (
                {"cpu_policy": "none", "cpu_options": {}},
                {"cpu_options": dict.fromkeys(options, "true")},
                {"topology_policy": policy},
                {"reserved_cpus": "", "reserved_milli_cpu": 1000 * random.randint(0, 6)},
                {"memory_policy": "Static", "reserved_memory": []},
            )
        )
        self._steps.append({"op": "restart", "kubelet": {**self._settings, **changed}})
        if random.random() < 0.7:
            self._steps.append({"op": "wipe", "kubelet": self._settings})
            self._pods.clear()
