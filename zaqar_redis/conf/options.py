# SPDX-License-Identifier: Apache-2.0
"""Options derived from frozen settings.

A field of settings with a text in its annotation is an option.  The text is its help; its type,
its default and its bounds (`msgspec.Meta`) are those of the field; and so is its name, as msgspec
encodes it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct
from oslo_config import cfg, types

S = TypeVar("S", bound=Struct)


class _Number:
    """A number: without digits it is an error, where oslo.config takes it for no value."""

    def __call__(self, value: Any) -> Any:
        number = super().__call__(value)  # type: ignore[misc]  # oslo.config's, which is behind it
        if number is None:
            raise ValueError("it is empty")
        return number


class Integer(_Number, types.Integer):
    pass


class Float(_Number, types.Float):
    pass


class Port(_Number, types.Port):
    pass


@functools.cache
def fields(kind: type[Struct]) -> Mapping[str, str]:
    """Returns the fields of settings that are options, by the names of the options."""
    named = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    annotated = _annotations(kind)
    return {option: field for option, field in named if get_origin(annotated[field]) is Annotated}


@functools.cache
def derive(kind: type[Struct], names: tuple[str, ...] = ()) -> Sequence[cfg.Opt]:
    """Returns the options of settings; with *names*, only these."""
    defaults, annotated, found = kind(), _annotations(kind), fields(kind)
    return tuple(
        _option(name, annotated[found[name]], getattr(defaults, found[name]))
        for name in names or found
    )


def fill(kind: type[S], values: Mapping[str, Any]) -> S:
    """Returns settings with these values by option."""
    given = {field: values[option] for option, field in fields(kind).items()}
    return kind(
        **{name: tuple(each) if isinstance(each, list) else each for name, each in given.items()}
    )


def allowed(of: types.ConfigType) -> str:
    """Returns what the values of a type are, for errors; "": it is not known."""
    if isinstance(of, types.Boolean):
        return "true or false"
    if isinstance(of, types.Integer | types.Float):
        is_whole = isinstance(of, types.Integer)
        least, most = ("" if each is None else _number(each) for each in (of.min, of.max))
        bounds = f" from {least} to {most}" if most else f" of at least {least}" if least else ""
        return f"{'a whole number' if is_whole else 'a number'}{bounds}"
    if isinstance(of, types.HostAddress):
        return "an IP address or a host name"
    if isinstance(of, types.List):
        item = allowed(of.item_type)
        return f"a list, separated by commas, of {item}" if item else ""
    if isinstance(of, types.String) and of.choices:
        *others, last = (each or "empty" for each in of.choices)
        return f"{', '.join(others)} or {last}" if others else last
    return "a list, separated by commas, of name:text" if isinstance(of, types.Dict) else ""


def _number(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


@functools.cache
def _annotations(kind: type[Struct]) -> Mapping[str, Any]:
    """Returns the annotations by field; a subclass may change a default without repeating them."""
    found: dict[str, Any] = {}
    for each in kind.__mro__:
        found |= get_type_hints(each, include_extras=True)
    return found


def _option(name: str, annotation: Any, default: object) -> cfg.Opt:
    of, *metadata = get_args(annotation)
    meta = next((each for each in metadata if isinstance(each, Meta)), Meta())
    extra = meta.extra or {}
    old = extra.get("renamed_from")
    return cfg.Opt(
        name,
        type=next((each for each in metadata if isinstance(each, types.ConfigType)), None)
        or _type(of, meta),
        default=list(default) if isinstance(default, tuple) else default,
        secret=bool(extra.get("secret")),
        deprecated_opts=[cfg.DeprecatedOpt(old[1], group=old[0])] if old else None,
        help=next(each for each in metadata if isinstance(each, str)),
    )


def _type(of: Any, meta: Meta) -> types.ConfigType:
    if of is bool:
        return types.Boolean()
    bounds: dict[str, Any] = {"min": meta.ge, "max": meta.le}
    if of is int:
        return Integer(**bounds)
    if of is float:
        return Float(**bounds)
    if get_origin(of) is Mapping:
        return types.Dict(types.String(quotes=True))
    if get_origin(of) is tuple:
        return types.List(item_type=_type(get_args(of)[0], meta))
    return types.String(choices=list(get_args(of)) if get_origin(of) is Literal else None)
