# SPDX-License-Identifier: Apache-2.0
"""The job that all frameworks run, and where: each module here is an application of one."""

from __future__ import annotations

import os

ADDRESS = os.environ["BENCHMARK_ADDRESS"]
QUEUE = os.environ["BENCHMARK_QUEUE"]
#: a file that gets a byte for each job
_DONE = os.open(os.environ["BENCHMARK_DONE"], os.O_WRONLY | os.O_APPEND)


def do(order: int, text: str) -> None:
    os.write(_DONE, b".")
