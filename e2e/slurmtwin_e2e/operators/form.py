"""The form of an operator under test (slurmtwin/operator/1): e2e/operators/NAME/operator.yaml.

It says which image must already be there, where the operator's own manifests are (a file inside that image: they are
its own code), which objects make one Slurm cluster, which of their fields a scenario's steps change, and how its pods
are told apart. Errors name file and line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import Field, ValidationError, field_validator

from slurmtwin.contract.errors import EnvironmentMissingError, InputError, Where
from slurmtwin.contract.fields import Strict
from slurmtwin.contract.operator_steps import OperatorStep, OperatorStepKind
from slurmtwin.contract.yaml_file import line_of, load_yaml, plain
from slurmtwin_e2e.operators.placeholders import names_in

OPERATOR_SCHEMA: Final = "slurmtwin/operator/1"
FOLDER: Final = Path(__file__).parents[2] / "operators"
FILE: Final = "operator.yaml"
NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"
SPACE: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
IMAGE: Final = r"^[a-z0-9][a-z0-9._/-]*:[A-Za-z0-9._-]+$"
CREATE_VALUES: Final = (
    "namespace", "cluster", "image", "evidence", "workers", "replicas", "crowded", "node_conf", "slurm_conf",
    "slurm_options", "grace_s",
    "slurmctld_supervised", "slurmd_supervised", "limits", "tolerations", "keeps_state",
)  # fmt: skip
"""What a template of `create` may ask for."""
STEP_VALUES: Final = ("namespace", "cluster", "workers", "count", "revision", "slurm_conf", "slurm_options", "pod")
"""What a step may ask for."""
IMAGE_VALUES: Final = ("namespace", "cluster", "workers", "image")
"""What `workers_image` may ask for; the image is the one that the fault names."""
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "create": CREATE_VALUES, "steps": STEP_VALUES, "workers_image": IMAGE_VALUES, "controllers": (),
}  # fmt: skip
"""Part of the file -> its placeholders; elsewhere none stands."""


class Target(Strict):
    """One object of the API: group/version, plural resource, name; in the run's namespace."""

    api: str = Field(pattern=r"^([a-z0-9.-]+/)?v[a-z0-9]+$")
    resource: str = Field(pattern=r"^[a-z]+$")
    name: str


class Change(Strict):
    """What a step does to one object: a merge patch, or (operator.delete) its deletion."""

    object: Target
    patch: dict[str, Any] | None = None


class PodsReading(Strict):
    """How the operator's pods are told apart: a label, its values -> our daemons, and where the Slurm name stands."""

    label: str
    apps: dict[str, str] = Field(description="value of the label -> slurmctld, slurmd, slurmrestd, slurmdbd")
    name: list[str] = Field(
        default_factory=lambda: ["metadata", "name"],
        description="path of the field with the name of the Slurm node; a pod without it: its own name",
    )


class OperatorForm(Strict):
    """One operator under test."""

    schema_: str = Field(alias="schema", pattern=rf"^{OPERATOR_SCHEMA}$")
    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")
    title: str
    source: str = Field(description="the code it is, where its objects were read")
    image: str = Field(pattern=IMAGE, description="of the operator; it must be in the local Docker")
    install: list[str] = Field(
        min_length=1, description="its manifests: /FILE inside the image, or a file of this repository"
    )  # fmt: skip
    namespace: str = Field(pattern=SPACE, description="where the operator itself runs")
    pod: str = Field(pattern=r"^[a-z0-9-]+/[a-z0-9.-]+$", description="NAMESPACE/BEGINNING of its pod's name")
    group: str = Field(pattern=NAME, description="API group of its custom resources: they are watched")
    versions: list[str] = Field(min_length=1, description="versions of Slurm it works with")
    slurm_image: str = Field("", pattern=r"^[a-z]*$", description="folder of a Dockerfile on top of our image of pods")
    controllers: list[str] = Field(min_length=1, description="values of SlurmctldHost for clients outside its pods")
    record: str = Field(
        "", pattern=r"^([a-z0-9-]+(/[a-z0-9-]+)*)?$",
        description="folder of the shared directory in which the operator records its actions and passes; empty: none",
    )  # fmt: skip
    pods: PodsReading
    create: list[dict[str, Any]] = Field(min_length=1, description="objects of one Slurm cluster, in order")
    steps: dict[OperatorStepKind, dict[str, Change]] = Field(default_factory=dict)
    workers_image: Change | None = Field(None, description="the patch that gives the workers another image")

    @field_validator("install")
    @classmethod
    def _places(cls, items: list[str]) -> list[str]:
        for item in items:
            if not re.fullmatch(r"/?[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*", item) or ".." in item.split("/"):
                raise ValueError(f"{item!r} is no plain path")
        return items

    @field_validator("create")
    @classmethod
    def _no_secrets(cls, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for item in items:
            if not {"apiVersion", "kind", "metadata"} <= item.keys():
                raise ValueError("an object has apiVersion, kind and metadata")
            if item["kind"] == "Secret":
                raise ValueError("keys are made for each run: no Secret stands in a file")
        return items

    def change(self, step: OperatorStep) -> Change:
        """What the step changes. Raises InputError when the folder lists no such target."""
        known = self.steps.get(step.kind, {})
        head = step.target.partition(":")[0]
        if head not in known:
            hint = f"{step.kind}: {', '.join(sorted(known)) or 'nothing'}"
            raise InputError(f"operator {self.name} has no {step.kind} of {step.target!r}", hint=hint)
        return known[head]

    def image_of(self, app: str) -> Change:
        """What gives a daemon another image. Raises InputError where the folder does not say, as of all but slurmd."""
        if app != "slurmd" or self.workers_image is None:
            raise InputError(f"operator {self.name} names no image of {app}", hint="workers_image")
        return self.workers_image


def operators(folder: Path = FOLDER) -> list[str]:
    """Names of the operators that have a folder."""
    return sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))


def load_operator(name: str, folder: Path = FOLDER) -> OperatorForm:
    """The operator of that name. Raises InputError with file:line, EnvironmentMissingError without the folder."""
    path = folder / name / FILE
    if not folder.is_dir():
        raise EnvironmentMissingError(f"{folder} is missing: operators under test are run from a checkout")
    if not path.exists():
        raise InputError(f"no operator is called {name!r}", hint=", ".join(operators(folder)))
    document = load_yaml(path)
    try:
        form = OperatorForm.model_validate(plain(document))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
        location = tuple(part for part in first["loc"] if part != "[key]")
        where = Where(str(path), line_of(document, location) or 1)
        raise InputError(f"{'.'.join(map(str, location))}: {first['msg']}", where) from error
    if form.name != name:
        raise InputError(f"name {form.name!r} is not the folder's", Where(str(path), line_of(document, ("name",))))
    _check_names(document, path)
    _check_steps(form, document, path)
    return form


def _check_names(document: Any, path: Path) -> None:
    """Refuse placeholders that have no value, wherever they stand."""
    for part, known in VALUES.items():
        for location, name in names_in(plain(document).get(part), (part,)):
            if name not in known:
                where = Where(str(path), line_of(document, location))
                raise InputError(f"${{{name}}} is no placeholder of {part}", where, ", ".join(known))
    rest: Mapping[str, Any] = {k: v for k, v in plain(document).items() if k not in VALUES}
    for location, _ in names_in(rest):
        raise InputError("no placeholder stands here", Where(str(path), line_of(document, location)))


def _check_steps(form: OperatorForm, document: Any, path: Path) -> None:
    if form.workers_image is not None and form.workers_image.patch is None:
        raise InputError("a patch is missing", Where(str(path), line_of(document, ("workers_image",))))
    for kind, targets in form.steps.items():
        for target, change in targets.items():
            if (change.patch is None) is not (kind == "operator.delete"):
                what = "a deletion has no patch" if change.patch is not None else "a patch is missing"
                raise InputError(what, Where(str(path), line_of(document, ("steps", kind, target))))
