# SPDX-License-Identifier: Apache-2.0
"""Administrators in projects that are not their own."""

from __future__ import annotations

import pytest

from zaqar_redis.auth.identity import ADMIN, API_KEY, MEMBER, NONE, Identity, with_implied


@pytest.mark.parametrize(
    ("project", "role", "strategy", "is_foreign"),
    [
        ("operations", ADMIN, "key", True),
        ("", ADMIN, "keystone", True),  # of the whole system
        ("shop", ADMIN, "key", False),
        ("operations", MEMBER, "key", False),
        ("", ADMIN, NONE, False),
        ("", ADMIN, API_KEY, False),
    ],
)
def test_administrator_of_another_project_is_foreign_unless_of_no_project_at_all(
    project: str, role: str, strategy: str, is_foreign: bool
) -> None:
    identity = Identity(project, "user", with_implied(frozenset((role,))), strategy=strategy)
    assert identity.is_foreign_to("shop") == is_foreign
