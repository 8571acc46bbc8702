"""Signed tokens, made without any library."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

SECRET = b"a secret of thirty-two bytes or more"


def signed(secret: bytes = SECRET, *, head: dict[str, Any] | None = None, **claims: Any) -> str:
    """A JSON Web Token of these claims, good for a minute unless they say otherwise."""

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    claims = {"exp": time.time() + 60} | claims
    message = ".".join(part(json.dumps(each).encode()) for each in (head or {"alg": "HS256", "typ": "JWT"}, claims))
    return f"{message}.{part(hmac.new(secret, message.encode(), hashlib.sha256).digest())}"
