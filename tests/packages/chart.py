# SPDX-License-Identifier: Apache-2.0
"""The Helm chart, rendered and checked without Helm and without a cluster.

Templates are rendered by a Python implementation of Go's templates with Helm's functions; `check`
compares objects with the models of Kubernetes' API.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import jsonschema
import msgspec
import yaml
from gotpl.exts.helm import HelmTemplateEngine

from tests.conventions.files import ROOT

CHART = ROOT / "deploy" / "helm" / "zaqar-redis"

#: Objects of other projects' APIs, for which Kubernetes has no models.
_FOREIGN = {"monitoring.coreos.com/v1", "keda.sh/v1alpha1"}

Manifest = dict[str, Any]


def render(values: dict[str, Any], release: str = "demo") -> dict[str, Manifest]:
    """Returns the objects of a release, by kind and name.

    Raises jsonschema.ValidationError for values that the chart's schema does not allow.
    """
    merged = _merge(yaml.safe_load((CHART / "values.yaml").read_text()), values)
    jsonschema.validate(merged, json.loads((CHART / "values.schema.json").read_text()))
    folder = CHART / "templates"
    prefix = f"{CHART.name}/templates"
    sources = {f"{prefix}/{path.name}": path.read_text() for path in sorted(folder.iterdir())}
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    context = {
        "Values": merged,
        "Chart": {name[0].upper() + name[1:]: value for name, value in chart.items()},
        "Release": {"Name": release, "Namespace": "default", "Service": "Helm"},
        "Template": {"BasePath": prefix},
    }
    rendered = HelmTemplateEngine(sources).render(
        {name: context for name in sources if name.endswith(".yaml")}
    )
    objects = [item for text in rendered.values() for item in yaml.safe_load_all(text) if item]
    named = {f"{item['kind']}/{item['metadata']['name']}": item for item in objects}
    assert len(named) == len(objects), "two objects have the same name"
    return named


def _merge(defaults: Any, values: Any) -> Any:
    if not isinstance(defaults, dict) or not isinstance(values, dict):
        return values
    return defaults | {name: _merge(defaults.get(name), value) for name, value in values.items()}


def check(manifest: Manifest) -> None:
    """Raises an error for a field that Kubernetes' API does not have, lacks, or has otherwise."""
    if manifest["apiVersion"] in _FOREIGN:
        return
    group, _, version = manifest["apiVersion"].rpartition("/")
    module = f"lightkube.models.{group.partition('.')[0] or 'core'}_{version}"
    model = getattr(importlib.import_module(module), manifest["kind"])
    # The models ignore unknown fields, so that these do not come back.
    assert msgspec.to_builtins(msgspec.convert(manifest, model)) == manifest
