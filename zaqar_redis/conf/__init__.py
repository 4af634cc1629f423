# SPDX-License-Identifier: Apache-2.0
"""oslo.config options, and the frozen settings that the other packages take.

No package but this one and the command line sees ``conf``.
"""

from __future__ import annotations

import contextlib
from typing import TypeVar

from msgspec import Struct
from oslo_config import cfg
from oslo_policy import opts as policy_options

from zaqar_redis import errors
from zaqar_redis.auth import keystone
from zaqar_redis.conf import channels, environment, files, logs
from zaqar_redis.conf.groups import GROUPS
from zaqar_redis.conf.options import derive, fields, fill

S = TypeVar("S", bound=Struct)


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Returns all options by group, as oslo.config's generator expects them."""
    own = [
        (group, [option for kind, names in parts for option in derive(kind, names)])
        for group, parts in GROUPS.items()
    ]
    return own + policy_options.list_opts()


def settings(conf: cfg.ConfigOpts, kind: type[S]) -> S:
    """Returns settings with the values of their options, whatever groups these are in.

    A field that is no option has its default.
    """
    values = {
        name: (conf[group] if group else conf)[name]
        for group, parts in GROUPS.items()
        for part, names in parts
        if part is kind
        for name in names or fields(kind)
    }
    return fill(kind, values)


def read(arguments: list[str], config_files: list[str] | None) -> cfg.ConfigOpts:
    """Returns the options of the environment and of configuration files.

    *config_files*: None: those at the standard paths.  Raises BadConfiguration when a file cannot
    be read.  Values may be invalid (`problems`).
    """
    conf = environment.Options()
    for group, options in list_opts():
        conf.register_opts(options, group=group)
    try:
        conf(
            args=arguments,
            project="zaqar_redis",
            prog="zaqar_redis",
            default_config_files=config_files,
        )
        conf.register_opts(logs.options(conf))
        for group, each in (channels.namespace_options(conf) | _of_keystone(conf)).items():
            conf.register_opts(each, group=group)
    except (cfg.Error, ValueError, OSError) as error:
        raise errors.BadConfiguration(str(error)) from error
    return conf


def groups(conf: cfg.ConfigOpts) -> files.Groups:
    """Returns all options by group, with those of the channels' namespaces and of libraries."""
    common = {group or environment.DEFAULT: options for group, options in list_opts()}
    common[environment.DEFAULT] = [*common[environment.DEFAULT], *logs.options(conf)]
    return common | channels.namespace_options(conf) | _of_keystone(conf)


def _of_keystone(conf: cfg.ConfigOpts) -> dict[str, list[cfg.Opt]]:
    """Returns keystonemiddleware's options by group, if the strategy that uses them is on.

    Raises BadConfiguration.
    """
    return keystone.options(conf) if "keystone" in conf.auth.strategy else {}


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Returns a line for each unknown group or option, invalid value, and contradiction
    between options of channels."""
    known = groups(conf)
    found = [*environment.problems(known), *files.problems(conf, known)]
    with contextlib.suppress(cfg.Error):  # an invalid value: files.problems has reported it
        found += channels.problems(conf)
    return found


def load(arguments: list[str], config_files: list[str] | None) -> cfg.ConfigOpts:
    """Returns the same as `read`.  Raises BadConfiguration also for problems, a line for each."""
    conf = read(arguments, config_files)
    if found := problems(conf):
        raise errors.BadConfiguration("\n".join(found))
    return conf


def origin(conf: cfg.ConfigOpts, group: str | None, option: str) -> str | None:
    """Returns the file or variable that an option's value comes from; None for a default."""
    location = conf.get_location(option, group)
    return str(location.detail) if location and location.location.is_user_controlled else None
