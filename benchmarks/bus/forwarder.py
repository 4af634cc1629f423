# SPDX-License-Identifier: Apache-2.0
"""The article's broker for ZeroMQ: it forwards what it pulls to all who subscribe."""

from __future__ import annotations

import sys

import zmq


def main() -> None:
    """Runs until it is terminated.  Arguments: the addresses to pull at, and to publish at."""
    context = zmq.Context()
    receiver, sender = context.socket(zmq.PULL), context.socket(zmq.PUB)
    sender.bind(sys.argv[2])
    receiver.bind(sys.argv[1])
    while True:
        sender.send(receiver.recv())


if __name__ == "__main__":
    main()
