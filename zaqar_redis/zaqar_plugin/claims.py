# SPDX-License-Identifier: Apache-2.0
"""Claims for stock Zaqar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zaqar import storage
from zaqar.storage import errors as storage_errors

from zaqar_redis.records import Lease
from zaqar_redis.zaqar_plugin.messages import to_document

MessageDocuments = Iterator[dict[str, Any]]


class ClaimController(storage.Claim):
    def create(
        self,
        queue: str,
        metadata: dict[str, Any],
        project: str | None = None,
        limit: int = storage.DEFAULT_MESSAGES_PER_CLAIM,
    ) -> tuple[str | None, MessageDocuments]:
        self.driver.copy_settings(project, queue)
        claimed = self.driver.run(
            project,
            queue,
            lambda store: store.claims.create,
            Lease(metadata["ttl"], metadata["grace"]),
            limit=limit,
        )
        return claimed.claim_id, map(to_document, claimed.messages)

    def get(
        self, queue: str, claim_id: str, project: str | None = None
    ) -> tuple[dict[str, Any], MessageDocuments]:
        claim = self.driver.run(project, queue, lambda store: store.claims.get, claim_id or "")
        if claim is None:
            raise storage_errors.ClaimDoesNotExist(claim_id, queue, project)
        metadata = {"id": claim.id, "age": claim.age, "ttl": claim.ttl}
        return metadata, map(to_document, claim.messages)

    def update(
        self, queue: str, claim_id: str, metadata: dict[str, Any], project: str | None = None
    ) -> None:
        self.get(queue, claim_id, project)  # first: of a missing claim metadata may lack fields
        renewed = self.driver.run(
            project,
            queue,
            lambda store: store.claims.update,
            claim_id,
            Lease(metadata["ttl"], metadata["grace"]),
        )
        if renewed is None:
            raise storage_errors.ClaimDoesNotExist(claim_id, queue, project)

    def delete(self, queue: str, claim_id: str, project: str | None = None) -> None:
        self.driver.run(project, queue, lambda store: store.claims.delete, claim_id or "")
