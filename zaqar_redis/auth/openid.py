# SPDX-License-Identifier: Apache-2.0
"""What an OpenID provider publishes about itself (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

import json
import urllib.request
from urllib.parse import urlsplit

_PATH = "/.well-known/openid-configuration"
#: Seconds to wait for a response.
_TIMEOUT = 5
#: Bytes of the document; those of providers have a few thousand.
_SIZE_MAX = 256 * 1024


def is_url(text: str) -> bool:
    """Returns whether this is a URL that can be fetched."""
    try:
        parts = urlsplit(text)
    except ValueError:  # brackets without an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def find_jwks(issuer: str) -> str:
    """Returns the URL of an issuer's keys; it waits for the issuer.

    Raises OSError and ValueError.
    """
    url = issuer.rstrip("/") + _PATH
    with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:  # noqa: S310  # see is_url
        found = json.loads(response.read(_SIZE_MAX))
    if not isinstance(found, dict) or found.get("issuer") != issuer:
        raise ValueError(f"{url} is not the configuration of {issuer}")
    keys = found.get("jwks_uri")
    # What is signed by keys from plain HTTP is worth no more than HTTP.
    if not isinstance(keys, str) or urlsplit(keys).scheme not in ("https", urlsplit(issuer).scheme):
        raise ValueError(f"{url} has no jwks_uri that can be used")
    return keys
