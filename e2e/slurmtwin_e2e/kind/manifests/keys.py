"""Secrets of one Slurm cluster: the keys of auth/slurm, munge and auth/jwt, and tokens signed with the last."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from typing import Final

TOKEN_LIFE_S: Final = 7 * 86_400
USERS: Final = {"token": "slurm", "researcher-token": "researcher"}
"""File of the Secret -> the user its token speaks for."""


def token(key: bytes, user: str, now_s: int) -> str:
    """A JSON web token (HS256) as `scontrol token` makes them: sun = user, valid for TOKEN_LIFE_S from now_s."""

    def part(document: dict[str, object]) -> bytes:
        raw = json.dumps(document, separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(raw).rstrip(b"=")

    body = part({"alg": "HS256", "typ": "JWT"}) + b"." + part({"exp": now_s + TOKEN_LIFE_S, "iat": now_s, "sun": user})
    mark = base64.urlsafe_b64encode(hmac.new(key, body, hashlib.sha256).digest()).rstrip(b"=")
    return (body + b"." + mark).decode()


def new_keys() -> dict[str, bytes]:
    """Fresh random keys and tokens, as files of the Secret."""
    key = secrets.token_bytes(32)
    now_s = int(time.time())
    files = {"slurm.key": secrets.token_bytes(1024), "munge.key": secrets.token_bytes(1024), "jwt_hs256.key": key}
    return files | {name: token(key, user, now_s).encode() for name, user in USERS.items()}


def secret(namespace: str, files: dict[str, bytes]) -> dict[str, object]:
    """The Secret that every pod mounts at /secrets."""
    return {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "slurm-keys", "namespace": namespace},
        "data": {name: base64.b64encode(raw).decode() for name, raw in files.items()},
    }  # fmt: skip
