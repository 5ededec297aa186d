"""The check of kernels accepts every kernel of the library, and rejects wrong ones by what is wrong with them."""

import collections

import numpy as np
import pytest

import qpaths as qp
from qpaths.core.cost import Cost
from qpaths.kernels import KernelWrapper
from qpaths.testing import NoRejection, StaleBeta, check_kernel

RIGHT = {
    "random walk": qp.RandomWalk(3),
    "independent": qp.IndependentMH(2),
    "MALA": qp.MALA(2),
    "HMC": qp.HMC(2, num_leapfrog=4),
    "HMC diagonal": qp.HMC(1, num_leapfrog=3, preconditioner="diagonal"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_kernels_of_the_library_pass(name, key):
    check_kernel(RIGHT[name], key=key)


class Miscounted(KernelWrapper):
    cost = Cost.values(2)


class Hidden(KernelWrapper):
    """Has parameters of a class that nobody finds in the module of the kernel."""

    _Width = collections.namedtuple("_Width", "width")

    def fit(self, cloud, stream, previous):
        return self._Width(self.kernel.fit(cloud, stream, previous))

    def transition(self, evaluator, beta, particles, randomness, params):
        return self.kernel.transition(evaluator, beta, particles, randomness, params.width)


class Lazy(KernelWrapper):
    """Carries the features of where a particle was."""

    def transition(self, evaluator, beta, particles, randomness, params):
        moved, info = self.kernel.transition(evaluator, beta, particles, randomness, params)
        return moved._replace(features=particles.features), info


class ByChunk(KernelWrapper):
    """Draws by the number of particles that it is given."""

    def randomness(self, rows, position, num):
        numbers = self.kernel.randomness(rows, position, num)
        return numbers[0] * (1 + 1e-3 * position.shape[0]), *numbers[1:]


class OtherWorld(KernelWrapper):
    """Goes half as far when compiled."""

    def transition(self, evaluator, beta, particles, randomness, params):
        factor = 1.0 if evaluator.xp is np else 0.5
        return self.kernel.transition(evaluator, beta, particles, (factor * randomness[0], *randomness[1:]), params)


class Still(KernelWrapper):
    def transition(self, evaluator, beta, particles, randomness, params):
        _, info = self.kernel.transition(evaluator, beta, particles, randomness, params)
        return particles, info


WALK = qp.RandomWalk(3)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (NoRejection(WALK), "no longer exact"),
        (NoRejection(WALK), "density is zero"),
        (StaleBeta(qp.RandomWalk(20)), "no longer exact"),
        (StaleBeta(qp.HMC(4, 4)), "no longer exact"),
        (Miscounted(WALK), "should cost"),
        (Hidden(WALK), "files cannot hold what `fit` returns"),
        (Lazy(WALK), "carry the features"),
        (ByChunk(WALK), "size of chunks"),
        (OtherWorld(WALK), "compiled transition differs"),
        (Still(WALK), "no particle has moved"),
    ],
)
def test_wrong_kernels_are_rejected(kernel, message, key):
    with pytest.raises(AssertionError, match=message):
        check_kernel(kernel, key=key)
