"""Old names that say what they are called now, for one version."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def with_old_names(
    package: str, new_names: dict[str, str], find: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a package: old names warn and give the object of the new name, all others go to `find`.

    A new name is that of an attribute of the package, or of one of its modules: `"Gamma": "families.Gamma"`.
    """

    def attribute(name: str) -> Any:
        if name not in new_names:
            if find is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return find(name)
        new = new_names[name]
        warnings.warn(f"`{package}.{name}` is now `{package}.{new}`.", DeprecationWarning, stacklevel=2)
        module, _, last = f"{package}.{new}".rpartition(".")
        return getattr(importlib.import_module(module), last)

    return attribute
