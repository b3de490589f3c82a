"""What a scenario puts into an operator's templates, and the refusal of what the templates cannot say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.fields import Scalar
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.pods import PodsSection
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.kind.manifests.slurm_files import FORCED, MERGED, workers_of
from slurmtwin_e2e.operators.form import OperatorForm
from slurmtwin_e2e.operators.placeholders import names_in

WATCHED: Final = (
    "SlurmctldDebug", "SlurmdDebug", "LogTimeFormat", "ProctrackType", "TaskPlugin", "JobAcctGatherType", "JobCompType",
    "JobCompLoc", "MpiDefault", "MailProg",
)  # fmt: skip
"""Options of the harness that an operator's slurm.conf gets too: what the collector reads, and life without cgroups."""
USED_BY: Final = {
    "memory": "limits", "cpu": "limits", "toleration": "tolerations", "grace": "grace_s", "state": "keeps_state",
    "slurmctld_process": "slurmctld_supervised", "slurmd_process": "slurmd_supervised",
}  # fmt: skip
"""Field of `pods` -> the placeholder that carries it. A template without it cannot say the field."""
LOST_NODE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*\Z")
_WORD: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:/,*\[\]-]*\Z")


def _line_safe(key: str, value: Scalar) -> str:
    """KEY=VALUE on one line. Raises InputError for what would start another line or option."""
    text = str(value)
    if not _KEY.match(key) or any(not sign.isprintable() for sign in text) or text.endswith("\\"):
        raise InputError(f"slurm.conf: {key!r}={text!r} is not one line of options")
    return f"{key}={text}"


def _words(group: Mapping[str, Scalar]) -> str:
    """Options of one line; a value with a blank or a quote would be another option."""
    for key, value in group.items():
        if not _KEY.match(key) or not _WORD.match(str(value)):
            raise InputError(f"{key!r}={str(value)!r} is not one option of a line")
    return " ".join(f"{key}={value}" for key, value in group.items())


def _merged(conf: Mapping[str, Scalar]) -> dict[str, str]:
    """Options of which the harness needs one word beside those that are there; operators set enable_configless
    themselves."""
    wanted = {key: word for key, word in MERGED.items() if key != "SlurmctldParameters"}
    return {key: ",".join(filter(None, (str(conf.get(key, "")), word))) for key, word in wanted.items()}


def slurm_conf(scenario: Scenario, more: Mapping[str, Scalar] | None = None) -> str:
    """The scenario's own options, as an operator's users would add them to its slurm.conf; `more` in their place."""
    section = scenario.slurm
    if section.files or section.gres or section.topology or section.accounting:
        raise UnsupportedError("files, gres, topology and accounting: not with an operator", hint="slurm.conf, nodes")
    changed = {key.lower() for key in more or {}}
    conf = {key: value for key, value in section.conf.items() if key.lower() not in changed} | dict(more or {})
    conf |= _merged(conf)
    kept = {key.lower() for key in WATCHED} | {"clustername"}
    lines = [_line_safe(key, value) for key, value in conf.items() if key.lower() not in kept]
    lines += [f"{key}={FORCED[key]}" for key in WATCHED]
    for first, group in (("NodeSet", section.nodesets), ("PartitionName", section.partitions)):
        lines += [_words({first: values[first]} | dict(values)) for values in group]
    if not section.partitions:
        lines.append("PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


def slurm_options(scenario: Scenario, more: Mapping[str, Scalar] | None = None) -> dict[str, str]:
    """The same options one by one, for an operator whose users name options and never write lines."""
    slurm_conf(scenario, more)
    conf = {"SlurmctldDebug": FORCED["SlurmctldDebug"], "SlurmdDebug": FORCED["SlurmdDebug"]}
    for group in (scenario.slurm.conf, more or {}):
        conf |= {key: str(value) for key, value in group.items() if key.lower() != "clustername"}
    return conf | _merged(conf)


def cluster_name(scenario: Scenario) -> str:
    """ClusterName of the scenario, or ours."""
    found = next((str(v) for k, v in scenario.slurm.conf.items() if k.lower() == "clustername"), "twin")
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", found):
        raise InputError(f"ClusterName {found!r} is no name of a directory", hint="small letters, digits, - and _")
    return found


def refuse_unsaid(form: OperatorForm, scenario: Scenario) -> None:
    """Raise UnsupportedError for a version or a setting of `pods` that this operator's templates cannot carry."""
    if scenario.slurm.version not in form.versions:
        raise UnsupportedError(f"operator {form.name} runs Slurm {', '.join(form.versions)}")
    pods, plain = scenario.pods or PodsSection(), PodsSection()
    used = {name for _, name in names_in(form.create)}
    for field in PodsSection.model_fields:
        if field == "operator" or getattr(pods, field) == getattr(plain, field):
            continue
        if USED_BY.get(field, "") not in used or (field == "state" and pods.state == "shared"):
            raise UnsupportedError(f"pods.{field}: operator {form.name} has no place for it")
    for fault in scenario.faults:
        if isinstance(fault, OperatorStep):
            _refuse_step(form, scenario, fault)
        elif fault.kind == "image.pull_fails":
            form.image_of(fault.target.partition(":")[0])
    slurm_conf(scenario)


def _refuse_step(form: OperatorForm, scenario: Scenario, step: OperatorStep) -> None:
    change = form.change(step)
    asks = {name for _, name in names_in([change.patch, change.object.name])}
    if ("count" in asks) is (step.count is None):
        raise InputError(f"{step.kind} of {step.target}: count is {'missing' if 'count' in asks else 'not used'}")
    if bool(step.set) is not (step.kind == "operator.configure"):
        raise InputError(f"{step.kind}: `set` belongs to operator.configure", hint="set: {SchedulerParameters: ...}")
    step_values(scenario, "x", step, 0)


def create_values(scenario: Scenario, namespace: str, image: str, evidence: str, compute: int) -> dict[str, Any]:
    """Values of the templates of `create`; compute: Kubernetes nodes for slurmd pods, evidence: folder inside them."""
    pods, workers = scenario.pods or PodsSection(), workers_of(scenario)
    limits = {name: value for name, value in (("memory", pods.memory), ("cpu", pods.cpu)) if value}
    tolerations = []
    if pods.toleration is not None:
        tolerations = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": pods.toleration // SECOND}
            for key in LOST_NODE
        ]
    return {
        "namespace": namespace, "cluster": cluster_name(scenario), "image": image, "evidence": evidence,
        "workers": workers.name, "replicas": workers.count if pods.replicas is None else pods.replicas,
        "crowded": workers.count > compute,
        "node_conf": _words({k: v for k, v in workers.settings.items() if k.lower() != "state"}),
        "slurm_conf": slurm_conf(scenario), "slurm_options": slurm_options(scenario),
        "grace_s": pods.grace // SECOND, "limits": limits,
        "tolerations": tolerations, "keeps_state": pods.state == "claim",
        "slurmctld_supervised": str(int(pods.slurmctld_process == "supervised")),
        "slurmd_supervised": str(int(pods.slurmd_process == "supervised")),
    }  # fmt: skip


def step_values(scenario: Scenario, namespace: str, step: OperatorStep, moment_ns: int) -> dict[str, Any]:
    """Values of a step's templates; moment_ns: unix time of the change, which makes each update another one."""
    return {
        **_names(scenario, namespace),
        "count": step.count if step.count is not None else 0, "revision": str(moment_ns),
        "slurm_conf": slurm_conf(scenario, step.set), "slurm_options": slurm_options(scenario, step.set),
        "pod": step.target.partition(":")[2],
    }  # fmt: skip


def image_values(scenario: Scenario, namespace: str, image: str) -> dict[str, Any]:
    """Values of the patch that gives the workers another image."""
    return {**_names(scenario, namespace), "image": image}


def _names(scenario: Scenario, namespace: str) -> dict[str, Any]:
    """What every change of an object is told."""
    return {"namespace": namespace, "cluster": cluster_name(scenario), "workers": workers_of(scenario).name}
