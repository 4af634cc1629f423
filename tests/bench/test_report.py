# SPDX-License-Identifier: Apache-2.0
"""Parsing of wrk's output, and summaries of samples."""

from __future__ import annotations

import json

import pytest

from zaqar_redis.benchmarks import report
from zaqar_redis.benchmarks.load import LoadSample, parse
from zaqar_redis.benchmarks.service import BenchmarkFailed

_PLAIN = '"requests":1000,"seconds":2.0,"refused":10,"broken":3,"p50":1500,"p99":9000'


def test_plain_result_counts_successful_responses() -> None:
    sample = parse(f"Running 2s test\n\nRESULT {{{_PLAIN}}}\nmore", 0.25)
    assert sample == LoadSample(rate=495.0, p50=1.5, p99=9.0, generator=0.25, errors=13, work=990)


def test_work_counted_by_the_script_takes_precedence() -> None:
    sample = parse(f'RESULT {{{_PLAIN},"work":300,"empty":4,"span":1.5}}\n', 0.25)
    assert (sample.rate, sample.work, sample.dry) == (200.0, 300, True)


def test_missing_result_fails_with_the_output() -> None:
    with pytest.raises(BenchmarkFailed, match="unable to connect"):
        parse("unable to connect to 127.0.0.1:1\n", 0.0)


def test_round_without_responses_is_reported_and_left_out_of_ratios() -> None:
    nothing = parse(f"RESULT {{{_PLAIN.replace('1000', '0').replace('10', '0')}}}\n", 0.0)
    assert (nothing.rate, nothing.work) == (0, 0)
    finding = _finding(url=[_sample(6), _sample(8)], against=[nothing, _sample(2)])
    assert finding.ratios("against") == [4]
    assert any(
        "no request succeeded in 1 of 2" in warning for warning in report.warnings([finding])
    )


def _sample(rate: float, generator: float = 0.1, errors: int = 0) -> LoadSample:
    return LoadSample(rate=rate, p50=1, p99=2, generator=generator, errors=errors, work=1)


def _finding(**samples: list[LoadSample]) -> report.WorkloadResult:
    return report.WorkloadResult("post-1", "post", "requests/s", samples)


def test_ratios_are_computed_per_round() -> None:
    finding = _finding(
        url=[_sample(100), _sample(400), _sample(90)],
        against=[_sample(10), _sample(20), _sample(30)],
    )
    assert finding.ratios("against") == [10, 20, 3]
    document = json.loads(report.encode(report.BenchmarkReport("bench", {}, [finding], {}, [])))
    [summed] = document["findings"]
    assert summed["ratios"] == {"url to against": {"median": 10, "min": 3, "max": 20}}
    assert summed["rates"]["url"] == {"median": 100, "min": 90, "max": 400}


def test_report_text_has_ratios_before_rates() -> None:
    finding = _finding(url=[_sample(100)], against=[_sample(10)])
    text = report.text(
        report.BenchmarkReport("bench --url x", {"cores": "2"}, [finding], {}, ["odd"])
    )
    assert text.index("url : against") < text.index("| generator")
    assert "Command: `bench --url x`" in text
    assert "Note: odd." in text


def test_table_columns_are_aligned() -> None:
    lines = report.table(["name", "n"], [["long name", "1"], ["x", "1000"]]).splitlines()
    assert lines == [
        "| name      |    n |",
        "| --------- | ---: |",
        "| long name |    1 |",
        "| x         | 1000 |",
    ]


def test_busy_generator_and_failed_requests_give_warnings() -> None:
    finding = _finding(url=[_sample(1, generator=0.95)], against=[_sample(1, errors=2)])
    busy, failed = report.warnings([finding])
    assert "may be the bottleneck" in busy
    assert "some requests failed" in failed
