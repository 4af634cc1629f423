# SPDX-License-Identifier: Apache-2.0
"""Webhooks reach public addresses only, and those that the operator allows, however it is tried."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from tests.notify.endpoints import NamesOfTests, answer, delivery, endpoint, http_target
from zaqar_redis import errors
from zaqar_redis.notify.addresses import AddressGuard, AddressNotAllowed, SystemResolver
from zaqar_redis.notify.settings import HttpSettings
from zaqar_redis.notify.target import Outcome, Result
from zaqar_redis.notify.targets.http import HttpTarget
from zaqar_redis.service.subscription_options import SubscriptionOptions

#: Only one of this machine's addresses; the others are as forbidden as ever.
ONE = HttpSettings(allowed_networks=("127.0.0.1/32",))

_FORBIDDEN = [
    *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.255", "169.254.169.254"),
    *("172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1"),
    *("198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
    *("255.255.255.255", "100.100.100.200", "168.63.129.16"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8", "100::1"),
    *("2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1", "2001:db8::1"),
    *("2002:7f00:1::1", "2002:a00:1::", "3fff::1", "4000::1", "5f00::1", "fc00::1"),
    "fd00:ec2::254",
    *("fe80::1", "fe80::1%lo", "fec0::1", "ff02::1"),
]
_PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"),
    *("192.0.1.1", "198.17.0.1", "198.20.0.1", "223.255.255.255"),
    *("2001:4860:4860::8888", "2606:4700:4700::1111", "2a00:1450::1"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8"),
]


@pytest.mark.parametrize(
    ("address", "allowed"),
    [*((each, False) for each in _FORBIDDEN), *((each, True) for each in _PUBLIC)],
)
def test_address_is_allowed_if_it_is_public(address: str, allowed: bool) -> None:
    assert AddressGuard([]).allows(ipaddress.ip_address(address)) is allowed


def test_network_that_the_operator_allows_is_allowed_in_each_form() -> None:
    guard = AddressGuard(["10.2.0.0/16", "fd12::/16"])
    for address in ("10.2.3.4", "::ffff:10.2.3.4", "64:ff9b::10.2.3.4", "fd12::1"):
        assert guard.allows(ipaddress.ip_address(address))
    for address in ("10.3.0.1", "::ffff:10.3.0.1", "::10.2.3.4", "fd13::1"):
        assert not guard.allows(ipaddress.ip_address(address))


def test_all_of_ipv6_does_not_include_ipv4() -> None:
    guard = AddressGuard(["::/0"])
    assert guard.allows(ipaddress.ip_address("::1"))
    assert not guard.allows(ipaddress.ip_address("::ffff:127.0.0.1"))


@pytest.mark.parametrize("network", ["10.2.0.1/16", "10.2", "localhost", "10.0.0.0/33"])
def test_network_that_is_none_is_a_bad_configuration(network: str) -> None:
    with pytest.raises(errors.BadConfiguration, match=r"\[notification\] allowed_networks"):
        HttpTarget(HttpSettings(allowed_networks=(network,)))


#: Spellings of 127.0.0.1, and of others that lead to this machine.
_SPELLED = [
    *("127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0"),
    *("127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]"),
    *("[::127.0.0.1]", "[64:ff9b::7f00:1]", "[fe80::1%25lo]"),
    "\uff11\uff12\uff17.0.0.1",  # IDNA makes ASCII of these
    "127\u30020\u30020\u30021",
]


@pytest.mark.parametrize(
    "host",
    [
        *_SPELLED,
        *map(str, range(15)),  # those of stock's tests
        *("localhost", "example.com", "a1", "10.2.3.4", "8.8.8.8", "134744072"),
        "[2606:4700:4700::1111]",
    ],
)
def test_names_and_addresses_are_accepted_at_creation_whatever_they_lead_to(host: str) -> None:
    HttpTarget(HttpSettings()).check(f"http://{host}/", SubscriptionOptions())


@pytest.mark.parametrize("host", ["0", "127.1", "0x7f000001", "2130706433", "127.0.0.1."])
async def test_address_in_another_spelling_is_reached_if_its_network_is_allowed(host: str) -> None:
    settings = HttpSettings(allowed_networks=("0.0.0.0/8", "127.0.0.0/8"))
    async with endpoint(answer(200)) as found, http_target(settings) as target:
        result = await target.deliver(delivery(found.uri(host=host)))
    assert result.outcome is Outcome.DELIVERED


async def test_address_that_is_not_allowed_is_named_to_the_owner() -> None:
    async with http_target(HttpSettings()) as target:
        result = await target.deliver(delivery("http://0/hook"))
    assert result.outcome is Outcome.RETRY
    assert result.error == "the address of http://0.0.0.0 is not allowed"


@pytest.mark.parametrize("host", [*_SPELLED, "localhost", "LOCALHOST.", "127%2e0.0.1"])
async def test_nothing_that_leads_to_this_machine_is_connected_to(host: str) -> None:
    async with endpoint(answer(200)) as found, http_target(HttpSettings()) as target:
        result = await target.deliver(delivery(found.uri(host=host), timeout=5))
    assert result.outcome is not Outcome.DELIVERED
    assert found.accepted == []


async def _delivered(
    names: NamesOfTests, settings: HttpSettings = ONE, times: int = 1
) -> list[Result]:
    """Returns what came of deliveries to *hook.example*, at an endpoint on 127.0.0.1."""
    async with endpoint(answer(200)) as found, http_target(settings, names) as target:
        uri = found.uri(host="hook.example")
        return [await target.deliver(delivery(uri)) for _ in range(times)]


async def test_name_of_a_forbidden_address_is_refused_without_showing_the_address() -> None:
    (result,) = await _delivered(NamesOfTests(hook_example=[["10.11.12.13"]]))
    assert result.outcome is Outcome.RETRY  # names may get another address
    assert "the address of http://hook.example" in result.error
    assert result.error.endswith(" is not allowed")
    assert "10.11" not in result.error


async def test_all_forbidden_addresses_of_a_name_are_refused_alike() -> None:
    (result,) = await _delivered(
        NamesOfTests(hook_example=[["10.11.12.13", "127.0.0.2", "192.168.1.1"]])
    )
    assert result.error.endswith(" is not allowed")


async def test_permitted_address_of_a_name_is_used() -> None:
    for addresses in (["127.0.0.2", "127.0.0.1"], ["10.0.0.1", "127.0.0.2", "127.0.0.1"]):
        (result,) = await _delivered(NamesOfTests(hook_example=[addresses]))
        assert result.outcome is Outcome.DELIVERED


async def test_name_whose_address_changes_is_checked_at_each_connection() -> None:
    names = NamesOfTests(hook_example=[["127.0.0.1"], ["127.0.0.2"]])
    async with (
        endpoint(answer(200, "Connection: close\r\n")) as found,
        endpoint(answer(200), "127.0.0.2", found.port) as inner,
        http_target(ONE, names) as target,
    ):
        uri = found.uri(host="hook.example")
        first = await target.deliver(delivery(uri))
        second = await target.deliver(delivery(uri))
    assert (first.outcome, second.outcome) == (Outcome.DELIVERED, Outcome.RETRY)
    assert second.error.endswith(" is not allowed")
    assert inner.accepted == []


@pytest.mark.parametrize("host", ["127.0.0.2", "inner.example", "0x7f.2", "[::ffff:127.0.0.2]"])
async def test_redirect_to_a_forbidden_address_is_not_followed(host: str) -> None:
    names = NamesOfTests(inner_example=[["127.0.0.2"]], **{"0x7f_2": [["127.0.0.2"]]})
    async with endpoint(answer(200), "127.0.0.2") as inner:
        to = f"Location: {inner.uri(host=host)}\r\n"
        async with endpoint(answer(307, to)) as found, http_target(ONE, names) as target:
            result = await target.deliver(delivery(found.uri()))
    assert result.outcome is not Outcome.DELIVERED
    assert inner.accepted == []


async def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        endpoint(answer(200)) as proxy,
        endpoint(answer(200)) as found,
        http_target() as target,
    ):
        monkeypatch.setenv("http_proxy", proxy.uri())
        monkeypatch.setenv("HTTP_PROXY", proxy.uri())
        await target.deliver(delivery(found.uri()))
    assert (len(found.received), proxy.accepted) == (1, [])


def test_socket_for_a_forbidden_address_is_not_made() -> None:
    info = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))
    with pytest.raises(AddressNotAllowed):
        AddressGuard([]).open_socket(info)


async def test_name_that_does_not_exist_is_named() -> None:
    async with http_target() as target:
        result = (await target.deliver(delivery("http://nowhere.invalid/"))).error
    assert result == "the name of http://nowhere.invalid could not be resolved"


async def test_system_resolves_names_of_this_machine() -> None:
    names = SystemResolver()
    assert "127.0.0.1" in [each["host"] for each in await names.resolve("localhost", 80)]
    with pytest.raises(OSError, match="is not a name"):
        await names.resolve("a" * 70 + ".example")
    await names.close()
