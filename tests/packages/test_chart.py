# SPDX-License-Identifier: Apache-2.0
"""The Helm chart, without Helm: see chart.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from gotpl import TemplateError
from oslo_config import cfg

from tests.packages import chart
from tests.packages.options import unknown_variables
from zaqar_redis import conf as configuration

_STORE = {"secrets": {"values": {"ZAQAR_REDIS_STORAGE__URI": "redis://redis:6379/0"}}}

#: Values that between them reach every branch of the templates.
_ALL_ON: dict[str, Any] = {
    "image": {"digest": "sha256:" + "0" * 64, "pullSecrets": [{"name": "registry"}]},
    "config": {
        "transport": {"max_messages_post_size": 100_000_000},
        "channels": {"allowed_origins": ["https://a.example", "https://b.example"]},
    },
    "secrets": {"existing": "of-the-operator"},
    "tls": {"secret": "certificate"},
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"team": "queues"}}},
    "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    "autoscaling": {"kind": "hpa", "maxReplicas": 20},
    "networkPolicy": {
        "clients": [{"namespaceSelector": {"matchLabels": {"queues": "yes"}}}],
        "scrapers": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
    },
    "podAnnotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "queues", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "priorityClassName": "high",
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
}
_ALL_OFF: dict[str, Any] = _STORE | {
    "metrics": {"enabled": False},
    "podDisruptionBudget": {"enabled": False},
    "networkPolicy": {"enabled": False},
}
_KEDA: dict[str, Any] = _STORE | {
    "autoscaling": {
        "kind": "keda",
        "kedaTriggers": [{"type": "cpu", "metadata": {"value": "70"}}],
    }
}


@pytest.fixture(params=[_STORE, _ALL_ON, _ALL_OFF, _KEDA], ids=["default", "on", "off", "keda"])
def values(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def _pod(objects: Mapping[str, chart.Manifest], release: str = "demo") -> dict[str, Any]:
    pod: dict[str, Any] = objects[f"Deployment/{release}-zaqar-redis"]["spec"]["template"]["spec"]
    return pod


def _configuration(folder: Path, values: dict[str, Any]) -> cfg.ConfigOpts:
    """Returns the options as a pod reads them."""
    data = chart.render(values)["ConfigMap/demo-zaqar-redis"]["data"]
    [(name, text)] = data.items()
    (folder / name).write_text(text)
    return configuration.read([], [str(folder / name)])


def test_all_objects_are_ones_of_kubernetes(values: dict[str, Any]) -> None:
    for manifest in chart.render(values).values():
        chart.check(manifest)


def test_an_object_that_is_not_one_of_kubernetes_is_found() -> None:
    deployment = chart.render(_STORE)["Deployment/demo-zaqar-redis"]
    for wrong in ({"replica": 2}, {"replicas": "2"}):
        with pytest.raises((AssertionError, ValueError)):
            chart.check(deployment | {"spec": deployment["spec"] | wrong})


def test_services_policies_and_budgets_select_the_pods(values: dict[str, Any]) -> None:
    objects = chart.render(values)
    labels = objects["Deployment/demo-zaqar-redis"]["spec"]["template"]["metadata"]["labels"]
    for name, manifest in objects.items():
        spec = manifest.get("spec", {})
        selector = spec.get("podSelector") or spec.get("selector")
        if manifest["kind"] == "ServiceMonitor" or not selector:
            continue
        wanted = selector.get("matchLabels", selector)
        assert wanted.items() <= labels.items(), name


def test_a_service_monitor_selects_the_service_of_the_metrics() -> None:
    objects = chart.render(_ALL_ON)
    monitor = objects["ServiceMonitor/demo-zaqar-redis"]["spec"]
    service = objects["Service/demo-zaqar-redis-metrics"]
    wanted = monitor["selector"]["matchLabels"].items()
    assert wanted <= service["metadata"]["labels"].items()
    assert not wanted <= objects["Service/demo-zaqar-redis"]["metadata"]["labels"].items()
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "zaqar-redis"
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_containers_are_unprivileged_and_bounded(values: dict[str, Any]) -> None:
    pod = _pod(chart.render(values))
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"]["memory"]
    assert container["resources"]["limits"]["memory"]


def test_probes_use_the_scheme_that_is_served() -> None:
    for values, scheme in ((_STORE, None), (_ALL_ON, "HTTPS")):
        [container] = _pod(chart.render(values))["containers"]
        ports = {port["name"] for port in container["ports"]}
        for probe, path in (("startup", "live"), ("liveness", "live"), ("readiness", "ready")):
            get = container[f"{probe}Probe"]["httpGet"]
            assert get["path"] == f"/healthcheck/{path}"
            assert get["port"] in ports
            assert get.get("scheme") == scheme


def test_a_service_accepts_the_configuration(values: dict[str, Any], tmp_path: Path) -> None:
    assert configuration.problems(_configuration(tmp_path, values)) == []


def test_large_numbers_and_lists_keep_their_values(tmp_path: Path) -> None:
    conf = _configuration(tmp_path, _ALL_ON)
    assert conf["transport"]["max_messages_post_size"] == 100_000_000
    assert conf["channels"]["allowed_origins"] == ["https://a.example", "https://b.example"]


def test_a_pod_has_the_time_that_its_service_takes_to_stop() -> None:
    times = {"config": {"server": {"shutdown_delay": 15, "graceful_timeout": 60}}}
    assert _pod(chart.render(_STORE | times))["terminationGracePeriodSeconds"] == 85


def test_changed_configuration_or_secrets_replace_the_pods() -> None:
    def checksums(values: dict[str, Any]) -> dict[str, str]:
        template = chart.render(values)["Deployment/demo-zaqar-redis"]["spec"]["template"]
        found: dict[str, str] = template["metadata"]["annotations"]
        return found

    before = checksums(_STORE)
    config = checksums(_STORE | {"config": {"server": {"workers": 4}}})
    secret = checksums({"secrets": {"values": {"ZAQAR_REDIS_STORAGE__URI": "redis://other"}}})
    assert [name for name in before if before[name] != config[name]] == ["checksum/config"]
    assert [name for name in before if before[name] != secret[name]] == ["checksum/secret"]


def test_an_autoscaler_decides_how_many_pods_there_are() -> None:
    assert chart.render(_STORE)["Deployment/demo-zaqar-redis"]["spec"]["replicas"] == 2
    for values in (_ALL_ON, _KEDA):
        assert "replicas" not in chart.render(values)["Deployment/demo-zaqar-redis"]["spec"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "ZAQAR_REDIS_STORAGE__URI"),
        (_STORE | {"autoscaling": {"kind": "keda"}}, "kedaTriggers"),
    ],
)
def test_missing_values_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        chart.render(values)


@pytest.mark.parametrize(
    "wrong",
    [
        {"replica": 2},
        {"replicas": "two"},
        {"autoscaling": {"kind": "vpa"}},
        {"secrets": {"values": {"STORAGE__URI": "redis://redis"}}},
        {"config": {"server": {"Workers": 1}}},
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        chart.render(_STORE | wrong)


def test_every_value_is_in_the_schema_and_has_a_default() -> None:
    def compare(schema: dict[str, Any], defaults: dict[str, Any], path: str) -> None:
        if "properties" not in schema:
            return
        assert schema["properties"].keys() - {"global"} == defaults.keys(), path
        for name, default in defaults.items():
            compare(schema["properties"][name], default, f"{path}.{name}")

    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    compare(schema, yaml.safe_load((chart.CHART / "values.yaml").read_text()), "values")


def test_secrets_of_the_examples_set_options_that_exist() -> None:
    lines = (chart.CHART / "values.yaml").read_text().split()
    examples = {line.rstrip(":") for line in lines if line.startswith("ZAQAR_REDIS_")}
    examples -= {"ZAQAR_REDIS_<GROUP>__<OPTION>."}
    assert examples
    assert unknown_variables(examples) == set()


def test_chart_and_service_have_one_version() -> None:
    document = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    version = metadata.version("zaqar-redis")
    assert (document["version"], document["appVersion"]) == (version, version)
