# SPDX-License-Identifier: Apache-2.0
"""oslo.config options, and the frozen settings that the rooms take.

No room but this one and the command line sees ``conf``.
"""

from __future__ import annotations

import contextlib

from oslo_config import cfg

from zaqar_redis import errors
from zaqar_redis.conf import channels, files, redis, server, storage, transport

_GROUPS = (server, storage, redis, transport, channels)


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Every option by group, as oslo.config's generator wants them."""
    return [(group, list(options)) for room in _GROUPS for group, options in room.OPTIONS]


def read(arguments: list[str], config_files: list[str] | None) -> cfg.ConfigOpts:
    """What configuration files say; with None, those at the standard places.

    Raises BadConfiguration when one cannot be read; what they say may be wrong (`problems`).
    """
    conf = cfg.ConfigOpts()
    for group, options in list_opts():
        conf.register_opts(options, group=group)
    try:
        conf(
            args=arguments,
            project="zaqar_redis",
            prog="zaqar_redis",
            default_config_files=config_files,
        )
        channels.register_namespaces(conf)
    except (cfg.Error, ValueError, OSError) as error:
        raise errors.BadConfiguration(str(error)) from error
    return conf


def groups(conf: cfg.ConfigOpts) -> files.Groups:
    """Every option by group, those of the namespaces of channels too."""
    common: dict[str, list[cfg.Opt]] = {}
    for group, options in list_opts():
        common.setdefault(group or files.DEFAULT, []).extend(options)
    return common | channels.namespace_options(conf)


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Groups and options that there are not, values that they cannot have, and what of the
    options of channels does not fit together."""
    found = files.problems(conf, groups(conf))
    with contextlib.suppress(cfg.Error):  # of a value that was told already
        found += channels.problems(conf)
    return found


def load(arguments: list[str], config_files: list[str] | None) -> cfg.ConfigOpts:
    """The same as `read`.  Raises BadConfiguration too when there are problems: a line for each."""
    conf = read(arguments, config_files)
    if found := problems(conf):
        raise errors.BadConfiguration("\n".join(found))
    return conf


def origin(conf: cfg.ConfigOpts, group: str | None, option: str) -> str | None:
    """The file, or the variable, that an option's value comes from; None: it is the default."""
    said = conf.get_location(option, group)
    return str(said.detail) if said and said.location.is_user_controlled else None
