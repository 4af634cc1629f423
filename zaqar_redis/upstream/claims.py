# SPDX-License-Identifier: Apache-2.0
"""Claims for stock Zaqar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.upstream.messages import shown
from zaqar_redis.upstream.stores import run

Messages = Iterator[dict[str, Any]]


class ClaimController(storage.Claim):
    def create(
        self,
        queue: str,
        metadata: dict[str, Any],
        project: str | None = None,
        limit: int = storage.DEFAULT_MESSAGES_PER_CLAIM,
    ) -> tuple[str | None, Messages]:
        store = self.driver.prepared(project, queue)
        taken = run(
            store.claims.create(
                project or "", queue, ttl=metadata["ttl"], grace=metadata["grace"], limit=limit
            )
        )
        return taken.claim_id, map(shown, taken.messages)

    def get(
        self, queue: str, claim_id: str, project: str | None = None
    ) -> tuple[dict[str, Any], Messages]:
        claim = run(self.driver.store.claims.get(project or "", queue, claim_id or ""))
        if claim is None:
            raise storage_errors.ClaimDoesNotExist(claim_id, queue, project)
        about = {"id": claim.id, "age": claim.age, "ttl": claim.ttl}
        return about, map(shown, claim.messages)

    def update(
        self, queue: str, claim_id: str, metadata: dict[str, Any], project: str | None = None
    ) -> None:
        self.get(queue, claim_id, project)  # what is given for no claim need not be whole
        renewed = run(
            self.driver.store.claims.update(
                project or "", queue, claim_id, ttl=metadata["ttl"], grace=metadata["grace"]
            )
        )
        if not renewed:
            raise storage_errors.ClaimDoesNotExist(claim_id, queue, project)

    def delete(self, queue: str, claim_id: str, project: str | None = None) -> None:
        run(self.driver.store.claims.delete(project or "", queue, claim_id or ""))
