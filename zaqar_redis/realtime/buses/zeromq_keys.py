# SPDX-License-Identifier: Apache-2.0
"""CURVE keys, by which ZeroMQ encrypts, and brokers and nodes know each other; in Z85."""

from __future__ import annotations

import struct
from typing import NamedTuple

import zmq
from zmq.utils import z85

from zaqar_redis import errors


class CurveKeys(NamedTuple):
    """Those of a node: the public key of the broker, and a pair of its own."""

    server: str
    public: str
    secret: str


def new_keys() -> tuple[str, str]:
    """Returns a public key and the secret one that belongs to it.

    They are without a dollar sign, which means a reference in a configuration file.
    """
    while True:
        public, secret = zmq.curve_keypair()
        if b"$" not in public + secret:
            return public.decode(), secret.decode()


def public_key(secret: str) -> str:
    return zmq.curve_public(secret.encode()).decode()


def check_curve_key(name: str, key: str) -> None:
    """Raises BadConfiguration, which calls the key *name*, and does not show it."""
    try:
        size = len(z85.decode(key))
    except (ValueError, LookupError, struct.error):
        size = 0
    if size != 32:
        raise errors.BadConfiguration(
            f"{name}: this is no CURVE key in Z85, which has 40 characters; "
            "zaqar-redis bus-broker --new-keys prints a new pair"
        )
