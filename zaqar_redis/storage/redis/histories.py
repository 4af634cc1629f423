# SPDX-License-Identifier: Apache-2.0
"""Histories of the figures of queues in Redis, alarms about queues, and the largest ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from zaqar_redis.figures import Alarm, HistoryPoint, LargeQueue
from zaqar_redis.keyspace import control_keys, keys
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, verb
from zaqar_redis.storage.redis.resource import RedisResource

_APPEND = Script("history_append")
_PUT = Script("alarms_put")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(HistoryPoint).decode
_decode_largest = msgspec.json.Decoder(dict[str, list[LargeQueue]]).decode


class RedisHistories(RedisResource):
    @verb
    def append(
        self, project: str, points: Mapping[str, HistoryPoint], most: int, seconds: int
    ) -> Steps[None]:
        yield [
            _APPEND(
                control_keys.EntryKeys(keys.entry(project, queue)),
                point=_encode(point),
                most=most,
                period=seconds * 1000,
            )
            for queue, point in points.items()
        ]

    @verb
    def read(self, project: str, queue: str) -> Steps[Sequence[HistoryPoint]]:
        key = control_keys.EntryKeys(keys.entry(project, queue)).queue_history
        return [_decode(each) for each in (yield RedisCommand("LRANGE", key, 0, -1))]

    @verb
    def put_alarms(
        self,
        alarms: Mapping[str, Sequence[Alarm]],
        largest: Mapping[str, Sequence[LargeQueue]],
        seconds: int,
    ) -> Steps[None]:
        flat = [part for name in alarms for part in (name, msgspec.json.encode(alarms[name]))]
        found = msgspec.json.encode(largest)
        yield _PUT(control_keys.CONTROL, *flat, largest=found, period=seconds * 1000)

    @verb
    def alarms(self, project: str) -> Steps[Sequence[Alarm]]:
        stored = yield RedisCommand("HGET", control_keys.CONTROL.queue_alarms, project)
        return msgspec.json.decode(stored, type=list[Alarm]) if stored is not None else []

    @verb
    def all_alarms(self) -> Steps[Mapping[str, Sequence[Alarm]]]:
        stored = yield RedisCommand("HGETALL", control_keys.CONTROL.queue_alarms)
        return {
            project.decode(): msgspec.json.decode(alarms, type=list[Alarm])
            for project, alarms in zip(stored[::2], stored[1::2], strict=True)
        }

    @verb
    def largest_queues(self) -> Steps[Mapping[str, Sequence[LargeQueue]]]:
        stored = yield RedisCommand("GET", control_keys.CONTROL.largest_queues)
        return _decode_largest(stored) if stored is not None else {}
