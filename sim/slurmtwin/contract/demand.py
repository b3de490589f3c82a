"""What a workload has beside its jobs: users who react, and services that take and give back machines (world twin)."""

from __future__ import annotations

from pydantic import Field, model_validator

from slurmtwin.contract.fields import DurationNs, Strict


class Users(Strict):
    """What users do when a submission fails or a job waits for long."""

    try_again: DurationNs = Field(
        0, description="a submission that found no slurmctld is made again so long after it failed; 0: never"
    )
    gives_up: DurationNs = Field(0, description="none is made again so long after the first; 0: users go on for ever")
    patience: DurationNs = Field(
        0, description="a job that has not started so long after it was submitted is cancelled by its user; 0: none is"
    )


class Services(Strict):
    """Services on the machines that Slurm's worker pods use too: they are sized by a load that follows the day.

    The load lies between `low` and `high`, a cosine with its top at `peak`, times a log-normal draw at each look.
    Services get machines for it, and worker pods the rest, by `operator.scale` steps.
    """

    machines: int = Field(ge=1, le=1024, description="in all; the worker pods are those that services do not want")
    lends: bool = Field(True, description="false: services keep machines of their own, worker pods stay as many")
    low: float = Field(ge=0, description="requests per second at the quietest time")
    high: float = Field(gt=0, description="requests per second at the peak")
    peak: DurationNs = Field(description="the peak's time of day; a run begins at midnight")
    per_machine: float = Field(gt=0, description="requests per second that one machine answers in time")
    spread: float = Field(0.0, ge=0, le=2, description="sigma of the logarithm of what the load is drawn by")
    look: DurationNs = Field(900_000_000_000, gt=0, description="an autoscaler looks at the load so often")
    keep: DurationNs = Field(0, ge=0, description="a machine goes back when it was not wanted for so long")
    lasts: DurationNs = Field(gt=0, description="the load is followed for so long")
    target: str = Field("workers", description="the operator's word for its worker pods")

    @model_validator(mode="after")
    def _ordered(self) -> Services:
        if self.high < self.low:
            raise ValueError("`high` is at least `low`")
        if self.lasts // self.look > 100_000:
            raise ValueError("more than 100,000 looks")
        return self
