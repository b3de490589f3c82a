"""A new pod alone on its machine waits for lists that were refused, as often as the probe saw it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from replicated_runs import SCENARIOS, replicated

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.models.kubelet.container_runtime import LateMount
from slurmtwin.worlds import pod_durations
from slurmtwin.worlds.pod_starts import Sharing, refused_lists

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.worlds.pod_world import PodWorld

X10 = SCENARIOS / "faults" / "x10-config-new-pod.yaml"
RECORDED_S = (1.40, 1.93)
"""How much later the image of six of 47 runs came than the others' mean, 0.49 s behind the removal."""


def image_s(rows: list[Event]) -> float:
    """From the removal of slurmctld's pod to the image of the next one."""
    gone_ns = next(row.t_ns for row in rows if row.kind is Kind.POD_DELETED)
    pulled = (row.t_ns for row in rows if row.kind is Kind.KUBE_EVENT and '"Pulled"' in (row.detail or ""))
    return (next(at_ns for at_ns in pulled if at_ns > gone_ns) - gone_ns) / SECOND


def test_lists_that_are_refused_make_a_pod_as_much_later_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backed off for 0.8 to 1.6 s, waited for 1 s, tried again 0.5 s later, looked at each 0.3 s."""
    seen: dict[int, list[float]] = {}
    for refused in (0, 100):
        monkeypatch.setitem(pod_durations.SHARES, "list.refused", (refused, 100))
        seen[refused] = [image_s(replicated(X10, "12", number)) for number in range(8)]
    assert all(0.35 <= at_s <= 0.85 for at_s in seen[0]), seen
    late = [after - before for before, after in zip(seen[0], seen[100], strict=True)]
    assert all(0.55 <= at_s <= 1.95 for at_s in late), late
    assert any(RECORDED_S[0] <= at_s <= RECORDED_S[1] for at_s in late)


def test_starts_that_come_together_have_it_in_their_laws() -> None:
    """Only a pod that starts alone is asked."""
    clock = SimpleNamespace(now_ns=0)
    streams = SimpleNamespace(uniform_ns=lambda _, low, high: lambda: high, choice_ns=lambda *_: lambda: 3)
    world = SimpleNamespace(happens=lambda _: lambda: True, streams=streams)
    sharing = Sharing(cast("Environment", clock))
    late = refused_lists(cast("PodWorld", world), sharing)
    assert late() == LateMount(1800 * MS, (1200 * MS,) * 3)
    sharing.stands(SECOND)
    assert late() is None
    clock.now_ns = SECOND
    assert late() is not None


def test_few_pods_wait_for_them() -> None:
    """Recorded of seven in 47, and of 16 in 84 that quiet-controller deletes."""
    late = [number for number in range(40) if image_s(replicated(X10, "12", number)) > 0.9]
    assert 1 <= len(late) <= 12
