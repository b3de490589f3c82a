"""A tenant's names and values: refused before they reach slurm.conf, a shell or a pod; nothing secret comes out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from slurmtwin.contract.errors import InputError
from slurmtwin_operator.codec import read_observed, to_json
from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import Apply, CreatePod, EnsureSecret, Memory, Why
from slurmtwin_operator.core.observed import (
    ClusterObserved,
    Identity,
    NodeSetFact,
    NodeSetObserved,
    Policy,
    Slurm,
)
from slurmtwin_operator.core.slurm_conf import render
from slurmtwin_operator.core.spec import (
    CONF_OPTIONS,
    Accounting,
    ClusterSpec,
    DispatchSpec,
    NodeSetSpec,
    PodGroupSpec,
    Toleration,
    Update,
    Volume,
)
from slurmtwin_operator.testing.other_kinds import OTHER_STORIES
from slurmtwin_operator.testing.scenarios import play

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
LINES = (
    "x\nProlog=/bin/sh",
    "x\r\nInclude /etc/shadow",
    "x Epilog=/bin/sh",
    "x\\",
    "x#",
    '"',
    "$(id)",
    "`id`",
    "é",
    "",
)


@pytest.mark.parametrize("value", LINES)
def test_values_that_end_a_line_are_refused(value: str) -> None:
    """No blank, line end, quote, backslash, hash or command substitution reaches slurm.conf."""
    with pytest.raises(ValidationError):
        ClusterSpec(image="i", conf={"KillWait": value})
    with pytest.raises(ValidationError):
        NodeSetSpec(cluster="c", image="i", partition={"options": {"MaxTime": value}})
    with pytest.raises(ValidationError):
        NodeSetSpec(cluster="c", image="i", features=(value,))


@pytest.mark.parametrize(
    "option",
    ["Prolog", "epilog", "ResumeProgram", "HealthCheckProgram", "Include", "PluginDir", "AuthType", "SlurmUser",
     "JobSubmitPlugins", "MailProg", "StateSaveLocation", "PlugStackConfig", "RebootProgram", "PrologSlurmctld",
     "SlurmctldHost", "NodeName", "PartitionName", "KillWait\nProlog", ""],
)  # fmt: skip
def test_options_that_run_programs_are_refused(option: str) -> None:
    """Only options of a fixed list may be set."""
    with pytest.raises(ValidationError, match="not an option"):
        ClusterSpec(image="i", conf={option: "1"})


def test_no_allowed_option_names_a_program_or_path() -> None:
    """The fixed list holds none that runs a program or says where things are."""
    dangerous = (
        "prog",
        "prolog",
        "epilog",
        "plugindir",
        "location",
        "file",
        "auth",
        "user",
        "host",
        "include",
        "script",
    )
    allowed = {"epilogmsgtime"}  # a time
    assert [o for o in CONF_OPTIONS if any(d in o.lower() for d in dangerous) and o.lower() not in allowed] == []


@pytest.mark.parametrize(
    "bad",
    [
        {"cluster": "../x"}, {"cluster": "A"}, {"cluster": "a" * 60}, {"image": "i; id"}, {"image": "-x"},
        {"cpu": "1; id"}, {"memory": "1Gi\n"}, {"resources": {"a b": "1"}}, {"replicas": -1}, {"replicas": 10**6},
        {"volumes": [{"name": "v", "mount_path": "/x", "host_path": "/"}]},
        {"volumes": [{"name": "v", "mount_path": "relative"}]}, {"host_network": True}, {"service_account": "root"},
        {"node_selector": {"a b": "c"}}, {"update": {"max_unavailable": "-1"}}, {"update": {"max_unavailable": "101%"}},
        {"update": {"type": "scheduled"}}, {"grace_s": 0}, {"partition": {"options": {"Nodes": "ALL"}}},
        {"tolerations": [{"key": "a\nb"}]},
    ],
)  # fmt: skip
def test_specs_outside_the_rules_are_refused(bad: dict[str, Any]) -> None:
    """Host paths, host network, other accounts and odd texts have no place in a NodeSet."""
    with pytest.raises(ValidationError):
        NodeSetSpec(**{"cluster": "c", "image": "i", **bad})


def node_set(policy: Policy, **spec: Any) -> NodeSetObserved:
    """A node set under an administrator's policy."""
    return NodeSetObserved(Identity("ns", "w", "u"), NodeSetSpec(cluster="c", **{"image": "i", **spec}), policy=policy)


@pytest.mark.parametrize(
    ("policy", "spec"),
    [(Policy(), {"privileged": True}), (Policy(image_prefixes=("good/",)), {"image": "evil/slurmd"})],
)
def test_policy_refuses_before_anything_is_created(policy: Policy, spec: dict[str, Any]) -> None:
    """What the administrator does not allow is said in a condition and nothing is written."""
    decided = plan(node_set(policy, **spec), Memory(), 0)
    assert decided.actions == ()
    assert decided.reasons[0].why is Why.REFUSED
    assert decided.conditions[0].reason == "Refused"


def test_allowed_privilege_is_the_only_way_to_one() -> None:
    """Privileged only where asked for and allowed; else no escalation, never a host path, network or account token."""
    for policy, privileged in ((Policy(), False), (Policy(privileged=True), True)):
        decided = plan(node_set(policy, privileged=privileged, volumes=(
            {"name": "a", "mount_path": "/a", "claim": "data"}, {"name": "b", "mount_path": "/b", "config_map": "m"},
            {"name": "c", "mount_path": "/c"}), tolerations=({"key": "x"},), resources={"nvidia.com/gpu": "1"},
            node_selector={"pool": "a"}), Memory(), 0)  # fmt: skip
        made = next(a for a in decided.actions if isinstance(a, CreatePod))
        pod = json.loads(made.manifest)["spec"]
        assert pod["containers"][0]["securityContext"].get("privileged", False) is privileged
        assert "hostPath" not in made.manifest
        assert not {"hostNetwork", "hostPID", "serviceAccountName"} & pod.keys()
        assert pod["automountServiceAccountToken"] is False
        assert {"key": "x", "operator": "Exists"} in pod["tolerations"]


@given(st.dictionaries(st.sampled_from(sorted(CONF_OPTIONS)), st.text(max_size=20), max_size=4))
@settings(max_examples=120, deadline=None)
def test_whatever_is_accepted_gives_one_line_per_option(conf: dict[str, str]) -> None:
    """Accepted settings render as one Key=Value line each; nothing else appears in slurm.conf."""
    try:
        spec = ClusterSpec(image="i", conf=conf)
    except ValidationError:
        return
    plain = render(ClusterObserved(Identity("ns", "c"), ClusterSpec(image="i"), node_sets=(NodeSetFact("a"),)))
    text = render(ClusterObserved(Identity("ns", "c"), spec, node_sets=(NodeSetFact("a"),)))
    new = [line for line in text.splitlines() if line not in plain.splitlines()]
    assert all(line.partition("=")[0] in {*conf, "SlurmctldParameters"} for line in new)


@given(ANY_JSON)
@settings(max_examples=80, deadline=None)
def test_nonsense_is_an_input_error(document: Any) -> None:
    """Any JSON that is no observation is an InputError, never a traceback."""
    for kind in ("NodeSet", "Cluster", "PodGroup", "Dispatch", "Secret"):
        with pytest.raises(InputError):
            read_observed(kind, document)


def test_no_secret_in_plans_or_recordings() -> None:
    """The plan asks for keys by name and length; no value, token or password is in any part of it."""
    spec = ClusterSpec(image="i", accounting={"image": "dbd", "config_secret": "dbd"})
    decided = plan(ClusterObserved(Identity("ns", "c", "u"), spec, slurm=Slurm("fresh")), Memory(), 0)
    text = json.dumps(to_json(decided))
    conf = [a.manifest for a in decided.actions if isinstance(a, Apply) and a.kind == "ConfigMap"]
    assert "StoragePass" not in "".join(conf)
    secrets = [a for a in decided.actions if isinstance(a, EnsureSecret)]
    assert [length for a in secrets for _, length in a.keys] == [32, 1024]
    assert '"stringData"' not in text


HOSTILE = (
    "a\nProlog=/bin/sh", "a\r", "${POD_NAME}", "$(id)", "`id`", "a;id", "../etc", "a/../../etc", "/../etc", "a\x00b",
    "a\u2028b", "\u202egnp", "\u0430dmin", "\U0001f680", "a" * 5000, "a b", "\\", "'", '"', "#", "{{x}}", "<x>", "a\t",
)  # fmt: skip


def texts(model: type[BaseModel]) -> list[str]:
    """Fields of a spec that are a text and not a choice."""
    schema = model.model_json_schema(by_alias=False)["properties"]
    return [name for name, part in schema.items() if part.get("type") == "string" and "enum" not in part]


PARTS: tuple[tuple[type[BaseModel], dict[str, Any]], ...] = (
    (ClusterSpec, {"image": "i"}), (NodeSetSpec, {"cluster": "c", "image": "i"}), (PodGroupSpec, {}),
    (Accounting, {"image": "i", "config_secret": "s"}), (Volume, {"name": "v", "mount_path": "/x"}),
    (Toleration, {}), (Update, {}),
)  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
@pytest.mark.parametrize(
    ("model", "good", "field"), [(model, good, field) for model, good in PARTS for field in texts(model)],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)  # fmt: skip
def test_no_text_of_a_custom_resource_takes_it(
    model: type[BaseModel], good: dict[str, Any], field: str, value: str
) -> None:
    """Every text field of every spec, each hostile value: refused."""
    assert model(**good)
    with pytest.raises(ValidationError):
        model(**{**good, field: value})


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
def test_no_key_or_list_takes_it(value: str) -> None:
    """Labels, devices, features, options and lists of clusters neither."""
    for bad in (
        {"node_selector": {value: "x"}},
        {"node_selector": {"x": value}},
        {"resources": {value: "1"}},
        {"resources": {"x/gpu": value}},
        {"features": (value,)},
        {"partition": {"options": {value: "1"}}},
    ):
        with pytest.raises(ValidationError):
            NodeSetSpec(cluster="c", image="i", **bad)  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        DispatchSpec(clusters=(value,))


@pytest.mark.parametrize("value", [*HOSTILE, "A", "a.b", "-a", "", "a" * 60], ids=ascii)
def test_no_object_has_such_a_name(value: str) -> None:
    """What an API server would let through, or a careless carrier shows: nothing is made, the condition says why."""
    of_set = NodeSetObserved(Identity("ns", value, "u"), NodeSetSpec(cluster="c", image="i"))
    of_cluster = ClusterObserved(Identity("ns", value, "u"), ClusterSpec(image="i"))
    for observed in (of_set, of_cluster):
        decided = plan(observed, Memory(), 0)
        assert (decided.actions, decided.reasons[0].why) == ((), Why.REFUSED)
        assert "\n" not in decided.reasons[0].about
        assert len(decided.reasons[0].about) < 200


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
def test_node_sets_that_no_schema_saw_write_no_line(value: str) -> None:
    """A Cluster's pass trusts nobody: such a set, option or value is left out of slurm.conf."""
    facts = (NodeSetFact(value), NodeSetFact("a", options=((value, "1"), ("MaxTime", f"60{value}\nProlog=x"))))
    text = render(ClusterObserved(Identity("ns", "c"), ClusterSpec(image="i"), node_sets=facts))
    tail = text.splitlines()[-2:]
    assert tail == ["NodeSet=a Feature=a", "PartitionName=a Nodes=a"]
    assert "Prolog" not in text


def test_an_image_cannot_leave_its_prefix() -> None:
    """`..` is no part of an image; the prefix is compared as it is."""
    for image in ("good/../evil/x", "good/..", "good//x", "good/./x"):
        with pytest.raises(ValidationError):
            NodeSetSpec(cluster="c", image=image)
    fine = ("reg.example:5000/team/slurmd:26.05", "slurmd@sha256:0a", "a__b/c-d.e")
    assert all(NodeSetSpec(cluster="c", image=image) for image in fine)


CANARY = "canary-7f3a-do-not-tell"


def test_a_canary_in_a_secret_is_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan, observation and memory of the whole test set, as JSON: names of secrets, never their bytes."""
    monkeypatch.setenv("SLURMTWIN_CANARY", CANARY)
    spec = ClusterSpec(image="i", accounting={"image": "dbd", "config_secret": "db"}, log_claim="logs")
    for story in OTHER_STORIES:
        for observed, memory, _, decided in play(story, keep_passes=True)[1].passes:
            told = json.dumps([to_json(observed), to_json(memory), to_json(decided)])
            assert CANARY not in told
            assert not re.search(r"eyJ[\w-]{8,}\.[\w-]{4,}|BEGIN [A-Z ]*PRIVATE KEY|StoragePass", told)
    made = plan(ClusterObserved(Identity("ns", "c", "u"), spec), Memory(), 0).actions
    assert not [a for a in made if isinstance(a, Apply) and a.kind == "Secret"]
