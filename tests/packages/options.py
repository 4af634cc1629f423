# SPDX-License-Identifier: Apache-2.0
"""Which variables of an environment set options, for files that set them."""

from __future__ import annotations

from zaqar_redis import conf


def unknown_variables(names: set[str]) -> set[str]:
    """Returns those of *names*, variables of an environment, that set no option."""
    variables = {
        f"ZAQAR_REDIS_{group}__{option.dest}".upper()
        for group, options in conf.list_opts()
        for option in options
    }
    return {name for name in names if name.startswith("ZAQAR_REDIS_")} - variables
