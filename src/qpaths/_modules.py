"""The base class of everything that is a pytree and whose methods are called in inner loops."""

import equinox as eqx


class Module(eqx.Module):
    """An equinox module with plain methods.

    Equinox makes a pytree of a method each time that it is looked up, which on the host takes longer than the
    arithmetic of most of them. Nothing here passes methods through transformations of JAX.
    """

    __getattribute__ = object.__getattribute__
