"""Conformance of an algorithm: unbiased evidence and honest error bars on problems with known answers."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from ..algorithms import replicate
from ..core import PRNGKey, ScalarLike, TracedStream, log_mean_exp, stack
from ..paths import AbstractPath, GeometricPath
from ..results import Status
from .problems import gaussian


def check_algorithm(
    algorithm: Any,
    path: AbstractPath[Any] | None = None,
    log_evidence: ScalarLike | None = None,
    *,
    key: PRNGKey | None = None,
    num_replicates: int = 200,
    traced: bool = False,
) -> None:
    """Check `algorithm.run(path, key=...)` against a known log evidence; raise one AssertionError with all it breaks.

    Over the replicates the mean of Z-hat / Z must be 1 within five of its standard errors, and the reported standard
    error must be of the size of the spread of log Z-hat. The default path is geometric, between normal distributions in
    three dimensions. Replicates run one after the other on the host or, with `traced`, as one compiled program.

    Args:
        algorithm: Anything with `run(path, key=...)` that returns a `Result`.
        path: A path with a known log evidence.
        log_evidence: The log evidence.
        key: For the replicates.
        num_replicates: Runs; a bias below five standard errors of their mean goes unseen.
        traced: Whether to run all replicates in one compiled program.

    The tutorial [Write an algorithm](tutorials/own_algorithm.md) uses it.

    Examples:
        >>> import qpaths as qp
        >>> kernel = qp.HMC(num_leapfrog=3, step_size=0.5, preconditioner="none")
        >>> check_algorithm(qp.AIS(50, qp.LinearSchedule(6), kernel), num_replicates=20)
    """
    if path is None or log_evidence is None:
        problem = gaussian(3)
        path, log_evidence = GeometricPath(problem.base, problem.target), float(problem.log_evidence)
    key = jax.random.key(0) if key is None else key
    results = numbers_of_runs(algorithm, path, key=key, num=num_replicates, traced=traced)
    broken = list(_violations(results, float(log_evidence)))
    assert not broken, f"{type(algorithm).__name__} breaks the contract of an algorithm:\n- " + "\n- ".join(broken)


def numbers_of_runs(
    algorithm: Any, path: AbstractPath[Any], *, key: PRNGKey, num: int, traced: bool = False
) -> dict[str, np.ndarray]:
    """Return numbers of independent runs, one entry per run."""
    if traced:
        rows = replicate(_numbers, algorithm, path, num, TracedStream(key), at_once=20)
    else:
        rows = stack([_numbers(algorithm, path, TracedStream(one)) for one in jax.random.split(key, num)])
    return jax.tree.map(np.asarray, rows)


def _numbers(algorithm: Any, path: AbstractPath[Any], stream: TracedStream) -> dict[str, Any]:
    result = algorithm.run(path, key=stream.key)
    return {
        "log_evidence": result.log_evidence,
        "log_evidence_se": result.log_evidence_se,
        "lag": result.stats["log_evidence_lag"][-1] if "log_evidence_lag" in result.stats else 0.0,
        "from_weights": log_mean_exp(result.log_weights),
        "status": result.status,
    }


def _violations(results: dict[str, np.ndarray], truth: float) -> Iterator[str]:
    estimates, errors = results["log_evidence"], results["log_evidence_se"]
    num = len(estimates)
    if (results["status"] != Status.OK).any():
        yield f"status must be OK, got {set(results['status'].tolist())}"
    if not np.allclose(results["from_weights"], estimates, atol=1e-5):
        yield "log_mean_exp(log_weights) must be log_evidence"
    ratio = np.exp(estimates - truth)
    standard_error = ratio.std(ddof=1) / num**0.5
    if not abs(ratio.mean() - 1) <= 5 * standard_error:
        yield f"the mean of Z-hat / Z must be 1, got {ratio.mean():.4f} +- {standard_error:.4f}"
    # The spread of `num` values is known to 1 / sqrt(2 num) of itself; a factor of two is far outside.
    size = np.sqrt(np.mean(errors**2)) / estimates.std(ddof=1)
    if not 0.6 < size < 2.0:
        yield f"log_evidence_se must be of the size of the spread of log_evidence, got {size:.2f} times that"
