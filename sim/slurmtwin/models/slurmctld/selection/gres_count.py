"""Generic resources as counts per node: names, types, shares of them (gres.c, gres_sock_list.c).

A node's entries are (name, type, count); a request is (name, type or "", count per node). Which device a job
gets is not modelled, and no entry is tied to cores: Slurm's placement does not change without Cores= in gres.conf.
"""

from __future__ import annotations

Entries = tuple[tuple[str, str, int], ...]


def fits(wanted: Entries, have: Entries, taken: tuple[int, ...]) -> bool:
    """Enough of each wanted resource is free; `taken` runs over `have`, () for nothing."""
    for name, kind, count in wanted:
        free = 0
        for place, (n, t, total) in enumerate(have):
            if n == name and kind in ("", t):
                free += total - (taken[place] if taken else 0)
        if free < count:
            return False
    return True


def take(wanted: Entries, have: Entries, taken: tuple[int, ...], *, whole: bool) -> tuple[int, ...]:
    """What a job gets of each entry: in the order of the entries; everything when it owns the node."""
    if whole:
        return tuple(total for _n, _t, total in have)
    got = [0] * len(have)
    for name, kind, count in wanted:
        left = count
        for place, (n, t, total) in enumerate(have):
            if n == name and kind in ("", t) and left > 0:
                some = min(left, total - got[place] - (taken[place] if taken else 0))
                if some > 0:
                    got[place] += some
                    left -= some
    return tuple(got) if any(got) else ()


def gpus_free(have: Entries, taken: tuple[int, ...]) -> int:
    """GPUs that are free on a node."""
    return sum(total - (taken[i] if taken else 0) for i, (n, _t, total) in enumerate(have) if n == "gpu")


def near(wanted: Entries, have: Entries, taken: tuple[int, ...]) -> int:
    """near_gpu_cnt of a job that asks for GPUs and owns the node: nodes with more come first."""
    return min(255, gpus_free(have, taken)) if any(n == "gpu" for n, _t, _c in wanted) else 0
