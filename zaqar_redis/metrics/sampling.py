# SPDX-License-Identifier: Apache-2.0
"""What is measured now and then: it costs the calls in between nothing."""

from __future__ import annotations

from collections.abc import Callable

#: Called ten times a second, in workers that are measured.
_SAMPLERS: dict[object, Callable[[], None]] = {}


def add(sampler: Callable[[], None]) -> Callable[[], None]:
    """Calls *sampler* from now on.  Returns the function that ends this."""
    key = object()
    _SAMPLERS[key] = sampler

    def end() -> None:
        _SAMPLERS.pop(key, None)

    return end


def sample() -> None:
    for sampler in [*_SAMPLERS.values()]:
        sampler()
