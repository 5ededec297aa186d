"""Programs are found again for the same arrays, and never for others."""

import jax
import jax.numpy as jnp
import numpy as np

import qpaths as qp
from qpaths.core import Identity
from qpaths.rows import HostDensities, Layout


def _scaled(scale, x):
    return -scale * jnp.sum(x**2)


def _density(scale):
    return qp.Density(jax.tree_util.Partial(_scaled, scale))


class _Unhashable:
    __hash__ = None

    def __call__(self, x):
        return -float(np.sum(x**2))


def test_the_same_arrays_in_other_objects_are_the_same():
    scale = np.ones(())
    one, again = (Identity((_density(scale),), "target") for _ in range(2))
    assert one == again
    assert hash(one) == hash(again)
    others = [((_density(scale.copy()),), "target"), ((_density(scale),), "base"), ((_density(scale),) * 2, "target")]
    assert not any(one == Identity(*other) for other in others)


def test_functions_that_cannot_be_hashed_are_the_same_objects():
    first, second = (qp.Density(_Unhashable(), backend="numpy") for _ in range(2))
    assert Identity((first,)) == Identity((first,)) != Identity((second,))


def test_a_density_never_gets_the_numbers_of_one_that_is_gone():
    """A new object often has the address of the one before."""
    densities, rows = HostDensities(Layout.of(jnp.zeros(2)), False), np.ones((3, 2))
    for scale in range(300):
        ((values, _),) = densities.at({"target": _density(np.asarray(float(scale)))}, rows, with_slopes=False)
        np.testing.assert_array_equal(values, -2.0 * scale)
