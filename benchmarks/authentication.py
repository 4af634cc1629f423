# SPDX-License-Identifier: Apache-2.0
"""What a post costs with each strategy of authentication, compared with none, in turns.

    python -m benchmarks.authentication --rounds 9

Each strategy has a service of one worker over a Redis of its own; wrk posts single messages over
32 connections, all with one credential, which is known after the first request. Keystone is a real
one.
"""

from __future__ import annotations

import argparse
import contextlib
import uuid
from collections.abc import Callable, Mapping

from benchmarks.support import deployment
from benchmarks.support.request_costs import COSTS, Costs, CountedService
from benchmarks.support.rounds import figures, in_turns, print_progress
from tests.auth.key_clients import OPTIONS, key_operator
from tests.support import keystone, openid, servers
from zaqar_redis.benchmarks import report

Options = dict[str, dict[str, object]]
#: Returns the headers of a request.
Credential = Callable[[servers.RedisServer], Mapping[str, str]]
#: As long as that without authentication, and as one of Keystone.
_PROJECT = f"bench-{uuid.uuid4().hex}"


def _none(stack: contextlib.ExitStack) -> tuple[Options, Credential]:
    return {}, lambda store: {}


def _key(stack: contextlib.ExitStack) -> tuple[Options, Credential]:
    def credential(store: servers.RedisServer) -> Mapping[str, str]:
        with key_operator(store.uri) as operator:
            return operator.create(project=_PROJECT).bearer | {"X-Project-ID": _PROJECT}

    return OPTIONS, credential


def _jwt(stack: contextlib.ExitStack) -> tuple[Options, Credential]:
    provider = openid.OpenIdProvider()
    provider.add_key("first")
    provider.start()
    stack.callback(provider.stop)
    token = provider.token(project=_PROJECT)
    headers = {"Authorization": f"Bearer {token}", "X-Project-ID": _PROJECT}
    return openid.options(provider), lambda store: headers


def _keystone(stack: contextlib.ExitStack) -> tuple[Options, Credential]:
    running = stack.enter_context(keystone.keystone())
    headers = {
        "X-Auth-Token": running.token("member"),
        "X-Project-ID": running.projects["blue"],
    }
    options: Options = {
        "auth": {"strategy": "keystone"},
        "keystone_authtoken": running.service_options(),
    }
    return options, lambda store: headers


STRATEGIES = {"none": _none, "key": _key, "jwt": _jwt, "keystone": _keystone}


def _service(stack: contextlib.ExitStack, name: str) -> CountedService:
    store = deployment.redis_server(stack)
    options, credential = STRATEGIES[name](stack)
    running = stack.enter_context(servers.service(store.uri, options=options))
    counted = CountedService(name, running, store, credential(store))
    stack.callback(counted.close)
    return counted


def run(names: list[str], rounds: int, seconds: int) -> str:
    with contextlib.ExitStack() as stack:
        services = [_service(stack, name) for name in ("none", *names)]
        costs: dict[str, list[Costs]] = {each.label: [] for each in services}
        for number, order in in_turns(services, rounds, first=0):
            for each in order:
                cost = each.post(seconds if number else 1, 1)
                if number:
                    costs[each.label].append(cost)
                    print_progress(f"{each.label}: {cost[0]:.1f} µs of the worker")
    rows = []
    without = costs.pop("none")
    for name, found in costs.items():
        for place, what in enumerate(COSTS):
            own = [each[place] for each in found]
            before = [each[place] for each in without]
            ratios = [now / other for other, now in zip(before, own, strict=True)]
            medians = [f"{report.spread(each).median:.1f}" for each in (before, own)]
            rows.append([name, what, *medians, *figures(ratios, 2)])
    head = ["strategy", "measured", "none", "strategy's", "strategy's : none", "least", "greatest"]
    return report.table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2, help="of each round")
    names = [name for name in STRATEGIES if name != "none"]
    parser.add_argument("--strategy", nargs="*", choices=names, default=names)
    args = parser.parse_args()
    print(run(args.strategy, args.rounds, args.seconds))


if __name__ == "__main__":
    main()
