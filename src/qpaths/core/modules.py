"""The base class of everything that is a pytree and whose methods are called in inner loops."""

from typing import Any, TypeVar

import equinox as eqx

M = TypeVar("M", bound=eqx.Module)


class Module(eqx.Module):
    """An equinox module with plain methods.

    Equinox makes a pytree of a method each time that it is looked up, which on the host takes longer than the
    arithmetic of most of them. Nothing here passes methods through transformations of JAX.
    """

    __getattribute__ = object.__getattribute__


def replaced(module: M, **fields: Any) -> M:
    """Return a module with other fields; all else in it stays the same object, and nothing is converted or checked."""
    new = object.__new__(type(module))
    for name, value in (vars(module) | fields).items():
        object.__setattr__(new, name, value)
    return new
