"""The cluster by hand: `python -m slurmtwin_e2e.kind image | up | down | sweep | smoke | first-steps | clean-up`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from slurmtwin.contract.errors import ExitCode, SlurmtwinError
from slurmtwin.contract.kubernetes import KubernetesCluster, NodeGroup
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_e2e.kind import host, image, lifecycle, owner, spec


def _say(text: str) -> None:
    click.echo(text, err=True)


def _ready(yes: bool) -> None:
    host.prepare(_say, may_reconfigure=yes)
    image.ensure(_say)


def _sections(scenario: str | None, workers: int) -> tuple[KubernetesCluster, ...]:
    """What the scenario says of its clusters; where it says nothing, or none is named, one of so many workers."""
    said = tuple(load_scenario(Path(scenario)).clusters) if scenario is not None else ()
    return said or (KubernetesCluster(workers=[NodeGroup(count=workers)]),)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Node image and clusters of the world `kind`."""


@main.command("image")
@click.option("--yes", is_flag=True, help="Let Docker be reconfigured where a missing capability makes it necessary.")
def image_command(yes: bool) -> None:
    """Make sure that the node image is here: present, pulled or built."""
    host.prepare(_say, may_reconfigure=yes)
    click.echo(image.ensure(_say))


@main.command()
@click.argument("scenario", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option("--workers", default=3, show_default=True, type=click.IntRange(1, 64))
@click.option("--yes", is_flag=True, help="Let Docker be reconfigured where it is necessary.")
def up(scenario: str | None, workers: int, yes: bool) -> None:
    """Make the clusters of a scenario and leave them; prints their kubeconfigs.

    Without a scenario, or where it says nothing of its cluster, one of 1 + WORKERS nodes.
    """
    sections = _sections(scenario, workers)
    spec.refuse_impossible(sections, host.capacity())
    _ready(yes)
    with lifecycle.running(sections, _say, keep=True, logs=Path("out/kind-logs")) as clusters:
        for cluster in clusters:
            click.echo(cluster.kubeconfig)


@main.command()
@click.argument("names", nargs=-1)
def down(names: tuple[str, ...]) -> None:
    """Remove kept clusters: those named, or all of ours."""
    here = {record.name for record in owner.records()} | set(owner.clusters_in_docker(spec.PREFIX))
    for name in sorted(spec.PREFIX + name.removeprefix(spec.PREFIX) for name in names) or sorted(here):
        lifecycle.delete(name)
        click.echo(f"removed {name}")
    lifecycle.sweep(_say)


@main.command()
def sweep() -> None:
    """Remove what runs that are gone have left behind."""
    for name in lifecycle.sweep(_say):
        click.echo(f"removed {name}")


def _tell(done: str, wrong: Sequence[str]) -> None:
    """What was done and what went wrong; exit 1 when something did."""
    click.echo(f"{done}, {len(wrong)} findings")
    for text in wrong:
        click.echo(f"  {text}")
    if wrong:
        sys.exit(ExitCode.FINDING)


@main.command("smoke")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False))
@click.option("--out", default="out/kind-smoke", show_default=True, help="Run folders and, on failure, node logs.")
@click.option("--yes", is_flag=True, help="Let Docker be reconfigured where it is necessary.")
def smoke_command(files: tuple[str, ...], out: str, yes: bool) -> None:
    """Run FILES (default: three scenarios of scenarios/faults) on one new cluster; exit 1 when one goes wrong."""
    from slurmtwin_e2e.kind import smoke

    scenarios = [load_scenario(Path(file)) for file in files or smoke.FILES]
    _ready(yes)
    wrong = smoke.smoke(scenarios, Path(out), _say)
    _tell(f"{len(scenarios)} scenarios on a real cluster", wrong)


@main.command("first-steps")
@click.option("--cluster", "name", default="", help="A running cluster of ours; default: one is made and removed.")
@click.option("--times", default=1, show_default=True, type=click.IntRange(1, 20))
@click.option("--yes", is_flag=True, help="Let Docker be reconfigured where it is necessary.")
def first_steps_command(name: str, times: int, yes: bool) -> None:
    """Apply one small Cluster and NodeSet and wait for sinfo, as a new user does; exit 1 when it takes over 60 s."""
    from slurmtwin_e2e.kind import first_steps
    from slurmtwin_e2e.kind.attach import attach

    if name:
        wrong = first_steps.measure(attach(name), times, _say)
    else:
        _ready(yes)
        with lifecycle.running([KubernetesCluster(name="first-steps")], _say, logs=Path("out/kind-logs")) as clusters:
            wrong = first_steps.measure(clusters[0], times, _say)
    _tell(f"first steps {times} times", wrong)


@main.command("clean-up")
@click.option("--runs", default=20, show_default=True, type=click.IntRange(1))
@click.option("--killed", default=7, show_default=True, help="This run gets SIGKILL while its nodes are made.")
@click.option("--ended", default=14, show_default=True, help="This run gets SIGTERM while its nodes are made.")
def clean_up_command(runs: int, killed: int, ended: int) -> None:
    """Many runs on clusters of their own, and a look at the host before and after; exit 1 when anything stays."""
    import signal

    from slurmtwin_e2e.kind import clean_up

    kills = {killed: signal.SIGKILL, ended: signal.SIGTERM}
    done, table, left = clean_up.run_all(runs, kills, _say)
    click.echo("\n".join(table))
    wrong = clean_up.wrong_with(done, kills, left)
    _tell(f"{len(done)} runs", wrong)


if __name__ == "__main__":
    try:
        main()
    except SlurmtwinError as error:
        _say(f"error: {error}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
