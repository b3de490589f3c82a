"""What the API server adds to objects that are created (plugin/pkg/admission v1.34.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurmtwin.models.api_server.objects import NO_EXECUTE, Pod, Toleration
from slurmtwin.models.controllers.node_lifecycle import NOT_READY, UNREACHABLE

if TYPE_CHECKING:
    from slurmtwin.models.api_server.server import Admission
    from slurmtwin.models.controllers.defaults import ControlPlaneDefaults


def admit(defaults: ControlPlaneDefaults) -> list[tuple[type, Admission]]:
    """The admission plugins, by kind."""

    def tolerations(pod: Pod) -> Pod:
        """DefaultTolerationSeconds: 300 s for either taint that the pod says nothing of (kubernetes.md 4.5)."""
        own = pod.spec.tolerations
        missing = tuple(
            Toleration(key=key, effect=NO_EXECUTE, for_ns=defaults.toleration_ns)
            for key in (NOT_READY, UNREACHABLE)
            if not any(t.key in (key, "") and t.effect in (NO_EXECUTE, "") for t in own)
        )
        return replace(pod, spec=replace(pod.spec, tolerations=own + missing)) if missing else pod

    return [(Pod, tolerations)]
