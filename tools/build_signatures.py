"""A Griffe extension for the reference: the signatures of Equinox modules, which get their `__init__` at run time."""

import importlib
import inspect
from typing import Any

import equinox as eqx
import griffe


class Signatures(griffe.Extension):
    """Gives each module without an `__init__` of its own the one that it has at run time."""

    def on_package(self, *, pkg: griffe.Module, **rest: Any) -> None:
        self._visit(pkg)

    def _visit(self, owner: griffe.Module | griffe.Class) -> None:
        for member in list(owner.members.values()):
            if isinstance(member, griffe.Class):
                self._complete(member)
            if isinstance(member, griffe.Module | griffe.Class):
                self._visit(member)

    def _complete(self, found: griffe.Class) -> None:
        if "__init__" in found.members or not isinstance(found.parent, griffe.Module):
            return
        actual = getattr(importlib.import_module(found.parent.path), found.name, None)
        if not (isinstance(actual, type) and issubclass(actual, eqx.Module)):
            return
        parameters = [griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)]
        for name, parameter in inspect.signature(actual).parameters.items():
            default = None if parameter.default is inspect.Parameter.empty else repr(parameter.default)
            kind = griffe.ParameterKind(parameter.kind.description)
            parameters.append(griffe.Parameter(name, kind=kind, default=default, annotation=_annotation(found, name)))
        found.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(*parameters)))


def _annotation(owner: griffe.Class, name: str) -> Any:
    """The annotation of a field, in the class or in one that it inherits from."""
    for one in [owner, *owner.mro()]:
        if name in one.members and one.members[name].is_attribute:
            return one.members[name].annotation
    return None
