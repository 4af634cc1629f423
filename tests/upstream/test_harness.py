# SPDX-License-Identifier: Apache-2.0
"""The runner of stock's tests, without stock: its input files, its reports, its verdict."""

from __future__ import annotations

import configparser
import io
import json
import unittest
from pathlib import Path

from tests.upstream import configs, report
from tests.upstream.inapplicable import inapplicable, needless, racing
from tests.upstream.recorder import Recorder
from tests.upstream.report import FAIL, PASS, SKIP
from tests.upstream.targets import TARGETS

OURS = TARGETS["zaqar-redis"]


class SampleTestCase(unittest.TestCase):
    def passes(self) -> None:
        pass

    def fails(self) -> None:
        self.fail("as it should")

    def skips(self) -> None:
        self.skipTest("for a reason")


def written(tmp_path: Path, *names: str, without: str = "") -> Path:
    tests = [SampleTestCase(name) for name in names]
    output = io.StringIO()
    recorder = Recorder(output, before_each=lambda: None)
    recorder.plan(tests, "23.0.1")
    for test in tests:
        if test.id().rpartition(".")[2] != without:
            test.run(recorder)
    path = tmp_path / f"{'-'.join(names)}.jsonl"
    path.write_text(output.getvalue())
    return path


def outcome(done: report.SuiteReport, name: str) -> report.CaseOutcome:
    return done.tests[f"{SampleTestCase.__module__}.{SampleTestCase.__qualname__}.{name}"]


def test_every_outcome_is_reported_with_last_line_of_its_reason(tmp_path: Path) -> None:
    path = written(tmp_path, "passes", "fails", "skips")
    done = report.gather("zaqar-redis", "storage", 1.0, [path])
    assert done.counts == {"run": 3, PASS: 1, FAIL: 1, SKIP: 1}
    assert outcome(done, "fails").reason == "AssertionError: as it should"
    assert outcome(done, "skips").reason == "for a reason"
    assert [text for text in done.texts.values() if "Traceback" in text]


def test_planned_test_without_outcome_has_failed(tmp_path: Path) -> None:
    # Given two processes with one plan, each of which runs one test
    first = written(tmp_path, "passes", "fails", "skips", without="fails")
    # When one of them died before it could run its own
    done = report.gather("zaqar-redis", "storage", 1.0, [tmp_path / "nothing", first])
    # Then that one counts as failed
    assert outcome(done, "fails") == report.CaseOutcome(FAIL, reason="did not end")
    assert outcome(done, "passes").outcome == PASS


def test_skips_and_failures_are_wrong_unless_listed(tmp_path: Path) -> None:
    done = report.gather("x", "storage", 1.0, [written(tmp_path, "passes", "fails", "skips")])
    passes, fails, skips = done.tests
    assert set(done.wrong({})) == {fails, skips}
    assert set(done.wrong({fails})) == {skips}
    assert done.needless({passes, fails}) == [passes]


def test_report_is_written_with_all_outcomes(tmp_path: Path) -> None:
    done = report.gather("module:NAME", "storage", 1.0, [written(tmp_path, "passes", "fails")])
    document = json.loads(done.write(tmp_path / "results").read_text())
    assert document["counts"] == {"run": 2, PASS: 1, FAIL: 1}
    assert {each["outcome"] for each in document["tests"].values()} == {PASS, FAIL}


def test_configuration_names_our_driver_and_keeps_the_rest(tmp_path: Path) -> None:
    # Given a file as stock has it, and one for another backend
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "wsgi_mongodb.conf").write_text(
        "[drivers]\nmessage_store = mongodb\n"
        "[drivers:message_store:mongodb]\nuri = mongodb://127.0.0.1:27017\ndatabase = x\n"
        "[pooling:catalog]\nenable_virtual_pool = True\n"
    )
    (tmp_path / "etc" / "wsgi_faulty.conf").write_text("[drivers]\nmessage_store = faulty\n")
    # When they are rewritten
    configs.make(tmp_path / "etc", tmp_path / "made", OURS, "zaqar-redis://127.0.0.1:1")
    # Then only MongoDB is replaced
    made = configparser.ConfigParser()
    made.read(tmp_path / "made" / "wsgi_mongodb.conf")
    assert dict(made["drivers"]) == {
        "message_store": "zaqar-redis",
        "management_store": "zaqar-redis",
    }
    for group in ("mongodb", "zaqar-redis"):
        assert made[f"drivers:message_store:{group}"]["uri"] == "zaqar-redis://127.0.0.1:1"
    assert made["drivers:management_store:zaqar-redis"]["uri"] == "zaqar-redis://127.0.0.1:1"
    assert made.getboolean("pooling:catalog", "enable_virtual_pool")
    made.clear()
    made.read(tmp_path / "made" / "wsgi_faulty.conf")
    assert made["drivers"]["message_store"] == "faulty"


def test_every_exception_has_a_reason() -> None:
    assert all(inapplicable().values())
    assert needless() <= inapplicable().keys()
    assert not racing() & inapplicable().keys()
