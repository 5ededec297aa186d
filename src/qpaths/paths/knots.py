"""Tables whose rows are reached at equal distances in beta: how coefficients move along a path."""

from typing import Any

import numpy as np

from ..core import AnyArray, FloatArray, RealLike, is_concrete, namespace


def along(beta: RealLike, table: AnyArray) -> FloatArray:
    """Return the row of a table at each beta, linear between its rows; the columns are a last axis."""
    xp = namespace(beta, table)
    table = xp.asarray(table)
    place, row = _place(beta, len(table) - 1)
    share = (place - row)[..., None]
    return (1 - share) * table[row] + share * table[row + 1]


def slope_along(beta: RealLike, table: AnyArray) -> FloatArray:
    """Return the derivative of `along` in beta: that of the part to the right, at beta = 1 of the last one."""
    xp = namespace(beta, table)
    table = xp.asarray(table)
    row = _place(beta, len(table) - 1)[1]
    return (len(table) - 1) * (table[row + 1] - table[row])


def _place(beta: RealLike, num: int) -> tuple[Any, Any]:
    xp = namespace(beta)
    place = xp.asarray(beta) * num
    return place, xp.clip(xp.floor(xp.nan_to_num(place)), 0, num - 1).astype(int)


def combined(coefficients: FloatArray, values: FloatArray) -> FloatArray:
    """Return the sum of products over the last axis; what has the coefficient 0 does not count, whatever it is."""
    xp = namespace(coefficients, values)
    return xp.sum(xp.where(coefficients == 0, 0.0, coefficients * values), axis=-1)


def as_table(name: str, value: Any, num_columns: int | None = None) -> Any:
    """Return a table of coefficients, and raise unless it has two rows or more of finite numbers."""
    if not is_concrete(value):
        return value
    table = np.asarray(value, float)
    if table.ndim != 2 or len(table) < 2 or num_columns not in (None, table.shape[1]) or not np.isfinite(table).all():
        columns = "" if num_columns is None else f" of {num_columns} numbers each"
        raise ValueError(
            f"`{name}` must have two rows or more{columns}, all finite, got {np.array2string(table, threshold=20)}: "
            f"the first row holds at beta = 0, the last at beta = 1, and the others at equal distances between."
        )
    return table
