# SPDX-License-Identifier: Apache-2.0
"""The world: an endless plane of squares, and the rule of subscriptions.

No IO; page/world.js has the same rules for the page.  Lengths are in pixels, times in seconds.
"""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

import msgspec

#: The namespace of the squares' channels.
NAMESPACE = "grid"
#: Squares around the visible ones that are subscribed to before they become visible: the
#: article's extraneous squares.
RING = 1.0
#: Squares beyond the ring up to which a subscription is kept: a player that walks along a border,
#: or turns back at it, does not unsubscribe and subscribe again and again.
SLACK = 0.5
#: Squares a second that a player walks.
SPEED = 0.5
#: Seconds after which a silent player repeats its last event.  Crossing the ring takes as long, so
#: a player who stands there is known before becoming visible.
KEEP_ALIVE = RING / SPEED
#: Seconds of silence after which a player begins to fade, and after which it is gone; two
#: keep-alives may be lost before.
FADE, GONE = 3.0, 5.0
#: Squares that a screen shows at most, across and down; a larger screen enlarges them.  With
#: ring and slack that is 80 subscriptions, and one connection may have 128.
ACROSS, DOWN = 6, 4


class Square(NamedTuple):
    """A square, counted from the origin to the right, and downwards."""

    x: int
    y: int

    @property
    def channel(self) -> str:
        return f"{NAMESPACE}:{self.x}:{self.y}"


class View(NamedTuple):
    """The view of a screen: its centre, where the player is, and its size."""

    x: float
    y: float
    width: float
    height: float


class World(msgspec.Struct, frozen=True):
    """*square*: the length of the side of a square."""

    square: int

    def square_at(self, x: float, y: float) -> Square:
        return Square(floor(x / self.square), floor(y / self.square))

    def squares(self, view: View, margin: float = 0.0) -> set[Square]:
        """Returns the squares that a view shows, with a margin of *margin* squares around it."""
        side = self.square
        across, down = view.width / side / 2 + margin, view.height / side / 2 + margin
        x, y = view.x / side, view.y / side
        return {
            Square(column, row)
            for column in range(floor(x - across), ceil(x + across))
            for row in range(floor(y - down), ceil(y + down))
        }

    def subscriptions(self, view: View, current: set[Square]) -> set[Square]:
        """Returns the squares to be subscribed to by one who is subscribed to *current*."""
        return self.squares(view, RING) | current & self.squares(view, RING + SLACK)


def rules(world: World) -> dict[str, float]:
    """Returns the numbers that the page needs."""
    return {
        "square": world.square,
        "ring": RING,
        "slack": SLACK,
        "speed": SPEED * world.square,
        "keepAlive": KEEP_ALIVE,
        "fade": FADE,
        "gone": GONE,
        "across": ACROSS,
        "down": DOWN,
    }
