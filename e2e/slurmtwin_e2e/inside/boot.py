"""Entry point of the container, in real time: files, users, keys, database; then the driver in simulated time.

`boot.py PLAN_DIR OUT_DIR`: PLAN_DIR/plan.json says what to run, OUT_DIR receives everything that is recorded.
MariaDB and munged's key are made here, before the clock is bent: MariaDB keeps real time on purpose, because
slurmdbd writes all its time stamps itself.
"""

from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess
import sys
import time
from typing import Any

EPOCH = "2026-01-01 00:00:00"
"""Where simulated time starts when it is accelerated."""


def make_users(users: dict[str, int]) -> None:
    """Append users and their groups of one to the container's own password files."""
    with open("/etc/passwd", "a") as passwd, open("/etc/group", "a") as group:
        for name, uid in users.items():
            passwd.write(f"{name}:x:{uid}:{uid}::/tmp:/bin/bash\n")
            group.write(f"{name}:x:{uid}:\n")


def write_files(files: dict[str, str]) -> None:
    """Configuration files; slurmdbd refuses its own unless only its user can read it."""
    for name, text in files.items():
        path = pathlib.Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.name == "slurmdbd.conf":
            path.chmod(0o600)
        if path.suffix == ".sh":
            path.chmod(0o755)


def make_directories() -> None:
    """Directories that the packages leave to the administrator."""
    for name in (
        "/var/spool/slurmctld",
        "/var/spool/slurmd",
        "/run/slurm",
        "/run/slurmctld",
        "/var/log/slurmctld",
        "/run/munge",
        "/var/log/munge",
    ):
        os.makedirs(name, exist_ok=True)
    subprocess.run(["chown", "-R", "munge:munge", "/run/munge", "/var/log/munge", "/etc/munge"], check=True)
    key = pathlib.Path("/etc/munge/munge.key")
    if not key.exists():
        key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    subprocess.run(["chown", "-R", "munge:munge", "/etc/munge", "/var/lib/munge"], check=True)


def name_controllers(names: list[str]) -> None:
    """Addresses of several controllers, each on a loopback address of its own."""
    if len(names) > 1:
        lines = ["127.0.0.1 localhost", *(f"127.0.1.{number} {name}" for number, name in enumerate(names, 1))]
        pathlib.Path("/etc/hosts").write_text("\n".join(lines) + "\n")


def refuse_names() -> None:
    """No name server: a look-up that leaves /etc/hosts is refused at once instead of timing out after 10 s."""
    pathlib.Path("/etc/resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")


def make_devices(count: int = 16) -> None:
    """Device files that stand in for GPUs; nothing ever opens them."""
    for number in range(count):
        os.mknod(f"/dev/slurmtwin-gpu{number}", 0o600 | stat.S_IFCHR, os.makedev(240, number))


def start_database() -> None:
    """MariaDB in real time with an empty database that root owns."""
    os.makedirs("/run/mysqld", exist_ok=True)
    subprocess.run(["chown", "mysql:mysql", "/run/mysqld"], check=True)
    log = open("/var/log/mariadb.log", "ab")
    options = [
        "--user=mysql",
        "--skip-networking",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-lock-wait-timeout=900",
    ]
    subprocess.Popen(["/usr/sbin/mariadbd", *options], stdout=log, stderr=log)
    for _ in range(300):
        done = subprocess.run(["mariadb", "-e", "create database if not exists slurm_acct_db"], capture_output=True)
        if done.returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError(f"MariaDB did not start: {done.stderr.decode()}")


def main() -> None:
    """Prepare, then become the driver."""
    plan_dir, out_dir = sys.argv[1:3]
    plan: dict[str, Any] = json.loads(pathlib.Path(plan_dir, "plan.json").read_text())
    make_users(plan["users"])
    make_directories()
    refuse_names()
    name_controllers(plan["controllers"])
    make_devices()
    write_files(plan["files"])
    if plan["accounting"]:
        start_database()
    scripts = pathlib.Path(out_dir, "scripts.log")
    scripts.touch()
    scripts.chmod(0o666)
    command = [sys.executable, str(pathlib.Path(__file__).with_name("driver.py")), plan_dir, out_dir]
    factor = plan["factor"]
    os.environ["TZ"] = "UTC"
    os.environ["REAL_START"] = repr(time.time())
    if factor != 1:
        os.environ["FAKETIME_DONT_RESET"] = "1"
        command = ["faketime", "-f", f"@{EPOCH} x{factor:g}", *command]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
