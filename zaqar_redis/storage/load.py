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
from zaqar_redis.storage.control import Control
from zaqar_redis.storage.driver import Driver

GROUP = "zaqar_redis.storage"
#: Entry points of control stores; their objects are called like a `Factory`.
CONTROL_GROUP = "zaqar_redis.control"


class Factory(Protocol):
    def __call__(self, uri: str, options: Mapping[str, Any]) -> Driver:
        """A driver that has not connected yet.

        *options* are the operator's ``[redis]`` settings by name, and of a pool its
        ``name``, by which errors tell the client what is away; a store may pass
        over those that mean nothing to it.  Raises BadConfiguration when
        the URI cannot be used.
        """


def load(uri: str, options: Mapping[str, Any]) -> Driver:
    """Raises BadConfiguration when no installed driver has the URI's scheme."""
    factory: Factory = _found(GROUP, uri)
    return factory(uri, options)


def load_control(uri: str, options: Mapping[str, Any]) -> Control:
    """Raises BadConfiguration when no control store has the URI's scheme."""
    control: Control = _found(CONTROL_GROUP, uri)(uri, options)
    return control


def can_control(uri: str) -> bool:
    """Whether a control store can be where the URI says."""
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
            f"there are: {known}"
        ) from error
