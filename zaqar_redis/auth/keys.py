# SPDX-License-Identifier: Apache-2.0
"""Whether the keys of tokens are some: better seen at the start than with the first token."""

from __future__ import annotations

from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from zaqar_redis.auth.tokens import Settings


def problems(settings: Settings) -> list[str]:
    """Which texts are no public key, or no URL, by option."""
    found = (
        _of_key("token_rsa_public_key", settings.rsa, RSAPublicKey, "RSA"),
        _of_key("token_ecdsa_public_key", settings.ecdsa, EllipticCurvePublicKey, "ECDSA"),
        _of_key("token_ed25519_public_key", settings.ed25519, Ed25519PublicKey, "Ed25519"),
        _of_url("token_jwks_public_endpoint", settings.jwks_url),
    )
    return [problem for problem in found if problem]


def _of_key(option: str, pem: str, kind: type[object], name: str) -> str | None:
    if not pem:
        return None
    try:
        fits = isinstance(load_pem_public_key(pem.encode()), kind)
    # Everything: what it raises for a key that it does not know is not said anywhere.
    except Exception:
        return (
            f"[channels] {option}: this is no public key in PEM; in a file, its lines but for the "
            "first begin with a blank"
        )
    return None if fits else f"[channels] {option}: this is a key, but not of {name}"


def _of_url(option: str, url: str) -> str | None:
    if not url:
        return None
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # brackets that are no address
        fits = False
    return None if fits else f"[channels] {option}: {url} is no URL of http or https"
