"""Settings of the operator's process, from its environment (deploy/operator.yaml sets them). Nothing secret is here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slurmtwin.contract.errors import InputError
from slurmtwin_operator.core.observed import Policy
from slurmtwin_operator.designs import CarrierSettings

PREFIX: Final = "SLURMTWIN_"


class Settings(BaseModel):
    """One field per variable SLURMTWIN_NAME; unset variables keep the default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    namespace: str = Field("slurmtwin-system", description="namespace of the operator itself: its Lease is there")
    identity: str = Field("operator", description="who holds the Lease: the pod's name")
    watch_namespaces: str = Field("", description="namespaces to care for, with commas; empty: all")
    allow_privileged: bool = Field(False, description="Policy: may slurmd pods be privileged?")
    image_prefixes: str = Field("", description="Policy: prefixes of allowed images, with commas; empty: any image")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(8080, description="of /healthz, /readyz and /metrics")
    record: str = Field("", description="folder for recorded passes and the log; empty: none are recorded")
    lease_s: Annotated[float, Field(gt=0)] = Field(15.0, description="leaseDurationSeconds")
    renew_s: Annotated[float, Field(gt=0)] = Field(5.0, description="pause between two renewals")
    stop_s: Annotated[float, Field(gt=0)] = Field(20.0, description="graceful stop: passes may take so long to end")
    carrier: CarrierSettings = Field(
        CarrierSettings(backoff_base_ms=100, backoff_cap_s=60), description="a design's polls and back-off, as JSON"
    )

    @property
    def policy(self) -> Policy:
        """What tenants may ask for."""
        return Policy(self.allow_privileged, tuple(filter(None, self.image_prefixes.split(","))))

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces to watch; none: all of them."""
        return tuple(filter(None, self.watch_namespaces.split(",")))


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from SLURMTWIN_* variables. Raises InputError that names the variable."""
    given: dict[str, object] = {
        key.removeprefix(PREFIX).lower(): value for key, value in environment.items() if key.startswith(PREFIX)
    }
    text = given.pop("carrier", None)
    try:
        if text:
            given["carrier"] = CarrierSettings.model_validate_json(str(text))
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = f"{PREFIX}{str(first['loc'][0]).upper()}" if first["loc"] else f"{PREFIX}CARRIER"
        raise InputError(f"{name}: {first['msg']}") from error
