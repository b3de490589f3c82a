"""A campaign on four Dask workers, one of them killed: `python FILE STUDY OUT`, a process for its sockets."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from distributed import LocalCluster

from slurmtwin.campaign.campaign import Progress, Split, run_campaign
from slurmtwin.campaign.study_file import load_study


def main(study: Path, out: Path) -> int:
    """One worker is killed by SIGKILL once four runs are done; says how many ran, failed, and were lost of workers."""
    killed: list[int] = []
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=4, threads_per_worker=1, dashboard_address=None, local_directory=str(out / "dask"), silence_logs=50,
    ) as cluster:  # fmt: skip

        def kill(progress: Progress) -> None:
            if progress.done == 4:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[-1], signal.SIGKILL)

        split = Split(scheduler=cluster.scheduler_address)
        done = run_campaign(load_study(study), out / "results", split, seeds=6, progress=kill)
        lost = sum(not Path("/proc", str(pid)).exists() for pid in killed)
    sys.stdout.write(f"ran {done.ran}, failed {len(done.failed)}, workers lost {lost}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
