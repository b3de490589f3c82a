"""What a scenario asks of the operator under test (`pods.operator`) in mid run: a change of its custom resources.

`at`, `within` and `lasts` mean what they mean for faults of the cluster. The world `kind` fills the change from the
operator's folder in e2e/operators; a target that the folder does not list is refused before anything is made.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slurmtwin.contract.fields import DurationNs, Scalar, Strict

OperatorStepKind = Literal[
    "operator.scale", "operator.update", "operator.configure", "operator.cordon", "operator.delete"
]


class OperatorStep(Strict):
    """One change. Targets are the folder's own words for its objects: workers, rest, controller, a pod slurmd:w-0."""

    at: DurationNs
    within: DurationNs = Field(0, description="spread the repetitions over so long after `at`")
    kind: OperatorStepKind
    target: str = Field(pattern=r"^[a-z][a-z0-9-]*(:[a-z][a-z0-9-]*)?$")
    lasts: DurationNs = Field(0, description="taken back so long after; 0: not taken back")
    count: int | None = Field(None, ge=0, le=1024, description="operator.scale: how many")
    set: dict[str, Scalar] = Field(default_factory=dict, description="operator.configure: slurm.conf options")
