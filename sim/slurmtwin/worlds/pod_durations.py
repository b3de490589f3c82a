"""Calibrated durations of a Kubernetes cluster, kept as data beside this module (pod_durations.json).

campaign/pod_calibration.py writes the file from quiet runs: per name a log-normal law, its origin, and bootstrapped
fits of it. A run has one fit's values, equally likely; held still, a duration has its median. A recorded run is held
against the quiet runs of its own batch: what the host did beside it is in both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist, median
from typing import Any, Final

from slurmtwin.contract.clock import MS, SECOND, US
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.pod_durations import DURATIONS

POD_DURATIONS_SCHEMA: Final = "slurmtwin/pod-durations/1"
POD_DURATIONS_FILE: Final = Path(__file__).with_name("pod_durations.json")
EARLIER_BATCHES: Final[tuple[tuple[int, Path], ...]] = (
    (1_795_305_600 * SECOND, Path(__file__).with_name("pod_durations_2026_11_21.json")),
    (1_795_371_360 * SECOND, Path(__file__).with_name("pod_durations_2026_11_22.json")),
)
"""(unix ns, file): runs recorded before that time are of the batch whose quiet runs the file is from, the first that
matches. Until 22 November 2026, 00:00 UTC, the host had other work: its load was 4 to 42 where one run was recorded
alone, and is 1 to 12 since; a pod that started alone took 0.76 s (the logarithm's sigma 0.31), since then 0.60 (0.07).
Until 18:16 UTC of that day the harness itself read long pages each 10 s beside every run (docs/fault-verdicts.md).
"""
LATER_BATCHES: Final[tuple[tuple[int, Path], ...]] = (
    (1_795_492_800 * SECOND, Path(__file__).with_name("pod_durations_2026_11_24.json")),
    (1_795_505_400 * SECOND, Path(__file__).with_name("pod_durations_2026_11_24_0730.json")),
    (1_795_519_800 * SECOND, Path(__file__).with_name("pod_durations_2026_11_24_1130.json")),
    (1_795_533_300 * SECOND, Path(__file__).with_name("pod_durations_2026_11_24_1515.json")),
    (1_795_574_400 * SECOND, Path(__file__).with_name("pod_durations_2026_11_25.json")),
    (1_795_590_900 * SECOND, Path(__file__).with_name("pod_durations_2026_11_25_0715.json")),
    (1_795_612_800 * SECOND, Path(__file__).with_name("pod_durations_2026_11_25_1320.json")),
    (1_795_624_200 * SECOND, Path(__file__).with_name("pod_durations_2026_11_25_1630.json")),
    (1_795_694_400 * SECOND, Path(__file__).with_name("pod_durations_2026_11_26.json")),
    (1_795_737_600 * SECOND, Path(__file__).with_name("pod_durations_2026_11_27.json")),
    (1_795_769_100 * SECOND, Path(__file__).with_name("pod_durations_2026_11_27_0850.json")),
    (1_795_783_200 * SECOND, Path(__file__).with_name("pod_durations_2026_11_27_1240.json")),
    (1_795_791_000 * SECOND, Path(__file__).with_name("pod_durations_2026_11_27_1450.json")),
    (1_795_816_200 * SECOND, Path(__file__).with_name("pod_durations_2026_11_27_2150.json")),
    (1_795_829_400 * SECOND, Path(__file__).with_name("pod_durations_2026_11_28.json")),
    (1_795_844_700 * SECOND, Path(__file__).with_name("pod_durations_2026_11_28_0545.json")),
    (1_795_856_700 * SECOND, Path(__file__).with_name("pod_durations_2026_11_28_0905.json")),
    (1_795_869_600 * SECOND, Path(__file__).with_name("pod_durations_2026_11_28_1240.json")),
    (1_795_880_400 * SECOND, Path(__file__).with_name("pod_durations_2026_11_28_1540.json")),
    (1_796_133_960 * SECOND, Path(__file__).with_name("pod_durations_2026_12_01.json")),
)
"""(unix ns, file): runs recorded since that time, the last that matches. Since 24 November 2026, 04:00 UTC, the host is
another one of the same processor; that day's runs since 07:30, 11:30 and 15:15 UTC, those of 25 November since 02:40,
07:15, 13:20 and 16:30, those of 26 November since 12:00 and those behind have quiet runs of their own hours. Since 1
December, 14:06 UTC, the host is another one again."""
OTHER_PROCESSORS: Final[Mapping[str, tuple[tuple[int, Path], ...]]] = {
    "Intel(R) Xeon(R) Processor": (
        (0, Path(__file__).with_name("pod_durations_xeon.json")),
        (1_795_912_200 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_29.json")),
        (1_795_940_100 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_29_0815.json")),
        (1_795_956_600 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_29_1250.json")),
        (1_795_966_800 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_29_1540.json")),
        (1_795_980_480 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_29_1930.json")),
        (1_796_016_600 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_30.json")),
        (1_796_031_600 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_30_0940.json")),
        (1_796_058_120 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_30_1702.json")),
        (1_796_070_120 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_11_30_2022.json")),
        (1_796_083_260 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_12_01.json")),
        (1_796_099_880 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_12_01_0438.json")),
        (1_796_115_960 * SECOND, Path(__file__).with_name("pod_durations_xeon_2026_12_01_0906.json")),
    ),
}
"""Processor -> (unix ns, file) of the quiet runs on hosts that have it since that time, the last that matches; the
files above are of AMD EPYC. A pod's container starts in half the time there, Slurm's daemons in three quarters
(docs/fault-verdicts.md). Since 29 November 2026, 00:30 UTC, the host is another one, and since 08:15 one more, whose
runs since 12:50, since 15:40, since 19:28 (until 30 November, 03:33), since 05:30, since 09:40, since 17:02, since
20:22 that day and since 1 December, 00:01, 04:38 and 09:06, have quiet runs of their own hours."""
BATCH_FILES: Final = (
    POD_DURATIONS_FILE,
    *(path for _, path in EARLIER_BATCHES + LATER_BATCHES),
    *(path for batches in OTHER_PROCESSORS.values() for _, path in batches),
)
"""The files of all batches."""
POINTS: Final = 20
_NORMAL: Final = tuple(NormalDist().inv_cdf((i + 0.5) / POINTS) for i in range(POINTS))
UNSEEN_MS: Final[Mapping[str, tuple[float, float]]] = {
    "pod-start-alone": (940.0, 0.0),
    "container-start-alone": (140.0, 0.0),
    "container-start-behind": (154.0, 0.25),
    "container-restart": (175.0, 0.22),
    "relist": (3.4, 0.53),
    "forced-removal": (20.0, 0.6),
    "set-status": (60.0, 0.6),
    "stop-heard": (46.0, 0.55),
    "stop-told": (288.0, 0.3),
    "sigkill": (6.8, 0.9),
    "clean-up": (64.0, 0.0),
    "volumes-mounted": (900.0, 1.1),
    "supervisor-spawn": (17.0, 0.58),
    "slurmd-again": (30.0, 0.0),
    "slurmd-again-2205": (12.0, 0.0),
    "loop-wake": (0.4, 0.5),
    "register-answer": (6.0, 0.3),
    "loop-round": (1.9, 0.3),
    "dispatcher-wake": (1.5, 0.57),
    "dispatch": (7.0, 0.41),
    "node-down": (0.5, 1.1),
    "standby-stall": (6.0, 0.8),
    "hung-ping": (15.8, 0.3),
    "takeover-load": (11.4, 0.27),
    "growth-start": (12.9, 0.17),
    "growth-step": (2.7, 0.14),
    "growth-exit": (0.28, 0.235),
    "growth-wake": (1.3, 0.12),
    "volume-fill": (0.96, 0.2),
    "rest-change": (3.6, 0.4),
    "pod-patch": (15.3, 0.45),
    "pod-delete": (30.5, 0.41),
    "pod-create": (45.2, 0.5),
    "set-stored": (6.1, 0.56),
    "operator-look": (35.0, 0.35),
    "operator-look-alone": (16.5, 0.21),
    "operator-event": (4.5, 0.5),
    "slurmd-limited": (639.0, 0.13),
    "burst-wake": (10.5, 0.8),
    "burst-cycle": (5.3, 0.32),
}
"""What quiet runs may not show, (median, sigma of the logarithm): a pod that starts alone as the first repetition of
quiet-pods has it; quiet-single shows more of that, and of its container. container-start-behind is that of slurmctld's
pods of slurm-operator that started alone before a scenario's fault, from event to event (20 here; 36, 42, 15, 6, 5, 11,
27, four times 10, 3, 22 and 6 of the other batches; of these seven had a slurmd's container made within 3 s, and the 15
others have 142 ms in place of 139; 7, 6 and 13 of those since have none): to make the container takes 31 to 44 ms
behind a sidecar, 14 to 20 without one;
neither quiet runs nor the sidecar itself show that. container-restart is that of 57 idle containers which
were killed one by one on a cluster without Slurm (exit_delay --restarts): 185 ms (136 to 392) from the kubelet's sync
to the new process; quiet-restarts shows Slurm's daemons. forced-removal and set-status are those of
quiet-replaced on 22 November, volumes-mounted that of 40 pods before the faults of that day's first batch. clean-up is
that of pods of x10 and x43 before quiet-deleted was there: 44 to 78 ms.
node-down is what a silent node's slurmctld took from the requeue to its line of DOWN (silent_node): on the first Xeon
18 times without a cluster, 2 ms and less in 15, 3, 5 and 9 in the others; on that of 29 November twelve times beside an
idle one, both in one ms nine times, then 1, 1 and 3. Elsewhere it is what all thirty have; on 21 and 22 November, when
the host was loaded, what the first have. hung-ping and takeover-load are of standbys
there beside an idle cluster, six with a frozen primary and 32 in all (standby_rounds, --hangs --round-ms 0.41): 5 to 11
ms a ping (six more without that cluster 3 to 9), and 4 to 13 ms; here by as much more as slurmctld's start takes, 111
ms to 58, which was measured of both.
supervisor-spawn is what 22 restarts of an idle program by supervisord 4.2.5 took beyond 1 s, without a cluster.
slurmd-again is what 40 restarts of slurmd took beyond supervisord's rounds, less supervisor-spawn
(slurmtwin_e2e.kind.supervised_restart, without a cluster: 47 ms, and 53 of slurmctld, which has its own start for
that); slurmd-again-2205 is slurmd's own start outside pods, as it is of 24.11.
sigkill is what 24 signals by way of containerd took beyond a client that only asks, on an idle cluster of 28 November
(runtime_signal): 0 to 35 ms, once 120.
pre-stop is on the Xeon of 23 November and in the two earlier batches read off 35, 36 and 77 ends of workers under the
operator, from the kubelet's word that it stops the container to slurmd's last line, less what SIGTERM takes. stop-heard
is that of the batch behind the two that have no quiet-deleted; stop-told as well, which on those two, and on 28
November at 01:30, 12:40 and 15:40, is by as much more as a container's restart takes there, or its start where that is
not known: 2.05 to 3.42 of the one in sixteen batches, 2.8 to 3.8 of the other in ten. clean-up is at those three hours
near the median of the sixteen batches before that have quiet-deleted (25).
dispatcher-wake and dispatch are those of the 22 submissions of x83's
two scenarios before their fault, from the job's time to the request and from there to slurmctld, without one wake of 68
ms and two requests whose connection was opened first (35 and 61 ms). growth-start, -step and -exit are those of the one
hour that has quiet-grown (30 November, 17:02 UTC: its five runs before a fault, 20 jobs). Until it was there they were
14 and 2.8 ms, of the same program outside of any cluster, and its end took nothing. growth-wake is of five runs of
that. operator-look-alone is the median of the sixteen batches before 28 November (12.6 to 21.0).
volume-fill is what ten containers of the workers' image with 256 MiB took from the begin of the same `head` until the
kernel had killed a process beside it, on a host without a cluster: 184 to 245 ms, median 234, once 385 (200 MiB alone
are written in 138 to 180). rest-change, pod-patch, operator-look, operator-event, slurmd-limited, pod-delete,
pod-create and set-stored are the median of the batches that have quiet-operated, ten of them, for an event and slurmd
thirteen, for the last three eighteen; in the two earlier ones a change and a patch take as much more as slurmctld's
start does (0.045 and 0.185 of it in those ten), with the tails of writes by their plans, an event 0.3 of a patch (0.2
to 0.4 in the thirteen), a deletion 2, a creation 2.9 and the way of a set's status 0.4 (1.6 to 2.5, 2.3 to 3.8 and 0.23
to 0.57 in the eighteen), and slurmd under its limit 7.8 times as long as without (6.7 to 8.4). relist is that of the
second batch, loop-round about the median of the four that have quiet runs of 22.05 (1.6 to 2.3), register-answer that
of the nine since 26 November that show it (4.8 to 6.6), loop-wake about that of all. burst-wake is what 330 requests
that waited took beyond 1.65 times their usual (read, patch of a ConfigMap, patch of a Pod), on three clusters of 30
November whose operator had two workers (burst_requests): a quarter within 6, three within 18 ms; burst-cycle 327 cycles
of their servers, 3.4 to 9 ms, one in a hundred 20 to 40.
"""
_TRY_ON_24: Final = {"configless-try": (7.7, 0.48)}


def _standby(start_ms: float) -> dict[str, tuple[float, float]]:
    """What a standby takes where slurmctld's start takes so long; on 25 November, 02:40 UTC, that was 70 ms."""
    times = start_ms / 69.6
    measured = {
        "standby-round": (0.09, 0.14),
        "standby-ping": (1.6, 0.48),
        "hung-ping": (8.1, 0.15),
        "takeover-load": (4.0, 0.3),
    }
    return {name: (ms * times, sigma) for name, (ms, sigma) in measured.items()}


def _rounds(start_ms: float) -> dict[str, tuple[float, float]]:
    """Of these its rounds and polls alone."""
    return {name: law for name, law in _standby(start_ms).items() if name in ("standby-round", "standby-ping")}


_ON_XEON_29: Final = {
    "container-start-behind": (100.0, 0.12),
    "node-down": (0.25, 0.9),
    "supervisor-spawn": (13.0, 0.33),
    "slurmd-again": (12.6, 0.0),
    "slurmd-again-2205": (7.5, 0.0),
}
_SUPERVISED: Final = {"supervisor-start": (125.0, 0.18)}
_BUSY_DOWN: Final = {"node-down": (1.2, 0.8)}
_LOADED: Final = {
    "rest-change": (5.0, 0.4),
    "pod-patch": (20.0, 0.6),
    "pod-delete": (40.0, 0.6),
    "pod-create": (58.0, 0.6),
    "set-stored": (8.0, 0.6),
    "operator-event": (6.0, 0.6),
    **_BUSY_DOWN,
}
UNSEEN_ON_MS: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "pod_durations.json": _rounds(113.1),
    "pod_durations_2026_11_21.json": {
        **_LOADED,
        **_rounds(112.0),
        "container-start-behind": (223.0, 0.46),
        "slurmd-limited": (728.0, 0.13),
        "pre-stop": (463.0, 0.22),
        "stop-told": (444.0, 0.3),
    },
    "pod_durations_2026_11_22.json": {
        **_LOADED,
        **_rounds(103.2),
        "container-start-behind": (169.0, 0.3),
        "slurmd-limited": (793.0, 0.13),
        "pre-stop": (475.0, 0.22),
        "stop-told": (361.0, 0.3),
    },
    "pod_durations_xeon_2026_11_29.json": {**_standby(67.0), **_ON_XEON_29, "dispatcher-wake": (1.2, 0.26)},
    "pod_durations_xeon_2026_11_29_0815.json": {**_standby(71.1), **_ON_XEON_29},
    "pod_durations_xeon_2026_11_29_1250.json": {**_standby(70.3), **_ON_XEON_29},
    "pod_durations_xeon_2026_11_29_1540.json": {**_standby(63.8), **_ON_XEON_29},
    "pod_durations_xeon_2026_11_29_1930.json": {**_standby(73.2), **_ON_XEON_29},
    "pod_durations_xeon_2026_11_30.json": {**_standby(74.0), **_ON_XEON_29},
    "pod_durations_xeon_2026_11_30_0940.json": {**_standby(91.0), **_ON_XEON_29},
    "pod_durations_xeon_2026_11_30_1702.json": {**_standby(81.9), **_ON_XEON_29},
    "pod_durations_xeon_2026_11_30_2022.json": {**_standby(72.1), **_ON_XEON_29},
    "pod_durations_xeon_2026_12_01.json": {**_standby(62.5), **_ON_XEON_29},
    "pod_durations_xeon_2026_12_01_0438.json": {**_standby(71.8), **_ON_XEON_29},
    "pod_durations_xeon_2026_12_01_0906.json": {**_standby(73.8), **_ON_XEON_29},
    "pod_durations_xeon.json": {
        "container-start-behind": (100.0, 0.12),
        "pre-stop": (293.0, 0.22),
        **_BUSY_DOWN,
        "supervisor-start": (68.0, 0.06),
        "standby-round": (0.15, 0.25),
        "standby-ping": (2.7, 0.48),
        "hung-ping": (8.3, 0.3),
        "takeover-load": (6.0, 0.27),
    },
    "pod_durations_2026_11_24.json": {
        **_TRY_ON_24,
        "container-start-behind": (126.0, 0.19),
        "standby-round": (0.16, 0.18),
        "standby-ping": (2.9, 0.48),
        "hung-ping": (13.1, 0.15),
        "takeover-load": (8.2, 0.2),
    },
    "pod_durations_2026_11_24_0730.json": {
        **_TRY_ON_24,
        "container-start-behind": (122.0, 0.09),
        "standby-round": (0.12, 0.18),
        "standby-ping": (2.2, 0.48),
        "hung-ping": (9.6, 0.15),
        "takeover-load": (6.0, 0.2),
    },
    "pod_durations_2026_11_24_1130.json": {
        "container-start-behind": (124.0, 0.13),
        "standby-round": (0.15, 0.18),
        "standby-ping": (2.6, 0.48),
        "hung-ping": (11.8, 0.15),
        "takeover-load": (7.4, 0.2),
    },
    "pod_durations_2026_11_24_1515.json": {
        "container-start-behind": (140.0, 0.24),
        "standby-round": (0.12, 0.3),
        "standby-ping": (2.2, 0.48),
        "hung-ping": (12.2, 0.15),
        "takeover-load": (6.0, 0.39),
    },
    "pod_durations_2026_11_25.json": {**_standby(69.6), "container-start-behind": (112.0, 0.16)},
    "pod_durations_2026_11_25_0715.json": {**_standby(63.7), "container-start-behind": (102.0, 0.21)},
    "pod_durations_2026_11_25_1320.json": {**_standby(99.3), "container-start-behind": (119.0, 0.18)},
    "pod_durations_2026_11_25_1630.json": {**_standby(62.4), "container-start-behind": (102.0, 0.17)},
    "pod_durations_2026_11_26.json": {**_standby(76.8), "container-start-behind": (94.0, 0.1)},
    "pod_durations_2026_11_27.json": {**_standby(83.8), **_SUPERVISED, "container-start-behind": (139.0, 0.18)},
    "pod_durations_2026_11_27_0850.json": {**_standby(97.4), **_SUPERVISED, "container-start-behind": (171.0, 0.25)},
    "pod_durations_2026_11_27_1240.json": {**_standby(84.7), **_SUPERVISED, "container-start-behind": (145.0, 0.23)},
    "pod_durations_2026_11_27_1450.json": {**_standby(89.5), **_SUPERVISED, "container-start-behind": (133.0, 0.41)},
    "pod_durations_2026_11_27_2150.json": {
        **_standby(97.8),
        "supervisor-start": (113.0, 0.15),
        "container-start-behind": (120.0, 0.17),
    },
    "pod_durations_2026_11_28.json": {
        **_standby(87.5),
        "supervisor-start": (113.0, 0.15),
        "container-start-behind": (130.0, 0.19),
        "stop-told": (323.0, 0.3),
        "clean-up": (26.0, 0.5),
    },
    "pod_durations_2026_11_28_0545.json": _standby(105.5),
    "pod_durations_2026_11_28_0905.json": _standby(80.4),
    "pod_durations_2026_11_28_1240.json": {**_standby(90.3), "stop-told": (319.0, 0.3), "clean-up": (26.0, 0.5)},
    "pod_durations_2026_11_28_1540.json": {**_standby(76.3), "stop-told": (268.0, 0.3), "clean-up": (26.0, 0.5)},
    "pod_durations_2026_12_01.json": _standby(74.2),
}
"""The same on another host, by the file of its quiet runs. Of 24 November until 11:30 no quiet run has a slurmd that
waits 20 s for slurmctld: a try is that of 22 and 23 November on the same processor. On the Xeon 20 starts of
slurmd's container under supervisord took 1.122 to 1.138 s without a cluster (slurmtwin_e2e.kind.supervised_restart
--starts), of which slurmd has 61 ms; on the machine of 27 November 24 took 1.135 to 1.227, of which slurmd has 50, and
twelve of 22:40 UTC 1.142 to 1.201. What a standby takes beside a
frozen primary and until it serves was measured on the Xeon, on 24 November at 07:30 UTC (32 takeovers beside an idle
cluster: standby_rounds, then --hangs --takeovers 12 --round-ms 0.316; 9.6 ms a ping, 5 without that cluster, and 4 to
10 ms until it serves) and, but for the ping, at 15:15 and on 25 November (16 takeovers each); the others by as much
more as slurmctld's start took then. Its rounds and polls are of 25 November: 16 takeovers took 0.239 ms a round with
their polls, which are 1.44 ms between two containers, so a round alone takes 0.09; beside pods of two scenarios 19
polls took 1.62 ms (1.1 to 3.9, once 8.1; standby_pings). Elsewhere both by as much more as takeovers of that hour took
a round with their polls: 0.40 on the Xeon, 0.43, 0.32, 0.39 and 0.32 on 24 November (the first and third by
slurmctld's start), and by slurmctld's start alone in the hours behind and on 21 and 22 November.

On the Xeon of 29 November supervisord had slurmd back 25.6 ms beyond its rounds (26.05, twice 40 restarts beside one
idle cluster, as runs have it) and 20.7 and 20.4 (22.05, in turns with those). Beside two idle clusters it took 27 and
33, and 26 and 24; without one, on a host that slept meanwhile, 26.05 took 70 (docs/surprises.md). dispatcher-wake is
that of the 16 submissions before the faults of its eight runs of x83-cluster-lost. The one of 08:15 UTC that day has
the other's supervised restarts and node-down; nothing recorded on it draws them but node-down."""
SHARES: Final[Mapping[str, tuple[int, int]]] = {
    "stepd.lingers": (15, 1440),
    "slurmctld.orders_first": (8, 32),
    "standby.stalls": (8, 131),
    "script.waits": (34, 122),
    "list.refused": (16, 84),
    "supervisor.crash": (20, 170),
    "supervisor.crash-2205": (31, 110),
}
"""What happens now and then -> (how often it did, of how many times).

stepd.lingers: ends of runs that shared their node and were told by MESSAGE_EPILOG_COMPLETE, as passes behind them came
at once, not at a look of slurmctld's loop (quiet-array, 26.05, nine runs of 160 tasks: 2, 3, 0, 1, 1, 0, 3, 5 and 0).
slurmctld.orders_first: the order to end a missing job goes to the address of the pod that is gone. Of the first four
busy pods of eight runs of quiet-replaced eight had no further start of their job within 41 s, where the others had one
after 10 to 29; such a job stays COMPLETING until the order is sent again, a minute later.
standby.stalls: a round of a standby that takes standby-stall longer, by its polls. Of 36 takeovers beside an idle
cluster, four pairs of controllers at once, on 27 November (standby_rounds), five took 5.7 to 26.8 ms more than others
of as many rounds; the likeliest for all of them are six in a hundred polls and 6 ms. Of 80 with eight pairs at once
twenty did.
list.refused: slurmctld's pods that came back at once and alone on their machine (quiet-controller, twelve runs, three
beside each other). On an idle cluster, without Slurm and its watchers, 5 of 160 (slurmtwin_e2e.kind.refused_lists); of
50 beside another pod with the same volumes none.
supervisor.crash: a daemon that was killed is started two rounds of supervisord later, not one
(slurmtwin_e2e.kind.supervised_restart). Of 26.05 without a cluster, on a calm host of 28 November, slurmd 6 of 30 and
slurmctld 5 of 30, and on that of the 29th slurmd 4 of 30, and 5 of 80 beside an idle cluster; 35 of 80 on the
overloaded one of the 22nd. Slurmd of 22.05 in turns with those of the 29th 11 of 30 and 20 of 80.
"""
ROUNDS_APART: Final = 0.31
"""Logarithm's sigma of what rounds of 22.05's loop take beyond their second, from one tick to the next of a run: 26
pairs of quiet runs since their time zero, ten and twenty rounds each. Fifteen pairs before faults have 0.23."""
SLURMD_START_PARTS: Final[Mapping[str, float]] = {"22.05": 0.76}
"""Quiet runs are of 26.05. From its container's start until it serves slurmd of this version takes so much of that: 36
to 39 ms where 26.05 takes 47 to 52, twice twelve starts of each in turns without a cluster, beside slurmctld
(slurmtwin_e2e.kind.supervised_restart --starts 12 --bare)."""
SLURMD_LESS_MS: Final = 18.0
"""slurmd's start while slurmctld is there is in quiet-restarts alone. Outside pods it takes 12 ms, slurmctld's 30
(worlds/host_costs.yaml), and both containers begin with the same program: so it is slurmctld's in a pod less this.
"""

OF_OTHERS: Final[Mapping[str, tuple[str, tuple[float, ...], float]]] = {
    "cordon-told": ("slurmctld-start", (0.2815, 0.256, 0.333), 0.35),
    "cordon-done": ("slurmctld-start", (0.1295, 0.154, 0.213), 0.35),
    "config-told": ("operator-look", (3.97, 4.68), 0.12),
    "reconfigured": ("operator-look", (0.85, 0.91), 0.32),
    "supervisor-start": ("slurmctld-start", (1.28, 1.11), 0.18),
    "pre-stop": ("slurmctld-start", (6.05, 5.63), 0.2),
}
"""Duration that a batch does not show -> one that it does, how many times as long it was on each machine that shows
both, the latest first (the median of its hours), and the logarithm's sigma within one hour.

What slurm-operator's passes take, where there is neither quiet-slinky nor quiet-shrunk: on the machine of 27 November
24.8 and 12.9 ms beside a start of slurmctld of 87, 27.1 and 10.6 beside 97, 25.0 and 15.3 beside 89, 22.8 and 10.4
beside 84, 28.2 and 12.3 beside 97, and 23.5 and 11.0 beside 83; on that of the day before 19.6 and 11.8 beside 76, and
20.6 and 13.2 beside 62 on that of 25 November. To a patch of the reference operator two of these hours had 2.06 and
1.32, and 1.33 and 0.8. In 42 changes that met no pass, of nine other batches, both together were 0.47 to 0.66 of the
hour's start. What a change in place takes until slurmctld is told, and its new process, where there is no
quiet-configured: 163 and 26 ms beside a look of 30 (11 changes), 157 and 27 beside 40 (10) and 163 and 35 beside 41
(10) on the former, 151 and 29 beside 32 (20) on the latter. supervisord's own start is measured without a cluster: 113
and 125 ms on the former, where slurmctld's took 97 and 89, and 68 beside 61 on the Xeon. The preStop hook of the
reference operator's workers, two calls of scontrol under a limit of a tenth of a CPU, took 507 ms beside 84 on the
former and 351 beside 62 on that of 25 November, 23:00 UTC (quiet-ended, 15 ends one by one each). That the median of
ten idle ends of op-delete on the former is 514 on 28 November, where 351 was taken for it, brought this rule.

Another machine may be like any of them, so each fit takes one of them, both parts of a pass the same.
"""

OF_PAIRS: Final = ("pod-start-pair", "container-start-pair")
"""Laws that the quiet runs of a batch show or not: without them a second start shares the host as others do."""
OF_MOUNTS: Final = ("volumes-mounted-alone", "volumes-mounted-pair")
"""Likewise, by how many others start beside one: without them all go by the law of many, one alone by two looks."""
OF_BURSTS: Final = "launch-among"
"""Likewise: without it scripts do not wait for each other."""
OF_EVICTIONS: Final = "eviction"
"""Likewise: without it a drain's evictions take two requests, and all pods are marked at once."""
OF_ENDS: Final = "end-told"
"""Likewise: without it a container's end is told as any other status is."""
_MAY_LACK: Final = frozenset((*OF_PAIRS, *OF_MOUNTS, OF_BURSTS, OF_EVICTIONS, OF_ENDS))

Durations = dict[str, tuple[int, ...]]


def drawn_durations(replication: int, path: Path = POD_DURATIONS_FILE) -> Durations:
    """Values of each duration for one replication, in ns: the quantiles of one bootstrapped fit.

    Raises InputError when the file is none of this schema or lacks a name that is not in UNSEEN_MS.
    """
    out: Durations = {}
    for name, entry in _entries(path).items():
        fits = entry["fits"]
        median, sigma = fits[replication % len(fits)]
        out[name] = tuple(_ns(median * math.exp(sigma * z)) for z in _NORMAL)
    return out


def still_durations(path: Path = POD_DURATIONS_FILE) -> Durations:
    """Each duration at its median, in ns. Raises InputError as drawn_durations does."""
    return {name: (_ns(entry["median_ms"]),) for name, entry in _entries(path).items()}


def usual_durations(drawn: Mapping[str, tuple[int, ...]]) -> Durations:
    """What is drawn, and of other names the calibrated median; laws of pairs are those of the drawn batch, or none."""
    still = still_durations()
    return {name: still[name] for name in still if not drawn or name not in _MAY_LACK} | dict(drawn)


def possible_shares(name: str) -> tuple[float, ...]:
    """Of SHARES: those that its count leaves possible, equally likely; behind them its own.

    The arcsine of a share's root is near normal, with a deviation of half the count's root (Anscombe 1948).
    """
    seen, count = SHARES[name]
    angle = math.asin(math.sqrt(seen / count))
    return tuple(math.sin(max(0.0, angle + z / (2 * math.sqrt(count)))) ** 2 for z in (*_NORMAL, 0.0))


def durations_file(recorded_ns: int, processor: str = "") -> Path:
    """The file of the batch in which a run was recorded whose time zero is this (unix ns), on this processor."""
    batches = OTHER_PROCESSORS.get(processor, LATER_BATCHES)
    later = (path for begin_ns, path in reversed(batches) if recorded_ns >= begin_ns)
    earlier = (path for end_ns, path in EARLIER_BATCHES if recorded_ns < end_ns)
    return (*later, *earlier, POD_DURATIONS_FILE)[0]


@lru_cache(maxsize=1)
def calibrated_on() -> frozenset[str]:
    """The run_id of each quiet run that durations come from, of all batches: no verdict rests on those."""
    return frozenset(
        str(one["run"]) for path in BATCH_FILES for one in json.loads(path.read_text(encoding="utf-8"))["origin"]
    )


def fitted_laws(path: Path) -> Mapping[str, str]:
    """What drawn_durations and still_durations read of each duration in the file. Raises InputError as they do."""
    return _fitted(path, path.stat().st_mtime_ns if path.exists() else 0)


def _ns(ms: float) -> int:
    return round(ms * MS / US) * US


def _slurmd(slurmctld: Mapping[str, Any]) -> dict[str, Any]:
    """slurmd's start from the law of slurmctld's."""

    def less(ms: float) -> float:
        return max(ms - SLURMD_LESS_MS, 1.0)

    fits = [[less(median), sigma] for median, sigma in slurmctld["fits"]]
    return {"median_ms": less(slurmctld["median_ms"]), "fits": fits}


def _as_in_hours(law: Mapping[str, Any], ratios: Sequence[float], sigma: float) -> dict[str, Any]:
    """A law whose medians are another one's, so many times as long: in each fit as one of these hours had it."""
    of = law["fits"]
    count = max(len(of), len(ratios))
    fits = [[of[number % len(of)][0] * ratios[number % len(ratios)], sigma] for number in range(count)]
    return {"median_ms": law["median_ms"] * median(ratios), "fits": fits}


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    return _read(path, path.stat().st_mtime_ns if path.exists() else 0)


@lru_cache(maxsize=64)
def _document(path: Path, written_ns: int) -> dict[str, Any]:  # noqa: ARG001  a file written anew is read anew
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"not readable as JSON: {error}", Where(str(path))) from error
    if not isinstance(document, dict) or document.get("schema") != POD_DURATIONS_SCHEMA:
        raise InputError(f"not a {POD_DURATIONS_SCHEMA} document", Where(str(path)))
    return document


@lru_cache(maxsize=64)
def _fitted(path: Path, written_ns: int) -> Mapping[str, str]:
    laws = _document(path, written_ns)["durations"]
    return {name: json.dumps([law["median_ms"], law["fits"]]) for name, law in laws.items()}


@lru_cache(maxsize=64)
def _read(path: Path, written_ns: int) -> dict[str, dict[str, Any]]:
    document = _document(path, written_ns)
    unseen = {
        name: {"median_ms": ms, "fits": [[ms, sigma]]}
        for name, (ms, sigma) in {**UNSEEN_MS, **UNSEEN_ON_MS.get(path.name, {})}.items()
    }
    found = unseen | document["durations"]
    if "slurmctld-start" in found:
        others = {name: _as_in_hours(found[of], hours, sigma) for name, (of, hours, sigma) in OF_OTHERS.items()}
        slurmd = found.get("slurmd-start", _slurmd(found["slurmctld-start"]))
        found = {"slurmd-start": slurmd, "slurmd-back": slurmd} | others | found
    odd = sorted((set(found) ^ set(DURATIONS)) - _MAY_LACK)
    if odd:
        raise InputError(f"durations: {odd[0]} is {'unknown' if odd[0] in found else 'missing'}", Where(str(path)))
    return {name: found[name] for name in DURATIONS if name in found}
