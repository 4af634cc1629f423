# SPDX-License-Identifier: Apache-2.0
"""Alert rules, dashboard and examples ask for metrics and labels that exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from tests.conventions.files import ROOT
from zaqar_redis.metrics import definitions
from zaqar_redis.metrics.merged import all_labels
from zaqar_redis.metrics.values import Histogram

_DASHBOARD = json.loads((ROOT / "etc/grafana/zaqar-redis.json").read_text())
_ALERTS = yaml.safe_load((ROOT / "etc/prometheus/alerts.yml").read_text())
_SCALED = yaml.safe_load((ROOT / "etc/keda/scaled-object.yml").read_text())
_SCRAPE = yaml.safe_load((ROOT / "etc/prometheus/scrape.yml").read_text())
#: Added by Prometheus.
_OF_TARGET = {"instance", "job"}


def _series() -> dict[str, set[str]]:
    """Returns the labels of all series, by name."""
    found: dict[str, set[str]] = {"up": set(_OF_TARGET)}
    for metric in definitions.METRICS.values():
        labels = _OF_TARGET | set(all_labels(metric))
        if isinstance(metric, Histogram):
            found |= {f"{metric.name}_{end}": labels for end in ("count", "sum")}
            found[f"{metric.name}_bucket"] = labels | {"le"}
        else:
            found[f"{metric.name}{'_total' * (metric.kind == 'counter')}"] = labels
    return found


_SERIES = _series()


def wrong(expression: str) -> list[str]:
    """Returns what an expression asks for that does not exist.  Raises ValueError."""
    # Grafana's variables, with a value of theirs.
    plain = expression.replace("$__rate_interval", "5m")
    return [*_wrong(promql_parser.parse(plain))]


def _wrong(whole: Any) -> Iterator[str]:
    nodes: list[Any] = []
    promql_parser.walk(whole, nodes.append)
    for node in nodes:
        if isinstance(node, promql_parser.VectorSelector):
            if node.name not in _SERIES:
                yield f"no metric {node.name}"
                continue
            asked = {matcher.name for matcher in node.matchers.matchers}
            yield from (f"{node.name}: no {label}" for label in asked - _SERIES[node.name])
        elif isinstance(node, promql_parser.AggregateExpr) and node.modifier:
            yield from _unknown(node, node.modifier.labels)
        elif isinstance(node, promql_parser.BinaryExpr) and node.modifier:
            matching = node.modifier.matching
            for side in (node.lhs, node.rhs):
                yield from _unknown(side, matching.labels if matching else [])


def _unknown(node: Any, labels: list[str]) -> Iterator[str]:
    """Yields labels that no series in an expression has."""
    inside: list[Any] = []
    promql_parser.walk(node, inside.append)
    names = [each.name for each in inside if isinstance(each, promql_parser.VectorSelector)]
    known = set().union(*(_SERIES.get(str(name), set()) for name in names))
    yield from (f"{names}: no {label}" for label in set(labels) - known)


def _alerts() -> list[Any]:
    return [
        pytest.param(rule, id=rule["alert"])
        for group in _ALERTS["groups"]
        for rule in group["rules"]
    ]


def _panels() -> list[Any]:
    return [
        pytest.param(panel, id=panel["title"])
        for panel in _DASHBOARD["panels"]
        if panel["type"] != "row"
    ]


@pytest.mark.parametrize("rule", _alerts())
def test_alert_asks_for_what_exists_and_says_what_to_do(rule: dict[str, Any]) -> None:
    assert wrong(rule["expr"]) == []
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description"}
    shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    assert shown <= set().union(*_SERIES.values())


def _windows(expression: str) -> list[timedelta]:
    """Returns how far back an expression looks, in each of its places."""
    nodes: list[Any] = []
    promql_parser.walk(promql_parser.parse(expression), nodes.append)
    return [node.range for node in nodes if isinstance(node, promql_parser.MatrixSelector)]


def _rule(alert: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a group of rules, and its rule of this alert."""
    for group in _ALERTS["groups"]:
        for rule in group["rules"]:
            if rule["alert"] == alert:
                return group, rule
    raise KeyError(alert)


@pytest.mark.parametrize("alert", ["ZaqarRedisErrors", "ZaqarRedisDeadLetters"])
def test_alert_of_a_fault_that_has_ended_resolves_within_two_minutes(alert: str) -> None:
    group, rule = _rule(alert)
    assert "for" not in rule
    # Its conditions must all hold, so it ends with the one that looks back least.
    assert not re.search(r"\b(or|unless)\b", rule["expr"])
    assert min(_windows(rule["expr"])) <= timedelta(minutes=2)
    assert group["interval"] in ("5s", "15s")


def test_lost_store_is_an_alert_as_soon_as_it_was_scraped() -> None:
    group, rule = _rule("ZaqarRedisStoreDown")
    assert "for" not in rule
    assert _windows(rule["expr"]) == []
    assert group["interval"] == "5s"


def test_unstable_store_is_an_alert_by_separate_losses_not_by_their_number() -> None:
    # However many workers lose a store at once, a counter changes once in a scrape.
    tree = promql_parser.parse(_rule("ZaqarRedisStoreUnstable")[1]["expr"])
    assert isinstance(tree, promql_parser.BinaryExpr)
    assert isinstance(tree.lhs, promql_parser.Call)
    assert isinstance(tree.rhs, promql_parser.NumberLiteral)
    assert tree.lhs.func.name == "changes"
    assert tree.rhs.val >= 3


@pytest.mark.parametrize("panel", _panels())
def test_panel_asks_for_what_exists(panel: dict[str, Any]) -> None:
    assert panel["datasource"]["uid"] == "${datasource}"
    for target in panel["targets"]:
        assert wrong(target["expr"]) == []
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert shown <= set().union(*_SERIES.values())


def test_dashboard_can_be_provisioned() -> None:
    assert "__inputs" not in _DASHBOARD
    assert _DASHBOARD["uid"] == "zaqar-redis"
    variables = _DASHBOARD["templating"]["list"]
    assert [each["name"] for each in variables] == ["datasource", "instance", "project", "queue"]
    for each in variables[1:]:
        query, label = re.fullmatch(r"label_values\((.*), (\w+)\)", each["definition"]).groups()  # type: ignore[union-attr]  # else the test fails
        assert wrong(query) == []
        assert label in _SERIES[query.partition("{")[0]]
    used = set(re.findall(r"\$(\w+)", json.dumps(_DASHBOARD["panels"]))) - {"__rate_interval"}
    assert used <= {each["name"] for each in variables}
    ids = [panel["id"] for panel in _DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("trigger", _SCALED["spec"]["triggers"], ids=lambda each: each["name"])
def test_scaling_asks_for_what_exists(trigger: dict[str, Any]) -> None:
    assert trigger["type"] == "prometheus"
    assert wrong(trigger["metadata"]["query"]) == []
    assert float(trigger["metadata"]["threshold"]) > 0


def test_every_chosen_file_of_rules_exists() -> None:
    for name in _SCRAPE["rule_files"]:
        assert (ROOT / "etc/prometheus" / name).is_file()
    jobs = [job["job_name"] for job in _SCRAPE["scrape_configs"]]
    assert jobs == ["zaqar-redis"]  # alerts ask for it


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("rate(zaqar_redis_posted_total[5m])", "no metric zaqar_redis_posted_total"),
        ('zaqar_redis_workers{node="x"}', "zaqar_redis_workers: no node"),
        ("sum by (node) (zaqar_redis_workers)", "['zaqar_redis_workers']: no node"),
        (
            "zaqar_redis_workers > on (store) zaqar_redis_store_up",
            "['zaqar_redis_workers']: no store",
        ),
    ],
)
def test_expression_that_asks_for_something_else_is_found(expression: str, problem: str) -> None:
    assert wrong(expression) == [problem]


def test_every_metric_has_its_row_in_the_reference(tmp_path: Path) -> None:
    document = (ROOT / "doc/metrics.md").read_text()
    fresh = tmp_path / "metrics.md"
    fresh.write_text(document)
    subprocess.run([sys.executable, str(ROOT / "tools/metrics-reference"), str(fresh)], check=True)
    assert document == fresh.read_text(), "run tools/metrics-reference"
    assert document.count("\n| `zaqar_redis_") == len(definitions.METRICS)


def test_runbook_has_every_alert_and_no_other() -> None:
    lines = (ROOT / "doc/runbook.md").read_text().splitlines()
    listed = [
        cell for line in lines if line.startswith("| Z") for cell in line.split("|")[1].split(",")
    ]
    alerts = [rule["alert"] for group in _ALERTS["groups"] for rule in group["rules"]]
    assert sorted(map(str.strip, listed)) == sorted(alerts)
