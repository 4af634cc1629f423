# SPDX-License-Identifier: Apache-2.0
"""Checks of configured token keys: errors show at the start, not with the first token."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from zaqar_redis.auth import openid
from zaqar_redis.auth.tokens import TokenSettings


def problems(settings: TokenSettings) -> list[str]:
    """Returns a text for each option that is not a valid public key or URL."""
    rsa, ecdsa = settings.rsa_public_key, settings.ecdsa_public_key
    ed25519 = settings.ed25519_public_key
    found = (
        _of_key("token_rsa_public_key", rsa, RSAPublicKey, "RSA"),
        _of_key("token_ecdsa_public_key", ecdsa, EllipticCurvePublicKey, "ECDSA"),
        _of_key("token_ed25519_public_key", ed25519, Ed25519PublicKey, "Ed25519"),
        _of_url(settings.jwks_public_endpoint),
    )
    return [problem for problem in found if problem]


def _of_key(option: str, pem: str, kind: type[object], name: str) -> str | None:
    if not pem:
        return None
    try:
        is_valid = isinstance(load_pem_public_key(pem.encode()), kind)
    # Every exception: what it raises for an unknown kind of key is not documented.
    except Exception:
        return (
            f"[channels] {option}: this is not a public key in PEM; in a file, all its lines "
            "but the first must begin with a blank"
        )
    return None if is_valid else f"[channels] {option}: this public key is not of type {name}"


def _of_url(url: str) -> str | None:
    if not url or openid.is_url(url):
        return None
    return f"[channels] token_jwks_public_endpoint: {url} is not an http or https URL"
