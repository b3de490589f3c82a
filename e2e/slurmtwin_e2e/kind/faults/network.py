"""Network faults, made by packet filters in the nodes: a cut between two sets, no name service, stale watches.

Every rule stands in one chain of ours per fault, so that clearing removes just that.
"""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass

from slurmtwin.contract.errors import InputError
from slurmtwin_e2e.kind.faults.base import Fault, FaultError, Reach, until

DNS_PORT = 53
DISPATCHER = "dispatcher"
"""As the other side of a cut: the process on this host that sends jobs to several clusters (kind/dispatching.py)."""
DOOR = "dispatch-door"
"""The Service by which it reaches a cluster's slurmrestd."""
NODE_TARGETS = ("worker", "node-of:", "control-plane")
DAEMON_PORTS = {"slurmctld": 6817, "slurmd": 6818, "slurmdbd": 6819, "slurmrestd": 6820}


@dataclass(frozen=True, slots=True)
class End:
    """One end of a cut: its address, the node whose filter sees its packets, and what it is called."""

    name: str
    address: str
    node: str


def ends(tools: Reach, text: str) -> list[End]:
    """The ends that a comma-separated set names: pods, or nodes as worker1, node-of:…, control-plane."""
    found = []
    for target in filter(None, text.split(",")):
        if target == DISPATCHER:
            node = tools.cluster.control_plane
            found.append(End(target, own_address(node_address(tools, node)), node))
        elif target.startswith(NODE_TARGETS):
            node = tools.node(target)
            found.append(End(target, node_address(tools, node), node))
        else:
            pod = tools.pod(target)
            found.append(End(target, pod.address, pod.node))
    if not found:
        raise InputError("network.cut needs a target", hint="target: slurmd:w-0")
    return found


def node_address(tools: Reach, node: str) -> str:
    """A node's address in Docker's network."""
    status = tools.api.request("GET", f"/api/v1/nodes/{node}")["status"]
    return next(str(a["address"]) for a in status["addresses"] if a["type"] == "InternalIP")


def own_address(other: str) -> str:
    """The address from which this host's packets to another one come."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect((other, 9))
        return str(one.getsockname()[0])


def door(tools: Reach) -> tuple[str, int]:
    """Where the dispatcher reaches a cluster's slurmrestd: the control plane's address and a port of it."""
    service = tools.api.request("GET", f"/api/v1/namespaces/{tools.deployed.namespace}/services/{DOOR}")
    return node_address(tools, tools.cluster.control_plane), int(service["spec"]["ports"][0]["nodePort"])


class Filter:
    """One chain of ours in some nodes' filter tables, before all other rules."""

    def __init__(self, tools: Reach) -> None:
        self._tools = tools
        self._chain = f"SLURMTWIN-{secrets.token_hex(4)}"
        self._nodes: list[str] = []

    def put(self, rules: dict[str, list[str]]) -> None:
        """node -> rule bodies. One command line per node, so that a node's rules stand at once."""
        for node, bodies in rules.items():
            self._nodes.append(node)
            lines = [f"iptables -w -N {self._chain}"]
            lines += [f"iptables -w -A {self._chain} {body}" for body in dict.fromkeys(bodies)]
            lines += [f"iptables -w -I {hook} 1 -j {self._chain}" for hook in ("FORWARD", "INPUT", "OUTPUT")]
            self._tools.shell(node).run(" && ".join(lines))

    def dropped(self) -> int:
        """Packets that our rules have taken so far."""
        total = 0
        for node in self._nodes:
            text = self._tools.shell(node).run(f"iptables -w -nvxL {self._chain} | tail -n +3", check=False).text
            total += sum(int(line.split()[0]) for line in text.splitlines() if line.split())
        return total

    def remove(self) -> None:
        """Take the chain out again."""
        for node in self._nodes:
            hooks = "; ".join(f"iptables -w -D {hook} -j {self._chain}" for hook in ("FORWARD", "INPUT", "OUTPUT"))
            self._tools.shell(node).run(f"{hooks}; iptables -w -F {self._chain}; iptables -w -X {self._chain}")


class Filtered(Fault):
    """A fault that stands in filters: `prepare` writes `rules`, by node, and makes the filter."""

    rules: dict[str, list[str]]
    filter: Filter

    def inject(self) -> None:
        """Put the rules."""
        self.filter.put(self.rules)

    def dropped(self, said: str, fail: str) -> str:
        """What was found, and the packets that the rules took; FaultError when they take none."""
        return until(lambda: f"{said}; packets dropped: {count}" if (count := self.filter.dropped()) else "", fail)

    def clear(self) -> None:
        """Remove the rules."""
        self.filter.remove()


class NetworkCut(Filtered):
    """No packet passes between the two sets, either way; packets are dropped, not refused. Each node's own filter
    does it, so two pods on one node are cut as well.
    """

    kinds = ("network.cut",)

    def prepare(self) -> None:
        """Find both sets and write the rules."""
        self.near = ends(self.tools, self.fault.target)
        self.far = ends(self.tools, self.fault.other) if self.fault.other else []
        rules: dict[str, list[str]] = {}
        for a in self.near:
            if not self.far:
                rules.setdefault(a.node, []).extend([f"-s {a.address} -j DROP", f"-d {a.address} -j DROP"])
            for b in self.far:
                pair = [f"-s {a.address} -d {b.address} -j DROP", f"-s {b.address} -d {a.address} -j DROP"]
                rules.setdefault(a.node, []).extend(pair)
        self.rules = rules
        self.filter = Filter(self.tools)

    def prove(self) -> str:
        """A connection that would cross the cut does not open; the filter counts its packets."""
        if any(end.name == DISPATCHER for end in self.far):
            return self._prove_door()
        a = self.near[0]
        host, port = self._other_end(a)
        pod = None if a.name.startswith(NODE_TARGETS) else self.tools.pod(a.name)
        inside = f"nsenter -t {self.tools.main_pid(pod)} -n " if pod else ""
        script = f"{inside}timeout 1 bash -c '</dev/tcp/{host}/{port}' 2>/dev/null && echo open; true"
        if self.tools.shell(a.node).run(script).text:
            raise FaultError(f"{a.name} still reaches {host}:{port}")
        return self.dropped(f"no connection from {a.name} to {host}:{port}", "the filter dropped nothing")

    def _prove_door(self) -> str:
        """This host, where the dispatcher is, cannot open the connection that it opens."""
        host, port = door(self.tools)
        try:
            socket.create_connection((host, port), timeout=1.0).close()
        except OSError:
            return self.dropped(f"no connection from this host to {host}:{port}", "the filter dropped nothing")
        raise FaultError(f"this host still reaches {host}:{port}")

    def _other_end(self, a: End) -> tuple[str, int]:
        if not self.far:
            pod = self.tools.pod("slurmctld" if not a.name.startswith("slurmctld") else "slurmrestd")
            return pod.address, DAEMON_PORTS["slurmctld" if not a.name.startswith("slurmctld") else "slurmrestd"]
        b = self.far[0]
        return b.address, DAEMON_PORTS.get(b.name.partition(":")[0], 10250)


class DnsOutage(Filtered):
    """Queries to the cluster's name service are dropped in every node; names that are cached live on."""

    kinds = ("dns.outage",)

    def prepare(self) -> None:
        """Write the rules."""
        bodies = [f"-p {way} --dport {DNS_PORT} -j DROP" for way in ("udp", "tcp")]
        self.rules = dict.fromkeys(self.tools.cluster.nodes, bodies)
        self.filter = Filter(self.tools)

    def prove(self) -> str:
        """A name that exists does not resolve in a pod."""
        pod = self.tools.pod("observer")
        pid = self.tools.main_pid(pod)
        script = f"nsenter -t {pid} -m -n -- timeout 3 getent hosts slurmrestd > /dev/null && echo resolved; true"
        answer = self.tools.shell(pod.node).run(script).text
        return until(lambda: "" if answer else "slurmrestd does not resolve in the observer's pod in 3 s", answer, 0)


class StaleWatch(Filtered):
    """The target's open connections to the API server die silently; new ones pass. So what it reads anew is true,
    and its watches (its cache) stand still until it notices.
    """

    kinds = ("watch.stale",)

    def prepare(self) -> None:
        """Find the local ports of its connections; their packets are dropped both ways."""
        self.pod = self.tools.pod(self.fault.target)
        pid = self.tools.main_pid(self.pod)
        text = self.tools.shell(self.pod.node).run(f"nsenter -t {pid} -n cat /proc/net/tcp /proc/net/tcp6").text
        ports = set()
        for line in text.splitlines():
            words = line.split()
            if len(words) > 3 and words[3] == "01" and int(words[2].rpartition(":")[2], 16) in (443, 6443):
                ports.add(int(words[1].rpartition(":")[2], 16))
        if not ports:
            raise FaultError(f"{self.pod.name} holds no connection to the API server")
        self.ports = sorted(ports)
        address, bodies = self.pod.address, []
        for port in self.ports:
            bodies += [f"-s {address} -p tcp --sport {port} -j DROP", f"-d {address} -p tcp --dport {port} -j DROP"]
        self.rules = {self.pod.node: bodies}
        self.filter = Filter(self.tools)

    def prove(self) -> str:
        """Packets of the old connections are dropped."""
        said = f"connections of {self.pod.name} from ports {self.ports} are silent"
        return self.dropped(said, "no packet of these connections came")
