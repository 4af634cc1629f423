# SPDX-License-Identifier: Apache-2.0
"""Find the driver for a URI: its scheme names an entry point.

A package adds a store by an entry point in the group ``zaqar_redis.storage``
whose name is the scheme and whose object is a `Factory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from stevedore import ExtensionManager
from stevedore import driver as stevedore_driver
from stevedore.exception import NoMatches

from zaqar_redis import errors
from zaqar_redis.storage.driver import Driver

GROUP = "zaqar_redis.storage"


class Factory(Protocol):
    def __call__(self, uri: str, options: Mapping[str, Any]) -> Driver:
        """A driver that has not connected yet.

        *options* are the operator's ``[redis]`` settings by name; a store may
        pass over those that mean nothing to it.  Raises BadConfiguration when
        the URI cannot be used.
        """


def load(uri: str, options: Mapping[str, Any]) -> Driver:
    """Raises BadConfiguration when no installed driver has the URI's scheme."""
    scheme = urlsplit(uri).scheme
    try:
        found: Any = stevedore_driver.DriverManager(GROUP, scheme, invoke_on_load=False)
    except NoMatches as error:
        known = ", ".join(sorted(ExtensionManager(GROUP).names()))
        raise errors.BadConfiguration(
            f'storage URI: no storage driver is installed for the scheme "{scheme}"; '
            f"there are: {known}"
        ) from error
    factory: Factory = found.driver
    return factory(uri, options)
