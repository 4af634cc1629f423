# SPDX-License-Identifier: Apache-2.0
"""A worker counts the requests that it works on, and refuses more than its bounds."""

from __future__ import annotations

import pytest

from zaqar_redis import errors
from zaqar_redis.service.requests_in_flight import RequestsInFlight


def test_project_is_refused_above_its_bound_and_others_go_on() -> None:
    in_flight = RequestsInFlight(3, 2)
    in_flight.enter("a")
    in_flight.enter("a")
    with pytest.raises(errors.TooManyInFlight, match=r"^The project a has 2 .*max_in_flight_pro"):
        in_flight.enter("a")
    in_flight.enter("b")
    with pytest.raises(errors.TooManyInFlight, match=r"^This worker has 3 .*max_in_flight allows"):
        in_flight.enter("c")
    in_flight.leave("a")
    in_flight.enter("c")
    assert in_flight.count == 3


def test_waiting_requests_give_back_their_place_and_go_on_above_the_bound() -> None:
    in_flight = RequestsInFlight(1, 1)
    in_flight.enter("a")
    with in_flight.waiting("a"):
        assert in_flight.count == 0
        in_flight.enter("b")
    assert in_flight.count == 2
    for project in ("a", "b"):
        in_flight.leave(project)
    in_flight.enter("c")
