# SPDX-License-Identifier: Apache-2.0
"""The documentation site: Sphinx builds it from the Markdown that a git host shows (tools/docs)."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinxcontrib.openapi.directive import create_directive_from_renderer
from sphinxcontrib.openapi.renderers import HttpdomainRenderer

from zaqar_redis import rules
from zaqar_redis.api import openapi
from zaqar_redis.api.app import App
from zaqar_redis.api.composition import ServiceParts, compose
from zaqar_redis.api.settings import ApiSettings
from zaqar_redis.storage import pools

project = "zaqar_redis"
copyright = "the authors of zaqar_redis; Apache-2.0"

# The source is the whole checkout, so that the links of README.md, and those of doc/ to the code,
# are checked as a git host follows them.
include_patterns = ["*.md", "doc/**"]
root_doc = "doc/site/index"
html_extra_path = ["index.html"]

here = Path(__file__).parent
sys.path[:0] = [str(here), str(here.parents[1] / "client")]
extensions = [
    "myst_parser",
    "package_list",
    "sphinxcontrib.openapi",
    "oslo_config.sphinxext",
    "cliff.sphinxext",
    "reno.sphinxext",
    "sphinx.ext.autodoc",
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
logging.getLogger("reno").setLevel(logging.WARNING)  # it names every note
myst_heading_anchors = 4
# Pages and headings only: the domain of oslo.config fails on links that it does not know.
myst_ref_domains = ["std"]
autoprogram_cliff_application = "zaqar-redis"
autoprogram_cliff_app_dist_name = "zaqar-redis"

html_theme = "furo"
html_title = "zaqar_redis"
highlight_language = "none"
smartquotes = False  # they would turn the dashes of --options into others


class ReferenceRenderer(HttpdomainRenderer):
    """Renders an OpenAPI description with its introduction, and a heading for each operation."""

    def render_restructuredtext_markup(self, spec: dict[str, Any]) -> Iterator[str]:
        self._tag = ""
        yield from self._convert_markup(spec["info"]["description"]).splitlines()
        tags = {_tag(item): None for item in spec["paths"].values()}
        by_tag = (item for tag in tags for item in spec["paths"].items() if _tag(item[1]) == tag)
        spec = spec | {"paths": dict(by_tag)}
        yield from super().render_restructuredtext_markup(spec)

    def render_operation(
        self, endpoint: str, method: str, operation: dict[str, Any]
    ) -> Iterator[str]:
        [tag] = operation["tags"]
        if tag != self._tag:
            self._tag = tag
            yield from _heading(tag.capitalize(), "-")
        yield from _heading(operation.pop("summary"), "~")
        yield from super().render_operation(endpoint, method, operation)

    def render_responses(self, responses: dict[str, Any]) -> Iterator[str]:
        """Renders each header once, although most responses have the same."""
        seen: set[str] = set()
        for response in responses.values():
            headers = response.get("headers", {})
            response["headers"] = {name: headers[name] for name in headers if name not in seen}
            seen.update(headers)
        yield from super().render_responses(responses)


def _tag(item: dict[str, dict[str, Any]]) -> str:
    """Returns the tag of all operations of one path."""
    return str(next(iter(item.values()))["tags"][0])


def _heading(text: str, underline: str) -> list[str]:
    return ["", text, underline * len(text), ""]


def _describe_api(file: Path) -> None:
    """Writes the OpenAPI description of a service with the default limits, and with pools."""
    driver = pools.create("unix:///nowhere", "unix:///nowhere", {})  # the driver is never started
    file.parent.mkdir(exist_ok=True)
    routes = App(compose(ApiSettings(admin_mode=True), ServiceParts(driver))).routes
    file.write_bytes(openapi.document(routes, rules.Limits()))


def setup(app: Sphinx) -> None:
    _describe_api(Path(app.srcdir, "build", "openapi.json"))
    app.add_directive("openapi-reference", create_directive_from_renderer(ReferenceRenderer))
