"""Worlds by name. The twin is here; `slurm` and `kind` come from the e2e package when it is installed.

A world is a function in a module that is imported only when asked for. Those outside the simulator take a
contract.world.RunOrder; find_world() makes them callable as the twin is.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError, InputError

ENTRY_POINT_GROUP: Final = "slurmtwin.worlds"
KNOWN: Final = {
    "twin": "slurmtwin.worlds.twin:run_scenario",
    "slurm": "slurmtwin_e2e.slurm_world:run_scenario",
    "kind": "slurmtwin_e2e.kind_world:run_scenario",
}
"""World -> module:function. Another distribution may add worlds by the entry point group."""


def world_names() -> list[str]:
    """All names that find_world() knows, sorted."""
    return sorted({*KNOWN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def find_world(name: str) -> Any:
    """What runs a scenario in that world: (scenario, base_dir, TwinOptions, jobs) -> Run.

    InputError for an unknown name, EnvironmentMissingError when its package is not installed.
    """
    points = {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}
    place = points.get(name) or KNOWN.get(name)
    if place is None:
        raise InputError(f"no world is called {name!r}", hint=f"known worlds: {', '.join(world_names())}")
    module, _, function = place.partition(":")
    try:
        world = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise EnvironmentMissingError(f"world {name!r} is not installed: {error}") from error
    if name == "twin":
        return world
    from slurmtwin.worlds.outside import OutsideWorld

    return OutsideWorld(name, world)
