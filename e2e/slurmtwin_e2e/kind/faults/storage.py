"""Storage faults: a disk that is full, a state volume that is lost."""

from __future__ import annotations

from slurmtwin_e2e.kind.faults.base import Fault, until

STATE = "/var/spool/slurmctld"


class DiskFill(Fault):
    """A file of `size` in the pod: in slurmctld's state volume, else in the container's own layer (which counts as
    ephemeral storage). Where it does not fit, the volume is full.
    """

    kinds = ("disk.fill",)

    def prepare(self) -> None:
        """Find the pod's root directory in its node."""
        self.pod = self.tools.pod(self.fault.target)
        folder = STATE if self.fault.target.startswith("slurmctld") else "/var/tmp"  # noqa: S108 (inside the pod)
        self.root = f"/proc/{self.tools.main_pid(self.pod)}/root"
        self.path = f"{self.root}{folder}/.fill"
        self.kib = _kib(self.fault.size)

    def inject(self) -> None:
        """Write the file; an early end means that the volume is full."""
        self.tools.shell(self.pod.node).run(
            f"fallocate -l {self.kib}K {self.path} 2>/dev/null || "
            f"dd if=/dev/zero of={self.path} bs=64K count={self.kib // 64} 2>/dev/null; true",
            limit_s=120,
        )

    def prove(self) -> str:
        """How much of the volume is used."""
        text = self.tools.shell(self.pod.node).run(f"du -k {self.path} | cut -f1; df -k {self.path} | tail -1").text
        used, _, disk = text.partition("\n")
        free = int(disk.split()[3])
        good = int(used) >= self.kib * 9 // 10 or free < 64
        return until(lambda: f"{used} KiB written, {free} KiB free" if good else "", text, 0)

    def clear(self) -> None:
        """Remove the file, if the container is still the same."""
        self.tools.shell(self.pod.node).run(f"rm -f {self.path}", check=False)


def _kib(text: str) -> int:
    from slurmtwin.contract.errors import InputError

    units = {"Ki": 1, "Mi": 1024, "Gi": 1024**2}
    for unit, factor in units.items():
        if text.endswith(unit) and text[: -len(unit)].isdigit():
            return int(text[: -len(unit)]) * factor
    raise InputError(f"size {text!r}: a whole number of Ki, Mi or Gi is needed", hint="size: 64Mi")


class VolumeLost(Fault):
    """slurmctld's state directory is emptied and the daemon killed at once, so that it cannot save again."""

    kinds = ("volume.lost",)

    def prepare(self) -> None:
        """Find the process and its state directory."""
        self.node, (self.pid, *_) = self.tools.daemon("slurmctld")
        script = f"grep ' {STATE} ' /proc/{self.pid}/mountinfo | head -1"
        self.found = bool(self.tools.shell(self.node).run(script, check=False).text)
        self.root = f"/proc/{self.pid}/root{STATE}"

    def inject(self) -> None:
        """Stop, empty, kill: one command line."""
        self.left = self.tools.shell(self.node).run(
            f"kill -STOP {self.pid}; cd {self.root} && find . -mindepth 1 -delete; find . -mindepth 1 | wc -l; "
            f"cd /; kill -9 {self.pid}"
        )

    def prove(self) -> str:
        """Nothing was left, and the process is gone."""
        empty = self.left.text.splitlines()[-1:] == ["0"]
        gone = not self.tools.shell(self.node).run(
            f"[[ -d /proc/{self.pid}/root{STATE} ]] && echo alive; true", check=False
        ).text  # fmt: skip
        return until(lambda: "the state directory was empty when slurmctld died" if empty and gone else "", "", 0)
