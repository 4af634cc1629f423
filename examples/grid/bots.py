# SPDX-License-Identifier: Apache-2.0
"""Bots: players without a screen, which walk about by the same rules as the page.

Each is a WebSocket client with the JSON protocol.  Bots count what they receive and do not read
it: they need not know their neighbours.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import resource
import signal
import time
from collections.abc import Iterable, Sequence
from typing import Any

import aiohttp
import uvloop

from examples.grid.players import TEAMS, Player, token_of
from examples.grid.world import KEEP_ALIVE, SPEED, Square, View, World

#: The environment variable with the key that signs tokens.
KEY_VARIABLE = "GRID_TOKEN_KEY"
#: Bots in a square: a page then shows dozens, and each bot hears about thirty others.
_PER_SQUARE = 2.0
#: Their screens, in squares: those of small phones.
_WIDTH, _HEIGHT = 0.9, 0.6
#: Seconds between two looks at a bot: it walks a quarter of a square, and the ring is a whole one.
_TICK = 0.5
#: Mean seconds between two changes of direction, and the part of them that is a rest.
_STRIDE, _RESTING = 8.0, 0.25
#: Bots that connect at a time: handshakes of all of them would time out on a small machine.
_CONNECTING = 50
#: Seconds between two reports, and before a bot connects again.
_REPORT, _RETRY = 2.0, 3.0
#: Open files beside a socket for each bot.
_SPARE_FILES = 256


class Tally:
    """What all bots did since the last report."""

    def __init__(self) -> None:
        self.connected = 0
        self.subscriptions = 0
        self.reset()

    def reset(self) -> None:
        self.since = time.monotonic()
        self.sent = self.received = self.errors = 0

    def report(self) -> str:
        seconds = time.monotonic() - self.since
        each = self.subscriptions / max(self.connected, 1)
        line = (
            f"{self.connected} bots: {self.sent / seconds:.0f} events/s sent, "
            f"{self.received / seconds:.0f} received, {each:.1f} subscriptions each, "
            f"{self.errors} errors"
        )
        self.reset()
        return line


class Walker:
    """A random walk in a field of *side* squares around the origin; in squares and seconds."""

    def __init__(self, side: float, now: float) -> None:
        self._side = side
        self.x, self.y = random.uniform(-side, side) / 2, random.uniform(-side, side) / 2
        self.vx = self.vy = 0.0
        self._at = now
        self._turns_at = now
        #: when it last said where it is
        self.said_at = 0.0

    def walk(self, now: float) -> bool:
        """Goes on; returns whether the others must hear of it."""
        self.x += self.vx * (now - self._at)
        self.y += self.vy * (now - self._at)
        self._at = now
        if now >= self._turns_at or self._is_leaving():
            self._turn(now)
            return True
        return now - self.said_at >= KEEP_ALIVE

    def _is_leaving(self) -> bool:
        edge = self._side / 2
        return any(
            abs(place) > edge and place * speed > 0
            for place, speed in ((self.x, self.vx), (self.y, self.vy))
        )

    def _turn(self, now: float) -> None:
        self._turns_at = now + random.expovariate(1 / _STRIDE)
        direction = random.uniform(-math.pi, math.pi)
        if max(abs(self.x), abs(self.y)) > self._side / 2:
            direction = math.atan2(-self.y, -self.x)  # home
        speed = 0.0 if random.random() < _RESTING else SPEED
        self.vx, self.vy = speed * math.cos(direction), speed * math.sin(direction)


class Bot:
    """A player with one connection at a time."""

    def __init__(self, player: Player, walker: Walker, world: World, tally: Tally) -> None:
        self._player = player
        self._walker = walker
        self._world = world
        self._tally = tally
        self._squares: set[Square] = set()
        self._square: Square | None = None
        self._commands = 0

    async def keep_playing(
        self, session: aiohttp.ClientSession, url: str, key: str, gate: asyncio.Semaphore
    ) -> None:
        """Plays, and connects again when the connection is lost, until it is cancelled."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with gate:
                    socket = await session.ws_connect(url)
                try:
                    await self._play(socket, key)
                finally:
                    await socket.close()
            await asyncio.sleep(_RETRY * random.uniform(0.5, 1.5))

    async def _play(self, socket: aiohttp.ClientWebSocketResponse, key: str) -> None:
        """Walks until the connection ends."""
        self._tally.connected += 1
        token = token_of(self._player, key)
        await self._send(socket, [{"connect": {"token": token}}, *self._subscribed()])
        subscribed = asyncio.Event()
        reading = asyncio.create_task(self._read(socket, len(self._squares), subscribed))
        try:
            # Only a subscriber may publish.
            await subscribed.wait()
            while not reading.done():
                await self._send(socket, self._step())
                await asyncio.sleep(_TICK * random.uniform(0.9, 1.1))
            reading.result()
        finally:
            self._tally.connected -= 1
            self._tally.subscriptions -= len(self._squares)
            self._squares = set()
            reading.cancel()
            await asyncio.wait([reading])

    def _step(self) -> list[dict[str, Any]]:
        """Walks; returns what is to be sent because of it."""
        walker, now = self._walker, time.monotonic()
        speaks = walker.walk(now)
        side = self._world.square
        x, y = walker.x * side, walker.y * side
        square = self._world.square_at(x, y)
        if not speaks and square == self._square:
            return self._subscribed()
        # Those who see the square that it enters need not have seen the one that it leaves.
        self._square, walker.said_at = square, now
        self._tally.sent += 1
        event = {
            "x": round(x, 1),
            "y": round(y, 1),
            "vx": round(walker.vx * side, 1),
            "vy": round(walker.vy * side, 1),
            "t": int(time.time() * 1000),
        }
        return [{"publish": {"channel": square.channel, "data": event}}, *self._subscribed()]

    def _subscribed(self) -> list[dict[str, Any]]:
        """Returns the commands by which it is subscribed to what is around it."""
        side = self._world.square
        view = View(self._walker.x * side, self._walker.y * side, _WIDTH * side, _HEIGHT * side)
        wanted, current = self._world.subscriptions(view, self._squares), self._squares
        if wanted == current:
            return []
        self._squares = wanted
        self._tally.subscriptions += len(wanted) - len(current)
        return [
            *({"subscribe": {"channel": each.channel}} for each in wanted - current),
            *({"unsubscribe": {"channel": each.channel}} for each in current - wanted),
        ]

    async def _send(
        self, socket: aiohttp.ClientWebSocketResponse, commands: Iterable[dict[str, Any]]
    ) -> None:
        lines = []
        for command in commands:
            self._commands += 1
            lines.append(json.dumps({"id": self._commands} | command, separators=(",", ":")))
        if lines:
            await socket.send_str("\n".join(lines))

    async def _read(
        self, socket: aiohttp.ClientWebSocketResponse, first: int, subscribed: asyncio.Event
    ) -> None:
        """Counts what comes; sets *subscribed* after *first* replies, and at the end."""
        try:
            async for message in socket:
                text = message.data
                # A ping is a line of its own, alone or among others.
                if text.startswith("{}") or "\n{}" in text:
                    await socket.send_str("{}")
                self._tally.received += text.count('"pub":')
                self._tally.errors += text.count('"error":')
                first -= text.count('"subscribe":')
                if first <= 0:
                    subscribed.set()
        finally:
            subscribed.set()


async def run(urls: Sequence[str], count: int, world: World, key: str) -> None:
    """Runs *count* bots, in turn at the nodes with these *urls*, until SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    tally, side, now = Tally(), math.sqrt(count / _PER_SQUARE), time.monotonic()
    gate = asyncio.Semaphore(_CONNECTING)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        playing = []
        for number in range(count):
            player = Player(f"bot-{number}", TEAMS[number % len(TEAMS)])
            bot = Bot(player, Walker(side, now), world, tally)
            url = urls[number % len(urls)]
            playing.append(asyncio.create_task(bot.keep_playing(session, url, key, gate)))
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), _REPORT)
            print(tally.report(), flush=True)
        for task in playing:
            task.cancel()
        await asyncio.wait(playing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", help="WebSockets of the nodes")
    parser.add_argument("--bots", type=int, required=True)
    parser.add_argument("--square", type=int, required=True, help="pixels")
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(given.bots + _SPARE_FILES, most), most))

    urls, world, key = given.urls, World(given.square), os.environ[KEY_VARIABLE]
    uvloop.run(run(urls, given.bots, world, key))


if __name__ == "__main__":
    main()
