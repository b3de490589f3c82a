"""The cluster's API server over HTTP: single requests, and watches read line by line as they were sent.

The kubernetes client gives address, certificates and connection pool; objects stay plain JSON, as recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import SlurmtwinError

REQUEST_LIMIT_S: Final = 15.0
MERGE: Final = "application/merge-patch+json"


class ApiError(SlurmtwinError):
    """The API server refused a request (status) or did not answer (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(f"API server: {status or 'no answer'}: {message}")


class Api:
    """One API server, named by a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        from kubernetes import client, config  # 1 s to import: only where a cluster is used

        settings = client.Configuration()
        load: Any = config.load_kube_config
        load(str(kubeconfig), client_configuration=settings)
        settings.retries = False
        self._client = client.ApiClient(settings)
        self._pool = self._client.rest_client.pool_manager
        self._host = settings.host

    def _open(self, method: str, path: str, body: Any, kind: str, read_s: float, stream: bool) -> Any:
        from urllib3.exceptions import HTTPError
        from urllib3.util import Timeout

        headers = {"Accept": "application/json, text/plain"}
        data = None
        if body is not None:
            headers["Content-Type"] = kind
            data = json.dumps(body).encode()
        try:
            answer = self._pool.request(
                method, self._host + path, body=data, headers=headers, preload_content=not stream, retries=False,
                timeout=Timeout(connect=5.0, read=read_s),
            )  # fmt: skip
        except (HTTPError, OSError) as error:
            raise ApiError(0, str(error)) from error
        if answer.status >= 300:
            raw = answer.read() if stream else answer.data
            raise ApiError(answer.status, raw.decode(errors="replace")[:400])
        return answer

    def request(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", limit_s: float = REQUEST_LIMIT_S
    ) -> Any:
        """One request; the JSON answer. Raises ApiError."""
        answer = self._open(method, path, body, kind, limit_s, False)
        return json.loads(answer.data) if answer.data else None

    def text(self, path: str, limit_s: float = REQUEST_LIMIT_S) -> str:
        """The body of one GET request. Raises ApiError."""
        body: bytes = self._open("GET", path, None, "", limit_s, False).data
        return body.decode(errors="replace")

    def patch(self, path: str, body: Any) -> Any:
        """A merge patch. Raises ApiError."""
        return self.request("PATCH", path, body, MERGE)

    def watch(self, path: str, read_s: float) -> Iterator[dict[str, Any]]:
        """Lines of a watch until the server ends it or nothing came for read_s. Raises ApiError."""
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        answer = self._open("GET", path, None, "", read_s, True)
        held = b""
        try:
            for chunk in answer.stream(None, decode_content=True):
                *lines, held = (held + chunk).split(b"\n")
                for line in filter(None, lines):
                    yield json.loads(line)
        except ReadTimeoutError:
            return
        except (HTTPError, OSError, ValueError) as error:
            raise ApiError(0, str(error)) from error
        finally:
            answer.close()
