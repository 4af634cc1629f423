# SPDX-License-Identifier: Apache-2.0
"""Verbs of the contract that go to the store of their queue, and are typed as the contract has
them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from zaqar_redis.keyspace.script import Verb
from zaqar_redis.storage.pools.router import Router

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
StoreT = TypeVar("StoreT")


class RoutedVerb(Protocol[P, A]):
    """A method with the parameters of a verb of the contract."""

    def __get__(self, instance: object, owner: type[object]) -> Callable[P, Verb[A]]: ...


class RoutedResource:
    """Base of the resources of the contract."""

    def __init__(self, router: Router[Any, Any]) -> None:
        self._router = router


def routed(
    resource: Callable[[StoreT], R],
    verb: Callable[Concatenate[R, P], Awaitable[A]],
    *,
    make: bool = False,
) -> RoutedVerb[P, A]:
    """Returns a method that runs a verb of the contract on the store of its queue.

    *resource* returns what has the verb, of a store.  The verb's first two arguments are project
    and queue.  *make*: a queue that no store has gets one.
    """
    name = verb.__name__

    def route(self: RoutedResource, project: str, queue: str, *args: Any, **how: Any) -> Verb[A]:
        return self._router.route(
            project,
            queue,
            lambda store: getattr(resource(store), name)(project, queue, *args, **how),
            make=make,
        )

    return cast(RoutedVerb[P, A], route)
