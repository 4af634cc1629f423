# SPDX-License-Identifier: Apache-2.0
"""A plain model of queues with claims, delays, expiry and dead letters.

This is the readable definition of what a store does; it is slow and removes
nothing.  Times are milliseconds, lifetimes seconds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from zaqar_redis import errors


@dataclass
class ModelMessage:
    rank: int
    body: str
    created: int
    ttl: int
    expires: int
    delay: int = 0
    claim: str | None = None
    held_until: int = 0
    count: int = 0
    #: when it can be claimed again after its last claim
    returns: int = 0
    origin: str = ""
    group: str = ""
    priority: int = 0


@dataclass
class ModelClaim:
    ttl: int
    start: int
    ranks: list[int]

    @property
    def ends(self) -> int:
        return self.start + self.ttl * 1000


@dataclass
class ModelQueue:
    delay: int = 0
    most: int | None = None
    dead_queue: str = ""
    dead_ttl: int | None = None
    #: seconds that a message waits after its first claim, and twice that after the second
    redelivery: int = 0
    #: messages at most; 0: any number
    limit: int = 0
    #: the oldest make room for newer ones; else these are refused
    drops: bool = False
    #: ranks that a step of priority is worth
    step: int = 0
    #: groups are claimed in order
    ordered: bool = False
    #: groups take turns
    fair: bool = False
    #: messages of a group that may be held; 0: any number
    concurrency: int = 0
    weights: dict[str, int] = field(default_factory=dict)
    #: ms that a group rests behind a message that is taken
    rest: float = 0
    #: by group
    rests_until: dict[str, float] = field(default_factory=dict)
    #: that of the message that was taken last
    turn: float = 0
    #: by group, the rank of its message that has a turn, and when that is
    turns: dict[str, tuple[int, float]] = field(default_factory=dict)
    #: what is not served: posts, claims or all
    paused: str = ""
    #: bytes at most; 0: any number
    most_bytes: int = 0
    last_rank: int = 0
    entries: dict[int, ModelMessage] = field(default_factory=dict)
    leases: dict[str, ModelClaim] = field(default_factory=dict)
    #: rank of the message that has a dedup id, and until when others with it are duplicates
    identified: dict[str, tuple[int, int]] = field(default_factory=dict)


class ReferenceModel:
    """The queues of the model, by name."""

    def __init__(self) -> None:
        self.now = 0
        self.queues: dict[str, ModelQueue] = {}

    # State at the current time.

    def alive(self, name: str) -> list[ModelMessage]:
        queue = self.queues.get(name) or ModelQueue()
        return [entry for _, entry in sorted(queue.entries.items()) if entry.expires > self.now]

    def is_held(self, entry: ModelMessage) -> bool:
        return entry.claim is not None and entry.held_until > self.now

    def is_delayed(self, name: str, entry: ModelMessage) -> bool:
        """Whether it is, or its group rests and it is the next one of it."""
        if self.is_held(entry):
            return False
        if self._is_later(name, entry):
            return True
        if self.queues[name].rests_until.get(entry.group, 0) <= self.now:
            return False
        return self._waiting(name)[entry.group][0] == entry.rank

    def _is_later(self, name: str, entry: ModelMessage) -> bool:
        returns = entry.returns
        if entry.claim and not returns:  # its lease has ended
            returns = entry.held_until + self._redelivery_ms(name, entry)
        return max(entry.created + entry.delay * 1000, returns) > self.now

    def _redelivery_ms(self, name: str, entry: ModelMessage) -> int:
        queue = self.queues[name]
        return 0 if self._is_dead(queue, entry) else queue.redelivery * entry.count * 1000

    def ready(self, name: str) -> list[ModelMessage]:
        return [
            entry
            for entry in self.alive(name)
            if not self.is_held(entry) and not self.is_delayed(name, entry)
        ]

    def lease(self, name: str, claim: str) -> ModelClaim | None:
        queue = self.queues.get(name)
        lease = queue.leases.get(claim) if queue else None
        return lease if lease and lease.ends > self.now else None

    def held(self, name: str, claim: str) -> list[ModelMessage]:
        """Returns the messages in the order in which they were claimed."""
        lease = self.lease(name, claim)
        alive = {entry.rank: entry for entry in self.alive(name)} if lease else {}
        claimed = [alive[rank] for rank in lease.ranks if rank in alive] if lease else []
        return [entry for entry in claimed if entry.claim == claim and self.is_held(entry)]

    def is_paused(self, name: str, what: str) -> bool:
        queue = self.queues.get(name)
        return queue is not None and queue.paused in (what, "all")

    # Operations.

    def make_room(self, name: str, count: int, size: int, sizes: Mapping[int, int]) -> bool:
        """Returns whether so many messages may be posted; removes those that they replace.

        *size*: their bytes.  *sizes*: bytes of each message in the queue, by rank.
        """
        queue = self.queues.setdefault(name, ModelQueue())
        alive, ready = self.alive(name), self.ready(name)
        excess = len(alive) + count - queue.limit if queue.limit else 0
        too_many = queue.most_bytes and size - queue.most_bytes
        too_many += sum(sizes[entry.rank] for entry in alive) if queue.most_bytes else 0
        if excess <= 0 and too_many <= 0:
            return True
        if not queue.drops or len(ready) < min(excess, count):
            return False
        if count > (queue.limit or count) or size > (queue.most_bytes or size):
            return False
        if sum(sizes.get(entry.rank, 0) for entry in ready) < min(too_many, size):
            return False
        if queue.step:
            ready.sort(key=lambda entry: -entry.priority, reverse=True)
        for entry in ready:
            if excess <= 0 and too_many <= 0:
                break
            excess, too_many = excess - 1, too_many - sizes.get(entry.rank, 0)
            del queue.entries[entry.rank]
        return True

    def post(
        self,
        name: str,
        body: str,
        ttl: int,
        delay: int | None,
        origin: str = "",
        group: str = "",
        priority: int = 0,
    ) -> int:
        queue = self.queues.setdefault(name, ModelQueue())
        queue.last_rank += 1
        own_delay = queue.delay if delay is None else delay
        queue.entries[queue.last_rank] = ModelMessage(
            rank=queue.last_rank,
            body=body,
            created=self.now,
            ttl=ttl,
            expires=self.now + ttl * 1000,
            delay=own_delay,
            origin=origin,
            group=group,
            priority=priority,
        )
        return queue.last_rank

    def post_identified(
        self, name: str, dedup_ids: list[str], ttl: int, size: int, sizes: Mapping[int, int]
    ) -> list[int] | None:
        """Returns the ranks, some of older messages; None: there is no room for the others.

        *size*: bytes of each.  *sizes*: as for `make_room`.
        """
        queue = self.queues.setdefault(name, ModelQueue())
        known = {each for each, (_, end) in queue.identified.items() if end > self.now}
        new = set(dedup_ids) - known
        if new and self.is_paused(name, "posts"):
            return None
        if new and not self.make_room(name, len(new), size * len(new), sizes):
            return None
        for each in dict.fromkeys(dedup_ids):
            if each in new:
                queue.identified[each] = self.post(name, each, ttl, None), self.now + 300_000
        return [queue.identified[each][0] for each in dedup_ids]

    def take(self, name: str, limit: int) -> list[ModelMessage]:
        """Returns the oldest claimable messages; dead-letters those claimed too often first."""
        queue = self.queues.get(name) or ModelQueue()
        taken: list[ModelMessage] = []
        if self.is_paused(name, "claims"):
            return taken
        if queue.fair:
            while picked := self._in_turn(name, limit - len(taken), taken):
                for entry in picked:
                    if self._is_dead(queue, entry):
                        self._dead_letter(name, entry)
                    else:
                        taken.append(entry)
            return taken
        offered = self._offered(name)
        while page := self._first(offered, limit - len(taken)):
            for entry in self._expanded(name, page, limit - len(taken)):
                offered.pop(entry.rank, None)
                if self._is_dead(queue, entry):
                    self._dead_letter(name, entry)
                else:
                    taken.append(entry)
            held = {entry.group for entry in taken} if queue.ordered else set()
            others = self._offered(name, held)
            taken_ranks = {entry.rank for entry in taken}
            offered = {rank: at for rank, at in others.items() if rank not in taken_ranks}
        return taken

    def give_turns(self, name: str, taken: Collection[ModelMessage] = ()) -> None:
        """Gives a turn to each group that has none and may have one.

        *taken*: what a claim is about to hold.
        """
        queue = self.queues[name]
        turns = {}
        for group, waiting in self._waiting(name, taken).items():
            rests = queue.rests_until.get(group, 0) > self.now
            in_flight = self._in_flight(name, group, taken)
            if in_flight < (queue.concurrency or math.inf) and not rests:
                rank, turn = queue.turns.get(group, (0, 0.0))
                if rank not in waiting:
                    turn = queue.turn + 1 / queue.weights.get(group, 1)
                turns[group] = waiting[0], turn
        queue.turns = turns

    def _in_turn(self, name: str, room: int, taken: Collection[ModelMessage]) -> list[ModelMessage]:
        self.give_turns(name, taken)
        queue = self.queues[name]
        picked: list[ModelMessage] = []
        while queue.turns and len(picked) < room:
            group, (rank, queue.turn) = min(
                queue.turns.items(), key=lambda item: (item[1][1], str(item[1][0]))
            )
            del queue.turns[group]
            picked.append(queue.entries[rank])
            waiting = self._waiting(name, [*taken, *picked]).get(group)
            in_flight = self._in_flight(name, group, [*taken, *picked])
            if queue.rest:
                queue.rests_until[group] = self.now + queue.rest
            elif waiting and in_flight < (queue.concurrency or math.inf):
                queue.turns[group] = waiting[0], queue.turn + 1 / queue.weights.get(group, 1)
        return picked

    def _waiting(self, name: str, taken: Collection[ModelMessage] = ()) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        gone = {entry.rank for entry in taken}
        for entry in self.alive(name):
            is_gone = entry.rank in gone or self.is_held(entry) or self._is_later(name, entry)
            if not is_gone:
                found.setdefault(entry.group, []).append(entry.rank)
        return found

    def _in_flight(self, name: str, group: str, taken: Collection[ModelMessage]) -> int:
        held = [entry for entry in self.alive(name) if self.is_held(entry)]
        return sum(entry.group == group for entry in [*held, *taken])

    def _expanded(self, name: str, page: list[int], room: int) -> list[ModelMessage]:
        """Returns the messages of a page, and behind each those that follow it in its group."""
        found: list[ModelMessage] = []
        queue = self.queues[name]
        for rank in page:
            first = queue.entries[rank]
            found.append(first)
            if queue.ordered and first.group:
                ready = self.ready(name)
                found += [e for e in ready if e.group == first.group and e is not first]
        return found[:room]

    def _first(self, offered: dict[int, tuple[int, int]], limit: int) -> list[int]:
        return sorted(offered, key=lambda rank: offered[rank])[:limit]

    def _offered(self, name: str, held: Collection[str] = ()) -> dict[int, tuple[int, int]]:
        """Returns which messages a claim may take next, and their scores: lower ones are first.

        *held*: groups that the claim has taken something of.
        """
        queue = self.queues.get(name) or ModelQueue()
        closed = {entry.group for entry in self.alive(name) if self._holds_up(name, entry)}
        closed = (closed | {*held}) - {""}
        offered: dict[int, tuple[int, int]] = {}
        for entry in self.ready(name):
            if queue.ordered and entry.group:
                if entry.group in closed:
                    continue
                closed.add(entry.group)
            offered[entry.rank] = entry.rank - entry.priority * queue.step, -entry.priority
        return offered

    def _holds_up(self, name: str, entry: ModelMessage) -> bool:
        """Whether others of its group wait for it: it is held, or was and comes back later."""
        return self.is_held(entry) or (entry.claim is not None and self.is_delayed(name, entry))

    def _is_dead(self, queue: ModelQueue, entry: ModelMessage) -> bool:
        return bool(queue.dead_queue and queue.most and entry.count >= queue.most)

    def _dead_letter(self, name: str, entry: ModelMessage) -> None:
        queue = self.queues[name]
        del queue.entries[entry.rank]
        ttl = queue.dead_ttl or entry.ttl
        self.post(
            queue.dead_queue, entry.body, ttl, 0, name, group=entry.group, priority=entry.priority
        )

    def claim(self, name: str, claim: str, ttl: int, grace: int, limit: int) -> list[ModelMessage]:
        taken = self.take(name, limit)
        if taken:
            ranks = [entry.rank for entry in taken]
            self.queues[name].leases[claim] = ModelClaim(ttl, self.now, ranks)
        for entry in taken:
            entry.claim = claim
            entry.returns = 0
            entry.count += 1
            self._hold(entry, ttl, grace)
        return taken

    def renew(self, name: str, claim: str, ttl: int, grace: int) -> bool:
        lease = self.lease(name, claim)
        if not lease:
            return False
        for entry in self.held(name, claim):
            self._hold(entry, ttl, grace)
        lease.ttl, lease.start = ttl, self.now
        return True

    def _hold(self, entry: ModelMessage, ttl: int, grace: int) -> None:
        entry.held_until = self.now + ttl * 1000
        if entry.expires < entry.held_until:
            entry.expires = entry.held_until + grace * 1000
            entry.ttl = ttl + grace

    def renew_some(
        self, name: str, claim: str, ranks: list[int], ttl: int, grace: int
    ) -> list[int] | None:
        """Returns the ranks of those that were renewed."""
        lease = self.lease(name, claim)
        if not lease:
            return None
        chosen = [entry for entry in self.held(name, claim) if entry.rank in ranks]
        for entry in chosen:
            self._hold(entry, ttl, grace)
        if chosen and self.now + ttl * 1000 >= lease.ends:
            lease.ttl, lease.start = ttl, self.now
        return sorted(entry.rank for entry in chosen)

    def release(
        self, name: str, claim: str, ranks: list[int] | None = None, delay: int | None = None
    ) -> list[int] | None:
        """Returns the ranks of those that were released."""
        lease = self.lease(name, claim)
        if not lease:
            return None
        held = self.held(name, claim)
        chosen = [entry for entry in held if ranks is None or entry.rank in ranks]
        for entry in chosen:
            entry.held_until = 0
            wait = self._redelivery_ms(name, entry) if delay is None else delay * 1000
            entry.returns = self.now + wait
        if len(chosen) == len(held):
            del self.queues[name].leases[claim]
        return sorted(entry.rank for entry in chosen)

    def pop(self, name: str, limit: int) -> list[ModelMessage]:
        taken = self.take(name, limit)
        for entry in taken:
            del self.queues[name].entries[entry.rank]
        return taken

    def move(self, name: str, ranks: list[int], target: str) -> list[int]:
        """Returns the ranks of those that were moved."""
        free = {entry.rank: entry for entry in self.alive(name) if not self.is_held(entry)}
        moved = [free[rank] for rank in ranks if rank in free]
        for entry in moved:
            del self.queues[name].entries[entry.rank]
            labels = entry.group, entry.priority
            self.post(target, entry.body, entry.ttl, 0, entry.origin, *labels)
        return [entry.rank for entry in moved]

    def delete(
        self, name: str, ranks: list[int], claims: list[str] | None, force: bool
    ) -> type[errors.Problem] | None:
        """Deletes the messages, or returns the reason of the refusal."""
        chosen = [entry for rank in ranks for entry in self.alive(name) if entry.rank == rank]
        for entry in chosen:
            if refusal := self._refusal(name, entry, claims, force):
                return refusal
        for entry in chosen:
            self.queues[name].entries.pop(entry.rank, None)
        return None

    def _refusal(
        self, name: str, entry: ModelMessage, claims: list[str] | None, force: bool
    ) -> type[errors.Problem] | None:
        if claims is None:
            return errors.MessageClaimed if self.is_held(entry) and not force else None
        if not any(self.lease(name, claim) for claim in claims):
            return errors.ClaimExpired
        if not self.is_held(entry):
            return errors.MessageNotClaimed
        return None if entry.claim in claims else errors.ClaimedByOther

    def purge(self, name: str) -> None:
        if queue := self.queues.get(name):
            queue.entries.clear()
            queue.leases.clear()
