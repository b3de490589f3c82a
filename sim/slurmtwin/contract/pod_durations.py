"""Names of what makes the spans of a fault scenario, beside what the scenario itself sets.

DURATIONS are what a host charges: no rule gives them, so they are measured on quiet runs (campaign/pod_calibration)
and drawn by the twin. RULES are constants of Kubernetes, of Slurm and of supervisord that no scenario sets; a verdict
asks the twin to halve and double one of them (contract/phases.py, `parameter`).
"""

from __future__ import annotations

from typing import Final

DURATIONS: Final[dict[str, str]] = {
    "pod-bind": "a pod is created until kube-scheduler has bound it",
    "pod-start": "a pod is bound until its container runs, the image being there",
    "pod-start-alone": "the same of a pod beside which no other one starts",
    "pod-start-pair": "the same of a pod beside which one other starts",
    "volumes-mounted": "an operator's pod, others starting beside it, is bound until its probes begin",
    "volumes-mounted-alone": "the same of a pod beside which no other one starts",
    "volumes-mounted-pair": "the same of a pod beside which one other starts",
    "container-start": "the kubelet has checked the image until the container runs, in a new pod",
    "container-start-alone": "the same of a container beside which no pod starts",
    "container-start-behind": "the same of a container behind a sidecar, beside no other pod's start (slurm-operator)",
    "container-start-pair": "the same of a container of such a pair",
    "container-restart": "the kubelet syncs a pod until its container runs again, beside which nothing starts",
    "relist": "a kubelet's look at its containers, from its begin until the pause of 1 s begins",
    "end-told": "the kubelet syncs a pod whose container has ended until a watcher hears of the end",
    "stop-heard": "a pod's deletion is asked for until its daemon has SIGTERM and logs its end",
    "stop-told": "a daemon has logged its end until a watcher hears that its pod has ended",
    "forced-removal": "a pod is marked by a deletion without grace until its object is gone",
    "set-status": "the same mark until the controller of its StatefulSet has written the set's status, and goes on",
    "clean-up": "the relist by which a kubelet ends a pod until its object is gone, its volumes being unmounted",
    "eviction": "a drain is asked for until a pod of its node is marked",
    "claim-bind": "a claim of a new volume is created until it is bound",
    "slurmctld-start": "slurmctld's container runs until slurmctld serves",
    "slurmd-start": "slurmd's container runs until slurmd serves, slurmctld being there",
    "slurmd-back": "the same of a container that comes back in its pod",
    "configless-try": "slurmd: a try to reach a controller whose name is not there yet, beyond its second",
    "supervisor-start": "supervisord's container runs until supervisord waits for its first round of 1 s",
    "supervisor-spawn": "supervisord begins to start its program again until that is executed",
    "registration": "slurmd serves until slurmctld lists its node as IDLE",
    "script-launch": "slurmctld has started a job until its script runs",
    "launch-among": "the same of scripts that begin together on one host, divided by their number",
    "exit-notice": "a script has ended until slurmctld knows",
    "submit": "a job is submitted until slurmctld has its record",
    "main-pass": "a whole second at which slurmctld's loop looks until its pass has started a job",
    "loop-round": "slurmctld 22.05: a round of its loop beyond its second",
    "node-down": "slurmctld requeues the jobs of a silent node until its log has it DOWN",
    "standby-round": "a round of a standby's loop beyond its second",
    "standby-ping": "a standby's poll of a controller that answers",
    "standby-stall": "a round of a standby's loop that stalls, beyond the others",
    "hung-ping": "a standby's ping of a controller that hangs, beyond MessageTimeout",
    "takeover-load": "a standby's last ping until it serves",
    "pre-stop": "the reference operator's preStop hook: two calls of scontrol in the container that ends",
    "growth-start": "CPU time of a job's Python until it begins to take memory",
    "growth-step": "CPU time of such a job to take 4 MiB",
    "growth-wake": "such a job's sleep is over until it runs again",
    "volume-fill": "a job writes a MiB into a volume in memory, the kill at its end included",
    "rest-change": "an operator asks slurmrestd for a change of a node until slurmctld has made it",
    "pod-patch": "an operator writes something on a pod until it has the answer",
    "operator-event": "the reference operator writes an Event, of those that a pass writes one by one",
    "cordon-told": "a machine is cordoned or a node set shrinks until slurm-operator tells it, less the look between",
    "cordon-done": "that event is there until slurmctld has drained the worker",
    "operator-look": "a pass of the reference operator begins until it has read slurmrestd's lists and decided",
    "config-told": "an option of slurm.conf changes in place until slurmctld is told, less what passes gather and wait",
    "reconfigured": "slurmctld is told to read slurm.conf anew until its new process serves",
    "burst-request": "an API server that runs in bursts goes on until it has answered a request that waited",
    "dispatcher-wake": "a dispatcher's loop is to wake until it acts",
    "dispatch": "a dispatcher asks a cluster's slurmrestd until slurmctld has done it",
}
"""Name -> the span it measures; in nanoseconds everywhere."""

RULES: Final[dict[str, str]] = {
    "node-monitor-grace-period": "kube-controller-manager: silence until a node is unknown",
    "min-checkin-time": "slurmctld: start until the first ping of all nodes (MIN_CHECKIN_TIME)",
    "message-timeout": "Slurm: MessageTimeout, where a scenario leaves it at its default of 10 s",
    "configless-retry": "slurmd: pause between two requests for its configuration",
    "shutdown-wait": "slurmctld as backup: pause after it told the primary to end (SHUTDOWN_WAIT)",
    "supervisor-restart": "supervisord: a process is gone until it is started again",
    "supervisor-round": "supervisord: it has started until its first round, which starts its programs (1 s)",
    "proxy-min-sync": "kube-proxy: its rules are written until it writes them again (minSyncPeriod, 1 s)",
    "pleg-relist": "kubelet: period of the look at container states",
    "restart-back-off": "kubelet: pause before the second restart of a container (10 s); doubled at each further one",
    "config-map-sync": "kubelet: pause until a pod, and with it its mounted ConfigMaps, is synced again",
    "readiness-period": "kubelet: pause between two startup or readiness probes of an operator's pods (10 s)",
    "operator-poll": "operator: pause until its next pass where nothing happens (carrier.poll_s of its design)",
    "operator-lease": "operator: a lease that nobody renews is taken over after so long (carrier.lease_s)",
    "backfill-interval": "slurmctld: bf_interval, where a scenario leaves it at its default of 30 s",
    "batch-sched-delay": "slurmctld: batch_sched_delay, where a scenario leaves it at its default of 3 s",
    "resolver-timeout": "resolver of a container: a query without an answer is sent again after 5 s",
    "operator-requeue": "operator: pause that its core asks for until the next pass",
    "slurm-list-period": "slurm-client: lists of jobs and nodes begin, and are renewed, each 30 s",
    "slurm-client-look": "slurm-client: a list is asked for in batches of 1 s, who waits for it looks each second",
}
"""Name -> the constant it scales."""
