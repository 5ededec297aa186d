"""Weighted draws in rounds: a reference without gradients for a few hundred evaluations, or a refusal that is cheap."""

import numpy as np
import pytest

import qpaths as qp
from qpaths.core.arrays import HostStream
from qpaths.remarks import Source
from qpaths.search.proposers.from_weights import Mixture, Weighted, fitted_in_rounds
from qpaths.search.state import Search

COVARIANCE = 0.3**2 * (0.3 * np.eye(5) + 0.7)
PRECISION = np.linalg.inv(COVARIANCE)


def _correlated(x):
    return float(-0.5 * (x - 1.0) @ PRECISION @ (x - 1.0))


def _two(x):
    return float(np.logaddexp(*(-0.5 * np.sum((x - center) ** 2) / 0.2**2 for center in (-2.0, 2.0))))


def _search(log_target, dimension, left=5_000.0, kernel=None):
    base = qp.MultivariateNormal(np.zeros(dimension), 25.0 * np.eye(dimension))
    path = qp.GeometricPath(base, qp.Density(log_target, backend="numpy"))
    return Search(path, kernel or qp.RandomWalk(10), 64, HostStream((1,)), left)


def _worth(found, log_target, dimension):
    """Share of draws from a mixture that weights leave, and the log of the integral that they say."""
    rows = found.draw(HostStream((2,)), 2000)
    logs = np.array([log_target(row) for row in rows]) - found.log_prob(rows)
    weights = np.exp(logs - logs.max())
    return np.sum(weights) ** 2 / np.sum(weights**2) / 2000, np.log(np.mean(weights)) + logs.max()


def test_a_normal_target_far_smaller_than_the_base():
    search = _search(_correlated, 5)
    found, said = fitted_in_rounds(search, 1_500)
    share, log_mass = _worth(found, _correlated, 5)
    assert share > 0.5
    assert said == pytest.approx(share, abs=0.2)
    assert abs(log_mass - 0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1]) < 0.1
    assert search.spent.target <= 1_500


def test_both_of_two_modes_are_kept():
    found, _ = fitted_in_rounds(_search(_two, 2), 2_000)
    centers = np.array([component.draw(HostStream((3,)), 500).mean(axis=0)[0] for component in found.components])
    for sign in (-1, 1):
        assert found.shares[sign * centers > 1.5].sum() == pytest.approx(0.5, abs=0.2)


def test_draws_of_a_mixture_are_of_its_density():
    found, _ = fitted_in_rounds(_search(_two, 2), 2_000)
    rows = found.draw(HostStream((4,)), 4_000)
    wide = Mixture(found.components, np.full(len(found.shares), 1 / len(found.shares)))
    ratio = np.exp(wide.log_prob(rows) - found.log_prob(rows))
    assert ratio.mean() == pytest.approx(1.0, abs=5 * ratio.std() / 4_000**0.5 + 1e-9)


def test_a_target_that_weights_do_not_reach_is_given_up_early():
    """A thin shell in ten dimensions: no mixture of a few distributions is like it."""
    search = _search(lambda x: float(-0.5 * (np.linalg.norm(x) - 4.0) ** 2 / 0.01**2), 10)
    assert fitted_in_rounds(search, 4_000)[1] < 0.1
    assert search.spent.target <= 4_000


def test_where_it_is_tried():
    assert Weighted().suits(_search(_two, 2))
    assert not Weighted().suits(_search(_two, 20))
    assert not Weighted().suits(_search(_two, 2, left=300.0))
    assert not Weighted().suits(_search(_two, 2, kernel=qp.HMC()))


@pytest.mark.filterwarnings("ignore:evidence")
def test_a_few_thousand_evaluations_are_enough(key):
    """Before, 5,000 evaluations left the answer off by 4 to 11 nats, and 20,000 by a standard error of 1.5."""

    def to_box(u):
        x = np.array(u)
        return 20 * x - 10

    result = qp.evidence(prior_transform=to_box, log_likelihood=_correlated, num_parameters=5, budget=20_000, key=key)
    truth = 0.5 * np.linalg.slogdet(2 * np.pi * COVARIANCE)[1] - 5 * np.log(20)
    assert abs(result.log_evidence - truth) < 5 * result.log_evidence_se
    assert result.log_evidence_se < 0.05
    assert Source.WEIGHTED.value in str(result.verdict)
