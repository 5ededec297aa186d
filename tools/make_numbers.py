"""Write `docs/explorer/numbers.json`: what the library gives for the quantities that the explorer computes in the page.

Run `python tools/make_numbers.py` after a change of the cases below. One test compares the functions of the page with
the file, and another compares the file with the library.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qpaths import MultivariateNormal, MultivariateStudentT, Normal, QPath, StudentT
from qpaths.core.arrays import stream_of
from qpaths.core.numerics import log_ess
from qpaths.families.nodes import Nodes
from qpaths.kernels import RandomWalk
from qpaths.paths.base import EndpointValues
from qpaths.rows import evaluator_of
from qpaths.schedules import LinearSchedule, step_length
from qpaths.stats.estimators import derivative_moments

FILE = Path(__file__).parents[1] / "docs" / "explorer" / "numbers.json"

BETAS = [0.0, 1e-6, 0.03, 0.4, 0.5, 0.77, 1 - 1e-6, 1.0]
NUM_DISTRIBUTIONS = 7

CASES: list[dict[str, Any]] = [
    {
        "name": "normals far apart",
        "base": {"kind": "normal", "mean": [-4.0], "scale": 3.0},
        "target": {"kind": "normal", "mean": [4.0], "scale": 1.0},
        "q": [0.0, 0.5, 0.98, 0.999, 1.0, 1.01, 1.2],
    },
    {
        "name": "Student-t pair",
        "base": {"kind": "student", "mean": [-3.0], "scale": 1.5, "df": 1.0},
        "target": {"kind": "student", "mean": [2.5], "scale": 0.5, "df": 5.0},
        "q": [0.0, 0.9, 1.0, 1.3333],
    },
    {
        "name": "narrow normal in a wide Student-t",
        "base": {"kind": "student", "mean": [0.0], "scale": 3.0, "df": 3.0},
        "target": {"kind": "normal", "mean": [1.0], "scale": 0.3},
        "q": [0.3, 0.995, 1.0],
    },
    {
        "name": "two dimensions",
        "base": {"kind": "normal", "mean": [-2.0, -1.0], "scale": 1.5, "correlation": 0.0},
        "target": {"kind": "student", "mean": [2.0, 1.0], "scale": 0.7, "df": 6.0, "correlation": 0.6},
        "q": [0.0, 0.95, 1.0],
    },
]


def density(spec: dict[str, Any]) -> Any:
    """The library's density of an endpoint of the page."""
    loc, scale = spec["mean"], spec["scale"]
    if len(loc) == 1:
        return Normal(loc[0], scale) if spec["kind"] == "normal" else StudentT(spec["df"], loc[0], scale)
    c = spec["correlation"]
    matrix = scale**2 * np.array([[1.0, c], [c, 1.0]])
    if spec["kind"] == "normal":
        return MultivariateNormal(jnp.array(loc), matrix)
    return MultivariateStudentT(spec["df"], jnp.array(loc), matrix)


def nodes_for(case: dict[str, Any]) -> Nodes:
    """Nodes that resolve both endpoints to more digits than the page needs."""
    ends = case["base"], case["target"]
    center = np.mean([end["mean"] for end in ends], axis=0)
    scale = min(end["scale"] for end in ends)
    if center.size == 1:
        line = Nodes.line(num=2001, scale=scale)
        return Nodes(line.points + center[0], line.log_weights)
    line = Nodes.line(num=161, scale=scale)
    nodes = Nodes.product(line, line)
    return Nodes(nodes.points + center, nodes.log_weights)


def path_numbers(path: QPath, features: EndpointValues, log_weights: np.ndarray) -> dict[str, Any]:
    """Normalizer, moments, steps and length of a path, by quadrature."""
    moments = {}
    for beta in BETAS[1:-1]:
        weights = log_weights + path.interpolate(beta, *features)
        found = derivative_moments(path, beta, features, weights)
        log_normalizer = np.logaddexp.reduce(weights)
        moments[str(beta)] = [float(log_normalizer), float(found.mean), float(found.variance)]
    betas, lengths = LinearSchedule(NUM_DISTRIBUTIONS).betas, []
    for beta, after in itertools.pairwise(betas):
        weights = log_weights + path.interpolate(beta, *features)
        lengths.append(float(step_length(weights, path.log_ratio(beta, after, features))))
    return {"moments": moments, "steps": lengths, "length": path_length(path, features, log_weights)}


def path_length(path: QPath, features: EndpointValues, log_weights: np.ndarray, num: int = 80) -> float:
    """The integral of the standard deviation of the derivative over beta, from end to end."""
    t, step = np.linspace(-3.05, 3.05, num, retstep=True)
    betas, slopes = 1 / (1 + np.exp(-np.pi * np.sinh(t))), np.pi * np.cosh(t) / (2 + 2 * np.cosh(np.pi * np.sinh(t)))
    total = 0.0
    for beta, slope in zip(betas, slopes, strict=True):
        found = derivative_moments(path, beta, features, log_weights + path.interpolate(beta, *features))
        total += float(np.sqrt(found.variance) * slope * step)
    return total


def case_numbers(case: dict[str, Any], num: int = 6) -> dict[str, Any]:
    """All numbers of one pair of endpoints."""
    base, target = density(case["base"]), density(case["target"])
    nodes = nodes_for(case)
    features = EndpointValues(*(np.asarray(nodes.log_values(end)) for end in (base, target)))
    log_weights = np.asarray(nodes.log_weights)
    dimension = len(case["base"]["mean"])
    points = np.random.default_rng(0).normal(scale=5.0, size=(num, dimension)).round(3)
    at = Nodes(jnp.asarray(points[:, 0] if dimension == 1 else points), jnp.zeros(num))
    at_points = EndpointValues(*(np.asarray(at.log_values(end)) for end in (base, target)))
    paths = []
    for q in case["q"]:
        path = QPath(base, target, q=q)
        values = [path.interpolate(beta, *at_points).tolist() for beta in BETAS]
        slopes = [path.derivative(beta, *at_points).tolist() for beta in BETAS[1:-1]]
        found = path_numbers(path, features, log_weights)
        paths.append({"q": q, "log_density": values, "derivative": slopes, **found, "run": run_numbers(path, case)})
    return {
        **case,
        "points": points.tolist(),
        "log_base": at_points.log_base.tolist(),
        "log_target": at_points.log_target.tolist(),
        "q": paths,
    }


def run_numbers(path: QPath, case: dict[str, Any], num: int = 5) -> dict[str, Any]:
    """A run of annealed importance sampling with given random numbers: the library's kernel and log ratios."""
    random = np.random.default_rng(1)
    dimension, betas = len(case["base"]["mean"]), LinearSchedule(4).betas
    start = random.normal(scale=3.0, size=(num, dimension)).round(3)
    noise = random.normal(size=(len(betas) - 1, num, dimension)).round(3)
    uniform = random.uniform(size=(len(betas) - 1, num)).round(3)
    evaluator = evaluator_of(path, stream_of(jax.random.key(0), host=True), with_slopes=False)
    particles, log_weights = evaluator.particles(start, with_slopes=False), np.zeros(num)
    kernel = RandomWalk()
    for k, (before, beta) in enumerate(itertools.pairwise(betas)):
        log_weights = log_weights + evaluator.log_ratio(before, beta, particles.features)
        width = case["base"]["scale"] ** (1 - beta) * case["target"]["scale"] ** beta
        factor = kernel.scale * dimension**-0.5 * width * np.eye(dimension)[None]
        particles, _ = kernel.transition(evaluator, beta, particles, (noise[k], uniform[k]), factor)
    return {
        "start": start.tolist(),
        "noise": noise.tolist(),
        "uniform": uniform.tolist(),
        "positions": particles.position.tolist(),
        "log_weights": log_weights.tolist(),
        "ess": float(np.exp(log_ess(log_weights))) / num,
    }


def numbers() -> dict[str, Any]:
    """The content of the file."""
    with jax.enable_x64(True):
        cases = [case_numbers(case) for case in CASES]
    return {"betas": BETAS, "num_distributions": NUM_DISTRIBUTIONS, "cases": cases}


if __name__ == "__main__":
    FILE.write_text(json.dumps(numbers(), indent=1) + "\n")
