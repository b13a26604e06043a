"""A handler's payload, read as the type that the handler names.

Owns what JSON must look like for a dataclass, a TypedDict and the plain types. Invariant: what does not fit is told
with the place of the first thing that is wrong; what is in the payload beyond the fields is left alone. Deliberately
knows no other types: instead of one, a function that takes the parsed JSON can be given, such as a pydantic model's
`model_validate`.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from escapement_worker.errors import ConfigurationError

T = TypeVar("T")

_SHOWN_MAX_CHARS = 60
_PLAIN: Mapping[object, tuple[str, tuple[type, ...]]] = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    str: ("a text", (str,)),
    type(None): ("null", (type(None),)),
}


class Misfit(ValueError):  # noqa: N818 (it is no error of the program)
    """What does not fit; `field` is where, empty for the whole."""

    def __init__(self, field: str, text: str) -> None:
        """Of that place."""
        super().__init__(text)
        self.field = field


def check(expected: object) -> None:
    """ConfigurationError when payloads can't be read as `expected`; the text says which part of it is the reason."""
    if not _is_type(expected) and callable(expected):
        return
    wrong = _unreadable(expected, type_name(expected), frozenset())
    if wrong is not None:
        raise ConfigurationError(
            f"{wrong} is no type of a payload: use a dataclass, a TypedDict, plain types, or a function that takes JSON"
        )


def read(expected: Callable[..., T], value: object) -> T:
    """The parsed JSON as what is expected; Misfit when it is not that."""
    if not _is_type(expected):
        try:
            return expected(value)
        except (TypeError, ValueError, LookupError) as error:
            raise Misfit("", str(error)) from error
    fitting: T = _read(expected, value, "")
    return fitting


def type_name(expected: object) -> str:
    """What people call a type or function."""
    return getattr(expected, "__qualname__", None) or str(expected)


def _is_type(expected: object) -> bool:
    return expected in (Any, object) or isinstance(expected, type) or get_origin(expected) is not None


def _unreadable(expected: object, place: str, above: frozenset[object]) -> str | None:
    """The first part of a type that JSON does not hold; a type may hold itself."""
    if expected in above:
        return None
    try:
        parts = _parts(expected, place)
    except NameError as error:
        return f"{place} ({error})"
    if parts is None:
        return place if place == type_name(expected) else f"{place}: {type_name(expected)}"
    found = (_unreadable(part, where, above | {expected}) for where, part in parts)
    return next((wrong for wrong in found if wrong is not None), None)


def _parts(expected: object, place: str) -> list[tuple[str, object]] | None:
    """The types that a type is made of, with their places; None when it is none of a payload's."""
    origin, arguments = get_origin(expected), get_args(expected)
    if expected in (Any, object) or expected in _PLAIN or _is_enum(expected) or origin is Literal:
        return []
    if origin in (Union, types.UnionType):
        return [(place, each) for each in arguments]
    if (origin is list and arguments) or (origin is dict and arguments[:1] == (str,)):
        return [(f"{place}[]", arguments[-1])]
    if _has_fields(expected):
        return [(f"{place}.{field}", hint) for field, hint in get_type_hints(expected).items()]
    return None


def _has_fields(expected: object) -> bool:
    return isinstance(expected, type) and (dataclasses.is_dataclass(expected) or is_typeddict(expected))


def _is_enum(expected: object) -> bool:
    return isinstance(expected, type) and issubclass(expected, enum.Enum)


def _read(expected: Any, value: object, place: str) -> Any:
    if expected in (Any, object):
        return value
    if expected in _PLAIN:
        what, accepted = _PLAIN[expected]
        if isinstance(value, accepted) and (expected is bool or not isinstance(value, bool)):
            return float(value) if expected is float else value  # type: ignore[arg-type]
        raise _misfit(place, what, value)
    origin, arguments = get_origin(expected), get_args(expected)
    if origin is Literal:
        if any(value == each and type(value) is type(each) for each in arguments):
            return value
        raise _misfit(place, "one of " + ", ".join(json.dumps(each) for each in arguments), value)
    if origin in (Union, types.UnionType):
        return _read_any(arguments, value, place)
    if origin is list:
        if not isinstance(value, list):
            raise _misfit(place, "a list", value)
        return [_read(arguments[0], each, f"{place}[{index}]") for index, each in enumerate(value)]
    if origin is dict:
        members = _object(value, place)
        return {key: _read(arguments[1], each, _join(place, key)) for key, each in members.items()}
    if _is_enum(expected):
        try:
            return expected(value)
        except ValueError:
            raise _misfit(place, "one of " + ", ".join(json.dumps(each.value) for each in expected), value) from None
    return _read_fields(expected, value, place)


def _read_any(choices: tuple[object, ...], value: object, place: str) -> Any:
    given = [choice for choice in choices if choice is not type(None)]
    if value is None and len(given) < len(choices):
        return None
    if len(given) == 1:
        return _read(given[0], value, place)
    for choice in given:
        try:
            return _read(choice, value, place)
        except Misfit:
            continue
    raise _misfit(place, "one of " + ", ".join(type_name(choice) for choice in choices), value)


def _read_fields(expected: Any, value: object, place: str) -> Any:
    members, hints = _object(value, place), get_type_hints(expected)
    if is_typeddict(expected):
        fields, required = set(hints), set(expected.__required_keys__)
    else:
        taken = [field for field in dataclasses.fields(expected) if field.init]
        fields, none = {field.name for field in taken}, dataclasses.MISSING
        required = {field.name for field in taken if field.default is none and field.default_factory is none}
    absent = [field for field in hints if field in required and field not in members]
    if absent:
        raise Misfit(_join(place, absent[0]), "is missing")
    given = (key for key in hints if key in fields and key in members)
    arguments = {key: _read(hints[key], members[key], _join(place, key)) for key in given}
    try:
        return expected(**arguments)
    except (TypeError, ValueError) as error:  # From a dataclass that checks itself.
        raise Misfit(place, str(error)) from error


def _object(value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _misfit(place, "an object", value)
    return value


def _misfit(place: str, needed: str, value: object) -> Misfit:
    shown = json.dumps(value, ensure_ascii=False)
    if len(shown) > _SHOWN_MAX_CHARS:
        shown = shown[:_SHOWN_MAX_CHARS] + "…"
    return Misfit(place, f"{needed} is needed, not {shown}")


def _join(place: str, field: str) -> str:
    return f"{place}.{field}" if place else field
