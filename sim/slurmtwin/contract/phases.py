"""Phases: named spans between two events, with the prediction and the parameter each rests on.

They stand in the scenario and are committed before its recording (DESIGN 5).
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from slurmtwin.contract.events import Kind
from slurmtwin.contract.fields import DurationNs, Scalar, Strict


class Milestone(Strict):
    """The first event that fits, at or after the time the search begins."""

    kind: Kind
    actor: str = ""
    node: str = Field("", description="the row's node, or one of its hostlist")
    job: int | None = None
    detail: dict[str, Scalar] = Field(default_factory=dict, description="keys of detail and their values")
    nth: int = Field(1, ge=1, description="the n-th fitting event; with node '*': until n different nodes had it")


class Phase(Strict):
    """A span, its prediction [low, high], and what it rests on."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    start: Milestone
    end: Milestone
    low: DurationNs
    high: DurationNs | None = Field(None, description="none: no upper bound is predicted")
    absent: bool = Field(False, description="the prediction is that the end does not happen within the run")
    of_kind: bool = Field(
        False,
        description="a claim of kind (`a reconfigure leaves jobs alone`): no parameter makes its span, which must only "
        "lie within [low, high]. It is a property of every run and no vote; so is each absent phase",
    )
    rests_on: str = Field(description="the parameter that makes the span, with its value")
    parameter: str = Field(
        "",
        pattern=r"^$|^(duration|rule):[a-z][a-z0-9-]*$|^[a-z_]+(\.([A-Za-z_]+|[0-9]+))+(:[a-z_]+)?$",
        description="rests_on for programs: what is halved and doubled for a verdict's power. A place in this file "
        "(pods.toleration, slurm.conf.AuthInfo:cred_expire), duration:NAME (calibrated), rule:NAME (the twin's)",
    )
    source: str
    since: str = Field("", pattern=r"^([0-9]{2}\.[0-9]{2})?$", description="of Slurm versions from this one on")
    before: str = Field("", pattern=r"^([0-9]{2}\.[0-9]{2})?$", description="of Slurm versions before this one")

    def is_of(self, version: str) -> bool:
        """Is it a phase of this Slurm version (24.11)?"""
        return self.since <= version and not (self.before and version >= self.before)

    @property
    def is_claim(self) -> bool:
        """Judged as a property of every run, not as a span: it is absent, or of kind."""
        return self.absent or self.of_kind

    def allows(self, length_ns: int | None, error_ns: int = 0) -> bool:
        """May a span of this length be as predicted, given its measurement error? None: the end did not come."""
        if self.absent or length_ns is None:
            return self.absent and length_ns is None
        return length_ns + error_ns >= self.low and (self.high is None or length_ns - error_ns <= self.high)

    @model_validator(mode="after")
    def _claims_rest_on_nothing(self) -> Self:
        if self.is_claim and self.parameter:
            raise ValueError(f"{self.name}: a claim of kind names no parameter")
        return self
