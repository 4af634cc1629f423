# SPDX-License-Identifier: Apache-2.0
"""Options from variables of the environment: above files, below options of the command line.

``[server] workers`` is ``ZAQAR_REDIS_SERVER__WORKERS``; ``[DEFAULT] pooling`` is
``ZAQAR_REDIS_POOLING``.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_config.sources._environment import EnvironmentConfigurationSource

LOG = logging.getLogger(__name__)

DEFAULT = "DEFAULT"
PREFIX = "ZAQAR_REDIS_"
#: Variables that are no options of the service.
OTHER_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in ("URL", "URI", "TOKEN", "API_KEY", "CA_FILE", "BENCH_COMMAND", "BENCH_FLOOR")
)
#: What Kubernetes sets in all containers beside a service that is called zaqar-redis.
_OF_KUBERNETES = re.compile(
    rf"{PREFIX}(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?"
    r"|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)"
)


class EnvironmentSource(EnvironmentConfigurationSource):
    """oslo.config's source, with our names of variables instead of ``OS_SERVER__WORKERS``."""

    def __init__(self) -> None:
        super().__init__()
        #: former names that were warned of
        self._told: set[str] = set()

    @staticmethod
    def get_name(group_name: str | None, option_name: str) -> str:
        return variable(group_name or DEFAULT, option_name)

    def get(
        self, group_name: str | None, option_name: str, opt: cfg.Opt
    ) -> tuple[Any, cfg.LocationInfo | None]:
        """Returns the value and the variable, by a former name of the option, too."""
        found: tuple[Any, cfg.LocationInfo | None] = super().get(group_name, option_name, opt)
        for old in opt.deprecated_opts:
            name = self.get_name(old.group or group_name, old.name or option_name)
            if name not in os.environ or self.get_name(group_name, option_name) in os.environ:
                continue
            found = super().get(old.group or group_name, old.name or option_name, opt)
            if name not in self._told:
                self._told.add(name)
                current = self.get_name(group_name, option_name)
                LOG.warning(
                    "%s is called %s now; the former name works for one release",
                    name,
                    current,
                    extra={"action": "former_option"},
                )
        return found


class Options(cfg.ConfigOpts):
    """oslo.config's options, with our names of variables."""

    def __init__(self) -> None:
        super().__init__()
        self._env_driver = EnvironmentSource()


def variable(group: str, option: str) -> str:
    """Returns the name of the variable that sets an option."""
    of = "" if group == DEFAULT else re.sub(r"\W", "_", f"{group}__")
    return f"{PREFIX}{of}{option.replace('-', '_')}".upper()


def problems(known: Mapping[str, Sequence[cfg.Opt]]) -> Iterator[str]:
    """Yields the variables that set no option, or more than one."""
    options = defaultdict(list)
    former: set[str] = set()
    for group, each in known.items():
        for option in each:
            options[variable(group, option.dest)].append(f"[{group}] {option.dest}")
            former.update(
                variable(old.group or group, old.name or option.dest)
                for old in option.deprecated_opts
            )
    for name in sorted(os.environ):
        if len(options.get(name, ())) > 1:
            yield f"{name}: it is {' and '.join(options[name])}; set these in a file"
        if name.startswith(PREFIX) and name not in options.keys() | former | OTHER_VARIABLES:
            if "__" not in name and _OF_KUBERNETES.fullmatch(name):
                continue
            near = difflib.get_close_matches(name, options, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield f"{name}: there is no such option (environment){meant}"
