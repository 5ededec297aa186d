"""Comparisons of numbers and difference quotients, for the check of paths."""

from typing import Any

import numpy as np


def close(a: Any, b: Any, power: float) -> bool:
    """Equal up to `eps ** power` of the size, infinities included."""
    a, b = np.asarray(a), np.asarray(b)
    tolerance = float(np.finfo(b.dtype).eps) ** power
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, _size(a), _size(b))))


def _size(a: np.ndarray) -> float:
    finite = np.abs(a[np.isfinite(a)])
    return float(finite.max()) if finite.size else 0.0


def stencil(center: float, step: float) -> list[float]:
    """Betas near `center`, on both sides or only inside the path, for differences with two steps."""
    if center == 0:
        return [h * k for h in (step, step / 2) for k in (1, 2, 3)]
    if center == 1:
        return [1 - beta for beta in stencil(0.0, step)]
    return [center + h * k for h in (step, step / 2) for k in (-1, 1)]


def is_off(derivative: np.ndarray, differences: tuple[np.ndarray, np.ndarray], possible: np.ndarray) -> bool:
    """Whether a derivative is no number, or far from the difference quotient where that is a number."""
    quotient, error = differences
    known = possible & np.isfinite(quotient) & np.isfinite(error)
    far = known & ~(np.abs(derivative - quotient) <= error)
    return bool((far | (possible & np.isnan(derivative))).any())
