# SPDX-License-Identifier: Apache-2.0
"""The namespaces of channels, which the configuration names; each has a group of options."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from zaqar_redis.conf import checks, files, options
from zaqar_redis.conf.groups import CHANNELS
from zaqar_redis.realtime.node import queue_channels
from zaqar_redis.realtime.session.namespaces import ChannelOptions, Namespaces


def problems(conf: cfg.ConfigOpts) -> list[str]:
    """Returns contradictions between options of channels; each names group and option."""
    if not conf[CHANNELS].enabled:
        return []
    found = list(checks.check_names(conf))
    for group, values in _values(conf).items():
        found += checks.check_options(group, values)
    return found


def namespace_options(conf: cfg.ConfigOpts) -> dict[str, Sequence[cfg.Opt]]:
    """Returns the options of each namespace, by group."""
    return {_group(name): options.derive(kind) for name, kind in _option_types(conf).items()}


def namespaces(conf: cfg.ConfigOpts) -> Namespaces:
    by_group = _values(conf)
    return Namespaces(
        by_group[CHANNELS], {name: by_group[_group(name)] for name in _option_types(conf)}
    )


def _group(namespace: str) -> str:
    return f"{files.NAMESPACE}{namespace}"


def _values(conf: cfg.ConfigOpts) -> dict[str, ChannelOptions]:
    """Returns the values of the options by group."""
    kinds = {CHANNELS: ChannelOptions}
    kinds |= {_group(name): kind for name, kind in _option_types(conf).items()}
    return {group: options.fill(kind, conf[group]) for group, kind in kinds.items()}


def _option_types(conf: cfg.ConfigOpts) -> dict[str, type[ChannelOptions]]:
    """Returns the type of the options by namespace; those of queues and topics always exist."""
    names = queue_channels.NAMESPACE, queue_channels.TOPICS
    return dict.fromkeys(conf[CHANNELS].namespaces, ChannelOptions) | dict.fromkeys(
        names, queue_channels.QueueChannelOptions
    )
