"""What a kubelet waits for, by Kubernetes version: the data, and where each value is read.

Times are nanoseconds. A version that is not listed takes the row of the last one before it. Sources: kubernetes.md 1
to 4; pkg/kubelet and apis/config/v1beta1/defaults.go of v1.34.2 where nothing else is named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from slurmtwin.contract.clock import MINUTE, MS, SECOND
from slurmtwin.contract.errors import InputError

RESYNC_NS: Final = (60 * SECOND, 90 * SECOND)
"""A pod without news is due again so long after its last sync (pod_workers.go completeWork(), resync jittered by half);
syncLoop looks each second which pods are due."""
VOLUME_POLL_NS: Final = 300 * MS
"""The kubelet looks so often whether a pod's volumes are mounted, and never are they at once (volume_manager.go
podAttachAndMountRetryInterval)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletDefaults:
    """The kubelet's own timers of one version. A pair is the range of a uniform draw (Go's wait.Jitter)."""

    back_off_base_ns: int = 10 * SECOND
    """First CrashLoopBackOff and image pull back-off; both double (kubelet.go initialCrashLoopBackOff)."""
    back_off_most_ns: int = 300 * SECOND
    """kubelet.go MaxCrashLoopBackOff, MaxImageBackOff."""
    back_off_reset_ns: int = 600 * SECOND
    """A container that ran longer begins anew (kubernetes.md 2.11)."""
    exact_wake: bool = False
    """After a failed sync: False, U(10, 15) s; True, U(r, 1.5 r) with r the rest of the back-off, at most 60 s
    (kubernetes.md 2.12; since 1.35)."""
    error_retry_ns: tuple[int, int] = (10 * SECOND, 15 * SECOND)
    """pod_workers.go completeWork: backOffPeriod 10 s, jitter 0.5."""
    relist_ns: int = SECOND
    """PLEG: how a kubelet learns what its containers do (kubelet.go genericPlegRelistPeriod)."""
    sync_tick_ns: int = SECOND
    """How often the queue of pods that are due is looked at (kubelet.go syncLoop)."""
    reconcile_ns: int = 10 * SECOND
    """cpuManagerReconcilePeriod (kubernetes.md 1.6)."""
    probe_close_ns: tuple[int, int] = (40 * MS, 44 * MS)
    """A probe that timed out is told so late: it closes its connection and waits for the acknowledgement, at most a
    second (pkg/probe/dialer_others.go, SO_LINGER), which Linux delays by 40 ms and up to a tick (tcp.h TCP_DELACK_MIN;
    e2e's probe_close)."""
    status_sweep_ns: int = 10 * SECOND
    """status_manager.go syncPeriod: what was not told at once is told then."""
    heartbeat_ns: tuple[int, int] = (10 * SECOND, 10_400 * MS)
    """Lease renewal (a quarter of its duration) and node status computation: jitter 0.04 (kubernetes.md 4.1, 4.2)."""
    runtime_silent_ns: int = 30 * SECOND
    """The node is NotReady when the container runtime has not answered for so long (maxWaitForContainerRuntime)."""
    eviction_ns: int = 10 * SECOND
    """kubelet.go evictionMonitoringPeriod."""
    pressure_transition_ns: int = 5 * MINUTE
    """evictionPressureTransitionPeriod."""
    eviction_clean_up_ns: int = 30 * SECOND
    """How long the eviction manager waits for an evicted pod to be gone (podCleanupTimeout)."""
    least_grace_ns: int = 2 * SECOND
    """kuberuntime_container.go minimumGracePeriodInSeconds."""
    restart_unreadies: bool = True
    """A kubelet that starts takes ready containers for not ready until their next probe (kubernetes.md 3.4)."""
    volume_poll_ns: int = VOLUME_POLL_NS
    mount_timeout_ns: int = 123 * SECOND
    """podAttachAndMountTimeout: then the sync fails and is tried again."""
    refuses_cgroup_v1: bool = False
    """failCgroupV1 (kubernetes.md 2.18; true in 1.35)."""


EVICTION_HARD: Final = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}
"""eviction/defaults_linux.go. Naming any threshold drops all of these (kubernetes.md 2.15)."""

_OLD: Final = KubeletDefaults()
_VERSIONS: Final[tuple[tuple[tuple[int, int], KubeletDefaults], ...]] = (
    ((1, 28), _OLD),
    ((1, 35), replace(_OLD, exact_wake=True, restart_unreadies=False, refuses_cgroup_v1=True)),
)


def kubelet_defaults(version: str) -> KubeletDefaults:
    """The timers of a minor version such as `1.34`. Raises InputError for one before 1.28."""
    major, _, minor = version.partition(".")
    asked = (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
    found = [defaults for since, defaults in _VERSIONS if since <= asked]
    if not found:
        raise InputError(f"no kubelet {version!r} is known", hint="1.28 or later")
    return found[-1]
