# SPDX-License-Identifier: Apache-2.0
"""The policy: its rules and their defaults, and what an operator's file changes."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from oslo_config import cfg

from tests.support import servers
from tests.support.backends import Backend
from tests.support.raw_http import CLIENT
from zaqar_redis import errors
from zaqar_redis.auth import policy
from zaqar_redis.auth.identity import ADMIN, MEMBER, READER, Identity, Right, with_implied
from zaqar_redis.auth.policy import PolicyEnforcer

#: Stock Zaqar's rules (its policy in code), by kind of resource.
STOCK = {
    "queues": "get_all create get delete update stats share purge",
    "messages": "get_all create get delete delete_all",
    "claims": "create get delete update",
    "subscription": "get_all create get delete update confirm",
    "topics": "get_all create get delete update stats purge",
    "ping": "get",
    "health": "get",
    "pools": "get_all create get delete update",
    "flavors": "get_all get create delete update",
}


def identity(*roles: str, project: str = "p", rights: tuple[Right, ...] = ()) -> Identity:
    return Identity(project, "someone", with_implied(frozenset(roles)), rights)


def is_allowed(who: Identity, action: str, queue: str = "") -> bool:
    try:
        PolicyEnforcer().authorize(who, action, "p", queue)
    except errors.Forbidden:
        return False
    return True


def with_file(folder: Path, text: str) -> PolicyEnforcer:
    file = folder / "policy.yaml"
    file.write_text(text)
    return named(folder, str(file))


def named(folder: Path, file: str) -> PolicyEnforcer:
    options = servers.config_file(folder, f"[oslo_policy]\npolicy_file = {file}\n")
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[options], default_config_dirs=[])
    return PolicyEnforcer(conf)


def test_rules_have_the_names_of_stock_zaqar() -> None:
    stock = {f"{kind}:{verb}" for kind, verbs in STOCK.items() for verb in verbs.split()}
    assert stock | {"context_is_admin", "admin_or_owner"} <= set(PolicyEnforcer().rules)


@pytest.mark.parametrize(
    ("roles", "allowed"),
    [(("heat_stack_owner",), True), (("heat_stack_owner", READER), False), ((), True)],
)
def test_any_role_but_that_of_a_reader_may_write(roles: tuple[str, ...], allowed: bool) -> None:
    """As in stock Zaqar; what the roles of ours may do is in tests/auth/matrix.py."""
    assert is_allowed(identity(*roles), "messages:create") == allowed


@pytest.mark.parametrize(
    ("queue", "action", "allowed"),
    [
        ("orders-eu", "messages:create", True),
        ("orders-eu", "messages:delete", True),
        ("orders-eu", "queues:delete", False),
        ("invoices", "messages:create", False),
        ("invoices", "queues:get", True),
        ("", "queues:get_all", False),
    ],
)
def test_rights_restrict_actions_and_queues(queue: str, action: str, allowed: bool) -> None:
    rights = (Right("orders-*", ("messages:*", "claims:*")), Right("*", ("queues:get",)))
    assert is_allowed(identity(MEMBER, rights=rights), action, queue=queue) == allowed


def test_rights_give_nothing_that_roles_do_not() -> None:
    everything = (Right("*", ("*",)),)
    assert not is_allowed(identity(READER, rights=everything), "messages:create", queue="q")
    assert not is_allowed(identity(MEMBER, rights=everything), "pools:get_all")


def test_file_of_the_operator_overrides_a_rule(tmp_path: Path) -> None:
    enforcer = with_file(tmp_path, '"queues:create": "rule:context_is_admin"\n')
    with pytest.raises(errors.Forbidden):
        enforcer.authorize(identity(MEMBER), "queues:create", "p")
    enforcer.authorize(identity(ADMIN), "queues:create", "p")
    enforcer.authorize(identity(MEMBER), "messages:create", "p")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"queues:create": "rule:missing"', "queues:create"),
        ('"queues:creat": "role:admin"', 'did you mean "queues:create"?'),
        ('"queues:create": null', '"queues:create" must be a text'),
        ('"queues:create": 5', '"queues:create" must be a text'),
        ('"queues:create": "role:admin and"', '"queues:create" cannot be read: role:admin and'),
        ('"queues:create": "foo bar"', '"queues:create" cannot be read: foo bar'),
        ('"queues:create": "not rule:queues:create"', "circle"),
        ("- a", "must have rules by name"),
        ('"queues:create": [', "while parsing"),
    ],
)
def test_wrong_file_is_reported_at_the_start(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(errors.BadConfiguration, match=r"^\[oslo_policy\] policy_file: ") as found:
        with_file(tmp_path, text)
    assert why in str(found.value)


def test_file_that_is_named_and_missing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(errors.BadConfiguration, match=r"there is no file missing\.yaml"):
        named(tmp_path, "missing.yaml")


def test_rule_of_the_operators_own_can_be_referred_to(tmp_path: Path) -> None:
    text = '"till": "user_id:someone"\n"queues:create": "rule:till"\n"queues:delete": "!"\n'
    enforcer = with_file(tmp_path, text)
    enforcer.authorize(identity(READER), "queues:create", "p")
    with pytest.raises(errors.Forbidden):
        enforcer.authorize(identity(ADMIN), "queues:delete", "p")


@pytest.mark.parametrize("change", ["removed", "wrong"])
def test_file_that_goes_wrong_later_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(policy, "RELOAD_INTERVAL", 0.0)
    enforcer = with_file(tmp_path, '"queues:create": "role:admin"')
    file = tmp_path / "policy.yaml"
    if change == "removed":
        file.unlink()
    else:
        file.write_text("- wrong")
    for _ in range(3):
        with pytest.raises(errors.Forbidden):
            enforcer.authorize(identity(MEMBER), "queues:create", "p")
    file.write_text("{}")
    enforcer.authorize(identity(MEMBER), "queues:create", "p")


def test_changed_file_counts_within_seconds(
    redis_server: Backend, tmp_path: Path, project: str
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("{}\n")
    headers = {"Client-ID": CLIENT, "X-Project-ID": project}
    options = {"oslo_policy": {"policy_file": file}}
    with servers.service(redis_server.uri, options=options) as running:
        url = f"{running.url}/v2/queues/q"
        with httpx.Client(headers=headers, timeout=30) as client:
            assert client.put(url).status_code == 201
            file.write_text('"queues:create": "!"\n')
            servers.wait_for(lambda: client.put(url).status_code == 403, "the policy to change")
