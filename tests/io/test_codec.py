"""Values come back from JSON and arrays with their classes, and what both calls have is the same object."""

import dataclasses
import enum
import json
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.core.cost import Cost
from qpaths.core.types import replaced
from qpaths.io import Checkpoint, Codec, classes_around, parts_of
from qpaths.paths import GeometricPath
from qpaths.recipe import Recipe
from qpaths.remarks import Finding, Remark


class Color(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Plain:
    color: Color
    words: tuple[str, ...]


class Module(eqx.Module):
    """Checks what it is made of, and would turn its numbers around if its own code ran."""

    array: Any
    size: float = eqx.field(static=True)

    def __init__(self, array, size):
        self.array, self.size = -array, size


KNOWN = Codec((Color, Pair, Plain, Module))


def again(value, codec=KNOWN):
    tree, arrays = codec.encode(value)
    return codec.decode(json.loads(json.dumps(tree)), arrays)


def test_classes_come_back_as_they_were():
    module = Module(np.arange(3.0), 0.5)
    value = {"a": Plain(Color.RED, ("x", "y")), 2: [Pair(module, None), (True, 1, float("inf"))], "n": np.float32(3)}
    found = again(value)
    assert found["a"] == value["a"]
    assert found[2][1] == (True, 1, float("inf"))
    assert isinstance(found["n"], np.float32)
    pair = found[2][0]
    assert isinstance(pair, Pair)
    np.testing.assert_array_equal(pair.left.array, module.array)
    assert jax.tree.structure(pair) == jax.tree.structure(value[2][0])


def test_classes_that_nobody_knows_become_dictionaries():
    assert again(Pair(1, Pair(2, 3)), Codec(opens=True)) == {"left": 1, "right": {"left": 2, "right": 3}}
    with pytest.raises(TypeError, match="Pair at words cannot be stored: no reader knows its class"):
        again(Plain(Color.RED, Pair(1, 2)), Codec((Color, Plain)))
    with pytest.raises(TypeError, match="only arrays of numbers can be stored, got Color at color"):
        again(Plain(Color.RED, ()), Codec((Plain,)))


@pytest.mark.parametrize(
    ("node", "error"),
    [
        ({"class": "Pair", "fields": {"left": {"value": 1}}}, ValueError),
        ({"class": "Path", "fields": {}}, KeyError),
        ({"enum": "Color", "member": "BLUE"}, KeyError),
        ({"given": "path"}, KeyError),
        ({"call": "print"}, KeyError),
    ],
)
def test_what_no_writer_wrote_is_an_error(node, error):
    with pytest.raises(error):
        KNOWN.decode(node, {})


def test_what_is_given_stays_the_same_object():
    path = GeometricPath(qp.Normal(0.0, 1.0), qp.Density(lambda x: -(x**2)))
    recipe = Recipe(path, qp.FixedSchedule([0.0, 1.0]), qp.RandomWalk(), findings=(Finding.LAG(lag=0.1, error=0.2),))
    codec = Codec((Recipe, Cost, qp.FixedSchedule, qp.RandomWalk, Finding, Remark), parts_of(path=path))
    found = again(recipe, codec)
    assert found.path is path
    assert found.findings == recipe.findings
    other = again(replaced(recipe, path=path.with_delta(0.1)), codec._replace(classes=(*codec.classes, qp.QPath)))
    assert other.path.target is path.target
    assert float(other.path.delta) == 0.1
    with pytest.raises(TypeError, match="GeometricPath at path cannot be stored"):
        again(recipe, codec._replace(given={}))


def test_the_classes_of_a_kernel_and_of_its_module_are_found():
    kernel = qp.kernels.KernelWrapper(qp.HMC(preconditioner="low_rank"))
    found = {cls.__name__ for cls in classes_around(*parts_of(kernel=kernel).values())}
    assert found >= {"KernelWrapper", "HMC", "LeapfrogParams", "LowRank"}


def test_settings_are_compared_before_classes_are_looked_for(tmp_path):
    file = tmp_path / "call.npz"
    Checkpoint(file, "evidence", {"kernel": "a walk"}, KNOWN).write(Pair(1, 2))
    with pytest.raises(ValueError, match="belongs to another run: `kernel` was a walk, and is HMC"):
        Checkpoint(file, "evidence", {"kernel": "HMC"}).read()
    assert Checkpoint(file, "evidence", {"kernel": "a walk"}, KNOWN).read() == Pair(1, 2)


class Point(NamedTuple):
    mean: Any
    log_scale: Any


def test_a_call_with_points_of_a_class_goes_on_from_its_file(tmp_path):
    base = qp.Density(
        lambda p: -0.5 * (p.mean**2 + p.log_scale**2) - np.log(2 * np.pi),
        lambda key: Point(*jax.random.normal(key, (2,))),
    )
    settings = {"key": jax.random.key(0), "checkpoint": tmp_path / "call.npz"}
    target = qp.Density(lambda p: -0.5 * jnp.sum((jnp.stack(p) - 1.0) ** 2) / 0.2)
    first = qp.evidence(base, target, budget=20_000, standard_error=0.1, **settings)
    more = qp.evidence(base, target, budget=40_000, **settings)
    assert isinstance(first.samples, Point)
    assert isinstance(more.samples, Point)
    assert more.log_weights.size > first.log_weights.size
