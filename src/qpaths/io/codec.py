"""Take values apart into JSON and arrays, and put them together again, without pickle.

Containers, numbers, texts and arrays come back as they were. So do instances of the classes that the reader knows:
named tuples, dataclasses (Equinox modules among them) and enumerations. No code of theirs runs. Objects that both
calls have, such as the user's functions, are stored as their names.
"""

import dataclasses
import enum
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

_PLAIN = (bool, int, float, str, type(None))
"""Types that JSON holds as they are."""


class Codec(NamedTuple):
    """The classes and objects that the writer and the reader of a file share.

    Attributes:
        classes: Classes whose instances keep their class.
        given: Objects that are stored as their names alone.
        opens: Whether instances of other classes become dictionaries of their fields, if JAX knows these. Otherwise
            they are an error.
    """

    classes: tuple[type, ...] = ()
    given: Mapping[str, Any] = {}
    opens: bool = False

    def encode(self, value: Any) -> tuple[Any, dict[str, np.ndarray]]:
        """Return the nesting of a value as JSON, and its arrays by name."""
        arrays: dict[str, np.ndarray] = {}
        return self._encode(value, (), arrays), arrays

    def decode(self, node: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        """Return the value that `encode` took apart."""
        (kind, content), *_ = node.items()
        if kind == "value":
            return content
        if kind in ("array", "scalar"):
            array = arrays[content]
            # Kinds of numbers that NumPy itself does not know (bfloat16) are stored as bytes.
            array = array.view(np.dtype(node["dtype"])) if array.dtype.kind == "V" else array
            return array if kind == "array" else array[()]
        if kind == "given":
            return self.given[content]
        if kind in ("list", "tuple"):
            items = [self.decode(child, arrays) for child in content]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return {key: self.decode(child, arrays) for key, child in content}
        found = {cls.__name__: cls for cls in self.classes}[content]
        if kind == "enum":
            return found[node["member"]]  # type: ignore[index]
        return _instance(found, {key: self.decode(child, arrays) for key, child in node["fields"].items()})

    def _encode(self, value: Any, names: tuple[str, ...], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        for name, one in self.given.items():
            if _is_same(value, one):
                return {"given": name}
        kind = type(value)
        if kind in _PLAIN:
            return {"value": value}
        if isinstance(value, enum.Enum) and kind in self.classes:
            return {"enum": kind.__name__, "member": value.name}
        if kind in (list, tuple):
            return {kind.__name__: [self._encode(child, (*names, str(i)), arrays) for i, child in enumerate(value)]}
        if kind in self.classes:
            pairs = [(name, getattr(value, name)) for name in _fields(kind)]
            return {"class": kind.__name__, "fields": dict(self._children(pairs, names, arrays))}
        if kind is dict:
            return {"dict": list(self._children(list(value.items()), names, arrays))}
        children, _ = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda child: child is not value)
        if children and children[0][1] is value:
            array = np.asarray(value)
            if array.dtype.hasobject:
                raise TypeError(f"only arrays of numbers can be stored, got {kind.__name__} at {'/'.join(names)}.")
            name = re.sub(r"[^\w/]", "_", "/".join(names))
            same = (old for old, other in arrays.items() if _is_equal(array, other))
            name = next(same, name)  # what is there twice is stored once
            while name in arrays and not _is_equal(array, arrays[name]):
                name += "_"
            arrays[name] = array
            return {"scalar" if isinstance(value, np.generic) else "array": name, "dtype": array.dtype.name}
        if not self.opens:
            raise TypeError(f"{kind.__name__} at {'/'.join(names)} cannot be stored: no reader knows its class.")
        pairs = [(jax.tree_util.keystr(path, simple=True), child) for path, child in children]
        return {"dict": list(self._children(pairs, names, arrays))}

    def _children(
        self, pairs: list[tuple[Any, Any]], names: tuple[str, ...], arrays: dict[str, np.ndarray]
    ) -> Iterator[tuple[Any, Any]]:
        for key, child in pairs:
            key = key if isinstance(key, int) else str(key)
            yield key, self._encode(child, (*names, str(key)), arrays)


def _is_equal(array: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether two large arrays have the same bytes."""
    alike = array.size > 100 and (array.dtype, array.shape) == (other.dtype, other.shape)
    return alike and array[:1].tobytes() == other[:1].tobytes() and array.tobytes() == other.tobytes()


def _is_same(value: Any, one: Any) -> bool:
    """Tell whether a value is a given object. Tuples without arrays may be made twice."""
    if value is one or type(value) is not type(one) or not isinstance(value, tuple):
        return value is one
    try:
        return hash(value) == hash(one) and value == one
    except TypeError:
        return False


def parts_of(**objects: Any) -> dict[str, Any]:
    """Return objects and all of their parts, by name, that are neither numbers nor arrays.

    As `given` of a `Codec` they let the functions in a path or a kernel stay where they are.
    """
    found: dict[str, Any] = {}
    for name, value in objects.items():
        if not isinstance(value, (*_PLAIN, np.ndarray, np.generic, jax.Array)):
            parts = {f"{name}.{field}": getattr(value, field) for field in _fields(type(value))}
            found |= {name: value} | parts_of(**parts)
    return found


def classes_around(*objects: Any) -> tuple[type, ...]:
    """Return the classes of some objects with their bases, and those that the modules of these hold or import.

    The class of a kernel's parameters is among them.
    """
    found: dict[type, None] = {}
    for own in dict.fromkeys(cls for value in objects for cls in type(value).__mro__):
        around = vars(sys.modules.get(own.__module__, dataclasses)).values()
        found |= {cls: None for cls in (own, *around) if isinstance(cls, type) and _fields(cls)}
    return tuple(found)


def _fields(cls: Any) -> list[str]:
    """Return the names of the fields of a dataclass or of a class of named tuples; none for other classes.

    Fields with `in_files` False in their metadata are left out: they keep their default.
    """
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.metadata.get("in_files", True)]
    return list(getattr(cls, "_fields", ())) if issubclass(cls, tuple) else []


def _instance(cls: Any, fields: dict[str, Any]) -> Any:
    """Make an instance of a class with these fields; its own code for this does not run.

    A field that an earlier version did not have keeps its default.
    """
    own = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    new_ones = {field.name for field in own if field.default is not dataclasses.MISSING} - set(fields)
    if list(fields) != [name for name in _fields(cls) if name not in new_ones]:
        raise ValueError(f"{cls.__name__} has the fields {_fields(cls)}, got {list(fields)}")
    if issubclass(cls, tuple):
        return tuple.__new__(cls, fields.values())
    new = object.__new__(cls)
    left_out = [field for field in dataclasses.fields(cls) if field.name not in fields]
    for name, value in (fields | {field.name: field.default for field in left_out}).items():
        object.__setattr__(new, name, value)
    return new
