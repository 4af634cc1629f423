# SPDX-License-Identifier: Apache-2.0
"""The garbage collector, for work on very many small objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disables the collector: a million small objects trigger it, and none is garbage."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:  # the process will run other tasks
        if before:
            gc.enable()
