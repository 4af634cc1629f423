# SPDX-License-Identifier: Apache-2.0
"""``zaqar-redis serve``, whose workers do not start after a reload; its words are the arguments."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import msgspec

from zaqar_redis.api.app import App
from zaqar_redis.cli.main import ZaqarRedisShell
from zaqar_redis.cli.serve import GunicornApplication, Serve, ServicePlan, ServicePlanner


class FailingPlanner(ServicePlanner):
    def again(self, before: ServicePlan) -> ServicePlan:
        return msgspec.structs.replace(before, create=_fail)


def _fail(is_stopping: Callable[[], bool]) -> App:
    raise RuntimeError("this worker does not start")


def main() -> None:
    command = Serve(ZaqarRedisShell(), None)
    parsed = command.get_parser("serve").parse_args(sys.argv[1:])
    with contextlib.ExitStack() as stack:
        planner = FailingPlanner(parsed, stack)
        GunicornApplication(planner, planner.first()).run()


if __name__ == "__main__":
    main()
