# SPDX-License-Identifier: Apache-2.0
"""The client and a service: what is posted, claimed and acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from datetime import UTC, datetime, timedelta

import pytest
from zaqar_redis_client import (
    AsyncClient,
    Attribute,
    Client,
    Draft,
    LeaseLost,
    Message,
    NotFound,
    Refused,
    SignedURL,
)

from tests.support import servers

_BYTES = bytes(range(256))


async def test_message_comes_back_with_all_its_fields(client: AsyncClient) -> None:
    queue = client.queue("q")
    attributes: dict[str, Attribute] = {"kind": "order", "price": 9.5, "photo": _BYTES}
    posted = await queue.post(
        {"n": 1}, ttl=600, group="ann", priority=7, dedup_id="one", attributes=attributes
    )
    again = await queue.post({"n": 2}, dedup_id="one")
    message = await queue.get(posted)
    assert (again, message.body, message.ttl) == (posted, {"n": 1}, 600)
    assert (message.group, message.priority, message.dedup_id) == ("ann", 7, "one")
    assert message.attributes == attributes
    with pytest.raises(NotFound):
        await queue.get(posted[:-1] + "9")


async def test_many_messages_of_which_one_is_no_json_post_none(client: AsyncClient) -> None:
    queue = client.queue("q")
    await queue.create()
    with pytest.raises(TypeError):
        await queue.post_many([*range(1500), object()])
    assert [each async for each in queue.messages()] == []


async def test_draft_is_posted_with_its_fields(client: AsyncClient) -> None:
    queue = client.queue("q")
    message = await queue.get(await queue.post(Draft(body="one", ttl=600)))
    assert (message.body, message.ttl) == ("one", 600)


async def test_bytes_come_back_as_bytes(client: AsyncClient) -> None:
    queue = client.queue("q")
    await queue.post(_BYTES)
    (message,) = await queue.pop()
    assert message.body == _BYTES


async def test_body_that_has_a_media_type_keeps_it(client: AsyncClient) -> None:
    queue = client.queue("q")
    await queue.post_many([Draft(body=_BYTES, content_type="image/png"), _BYTES, "JSON"])
    await queue.post("a;b\r\n", content_type="text/csv; charset=utf-8")
    assert [(each.body, each.content_type) async for each in queue.messages()] == [
        (_BYTES, "image/png"),
        (_BYTES, "application/octet-stream"),
        ("JSON", ""),
        ("a;b\r\n", "text/csv; charset=utf-8"),
    ]
    with pytest.raises(Refused, match="content_type"):
        await queue.post({"no": "text"}, content_type="text/csv")


async def test_message_says_when_it_was_claimed_first(client: AsyncClient) -> None:
    queue = client.queue("q")
    message_id = await queue.post(1)
    assert (await queue.get(message_id)).first_claimed is None
    before = datetime.now(UTC).replace(microsecond=0)
    claim = await queue.claim()
    assert claim
    first = claim.messages[0].first_claimed
    assert first is not None
    assert before - timedelta(seconds=1) <= first <= datetime.now(UTC) + timedelta(seconds=1)
    await claim.release()
    assert (await queue.get(message_id)).first_claimed == first


async def test_delayed_message_is_listed_when_it_is_asked_for(client: AsyncClient) -> None:
    queue = client.queue("q")
    await queue.post("later", deliver_at=datetime.now(UTC) + timedelta(hours=1))
    await queue.post("now")
    assert [each.body async for each in queue.messages()] == ["now"]
    assert [each.body async for each in queue.messages(delayed=True)] == ["later", "now"]


async def test_posts_of_one_turn_leave_in_one_request(client: AsyncClient) -> None:
    queue = client.queue("q")
    ids = await asyncio.gather(*(client.queue("q").post(number) for number in range(50)))
    assert [each.body async for each in queue.messages()] == [*range(50)]
    assert [each.id async for each in queue.messages()] == ids
    assert (await queue.stats())["idempotency_records"] == 1


async def test_many_messages_keep_their_order_over_several_requests(client: AsyncClient) -> None:
    queue = client.queue("q")
    drafts = [Draft(body="x" * 1000 + str(number)) for number in range(450)]
    ids = await queue.post_many(drafts)
    assert len({*ids}) == 450
    assert ids == [each.id async for each in queue.messages()]
    assert (await queue.stats())["idempotency_records"] == 3


async def test_wrong_message_fails_alone_of_the_posts_that_leave_together(
    client: AsyncClient,
) -> None:
    queue = client.queue("q")
    outcomes = await asyncio.gather(
        queue.post(1), queue.post(2, ttl=1), queue.post(3), return_exceptions=True
    )
    assert [isinstance(each, Refused) for each in outcomes] == [False, True, False]
    assert "ttl" in str(outcomes[1])
    assert sorted([each.body async for each in queue.messages()]) == [1, 3]


async def test_claim_holds_extends_releases_and_deletes_single_messages(
    client: AsyncClient,
) -> None:
    queue = client.queue("q")
    await queue.create(_min_claim_ttl=1)
    await queue.post_many([1, 2, 3])
    claim = await queue.claim(3, ttl=60)
    assert claim
    assert await queue.claim() is None
    one, two, three = claim.messages
    await claim.extend(one.id, 600)
    await claim.release([two.id], delay=0, reason="no paper")
    with pytest.raises(LeaseLost):
        await claim.extend(two.id, 60)
    outcomes = await asyncio.gather(
        *(claim.delete(each.id) for each in (one, two, three)), return_exceptions=True
    )
    assert [type(each) for each in outcomes] == [type(None), LeaseLost, type(None)]
    again = await queue.claim()
    assert again
    assert (again.messages[0].body, again.messages[0].claim_count) == (2, 2)
    assert again.messages[0].reason == "no paper"


async def test_messages_that_are_deleted_at_once_are_gone_though_one_was_not_held(
    client: AsyncClient,
) -> None:
    queue = client.queue("q")
    await queue.post_many(list(range(60)))
    first, second = await queue.claim(20), await queue.claim(20)
    assert first
    assert second
    await first.delete(*(each.id for each in first.messages))
    await second.release([second.messages[3].id])
    with pytest.raises(LeaseLost):
        await second.delete(*(each.id for each in second.messages))
    assert sorted([each.body async for each in queue.messages()]) == [23, *range(40, 60)]


async def test_wrong_value_for_a_lease_is_refused_and_the_lease_stays(client: AsyncClient) -> None:
    queue = client.queue("q")
    await queue.post(1)
    claim = await queue.claim()
    assert claim
    for wrong in (
        claim.extend(claim.messages[0].id, 5),
        claim.release([claim.messages[0].id], delay=5000),
    ):
        with pytest.raises(Refused) as refused:
            await wrong
        assert (refused.value.status, isinstance(refused.value, LeaseLost)) == (400, False)
    await claim.delete(claim.messages[0].id)


async def test_consumers_that_wait_leave_connections_to_others(
    running: servers.RunningService, project: str
) -> None:
    async with AsyncClient(running.url, project, connections=1) as client:
        waiting = [asyncio.create_task(client.queue(f"q{n}").claim(wait=20)) for n in range(3)]
        await client.queue("other").post(1)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def test_consumer_gets_what_comes_and_gives_back_what_it_did_not_yield(
    client: AsyncClient,
) -> None:
    queue = client.queue("q")
    await queue.post_many([1, 2, 3, 4, 5])
    done = []
    async with contextlib.aclosing(queue.consume(prefetch=5)) as leases:
        async for lease in leases:
            done.append(lease.body)
            await lease.ack()
            if len(done) == 2:
                break
    assert done == [1, 2]
    assert [each.body async for each in queue.messages()] == [3, 4, 5]


async def test_lease_is_renewed_while_the_message_is_held(client: AsyncClient) -> None:
    queue = client.queue("q")
    await queue.create(_min_claim_ttl=1)
    await queue.post("long")
    async with contextlib.aclosing(queue.consume(ttl=9)) as leases:
        lease = await anext(leases)
        ages = [0]
        while not max(ages) > ages[-1]:  # renewed: it is young again
            ages.append((await lease.claim.show())["age"])
            await asyncio.sleep(0.1)
        await lease.ack()
    assert (await queue.stats())["messages"]["total"] == 0


async def test_settings_of_a_queue_change_and_are_shown(client: AsyncClient) -> None:
    queue = client.queue("q")
    assert await queue.create(_max_claim_count=5, colour="red")
    assert not await queue.create()
    changed = await queue.update(colour=None, _max_claim_count=7, size=3)
    assert ("colour" in changed, changed["_max_claim_count"], changed["size"]) == (False, 7, 3)
    with pytest.raises(Refused, match="_max_messages"):
        await queue.update(_max_messages=0)
    await queue.delete()
    assert [each async for each in client.queues()] == []


async def test_settings_that_two_clients_change_at_once_change(client: AsyncClient) -> None:
    queue = client.queue("q")
    await queue.create(old=1, **{"a/b~c": 1})
    changes = [{"old": None, "new": number, "a/b~c": number} for number in range(4)]
    found = await asyncio.gather(*(queue.update(**change) for change in changes))
    assert "old" not in await queue.metadata()
    assert {each["new"] == each["a/b~c"] for each in found} == {True}


async def test_misspelt_setting_is_named_in_the_log(
    client: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    await client.queue("q").create(_max_claim_counts=3)
    assert caplog.messages == ['PUT /v2/queues/q: without effect: "_max_claim_counts"']


async def test_one_body_in_place_of_many_is_refused(client: AsyncClient) -> None:
    for body in ("text", b"bytes", {"a": 1}):
        with pytest.raises(TypeError, match="list of bodies"):
            await client.queue("q").post_many(body)
    assert [each async for each in client.queue("q").messages()] == []


async def test_topic_and_subscription(client: AsyncClient) -> None:
    topic = client.topic("news")
    await topic.post_many(["a", "b"])
    assert [each.body async for each in topic.messages(reverse=True)] == ["b", "a"]
    made = await topic.subscribe("queue:copies")
    await topic.post("c")
    copies = client.queue("copies")
    claim = await copies.claim(wait=20)
    assert claim
    assert claim.messages[0].body == "c"
    await topic.unsubscribe(made["subscription_id"])


async def test_signed_url_allows_what_it_names(
    client: AsyncClient, running: servers.RunningService
) -> None:
    queue = client.queue("q")
    await queue.post("seen")
    expires = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S")
    shared = await queue.share(methods=["GET"], expires=expires)
    async with AsyncClient(running.url, credential=SignedURL(shared)) as other:
        assert [each.body async for each in other.queue("q").messages()] == ["seen"]
        with pytest.raises(Refused) as refused:
            await other.queue("q").post("no")
        assert refused.value.status in (401, 403, 404)


def test_without_await_it_does_the_same(running: servers.RunningService, project: str) -> None:
    with Client(running.url, project) as client:
        queue = client.queue("q")
        queue.create()
        queue.post_many([1, 2, 3])
        queue.post(b"bytes")
        claim = queue.claim()
        assert claim
        assert claim.messages[0].body == 1
        claim.release()
        done = []
        for lease in queue.consume(prefetch=2):
            done.append(lease.body)
            lease.ack()
            if len(done) == 3:
                break
        assert done == [1, 2, 3]
        listed: list[Message] = list(queue.messages())
        assert [each.body for each in listed] == [b"bytes"]
        assert list(client.queues()) == ["q"]


def test_client_without_await_takes_the_same_arguments() -> None:
    wanted = inspect.signature(AsyncClient).parameters
    assert inspect.signature(Client).parameters == wanted


def test_lease_without_await_says_that_it_is_lost(
    running: servers.RunningService, project: str
) -> None:
    with Client(running.url, project) as client:
        queue = client.queue("q")
        queue.create(_min_claim_ttl=1)
        queue.post(1)
        for lease in queue.consume(ttl=9):
            assert (lease.is_lost, lease.claim.is_lost) == (False, False)
            assert lease.claim.show()["messages"][0]["body"] == lease.body
            queue.delete()
            lease.lost()
            assert (lease.is_lost, lease.claim.is_lost) == (True, True)
            break
