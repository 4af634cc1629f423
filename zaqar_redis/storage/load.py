# SPDX-License-Identifier: Apache-2.0
"""The driver of a URI: its scheme names an entry point.

A package adds a store by an entry point in the group ``zaqar_redis.storage``
whose name is the scheme and whose object is a `DriverFactory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from stevedore import ExtensionManager
from stevedore import driver as stevedore_driver
from stevedore.exception import NoMatches

from zaqar_redis import errors
from zaqar_redis.storage.contract import Driver
from zaqar_redis.storage.control import Control

GROUP = "zaqar_redis.storage"
#: Entry points of control stores; their objects are called like a `DriverFactory`.
CONTROL_GROUP = "zaqar_redis.control"


class DriverFactory(Protocol):
    def __call__(self, uri: str, options: Mapping[str, Any]) -> Driver:
        """Returns a driver that has not connected yet.

        *options* are the operator's ``[redis]`` settings by name, and for a pool its
        ``name``, which errors use for a store that is unavailable; a store may ignore
        those that mean nothing to it.  Raises BadConfiguration when
        the URI cannot be used.
        """


def load(uri: str, options: Mapping[str, Any]) -> Driver:
    """Returns a driver.  Raises BadConfiguration when none has the URI's scheme."""
    factory: DriverFactory = _found(GROUP, uri)
    return factory(uri, options)


def load_control(uri: str, options: Mapping[str, Any]) -> Control:
    """Returns a control store.  Raises BadConfiguration when none has the URI's scheme."""
    control: Control = _found(CONTROL_GROUP, uri)(uri, options)
    return control


def can_control(uri: str) -> bool:
    """Returns whether the URI can be that of a control store."""
    return urlsplit(uri).scheme in ExtensionManager(CONTROL_GROUP).names()


def _found(group: str, uri: str) -> Any:
    try:
        scheme = urlsplit(uri).scheme
    except ValueError as error:  # e.g. a bracket that is never closed
        raise errors.BadConfiguration(f"storage URI: {error}") from error
    try:
        return stevedore_driver.DriverManager(group, scheme, invoke_on_load=False).driver
    except NoMatches as error:
        known = ", ".join(sorted(ExtensionManager(group).names()))
        raise errors.BadConfiguration(
            f'storage URI: no storage driver is installed for the scheme "{scheme}"; '
            f"there are: {known}; and embedded, for the service's own store"
        ) from error
