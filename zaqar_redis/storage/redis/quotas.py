# SPDX-License-Identifier: Apache-2.0
"""Quotas in Redis."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zaqar_redis import errors, formats
from zaqar_redis.keyspace import control_keys
from zaqar_redis.keyspace.script import RedisCommand, Script, Steps, verb
from zaqar_redis.records import Quota, QuotaNews
from zaqar_redis.storage.control import QUOTAS_MAX
from zaqar_redis.storage.redis.resource import RedisResource

_PUT = Script("quota_put")
_DELETE = Script("quota_delete")
_REPORT = Script("quota_report")
_WORKERS = Script("worker_list")


class RedisQuotas(RedisResource):
    @verb
    def put(self, project: str, quota: Quota) -> Steps[None]:
        done = yield _PUT(
            control_keys.CONTROL,
            project=project,
            quota=msgspec.json.encode(quota),
            most=QUOTAS_MAX,
        )
        if not done:
            raise errors.LimitExceeded(most=QUOTAS_MAX, what="quotas")

    @verb
    def get(self, project: str) -> Steps[Quota | None]:
        stored = yield RedisCommand("HGET", control_keys.CONTROL.quotas, project)
        return _quota(stored) if stored is not None else None

    @verb
    def list(self) -> Steps[dict[str, Quota]]:
        return _quotas((yield RedisCommand("HGETALL", control_keys.CONTROL.quotas)))

    @verb
    def delete(self, project: str) -> Steps[None]:
        yield _DELETE(control_keys.CONTROL, project=project)

    @verb
    def report(
        self, worker: str, seconds: float, sockets: dict[str, int], version: int | None
    ) -> Steps[QuotaNews]:
        current, others, flat = yield _REPORT(
            control_keys.CONTROL,
            now=self._now(),
            worker=formats.worker_name(worker),
            period=int(seconds * 1000),
            report=msgspec.json.encode(sockets),
            known="" if version is None else version,
        )
        return QuotaNews(
            version=int(current),
            others=[msgspec.json.decode(other, type=dict[str, int]) for other in others],
            quotas=None if flat is None else _quotas(flat),
        )

    @verb
    def workers(self) -> Steps[Sequence[formats.WorkerRelease]]:
        names = yield _WORKERS(control_keys.CONTROL, now=self._now())
        return [formats.release_of(name.decode()) for name in names]


def _quota(stored: bytes) -> Quota:
    return msgspec.json.decode(stored, type=Quota)


def _quotas(flat: Sequence[bytes]) -> dict[str, Quota]:
    pairs = zip(flat[::2], flat[1::2], strict=True)
    return {project.decode(): _quota(stored) for project, stored in pairs}
