# SPDX-License-Identifier: Apache-2.0
"""Work on very many small objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collector() -> Iterator[None]:
    """A million small objects make the collector run, and it never finds anything."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:  # the process goes on to other tasks
        if before:
            gc.enable()
