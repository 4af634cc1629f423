# SPDX-License-Identifier: Apache-2.0
"""What the master and its workers tell each other."""

from __future__ import annotations

import mmap


class SharedFlag:
    """A flag that all processes see that are forked after it was made.

    Without a lock: a process that is killed while it holds one would stop the others.
    """

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._byte[0] = 1

    def is_set(self) -> bool:
        return self._byte[0] == 1
