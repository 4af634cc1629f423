# SPDX-License-Identifier: Apache-2.0
"""The checkers of chaos find each violation in a history that has it, and no other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from benchmarks.chaos.channel_checker import ChannelHistory, check_channel
from benchmarks.chaos.checker import (
    ChaosFinding,
    IsAtRisk,
    LeftMessage,
    QueueHistory,
    check_copies,
    check_queue,
    check_return,
)
from benchmarks.chaos.history import Act, ActOutcome

_OK, _UNKNOWN, _REFUSED = ActOutcome.OK, ActOutcome.UNKNOWN, ActOutcome.REFUSED


def _nothing_is_at_risk(act: Act) -> bool:
    return False


class _Acts:
    """A history by hand: each act takes a second, and begins a second after the one before."""

    def __init__(self) -> None:
        self.list: list[Act] = []

    def _add(
        self, kind: str, bodies: Sequence[str], outcome: ActOutcome, claim: str = "", ttl: int = 0
    ) -> Act:
        number = len(self.list)
        begin = 2.0 * number
        end = begin + 1 if outcome is not _UNKNOWN else math.inf
        known = outcome is _OK and kind != "release"
        ids = [_id(each) for each in bodies] if known else []
        client = f"{kind}-{number}"
        act = Act(client, number, kind, begin, "q", end, outcome, bodies, ids, claim, ttl)
        self.list.append(act)
        return act

    def perform(self, acts: str) -> None:
        """Such as "post a b, claim 1 a 3s, release? 1"; "?": not answered, "!": refused."""
        for act in filter(None, acts.split(", ")):
            word, *named = act.split()
            outcome = {"?": _UNKNOWN, "!": _REFUSED}.get(word[-1], _OK)
            ttl = int(named.pop()[:-1]) if named[-1].endswith("s") else 60
            claim = "" if word.startswith("post") else named.pop(0)
            self._add(word.rstrip("?!"), named, outcome, claim, ttl)

    def post(self, *bodies: str, outcome: ActOutcome = _OK) -> Act:
        return self._add("post", bodies, outcome)

    def claim(self, claim: str, *bodies: str, ttl: int = 60) -> Act:
        return self._add("claim", bodies, _OK, claim, ttl)

    def delete(self, claim: str, body: str) -> Act:
        return self._add("delete", [body], _OK, claim)

    def release(self, claim: str, outcome: ActOutcome = _OK) -> Act:
        return self._add("release", [], outcome, claim)

    def history(self, *left: str) -> QueueHistory:
        return QueueHistory("q", self.list, _stored(*left))

    def found(self, *left: str, is_at_risk: IsAtRisk = _nothing_is_at_risk) -> list[ChaosFinding]:
        return check_queue(self.history(*left), is_at_risk)

    def rules(self, *left: str) -> list[str]:
        return [each.rule for each in self.found(*left)]


def _id(body: str) -> str:
    """Bodies are letters, which have the ranks of the alphabet."""
    return f"{ord(body[0]) - ord('a'):032x}"


def _stored(*bodies: str) -> list[LeftMessage]:
    return [LeftMessage(_id(body), body) for body in bodies]


@pytest.fixture
def acts() -> _Acts:
    return _Acts()


#: Acts as `_Acts.perform` reads them, the bodies that are left, and the rules that they break.
HISTORIES = {
    "faultless": ("post a b, post c, claim 1 a, delete 1 a, claim 2 b, release 2", "b c", ""),
    "lost": ("post a, post b, claim 1 a", "b", "lost"),
    "deletion unanswered, gone": ("post a, claim 1 a, delete? 1 a", "", ""),
    "deletion unanswered, left": ("post a, claim 1 a, delete? 1 a", "a", ""),
    "deletion refused, gone": ("post a, claim 1 a, delete! 1 a", "", "lost"),
    "post unanswered, gone": ("post? a", "", ""),
    "post unanswered, left": ("post? a", "a", ""),
    "never posted": ("", "a", "unexpected"),
    "post refused, left": ("post! a", "a", "unexpected"),
    "deleted, listed": ("post a, claim 1 a, delete 1 a", "a", "back"),
    "deleted, claimed": ("post a, claim 1 a, delete 1 a, claim 2 a, delete 2 a", "", "back"),
    "claimed again, deleted": ("post a, claim 1 a, release 1, claim 2 a, delete 2 a", "", ""),
    "in two live claims": ("post a, claim 1 a, claim 2 a", "a", "claims"),
    "the first released later": ("post a, claim 1 a, claim 2 a, release 1", "a", "claims"),
    "release answered": ("post a, claim 1 a, release 1, claim 2 a", "a", ""),
    "release unanswered": ("post a, claim 1 a, release? 1, claim 2 a", "a", ""),
    "release refused": ("post a, claim 1 a, release! 1, claim 2 a", "a", ""),
    "claim may have ended": ("post a, claim 1 a 3s, claim 2 a", "a", ""),
    "claim renewed": ("post a, claim 1 a 3s, renew 1, claim 2 a", "a", "claims"),
    "renewal unanswered": ("post a, claim 1 a 3s, renew? 1, claim 2 a", "a", ""),
    "before an earlier one": ("post b, post a", "a b", "order"),
    "one post out of order": ("post b a", "a b", "order"),
    "listing out of order": ("post a b", "b a", "order"),
}


@pytest.mark.parametrize(("acted", "left", "rules"), HISTORIES.values(), ids=HISTORIES)
def test_history_breaks_these_rules_and_no_others(
    acts: _Acts, acted: str, left: str, rules: str
) -> None:
    acts.perform(acted)
    assert acts.rules(*left.split()) == rules.split()


def test_message_with_two_ids_was_posted_twice(acts: _Acts) -> None:
    acts.post("a")
    copy = LeftMessage(_id("b"), "a")
    history = QueueHistory("q", acts.list, [*_stored("a"), copy])
    assert [each.rule for each in check_queue(history, _nothing_is_at_risk)] == ["twice"]


def test_id_of_two_messages_is_found(acts: _Acts) -> None:
    acts.post("a")
    acts.post("b", outcome=_UNKNOWN)
    other = LeftMessage(_id("a"), "b")
    history = QueueHistory("q", acts.list, [*_stored("a"), other])
    rules = [each.rule for each in check_queue(history, _nothing_is_at_risk)]
    assert rules == ["id", "order"]


def test_message_that_is_deleted_anew_after_an_expected_loss_may_not_be_back(acts: _Acts) -> None:
    acts.post("a")
    acts.claim("1", "a")
    lost = acts.delete("1", "a")
    acts.claim("2", "a")
    acts.delete("2", "a")
    found = acts.found("a", is_at_risk=lambda act: act is lost)
    # It was back once, as expected, and then in spite of a deletion that nothing has undone.
    assert [(each.rule, each.is_excused) for each in found] == [("back", False), ("back", True)]


def test_claim_that_was_asked_for_before_the_first_was_answered_is_no_violation(
    acts: _Acts,
) -> None:
    acts.post("a")
    acts.claim("1", "a")
    acts.release("1").begin = 4.5
    late = acts.claim("2", "a")
    late.begin = 2.5  # within the first: their order is not known
    assert acts.rules("a") == []


def test_claims_at_the_same_time_may_not_both_get_the_message(acts: _Acts) -> None:
    acts.post("a")
    acts.claim("1", "a")
    late = acts.claim("2", "a")
    late.begin = 2.5
    acts.delete("1", "a")
    acts.delete("2", "a")
    assert acts.rules() == ["claims"]


def test_posts_at_the_same_time_have_any_order(acts: _Acts) -> None:
    acts.post("b")
    acts.post("a").begin = 0.5
    assert acts.rules("a", "b") == []


@pytest.mark.parametrize(("status", "rules"), [(503, []), (507, []), (500, ["status"])])
def test_answer_that_no_fault_explains_is_found(acts: _Acts, status: int, rules: list[str]) -> None:
    acts.post("a", outcome=_UNKNOWN).status = status
    assert acts.rules() == rules


def test_refusal_of_what_nobody_may_be_refused_is_found(acts: _Acts) -> None:
    acts.post("a", outcome=_REFUSED).status = 404
    acts.claim("1").status = 403
    acts.release("1", _REFUSED).status = 404
    assert acts.rules() == ["status", "status"]


def test_place_that_is_away_after_the_faults_is_found(acts: _Acts) -> None:
    acts.post("a")
    acts.claim("1", "a")
    acts.post("b", outcome=_UNKNOWN)
    for since, missing in ((0.5, []), (2, ["post"]), (4, ["post", "claim"])):
        found = check_return(acts.list, {"q": ("post", "claim")}, since)
        assert [(each.rule, each.place) for each in found] == [("away", "q")] * len(missing)
        assert [each.what for each in found] == [
            f"no {kind} was acknowledged after the last fault" for kind in missing
        ]


def test_loss_of_what_was_at_risk_is_excused_and_no_other(acts: _Acts) -> None:
    lost = acts.post("a")
    acts.post("b")
    found = acts.found(is_at_risk=lambda act: act is lost)
    assert [(each.rule, each.is_excused) for each in found] == [("lost", True), ("lost", False)]


def test_copies_once_and_in_order_have_no_findings(acts: _Acts) -> None:
    acts.post("a", "b")
    acts.post("c", outcome=_UNKNOWN)
    for copies in (("a", "b"), ("a", "b", "c")):
        assert check_copies(acts.history("a"), _stored(*copies), _nothing_is_at_risk) == []


@pytest.mark.parametrize(
    ("copies", "what"),
    [
        (("a",), "b was not forwarded"),
        (("a", "b", "b"), "b was forwarded 2 times"),
        (("b", "a"), "a was forwarded after b, and is before it in the source"),
        (("a", "b", "z"), "z was forwarded, and never posted"),
    ],
)
def test_copies_that_differ_are_found(acts: _Acts, copies: Sequence[str], what: str) -> None:
    acts.post("a", "b")
    found = check_copies(acts.history("a"), _stored(*copies), _nothing_is_at_risk)
    assert [each.what for each in found] == [what]


def test_message_whose_post_was_not_answered_is_forwarded_when_it_is_there(acts: _Acts) -> None:
    acts.post("a", outcome=_UNKNOWN)
    assert check_copies(acts.history(), [], _nothing_is_at_risk) == []
    found = check_copies(acts.history("a"), [], _nothing_is_at_risk)
    assert [each.what for each in found] == ["a was not forwarded"]


class _Channel:
    """What clients of a channel did, by hand."""

    def __init__(self) -> None:
        self.acts: list[Act] = []

    def _add(self, act: Act) -> Act:
        act.begin, act.end = 2.0 * len(self.acts), 2.0 * len(self.acts) + 1
        self.acts.append(act)
        return act

    def publish(self, body: str, outcome: ActOutcome = _OK) -> None:
        number = len(self.acts)
        self._add(Act("p", number, "publish", 0, "c", 0, outcome, [body]))

    def subscribe(self, offset: int, *, recovered: bool = False, epoch: str = "e") -> None:
        act = Act("s", len(self.acts), "subscribe", 0, "c", 0, _OK, recovered=recovered)
        act.epoch, act.offset = epoch, offset
        self._add(act)

    def receive(self, offset: int, body: str, client: str = "s", epoch: str = "e") -> None:
        act = Act(client, len(self.acts), "receive", 0, "c", 0, _OK, [body])
        act.epoch, act.offset = epoch, offset
        self._add(act)

    def leave(self) -> None:
        self._add(Act("s", len(self.acts), "leave", 0, "c", 0, _OK))

    def perform(self, acts: str) -> None:
        """Such as "publish? b, recover 1, subscribe 7 f, receive 8 b f, leave"; f: the epoch."""
        for act in acts.split(", "):
            word, *named = act.split()
            if word.startswith("publish"):
                self.publish(named[0], _UNKNOWN if word.endswith("?") else _OK)
            elif word == "receive":
                self.receive(int(named[0]), named[1], epoch=(*named[2:], "e")[0])
            elif word == "leave":
                self.leave()
            else:
                offset, *epoch = named
                recovered = word == "recover"
                self.subscribe(int(offset), recovered=recovered, epoch=(*epoch, "e")[0])

    def found(self, is_replaced: IsAtRisk) -> list[ChaosFinding]:
        history = ChannelHistory("c", self.acts)
        return check_channel(history, _nothing_is_at_risk, is_replaced)

    def rules(self) -> list[str]:
        return [each.rule for each in self.found(_nothing_is_at_risk)]


@pytest.fixture
def channel() -> _Channel:
    """Somebody has subscribed, and received the first publication."""
    channel = _Channel()
    channel.subscribe(0)
    channel.publish("a")
    channel.receive(1, "a")
    return channel


#: As `_Channel.perform` reads them, after the first publication; and the rules that they break.
CHANNELS = {
    "recovers": ("publish b, recover 1, receive 2 b, publish? c", ""),
    "offset left out": ("publish b, receive 3 b", "hole"),
    "never arrives": ("publish b, publish c, receive 2 c, leave", "lost"),
    "killed before the last": ("publish b", ""),
    "told of a loss": ("publish b, subscribe 7 f, leave", "gap"),
    "lost after a gap": ("subscribe 7 f, publish b, publish c, receive 8 c f, leave", "lost gap"),
    "arrives twice": ("receive 2 a", "twice twice"),
    "before an earlier one": ("publish b, publish c, receive 2 c, receive 3 b", "order"),
    "that nobody made": ("receive 2 z", "unexpected"),
}


@pytest.mark.parametrize(("acted", "rules"), CHANNELS.values(), ids=CHANNELS)
def test_channel_breaks_these_rules_and_no_others(
    channel: _Channel, acted: str, rules: str
) -> None:
    channel.perform(acted)
    assert channel.rules() == rules.split()


def test_gap_is_expected_when_what_was_seen_is_lost_with_its_primary(channel: _Channel) -> None:
    channel.publish("b", _UNKNOWN)
    channel.receive(2, "b")
    channel.subscribe(1, epoch="f")
    assert [each.is_excused for each in channel.found(lambda act: True)] == [True]
    assert [each.is_excused for each in channel.found(_nothing_is_at_risk)] == [False]


def test_offset_with_two_publications_is_found(channel: _Channel) -> None:
    channel.publish("b", _UNKNOWN)
    channel.receive(1, "b", client="t")
    assert "id" in channel.rules()
