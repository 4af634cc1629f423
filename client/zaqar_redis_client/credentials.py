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


class _Fixed:
    """Always has the same headers."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers

    async def headers(self) -> Mapping[str, str]:
        return self._headers

    async def renew(self) -> bool:
        return False


class Token(_Fixed):
    """An access key of the service (id, dot and secret), or a token of an OpenID provider."""

    def __init__(self, token: str) -> None:
        super().__init__({"Authorization": f"Bearer {token}"})


class SignedURL(_Fixed):
    """The answer to `Queue.share`: it allows its methods and paths, without anything else."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(
            {
                "URL-Signature": document["signature"],
                "URL-Expires": document["expires"],
                "URL-Methods": ",".join(document["methods"]),
                "URL-Paths": ",".join(document["paths"]),
                "X-Project-ID": document["project"],
            }
        )
