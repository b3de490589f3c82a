"""sacctmgr commands and dumps into QOS and associations (man sacctmgr)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import DAY, HOUR, SECOND
from slurmtwin.contract.errors import InputError, UnsupportedError

Read = Callable[..., Any]
CONF = "ClusterName=c\nAccountingStorageType=accounting_storage/slurmdbd"


@pytest.fixture
def database(read: Read) -> Callable[..., tuple[dict[str, Any], dict[tuple[str, str], Any]]]:
    """database(lines..., waive=): QOS by name, and associations by (account, user)."""

    def database(*lines: str, waive: tuple[str, ...] = ()) -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
        conf, _ = read(CONF, sacctmgr="\n".join(lines) + "\n", waive=waive)
        return {q.name: q for q in conf.qos}, {(a.account, a.user): a for a in conf.assocs}

    return database


Database = Callable[..., tuple[dict[str, Any], dict[tuple[str, str], Any]]]
TREE = ("add account name=a Fairshare=30", "add account b parent=a", "add user name=u,v account=a,b DefaultAccount=b")


def test_accounts_users_and_their_tree(database: Database) -> None:
    """Parents, one association per account and user, the default account."""
    _, assocs = database(*TREE)
    assert (assocs["a", ""].fairshare, assocs["a", ""].parent, assocs["b", ""].parent) == (30, "root", "a")
    assert {key for key in assocs if key[1]} == {("a", "u"), ("b", "u"), ("a", "v"), ("b", "v")}
    assert [assocs[key].is_default for key in (("a", "u"), ("b", "u"))] == [False, True]


@pytest.mark.parametrize(
    ("command", "limit", "expected"),
    [
        ("GrpTRES=cpu=4,mem=10G,gres/gpu=2", "grp_tres", (("cpu", 4), ("mem", 10_240), ("gres/gpu", 2))),
        ("GrpCPUs=4 GrpNodes=2", "grp_tres", (("cpu", 4), ("node", 2))),
        ("GrpTRES=cpu=4,node=2 GrpTRES=cpu=-1", "grp_tres", (("node", 2),)),
        ("GrpTRES=cpu=4 GrpTRES=node=1", "grp_tres", (("cpu", 4), ("node", 1))),
        ("GrpTRESMins=cpu=600", "grp_tres_mins", (("cpu", 600),)),
        ("MaxJobs=5", "max_jobs", 5),
        ("maxsubmit=7", "max_submit_jobs", 7),
        ("MaxJobs=5 MaxJobs=-1", "max_jobs", -1),
        ("MaxWall=1-0", "max_wall_per_job_ns", DAY),
        ("MaxWall=60", "max_wall_per_job_ns", HOUR),
        ("MaxTRES=node=3", "max_tres_per_job", (("node", 3),)),
        ("MaxTRESPerNode=cpu=2", "max_tres_per_node", (("cpu", 2),)),
        ("MinPrioThresh=9", "min_prio_thresh", 9),
    ],
)
def test_a_limit_of_an_account_has_its_field(database: Database, command: str, limit: str, expected: object) -> None:
    """Names, old names, short names; TRES limits add up; -1 takes one away."""
    _, assocs = database(*TREE, f"modify account where name=a set {command}")
    assert getattr(assocs["a", ""].limits, limit) == expected


@pytest.mark.parametrize(
    ("command", "name", "expected"),
    [
        ("Priority=100", "priority", 100),
        ("Flags=DenyOnLimit,NoReserve", "flags", frozenset({"DenyOnLimit", "NoReserve"})),
        ("Flags=DenyOnLimit Flags+=NoDecay", "flags", frozenset({"DenyOnLimit", "NoDecay"})),
        ("Preempt=normal PreemptMode=requeue", "preempt", ("normal",)),
        ("PreemptMode=CANCEL", "preempt_mode", "cancel"),
        ("GraceTime=30", "grace_time_ns", 30 * SECOND),
        ("PreemptExemptTime=0:10", "preempt_exempt_time_ns", 10 * SECOND),
        ("UsageFactor=0.5", "usage_factor", 0.5),
    ],
)
def test_a_qos_option_has_its_field(database: Database, command: str, name: str, expected: object) -> None:
    """Priority, flags, preemption, factors."""
    qos, _ = database(f"add qos high {command}")
    assert getattr(qos["high"], name) == expected


@pytest.mark.parametrize(
    ("command", "limit", "expected"),
    [
        ("MaxJobsPU=3", "max_jobs", 3),
        ("MaxSubmitJobsPerUser=4", "max_submit_jobs", 4),
        ("MaxTRESPU=cpu=8", "max_tres_per_user", (("cpu", 8),)),
        ("MaxTRESPA=gres/gpu=1", "max_tres_per_account", (("gres/gpu", 1),)),
        ("MinTRES=cpu=2", "min_tres_per_job", (("cpu", 2),)),
        ("GrpJobs=1", "grp_jobs", 1),
        ("MaxJobsAccruePU=2", "max_jobs_accrue", 2),
    ],
)
def test_a_limit_of_a_qos_has_its_field(database: Database, command: str, limit: str, expected: object) -> None:
    """Per user, per account, per job, per group."""
    qos, _ = database(f"create qos name=high {command}")
    assert getattr(qos["high"].limits, limit) == expected


def test_lists_of_qos_can_be_set_added_to_and_cut(database: Database) -> None:
    """qos=a,b; qos+=c; qos-=a; qos=+a."""
    _, assocs = database(
        *TREE, "modify user set qoslevel=normal,high", "modify user u set qos+=low", "modify user v set qos-=normal",
        "modify account a set qos=+x defaultqos=x",
    )  # fmt: skip
    assert assocs["a", "u"].qos == ("normal", "high", "low")
    assert assocs["a", "v"].qos == ("high",)
    assert (assocs["a", ""].qos, assocs["a", ""].default_qos) == (("+x",), "x")  # changes what it inherits


def test_conditions_choose_what_a_command_touches(database: Database) -> None:
    """Names, accounts and partitions; `where` may come first or last."""
    _, assocs = database(
        *TREE, "modify user where name=u account=a set fairshare=7", "modify user set fairshare=9 where account=b"
    )
    shares = {key: assoc.fairshare for key, assoc in assocs.items() if key[1]}
    assert shares == {("a", "u"): 7, ("a", "v"): 1, ("b", "u"): 9, ("b", "v"): 9}


def test_what_is_removed_is_gone_with_what_is_below(database: Database) -> None:
    """Removing an account takes its accounts and users along."""
    qos, assocs = database(*TREE, "add qos x", "remove qos where name=x", "delete user name=v", "remove account b")
    assert set(qos) == {"normal"}
    assert set(assocs) == {("a", ""), ("a", "u")}
    _, assocs = database("add account x", *TREE, "add account c parent=b", "add user w account=c", "remove account a")
    assert set(assocs) == {("x", "")}


def test_the_cluster_s_options_are_root_s(database: Database) -> None:
    """add cluster ... QOS= sets the root association; other clusters are passed over."""
    _, assocs = database("add cluster name=C QOS=normal,high fairshare=1", "add cluster name=other GrpJobs=1")
    assert assocs["root", ""].qos == ("normal", "high")
    assert assocs["root", ""].limits.grp_jobs == -1


def test_a_dump_is_read_like_the_commands(database: Database) -> None:
    """`sacctmgr dump`: Cluster, Parent, Account and User lines with quotes and colons."""
    _, assocs = database(
        "# To edit this file", "Cluster - 'c':Fairshare=1:QOS='normal'", "Parent - 'root'",
        "User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1",
        "Account - 'a':Description='the a: team':Organization='o':Fairshare=30:GrpTRES='cpu=4,mem=100'", "Parent - 'a'",
        "User - 'u':DefaultAccount='a':Fairshare=2:MaxJobs=3",
    )  # fmt: skip
    assert assocs["a", ""].limits.grp_tres == (("cpu", 4), ("mem", 100))
    assert (assocs["a", "u"].fairshare, assocs["a", "u"].limits.max_jobs, assocs["a", "u"].is_default) == (2, 3, True)


def test_commands_that_change_nothing_are_passed_over(database: Database) -> None:
    """Lists, verbosity, immediate mode."""
    _, assocs = database("sacctmgr -i add account a", "list associations format=Account tree", "show qos", "quit")
    assert set(assocs) == {("a", "")}


@pytest.mark.parametrize(
    "line",
    [
        "grow account a", "add", "add account", "add user name=u account=none", "add user name=u",
        "add account x parent=y",
        "modify qos name=none set Priority=1", "modify account a set Fairshare=lots", "modify account a set Colour=red",
        "add qos x Flags=Sometimes", "modify account a", "add qos x GrpTRES=cpu", "add account 'open", "Account - ",
        "add qos x MaxWall=later", "remove cluster c", "add qos x UsageFactor=nan", "add qos x Priority=99999999999999",
    ],
)  # fmt: skip
def test_a_wrong_command_is_an_error_at_its_line(database: Database, line: str) -> None:
    """Each with file:line."""
    with pytest.raises(InputError, match=r"sacctmgr\.txt:2: "):
        database("add account a", line)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("add qos x MaxTRESRunMinsPU=cpu=5", "MaxTRESRunMinsPU"),
        ("modify account a set MaxTRESRunMins=cpu=5", "MaxTRESRunMins"),
        ("add qos x UsageThreshold=0.5", "UsageThreshold"),
        ("add federation f", "federation"),
        ("add tres gres/x", "tres"),
    ],
)  # fmt: skip
def test_limits_without_a_model_are_refused_unless_waived(database: Database, line: str, name: str) -> None:
    """They would change results."""
    with pytest.raises(UnsupportedError):
        database("add account a", line)
    database("add account a", line, waive=(name,))
