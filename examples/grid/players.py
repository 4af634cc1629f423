# SPDX-License-Identifier: Apache-2.0
"""Players: names, teams, and the tokens that prove them."""

from __future__ import annotations

import random
import time
from typing import NamedTuple

import jwt

TEAMS = ("red", "blue", "green", "amber")
#: The role of those who look on without being there.
SPECTATOR = "spectator"
#: Seconds that a token is valid: longer than a visit, so the page needs no second one.
_TOKEN_TTL = 12 * 3600
_ALGORITHM = "HS256"
_KINDS = ("brisk", "calm", "clever", "cosy", "eager", "gentle", "jolly", "quick", "shy", "witty")
_ANIMALS = ("badger", "crane", "dormouse", "fox", "hare", "lynx", "otter", "owl", "seal", "wren")


class Player(NamedTuple):
    user: str
    team: str
    is_spectator: bool = False

    @property
    def topic(self) -> str:
        """The topic of the team's shouts."""
        return f"team-{self.team}"


def arriving(team: object = None, *, is_spectator: bool = False) -> Player:
    """Returns a player with a random name, of the given team if there is such a team."""
    name = f"{random.choice(_KINDS)}-{random.choice(_ANIMALS)}-{random.randrange(1000)}"
    joined = next((each for each in TEAMS if each == team), random.choice(TEAMS))
    return Player(name, joined, is_spectator)


def token_of(player: Player, key: str) -> str:
    """Returns a connection token; each publication of the player will bear the claim info."""
    claims = {
        "sub": player.user,
        "info": {"team": player.team},
        "roles": [SPECTATOR] if player.is_spectator else [],
        "exp": int(time.time()) + _TOKEN_TTL,
    }
    return jwt.encode(claims, key, _ALGORITHM)


def player_of(token: str, key: str) -> Player:
    """Returns whose token it is.  Raises jwt.InvalidTokenError."""
    claims = jwt.decode(token, key, [_ALGORITHM])
    return Player(claims["sub"], claims["info"]["team"], SPECTATOR in claims["roles"])
