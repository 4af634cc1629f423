# SPDX-License-Identifier: Apache-2.0
"""Checks what clients saw of queues against what is promised.

After Jepsen's total-queue: what was acknowledged is there, or was deleted; nothing comes twice,
comes back, or from nowhere. And no message is in two live claims, ids are unique, and messages that
were posted one after another are in that order. All of it holds whatever the outcome of acts that
were not answered.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from benchmarks.chaos.history import Act

#: Seconds by which the clocks of a store and of clients may round differently.
_ROUNDING = 0.005
#: Says whether what an act has changed may be lost, as the documents say.
IsAtRisk = Callable[[Act], bool]
#: Of queues: what nobody may be refused, except by a store that is full.
_NEVER_REFUSED = ("post", "claim")


class ChaosFinding(msgspec.Struct, frozen=True):
    """Something that is not as promised."""

    #: lost, unexpected, twice, back, id, claims, order, copy, hole, gap, status, away, damage,
    #: process
    rule: str
    place: str
    what: str
    #: whether it is a documented exception: a failover to a replica that had not confirmed
    is_excused: bool = False


class LeftMessage(msgspec.Struct, frozen=True):
    """A message of a listing."""

    id: str
    body: str


class QueueHistory:
    """The acts of one queue, and what is in it at the end."""

    def __init__(self, queue: str, acts: Iterable[Act], left: Sequence[LeftMessage]) -> None:
        """*left*: in the order of the listing."""
        self.queue = queue
        self.left = left
        #: by kind, in the order in which they began
        self.acts: dict[str, list[Act]] = defaultdict(list)
        #: by body
        self.posts: dict[str, Act] = {}
        self.deletions: dict[str, list[Act]] = defaultdict(list)
        for act in acts:
            self.acts[act.kind].append(act)
            for body in act.bodies:
                if act.kind == "post":
                    self.posts[body] = act
                elif act.kind == "delete":
                    self.deletions[body].append(act)

    def seen(self) -> Iterator[tuple[str, str, Act | None]]:
        """Yields ids and bodies that were answered, with the act, and those that are left."""
        for act in (*self.acts["post"], *self.acts["claim"]):
            if act.is_ok:
                yield from ((id, body, act) for id, body in zip(act.ids, act.bodies, strict=True))
        yield from ((each.id, each.body, None) for each in self.left)


def check_queue(history: QueueHistory, is_at_risk: IsAtRisk) -> list[ChaosFinding]:
    """Returns all that is not as promised."""
    rules = (_lost, _unexpected, _ids, _back, _claims, _order, _listed, _statuses)
    return [finding for rule in rules for finding in rule(history, is_at_risk)]


def _lost(history: QueueHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    left = {each.body for each in history.left}
    for body, post in history.posts.items():
        if post.is_ok and body not in left and not _may_be_deleted(history, body):
            text = f"{body} was acknowledged, never deleted, and is not there"
            yield ChaosFinding("lost", history.queue, text, is_at_risk(post))


def _may_be_deleted(history: QueueHistory, body: str) -> bool:
    return any(each.outcome != "refused" for each in history.deletions[body])


def _unexpected(history: QueueHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    for body in dict.fromkeys(body for _, body, _ in history.seen()):
        post = history.posts.get(body)
        if post is None or post.outcome == "refused":
            how = "posted by nobody" if post is None else "answered that it was not posted"
            yield ChaosFinding("unexpected", history.queue, f"{body} was {how}, and is there")


def _ids(history: QueueHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    """An id is that of one message, and a message has one id: it was posted once."""
    bodies: dict[str, set[str]] = defaultdict(set)
    ids: dict[str, set[str]] = defaultdict(set)
    at_risk: set[str] = set()
    for id, body, act in history.seen():
        bodies[id].add(body)
        ids[body].add(id)
        if act and is_at_risk(act):
            at_risk.update((id, body))
    for id, several in bodies.items():
        if len(several) > 1:
            text = f"{id} is the id of {', '.join(sorted(several))}"
            yield ChaosFinding("id", history.queue, text, id in at_risk)
    for body, several in ids.items():
        if len(several) > 1:
            text = f"{body} is there twice, as {', '.join(sorted(several))}"
            yield ChaosFinding("twice", history.queue, text, body in at_risk)
    for body, count in Counter(each.body for each in history.left).items():
        if count > 1 and len(ids[body]) == 1:
            yield ChaosFinding("twice", history.queue, f"{body} is listed {count} times")


def _back(history: QueueHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    """What was deleted is neither claimed by a later request, nor there at the end."""

    def last_deletion(body: str, before: float) -> Act | None:
        # The last one: an earlier one may have been lost as expected, and then it was deleted anew.
        done = (act for act in history.deletions[body] if act.is_ok and act.end < before)
        return max(done, key=lambda act: act.end, default=None)

    for each in history.left:
        if act := last_deletion(each.body, math.inf):
            text = f"{each.body} was deleted, and is there"
            yield ChaosFinding("back", history.queue, text, is_at_risk(act))
    for claim in history.acts["claim"]:
        for body in claim.bodies:
            if act := last_deletion(body, claim.begin):
                text = f"{body} was deleted, and {claim.client} claimed it later"
                yield ChaosFinding("back", history.queue, text, is_at_risk(act))


class Hold(msgspec.Struct, frozen=True):
    """A message in a claim: seconds between which it was certainly held, and no longer."""

    claim: Act
    begin: float
    end: float


def _claims(history: QueueHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    """A message is in one live claim: no two certainly hold it at the same time."""
    for body, holds in _holds(history, is_at_risk).items():
        for held, later in pairwise(sorted(holds, key=lambda hold: hold.begin)):
            if later.begin < min(held.end, later.end):
                who = f"{held.claim.client} and {later.claim.client}"
                text = f"{body} was in two live claims, of {who}"
                yield ChaosFinding("claims", history.queue, text, is_at_risk(held.claim))


def _holds(history: QueueHistory, is_at_risk: IsAtRisk) -> Mapping[str, Sequence[Hold]]:
    released: dict[str, float] = {}
    renewed: dict[str, float] = {}
    for act in history.acts["release"]:
        released[act.claim] = min(act.begin, released.get(act.claim, math.inf))
    for act in history.acts["renew"]:
        if act.is_ok and not is_at_risk(act):
            renewed[act.claim] = max(act.begin + act.ttl, renewed.get(act.claim, 0))
    found: dict[str, list[Hold]] = defaultdict(list)
    for claim in history.acts["claim"]:
        expires = max(claim.begin + claim.ttl, renewed.get(claim.claim, 0)) - _ROUNDING
        ends = min(expires, released.get(claim.claim, math.inf))
        for body in claim.bodies:
            asked = [act.begin for act in history.deletions[body] if act.claim == claim.claim]
            found[body].append(Hold(claim, claim.end, min([ends, *asked])))
    return found


def _order(history: QueueHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    """A message that was acknowledged before another one was posted has the lower rank."""
    posts = [act for act in history.acts["post"] if act.is_ok]
    for act in posts:
        if list(act.ids) != sorted(act.ids):
            text = f"the messages of one post are not in its order: {', '.join(act.bodies)}"
            yield ChaosFinding("order", history.queue, text)
    ended = sorted(posts, key=lambda act: act.end)
    last: Act | None = None
    position = 0
    for act in sorted(posts, key=lambda act: act.begin):
        while position < len(ended) and ended[position].end < act.begin:
            if last is None or ended[position].ids[-1] > last.ids[-1]:
                last = ended[position]
            position += 1
        if last and act.ids[0] <= last.ids[-1]:
            text = f"{act.bodies[0]} was posted after {last.bodies[-1]}, and is before it"
            yield ChaosFinding("order", history.queue, text, is_at_risk(last) or is_at_risk(act))


def _listed(history: QueueHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    for before, after in pairwise(history.left):
        if after.id <= before.id:
            text = f"{after.body} is listed after {before.body}, and has a lower id"
            yield ChaosFinding("order", history.queue, text)


def _statuses(history: QueueHistory, is_at_risk: IsAtRisk) -> Iterator[ChaosFinding]:
    """A store that is away is 503, one that is full 507; claims that have ended are 4xx."""
    for acts in history.acts.values():
        for act in acts:
            least = 400 if act.kind in _NEVER_REFUSED else 500
            if act.status >= least and act.status not in (503, 507):
                text = f"a {act.kind} of {act.client} was answered {act.status}"
                yield ChaosFinding("status", history.queue, text)


def check_return(
    acts: Iterable[Act], asked: Mapping[str, Sequence[str]], since: float
) -> list[ChaosFinding]:
    """Checks that the faults left nothing away.

    *asked*: the kinds of acts that each place must have had after *since*, acknowledged.
    """
    done = {(act.place, act.kind) for act in acts if act.is_ok and act.end > since}
    return [
        ChaosFinding("away", place, f"no {kind} was acknowledged after the last fault")
        for place, kinds in asked.items()
        for kind in kinds
        if (place, kind) not in done
    ]


def check_copies(
    source: QueueHistory, copies: Sequence[LeftMessage], is_at_risk: IsAtRisk
) -> list[ChaosFinding]:
    """Checks the queue to which a subscription forwards: each message once, in order.

    Also one whose post was not answered, when it is there.
    """
    found = []
    left = {each.body for each in source.left}
    listed = Counter(each.body for each in copies)
    for body, count in listed.items():
        if count > 1:
            found.append(ChaosFinding("copy", source.queue, f"{body} was forwarded {count} times"))
        if body not in source.posts:
            found.append(
                ChaosFinding("copy", source.queue, f"{body} was forwarded, and never posted")
            )
    for body, post in source.posts.items():
        if (post.is_ok or body in left) and body not in listed:
            text = f"{body} was not forwarded"
            found.append(ChaosFinding("copy", source.queue, text, is_at_risk(post)))
    ids = {body: id for id, body, _ in source.seen()}
    known = [(ids[each.body], each.body) for each in copies if each.body in ids]
    known = [each for each in known if each[1] in source.posts]
    for (before, first), (after, second) in pairwise(known):
        if after < before:
            at_risk = any(is_at_risk(source.posts[each]) for each in (first, second))
            text = f"{second} was forwarded after {first}, and is before it in the source"
            found.append(ChaosFinding("copy", source.queue, text, at_risk))
    return found
