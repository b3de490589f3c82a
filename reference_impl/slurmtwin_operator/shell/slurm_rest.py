"""slurmrestd over HTTP with a token that we sign; whatever is not a clean answer is no answer (fail closed).

Follows slurmrestd's plugins openapi/slurmctld of 24.11 and 26.05. The key and the tokens stay in this module: no text
of an error, log line or recording holds them. http.client, because slurmrestd answers an error twice (as JSON, and
after `Connection: Close` once more as plain text), which stricter clients refuse as a whole (26.05.5, measured).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.client
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

from slurmtwin.contract.errors import SlurmtwinError

API: Final = {"24.11": "v0.0.42", "26.05": "v0.0.45"}
"""Newest data parser of each release; 22.05 has no REST calls that change nodes."""
USER: Final = "slurm"
TOKEN_S: Final = 600
"""A token's life; a new one is signed in its second half."""
CALLS: Final = 10
"""Calls at once to one server: two passes read it, five calls each."""


class SlurmError(SlurmtwinError):
    """slurmrestd or slurmctld refused (answered True), or did not answer."""

    def __init__(self, message: str, answered: bool) -> None:
        self.answered = answered
        super().__init__(f"slurmrestd: {message}")


def sign(key: bytes, now_s: int, user: str = USER) -> str:
    """A JSON web token of slurmctld's form (HS256; sun names the user)."""

    def part(raw: bytes) -> str:
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = part(json.dumps({"exp": now_s + TOKEN_S, "iat": now_s, "sun": user}).encode())
    return f"{head}.{body}.{part(hmac.new(key, f'{head}.{body}'.encode(), hashlib.sha256).digest())}"


class SlurmRest:
    """The REST server of one cluster. `limit_s` 0: a call is never given up (switch rest_timeout_s)."""

    def __init__(
        self, base: str, version: str, key: bytes, limit_s: float, now_s: Callable[[], float] = time.time,
        user: str = USER,
    ) -> None:  # fmt: skip
        self._key, self._now_s, self._user = key, now_s, user
        place = urlsplit(base)
        self._host, self._port = place.hostname or "", place.port or 6820
        self._root = f"/slurm/{API.get(version, API['26.05'])}"
        self._limit_s = limit_s or None
        self._token, self._until = "", 0.0
        # threads of its own: a server that is silent holds up nobody else's calls
        self._threads = ThreadPoolExecutor(CALLS, f"slurmrestd-{self._host}")
        self.tells_conf = version >= "26.05"
        """GET conf tells the hash of the slurm.conf that slurmctld has read (data parser v0.0.45)."""

    def __repr__(self) -> str:
        return f"SlurmRest({self._host}:{self._port}{self._root})"

    def _signed(self) -> str:
        now = self._now_s()
        if now > self._until:
            self._token, self._until = sign(self._key, int(now), self._user), now + TOKEN_S / 2
        return self._token

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """One call. Raises SlurmError for no answer, for HTTP errors and for errors in the answer's own list."""
        headers = {"X-SLURM-USER-NAME": self._user, "X-SLURM-USER-TOKEN": self._signed()}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        loop = asyncio.get_running_loop()
        exchange = loop.run_in_executor(self._threads, self._exchange, method, f"{self._root}/{path}", data, headers)
        try:
            status, raw = await asyncio.wait_for(exchange, self._limit_s)
        except TimeoutError as error:
            raise SlurmError("no answer in time", False) from error
        except (http.client.HTTPException, OSError) as error:
            raise SlurmError(str(error) or type(error).__name__, False) from error
        try:
            document = json.loads(raw)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise SlurmError(f"HTTP {status}, no JSON object", False)
        errors = document.get("errors") or []
        if errors or status >= 400:
            raise SlurmError(_said(errors, status), True)
        return document

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """(HTTP status, body) of the first answer; the socket is given up after limit_s of silence."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._limit_s)
        try:
            connection.request(method, path, body=data, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def close(self) -> None:
        """No more calls; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def update_node(self, node: str, **changes: Any) -> None:
        """scontrol update nodename=NODE."""
        await self.call("POST", f"node/{node}", changes)


def _said(errors: list[Any], status: int) -> str:
    first = errors[0] if errors and isinstance(errors[0], dict) else {}
    text = first.get("error") or first.get("description") or f"HTTP {status}"
    return str(text)[:300]
