"""From chosen nodes to what the job holds: CPUs, cores, memory and generic resources per node.

The end of _job_test() in cons_tres: tasks over the nodes, cores in each node, memory (job_resources_t).
"""

from __future__ import annotations

from slurmtwin.models.slurmctld.allocation import Allocation
from slurmtwin.models.slurmctld.selection import core_choice, gres_count
from slurmtwin.models.slurmctld.selection.bitmaps import lowest
from slurmtwin.models.slurmctld.selection.node_test import Fit
from slurmtwin.models.slurmctld.selection.select_cons_tres import Found
from slurmtwin.models.slurmctld.selection.shapes import Shape
from slurmtwin.models.slurmctld.selection.usage import Groups, Share, State, Usage
from slurmtwin.models.slurmctld.tables import bits

Part = tuple[int, Fit, int]
"""(bitmap, offer, CPUs each node may give)."""


def build(found: Found, usage: Usage, shapes: list[Shape], block: bool) -> tuple[Groups, int] | None:
    """(groups of equal nodes, CPUs in all), or None when tasks or memory do not fit after all."""
    query = found.query
    rules = query.profile.rules
    parts: list[Part] = [(b & found.chosen.nodes, fit, fit.cpus) for b, fit in found.offers if b & found.chosen.nodes]
    if rules.whole:
        placed: list[tuple[int, Shape, int, int]] = []
        for bitmap, fit, _offered in parts:
            per_core = min(fit.shape.tpc, rules.demand.threads_per_core or fit.shape.tpc)
            placed.append((bitmap, fit.shape, fit.shape.core_map, fit.shape.core_map.bit_count() * per_core))
    else:
        counted = _cpus(found, _with_given(parts, found))
        if counted is None:
            return None
        placed = []
        for bitmap, fit, cpus in counted:
            cores, charged = core_choice.choose_cores(
                rules.demand, fit.shape, fit.cores, cpus, fit.cpus_per_core, rules.select.unit, block
            )
            placed.append((bitmap, fit.shape, cores, charged))
    return _shares(found, usage, shapes, placed)


def tasks_fit(found: Found) -> bool:
    """Would the tasks fit on those nodes? Asked when nothing starts yet (WILL_RUN); only odd sizes can fail."""
    rules = found.query.profile.rules
    if rules.whole or rules.demand.cpus_per_task == 1 or rules.version < (23, 2):
        return True
    nodes = found.chosen.nodes
    parts: list[Part] = [(b & nodes, fit, fit.cpus) for b, fit in found.offers if b & nodes]
    return _cpus(found, _with_given(parts, found)) is not None


def _with_given(parts: list[Part], found: Found) -> list[Part]:
    if not found.chosen.given:
        return parts
    out: list[Part] = []
    for bitmap, fit, cpus in parts:
        rest = bitmap
        for some, given in found.chosen.given:
            here = rest & some
            if here:
                out.append((here, fit, given))
                rest &= ~here
        if rest:
            out.append((rest, fit, cpus))
    return out


def _cpus(found: Found, parts: list[Part]) -> list[Part] | None:
    """CPUs per node after the tasks are laid out."""
    rules = found.query.profile.rules
    demand = rules.demand
    nodes = found.chosen.nodes.bit_count()
    tasks = core_choice.task_count(demand, nodes, found.query.ask.min_cpus, rules.version)
    step = demand.cpus_per_task
    if tasks == nodes:
        return [(bitmap, fit, min(step, cpus)) for bitmap, fit, cpus in parts]
    if len(parts) == 1 and parts[0][1].shape.tpc // step <= 1 and (parts[0][1].shape.tpc == 1 or step > 1):
        bitmap, fit, cpus = parts[0]
        each, more = divmod(tasks, nodes)
        most = each + 1 if more else each
        if each and most * step <= cpus and (not demand.ntasks_per_node or most <= demand.ntasks_per_node):
            first = lowest(bitmap, more)
            even: list[Part] = [(first, fit, most * step)] if first else []
            return [*even, (bitmap & ~first, fit, each * step)]
    order = sorted(((i, fit, cpus) for bitmap, fit, cpus in parts for i in bits(bitmap)), key=lambda item: item[0])
    counts = core_choice.cpus_per_node(
        demand, [cpus for _i, _fit, cpus in order], [fit.shape.tpc for _i, fit, _c in order], tasks, rules.version
    )
    if counts is None:
        return None
    merged: dict[tuple[int, int], tuple[int, Fit]] = {}
    fits: list[Fit] = []
    for (i, fit, _cpus_avail), count in zip(order, counts, strict=True):
        place = next((p for p, known in enumerate(fits) if known is fit), -1)
        if place < 0:
            place = len(fits)
            fits.append(fit)
        key = (place, count)
        merged[key] = (merged.get(key, (0, fit))[0] | 1 << i, fit)
    return [(bitmap, fit, count) for (_place, count), (bitmap, fit) in merged.items()]


def _shares(
    found: Found, usage: Usage, shapes: list[Shape], placed: list[tuple[int, Shape, int, int]]
) -> tuple[Groups, int] | None:
    rules = found.query.profile.rules
    demand = rules.demand
    groups: list[tuple[int, Share]] = []
    total = 0
    by_state = bool(rules.select.memory or demand.gres or (rules.whole and any(s.gres for s in shapes)))
    for bitmap, shape, cores, cpus in placed:
        total += cpus * bitmap.bit_count()
        if not by_state:
            groups.append((bitmap, Share(cores, cpus, 0, ())))
            continue
        rest = bitmap
        for state, members in usage.classes.items():
            here = members & rest
            if here:
                rest &= ~here
                share = _share(found, state, shape, cores, cpus)
                if share is None:
                    return None
                groups.append((here, share))
                if not rest:
                    break
    return tuple(groups), total


def _share(found: Found, state: State, shape: Shape, cores: int, cpus: int) -> Share | None:
    rules = found.query.profile.rules
    demand = rules.demand
    mem = 0
    if rules.select.memory:
        if demand.mem_per_cpu:
            counted = cpus
            if demand.threads_per_core and demand.threads_per_core < shape.tpc and not rules.whole:
                counted = cpus // shape.tpc * demand.threads_per_core
            mem = counted * demand.mem_mib
        elif demand.mem_mib:
            mem = demand.mem_mib
        else:
            mem = shape.mem_mib
            if state.mem_mib:
                return None
        if state.mem_mib + mem > shape.mem_mib:
            return None
    gres: tuple[int, ...] = ()
    if shape.gres and (demand.gres or rules.whole):
        gres = gres_count.take(demand.gres, shape.gres, state.gres, whole=rules.whole)
    return Share(cores, cpus, mem, gres)


def allocation(groups: Groups, cpus: int, shapes_at: dict[int, Shape], *, whole: bool, memory: bool) -> Allocation:
    """The job's Allocation, with values per node in node order; uniform jobs are built without a loop."""
    nodes = 0
    for bitmap, _share in groups:
        nodes |= bitmap
    shape_of = next(iter(shapes_at.values()), None)
    named = bool(shape_of and any(share.gres for _b, share in groups))
    if len(groups) == 1 and not named:
        _bitmap, share = groups[0]
        count = nodes.bit_count()
        return Allocation(
            nodes, None if whole else (share.cpus,) * count, cpus, None if whole else (share.cores,) * count,
            (share.mem_mib,) * count if memory else None, (), whole, groups=groups,
        )  # fmt: skip
    at: dict[int, Share] = {}
    for bitmap, share in groups:
        for i in bits(bitmap):
            at[i] = share
    order = [at[i] for i in sorted(at)]
    gres: tuple[tuple[tuple[str, str, int], ...], ...] = ()
    if named:
        gres = tuple(_named(at[i].gres, shapes_at[i]) for i in sorted(at))
    return Allocation(
        nodes, None if whole else tuple(s.cpus for s in order), cpus, None if whole else tuple(s.cores for s in order),
        tuple(s.mem_mib for s in order) if memory else None, gres, whole, groups=groups,
    )  # fmt: skip


def _named(counts: tuple[int, ...], shape: Shape) -> tuple[tuple[str, str, int], ...]:
    return tuple((n, t, c) for (n, t, _total), c in zip(shape.gres, counts, strict=True) if c) if counts else ()
