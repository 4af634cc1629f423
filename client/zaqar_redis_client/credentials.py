# SPDX-License-Identifier: Apache-2.0
"""What a request proves its right with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Credential(Protocol):
    async def headers(self) -> Mapping[str, str]:
        """Returns the headers of one request."""

    async def renew(self) -> bool:
        """Called after a 401.  Returns whether another attempt may help."""


class Token:
    """An access key of the service (id, dot and secret), or a token of an OpenID provider."""

    def __init__(self, token: str) -> None:
        self._headers = {"Authorization": f"Bearer {token}"}

    async def headers(self) -> Mapping[str, str]:
        return self._headers

    async def renew(self) -> bool:
        return False


class SignedURL:
    """The answer to `Queue.share`: it allows its methods and paths, without anything else."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._headers = {
            "URL-Signature": document["signature"],
            "URL-Expires": document["expires"],
            "URL-Methods": ",".join(document["methods"]),
            "URL-Paths": ",".join(document["paths"]),
            "X-Project-ID": document["project"],
        }

    async def headers(self) -> Mapping[str, str]:
        return self._headers

    async def renew(self) -> bool:
        return False
