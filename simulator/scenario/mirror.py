"""Sections made from the frozen dataclasses that planners take, so that every setting is stated in one place only."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, PrivateAttr, create_model

from fleetscope.errors import UsageError
from simulator.scenario.part import Part
from simulator.work.models import RECOMMENDATIONS, TRANSFORMERS, VISIONS, Recommendation, Transformer, Vision

_CATALOGUES: Final[dict[type, Mapping[str, Any]]] = {
    Transformer: TRANSFORMERS, Vision: VISIONS, Recommendation: RECOMMENDATIONS}


class Mirror(Part):
    """A section with the fields and defaults of a dataclass, which checks its values; ``made`` is that."""

    _made: Any = PrivateAttr(default=None)

    @property
    def made(self) -> Any:
        """The dataclass of these values."""
        return self._made

    def model_post_init(self, context: Any, /) -> None:
        """Refuse at once what the dataclass refuses. ValueError: ``key: reason``."""
        wanted = type(self)._wanted_type()
        own = type(self).model_fields
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(wanted) if field.name in own}
        try:
            self._made = wanted(**{name: plain(value) for name, value in values.items()})
        except UsageError as error:
            raise ValueError(str(error)) from error

    @classmethod
    def _wanted_type(cls) -> type:
        raise NotImplementedError


def plain(value: Any) -> Any:
    """What a section stands for; anything else itself."""
    return value.made if isinstance(value, Mirror) else value


def mirrored(wanted: type) -> dict[str, Any]:
    """(type, default) of each field of a dataclass, dataclasses in it replaced by their sections."""
    hints = get_type_hints(wanted)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(wanted):
        default: Any = ...
        if field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        fields[field.name] = (_section(hints[field.name], default), _stated(default))
    return fields


@cache
def mirror(wanted: type) -> type[Mirror]:
    """The section of a dataclass."""
    return section(f"{wanted.__name__}Section", Mirror, wanted)


def section(title: str, base: type[Mirror], wanted: type, /, *, without: tuple[str, ...] = (), **more: Any) \
        -> type[Mirror]:
    """A section of dataclass ``wanted`` on ``base``, without some fields, with ``more`` as (type, default)."""
    fields = {key: value for key, value in mirrored(wanted).items() if key not in without}
    made = create_model(title, __base__=base, __doc__=wanted.__doc__, **{**fields, **more})
    made._wanted_type = classmethod(lambda cls: wanted)  # type: ignore[assignment, method-assign]
    return made


def _section(hint: Any, default: Any = None) -> Any:
    if get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
        inner = [part for part in get_args(hint) if part is not NoneType]
        return _section(inner[0], default) | None if len(inner) == 1 else hint
    if not dataclasses.is_dataclass(hint) or not isinstance(hint, type):
        return hint
    return Annotated[mirror(hint), BeforeValidator(_filler(hint, default))]


def _filler(kind: type, default: Any) -> Any:
    """What completes a table that states some keys only: from the default, or from the model of the catalogue it names.

    A model may be stated by its name alone.
    """
    catalogue = _CATALOGUES.get(kind, {})

    def fill(given: Any) -> Any:
        stated = {"name": given} if isinstance(given, str) and catalogue else given
        if not isinstance(stated, Mapping):
            return given
        if isinstance(given, str) and given not in catalogue:
            raise ValueError(f"there is no model {given!r}; known are {', '.join(catalogue)}")
        base = catalogue.get(str(stated["name"])) if catalogue and "name" in stated else default
        return {**_fields(base), **stated} if isinstance(base, kind) else stated

    return fill


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: _stated(getattr(value, field.name)) for field in dataclasses.fields(value)}


def _stated(value: Any) -> Any:
    """A default as its section."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return mirror(type(value)).model_validate(_fields(value))
    return value
