"""The result of a run: the only door out of an algorithm."""

import dataclasses
import html
import os
import warnings
from typing import Any, Required, TypedDict

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from . import remarks
from .core import (
    AnyArray,
    Cost,
    Count,
    Features,
    Point,
    PRNGKey,
    ResultArray,
    in_order,
    is_traced,
    log_ess,
    named_leaves,
    namespace,
    softmax,
)
from .core import CollapsedError as CollapsedError
from .core import Status as Status
from .io import Codec, read, to_jax, write
from .remarks import Level, Verdict
from .resampling import thinned

MOST_DRAWS = 16_000
"""Weighted draws that a file holds unless more are wanted."""
_FEWEST_OF_ISLAND = 4
_NUM_SHOWN, _NO_ANSWER = 6, 100.0
"""Numbers whose intervals a summary shows, and nats of standard error beyond which there is no answer."""


class Stats(TypedDict, total=False):
    """Statistics of a run, one entry for each beta after the first.

    The first five are always there. Not every algorithm has the others: use `stats.get(name)`.
    [The result](algorithms.md#the-result) says how to read them.

    Examples:
        >>> import jax, qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> stats = qp.SMC(20, qp.LinearSchedule(3), qp.RandomWalk()).run(path, key=jax.random.key(0)).stats
        >>> stats["beta"].tolist(), stats.get("rejection")  # only parallel tempering rejects swaps
        ([0.5, 1.0], None)
    """

    beta: Required[ResultArray]
    ess: Required[ResultArray]
    """Effective sample size before resampling, as a number of particles."""
    acceptance: Required[ResultArray]
    step_size: Required[ResultArray]
    log_evidence: Required[ResultArray]
    """So far."""
    log_evidence_lag: ResultArray
    """Its error as far as particles that lag behind the path explain it (`qpaths.stats.standard_errors.Lag`)."""
    increment: ResultArray
    """Mean over the particles of the log increment of their weights."""
    increment_variance: ResultArray
    length: ResultArray
    """Length of the step (`qpaths.schedules.step_length`)."""
    num_ancestors: ResultArray
    """Number of the first particles that have descendants."""
    derivative_mean: ResultArray
    """Weighted mean of the path's derivative in beta."""
    derivative_variance: ResultArray
    derivative_slope: ResultArray
    """Slope of the mean in beta."""
    rejection: ResultArray
    """Parallel tempering: rejection rate of swaps with the beta before."""
    barrier: ResultArray
    """Parallel tempering: sum of the rejection rates so far."""
    log_evidence_forward: ResultArray
    log_evidence_reverse: ResultArray
    """Parallel tempering: stepping stones in the two directions."""
    log_evidence_integration: ResultArray
    """Parallel tempering: corrected thermodynamic integration."""
    log_evidence_se: ResultArray
    """New data: standard error of the log evidence so far."""
    log_predictive: ResultArray
    """New data: the log predictive density of each block, given those before."""
    log_predictive_se: ResultArray


class Kept:
    """Something that a result keeps in memory alone: it is in no file, and does not make two results different."""

    def __init__(self, value: Any = None):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept)

    def __hash__(self) -> int:
        return 0

    def __reduce__(self) -> Any:
        return Kept, ()


class Result(eqx.Module):
    """Result of a run; every algorithm returns one.

    Attributes:
        log_evidence: The estimate of log Z of the path's target, for a normalized base.
        log_evidence_se: Its standard error, from this run alone.
        samples: Draws, a point or tree of arrays with a leading axis.
        log_weights: One for each draw, with `log_mean_exp(log_weights) == log_evidence`. `samples` with weights
            `exp(log_weights)` represent the target.
        betas: The betas that were visited, 0 and the last one included.
        stats: Numbers about each step; see `Stats`.
        status: How the run ended; see `Status`.
        num_evaluations: How often each endpoint was evaluated, pilots included.
        algorithm: The name of the algorithm, for summaries.
        features: The path's features of the states, where the algorithm keeps them: by beta, then as in `samples`.
        verdict: From `qpaths.evidence`. Other runs have one only where the log evidence or its standard error is not a
            finite number; it is "wrong" then.
        islands: Of `qpaths.evidence`: log evidence and standard error of each island, in the order of `samples`.
        error_parts: Of `qpaths.evidence`: the parts of the standard error in nats, by name; see `ErrorParts`.
        unconstrained: Where `samples` are variables by name: the points of the run, on which they are functions.
        data: Digests of the observed arrays, where they are known; `qpaths.compare` looks at them.
        drawn: Of a result from a file that holds a part of the draws: how many the run had, and what they were worth.
        origin: Of `qpaths.evidence`: the model, for further questions. Files do not hold it: see `qpaths.with_model`.

    Under `jax.jit` look at `status` before using any number. [The result](algorithms.md#the-result) says how to read a
    result.

    Examples:
        >>> import jax, qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> result = qp.SMC(200, qp.LinearSchedule(6), qp.RandomWalk(3)).run(path, key=jax.random.key(0))
        >>> result.samples.shape, len(result.betas), int(result.status)
        ((200,), 6, 0)
    """

    log_evidence: Float[ResultArray, ""]
    log_evidence_se: Float[ResultArray, ""]
    samples: Point
    log_weights: Float[ResultArray, " n"]
    betas: Float[ResultArray, " num"]
    stats: Stats
    status: Count
    num_evaluations: Cost = eqx.field(static=True)
    algorithm: str = eqx.field(static=True)
    features: Features = None
    verdict: Verdict | None = eqx.field(static=True, default=None)
    """Choices, doubts and advice from `qpaths.evidence`."""
    islands: dict[str, Any] | None = None
    error_parts: dict[str, Any] | None = None
    unconstrained: Point | None = None
    data: tuple[str, ...] = eqx.field(static=True, default=())
    drawn: tuple[int, float] | None = eqx.field(static=True, default=None)
    origin: Kept = eqx.field(static=True, default=Kept(), repr=False, metadata={"in_files": False})

    def __post_init__(self) -> None:
        given, self.verdict = self.verdict, self._judged
        if self.verdict is not given and self.verdict is not None:
            warnings.warn(f"{self.algorithm}: {self.verdict.findings[-1]}.", stacklevel=3)

    @property
    def _judged(self) -> Verdict | None:
        """The verdict, also of a result that a compiled program returned."""
        return Verdict.of(self.verdict, log_evidence=self.log_evidence, log_evidence_se=self.log_evidence_se)

    @property
    def ess(self) -> Float[ResultArray, ""]:
        """Effective sample size of the final weights, `(sum w)^2 / sum w^2`; equal weights give the number of draws."""
        return namespace(self.log_weights).exp(log_ess(self.log_weights))

    def __repr__(self) -> str:
        if is_traced(self):
            return f"<{self.algorithm}: a result inside a compiled program>"
        level = "" if self._judged is None else f", {self._judged.level}"
        return f"<{self.algorithm}: {self._answer}{level}; {self.log_weights.shape[0]} samples>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>"

    @property
    def _answer(self) -> str:
        value, error = float(self.log_evidence), float(self.log_evidence_se)
        if self._judged is not None and self._judged.fell_short:
            # Estimates of the evidence are unbiased, so that their logarithms are lower bounds in expectation.
            return f"log evidence at least about {value:.4g}: the run was too short for a number"
        if _NO_ANSWER < error < np.inf:
            return f"log evidence unknown: about {value:.4g}, with an error of more than {_NO_ANSWER:g} nats"
        return f"log evidence {value:.4f} +- {error:.4f} (standard error)"

    def summary(self) -> str:
        """A few lines for a person: the log evidence, how the run went, what it cost, and the verdict.

        Read ESS and acceptance as median (from smallest to largest) over the steps, and intervals as those with 90 %
        of the posterior. Why parts of the run were chosen is in `str(result.verdict)`.
        """
        status = Status(int(self.status))
        verdict, (num, ess) = self._judged, self.drawn or (self.log_weights.shape[0], float(self.ess))
        counts, acceptance = self.num_evaluations, self.stats["acceptance"]
        moves = f"acceptance {_range(acceptance, '{:.0%}')}" if np.isfinite(acceptance).any() else "no moves"
        lines = [
            f"{self.algorithm}: {self._answer}",
            f"  {status.message}; {num} samples, effective {ess:.0f}",
            f"  {len(self.betas)} distributions, {moves}, ESS per step {_range(self.stats['ess'] / num, '{:.0%}')}",
        ]
        lags = np.asarray(self.stats.get("log_evidence_lag", []))
        lag = float(lags[-1]) if lags.size else 0.0
        if verdict is None and abs(lag) > float(self.log_evidence_se):  # a verdict says it itself
            lines.append(f"  the particles lag behind the path by an estimated {lag:.3g}: make more moves")
        if np.isfinite(self.stats["step_size"]).any():
            lines.append(f"  step size {_range(self.stats['step_size'], '{:.3g}')}")
        lines.append(
            f"  evaluations of the target: {counts.target:,} values and {counts.target_gradient:,} with gradient"
        )
        lines += [f"  {line}" for line in self._intervals]
        if verdict is not None:
            lines += [f"  {line}" for line in verdict.short.splitlines()]
        return "\n".join(lines)

    @property
    def _intervals(self) -> list[str]:
        """The first variables with their medians and central intervals, as a file has them."""
        kept = self._thinned(MOST_DRAWS)
        if int(self.status) != Status.OK or not np.isfinite(np.max(np.asarray(kept.log_weights, float))):
            return []
        weights, columns = np.asarray(softmax(np.asarray(kept.log_weights, float))), number_columns(kept.samples)
        lines = []
        for name, values in list(columns.items())[:_NUM_SHOWN]:
            low, middle, high = weighted_quantiles(values, weights, (0.05, 0.5, 0.95))
            lines.append(f"{name}: {middle:.3g} (90% of the posterior from {low:.3g} to {high:.3g})")
        return lines + ([f"and {len(columns) - _NUM_SHOWN} more numbers"] if len(columns) > _NUM_SHOWN else [])

    def save(self, path: str | os.PathLike[str], draws: int | None = MOST_DRAWS) -> None:
        """Write the result to a file that `load_result` reads.

        Args:
            path: The file. One that exists is replaced as a whole.
            draws: The most weighted draws to keep, in equal numbers from each island; None keeps all. The summary is
                that of the whole run.

        The format is an `.npz` archive without pickle (docs/files.md).
        """
        write(path, "result", self._thinned(draws or self.log_weights.size), _CODEC, compressed=True)

    def _thinned(self, most: int) -> "Result":
        """The result with at most so many draws, of the same total weight in each island."""
        num = self.log_weights.shape[0]
        log_weights = np.asarray(self.log_weights, float)
        num_islands = 1 if self.islands is None else len(self.islands["log_evidence"])
        each, rest = divmod(num, num_islands)
        if num <= most or rest or self.features is not None:
            return self
        size = max(most // num_islands, _FEWEST_OF_ISLAND)
        islands = [thinned(own, size) for own in log_weights.reshape(num_islands, each)]
        kept = np.concatenate([i * each + indices for i, (indices, _) in enumerate(islands)])
        samples, unconstrained = in_order(lambda leaf: np.asarray(leaf)[kept], (self.samples, self.unconstrained))
        return dataclasses.replace(
            self,
            samples=samples,
            unconstrained=unconstrained,
            log_weights=np.concatenate([own for _, own in islands]).astype(self.log_weights.dtype),
            drawn=self.drawn or (num, float(self.ess)),
        )

    @property
    def known(self) -> Any:
        """The model behind the result, which answers further questions; an error where the result has none."""
        if self.origin.value is None:
            raise ValueError(
                f"this result of {self.algorithm} does not hold its model, as those of `evidence` do until they are "
                f"stored: give it again, `result = qpaths.with_model(result, prior=..., log_likelihood=..., data=...)`."
            )
        return self.origin.value

    def draws(self, num: int, *, key: PRNGKey) -> Any:
        """Posterior draws of equal weight, resampled and then moved by the kernel of the run.

        Args:
            num: How many.
            key: For the resampling and the moves.

        Returns:
            `EqualDraws` with `samples`, and for each number its ESS and r-hat over islands. [After the
            evidence](after.md#draws) has an example.
        """
        return self.known.draws(self, num, key)

    def reweight(self, *, prior: Any, key: PRNGKey | None = None) -> "Result":
        """The result with another prior, from the same draws.

        Args:
            prior: Distributions by name, for the same variables.
            key: Where weights do not reach, the draws are carried to the new posterior along a path. Without a key the
                verdict says so instead.

        Returns:
            A result with the new prior in its model. [After the evidence](after.md#other-priors) has an example.
        """
        return self.known.reweight(self, prior, key)

    def update(self, new_data: Any, *, key: PRNGKey) -> "Result":
        """The result with new data in the model, from the draws without them.

        Args:
            new_data: Observations that the model does not have yet, as `data` of `evidence`.
            key: For the run.

        Returns:
            A result with all data. `stats["log_predictive"]` is the log predictive density of the new ones, and
            `stats["log_predictive_se"]` its standard error. [After the evidence](after.md#new-data) has an example.
        """
        return self.known.update(self, new_data, key)

    def resample(self, num: int, *, key: PRNGKey | None = None) -> Point:
        """Equally weighted draws, resampled by their weights: a tree as `samples`, with `num` draws.

        Draws with much weight are copied. `draws` moves them as well.

        Args:
            num: How many.
            key: For the resampling; always the same one unless given.
        """
        from .adapters import resampled

        return resampled(self, num, key)

    def to_dataframe(self) -> Any:
        """The weighted draws as a table of pandas: a column for each number, and `weight`, which sums to 1."""
        from .adapters import to_table

        return to_table(self, "pandas")

    def to_getdist(self) -> Any:
        """The weighted draws as `MCSamples` of GetDist."""
        from .adapters import to_table

        return to_table(self, "getdist")

    def to_anesthetic(self) -> Any:
        """The weighted draws as `MCMCSamples` of anesthetic."""
        from .adapters import to_table

        return to_table(self, "anesthetic")

    def to_arviz(self, *, key: PRNGKey | None = None, log_likelihood: Any = None) -> Any:
        """Equally weighted posterior draws for ArviZ: an `InferenceData`, or a `DataTree` from ArviZ 1.0 on.

        Args:
            key: For the resampling of the draws by their weights; always the same one unless given.
            log_likelihood: Adds a group with the log likelihood of each observation, for `arviz.loo`: the model of
                `from_numpyro` or `from_pymc`, or a function of one sample that returns an array, or arrays by name.

        From `qpaths.evidence` there are four chains, each of other islands, so that `r_hat` compares independent
        runs. A chain has as many draws as its weighted ones are worth. Names and labels of axes are those of a PyMC
        model, unless the result comes from a file. Other results are one chain. A point that is a dictionary gives
        variables of those names, any other is called x. Unconstrained points are in the group
        `unconstrained_posterior`, the log weights before resampling in `sample_stats`. Log evidence, standard error and
        verdict are attributes.
        """
        from .adapters import to_arviz

        if int(self.status) != Status.OK:
            raise ValueError(
                f"`to_arviz` needs samples of the target, but this run ended with: {Status(int(self.status)).message}."
            )
        return to_arviz(self, log_likelihood, key)


class BoundsResult(eqx.Module):
    """Bounds on the log evidence from `BDMC`: `lower <= log evidence <= upper` in expectation.

    Single values can lie on the wrong side by a few of their standard errors. The bounds hold only if the reverse
    chains started at exact draws of the target (Grosse, Ghahramani and Adams, 2015).

    Attributes:
        lower: The mean log weight of the forward chains.
        upper: Minus the mean log weight of the reverse chains.
        lower_se: The standard error of `lower`.
        upper_se: The standard error of `upper`, which includes the randomness of the exact draws.
        forward: The forward run.
        reverse: The reverse run; it estimates minus the log evidence.

    Examples:
        >>> import jax, qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), qp.Normal(1.0, 1.0))
        >>> bounds = qp.BDMC(20, qp.LinearSchedule(4), qp.RandomWalk()).run(path, 1.0, key=jax.random.key(0))
        >>> bool(bounds.gap == bounds.upper - bounds.lower)
        True
    """

    lower: Float[ResultArray, ""]
    upper: Float[ResultArray, ""]
    lower_se: Float[ResultArray, ""]
    upper_se: Float[ResultArray, ""]
    forward: Result
    reverse: Result

    @property
    def verdict(self) -> Verdict | None:
        """A verdict, "wrong", where a bound or its standard error is not a finite number; otherwise None."""
        errors = {"lower_se": self.lower_se, "upper_se": self.upper_se}
        return Verdict.of(None, lower=self.lower, upper=self.upper, **errors)

    @property
    def gap(self) -> Float[ResultArray, ""]:
        """`upper - lower`, an upper bound in expectation on the divergence of the sampler from the target."""
        return self.upper - self.lower

    @property
    def num_evaluations(self) -> Cost:
        """Cost of both directions and of the pilot."""
        return self.forward.num_evaluations + self.reverse.num_evaluations

    def summary(self) -> str:
        """A few lines for a person."""
        return (
            f"BDMC: log evidence between {float(self.lower):.4f} +- {float(self.lower_se):.4f} and "
            f"{float(self.upper):.4f} +- {float(self.upper_se):.4f}, gap {float(self.gap):.4f}\n"
            f"  forward {self.forward.summary()}\n  reverse {self.reverse.summary()}"
            + ("" if self.verdict is None else f"\n{self.verdict}")
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bounds and both runs to a file that `load_result` reads, as `Result.save` does."""
        write(path, "bounds", self, _CODEC, compressed=True)


REMARKS = (
    *(Verdict, remarks.Remark, *remarks.Kind.__subclasses__()),
    *(remarks.Confirmation, remarks.Refusal, remarks.Shape, remarks.Source),
)
"""Classes of what is said about a run, for files."""
_CODEC = Codec((Result, BoundsResult, Cost, *REMARKS), opens=True)


def load_result(path: str | os.PathLike[str]) -> Result | BoundsResult:
    """Return the result that `Result.save` or `BoundsResult.save` wrote to a file.

    Every number is as it was saved. Numbers of 64 bits stay NumPy arrays where JAX would round them, that is without
    `jax_enable_x64`. A file of another kind or version is an error that says what it is.
    [Files and long runs](files.md) describes the format.

    Args:
        path: A file that `save` wrote.

    Returns:
        A `Result`, or a `BoundsResult` where the file holds bounds.

    Examples:
        >>> import tempfile, jax, qpaths as qp
        >>> path = qp.GeometricPath(qp.Normal(0.0, 1.0), lambda x: -2.0 * (x - 1.0) ** 2)
        >>> result = qp.SMC(200, qp.LinearSchedule(6), qp.RandomWalk(3)).run(path, key=jax.random.key(0))
        >>> file = tempfile.mkdtemp() + "/result.npz"
        >>> result.save(file)
        >>> bool(load_result(file).log_evidence == result.log_evidence)
        True
    """
    return to_jax(read(path, ("result", "bounds"), _CODEC, verify=_check_possible))


def _check_possible(found: Any) -> None:
    """Raise if no run returns such a result. A number that is not finite has a verdict that says so."""
    for result in (found.forward, found.reverse) if isinstance(found, BoundsResult) else (found,):
        numbers = np.asarray(result.log_evidence), np.asarray(result.log_evidence_se)
        if any(number.shape or not np.issubdtype(number.dtype, np.floating) for number in numbers):
            raise ValueError(f"a log evidence and its error are two numbers, got {numbers[0]} and {numbers[1]}")
        if numbers[1] < 0:
            raise ValueError(f"a standard error is not negative, got {numbers[1]}")
        if not np.isfinite(numbers).all() and (result.verdict is None or result.verdict.level is not Level.WRONG):
            raise ValueError(f"the log evidence is {numbers[0]} +- {numbers[1]}, and no verdict says so")
        num = np.shape(result.log_weights)
        if len(num) != 1 or any(np.shape(leaf)[:1] != num for leaf in jax.tree.leaves(result.samples)):
            raise ValueError(f"there must be one log weight for each draw, got {num}")
        counts = dataclasses.astuple(result.num_evaluations)
        if not all(isinstance(count, int) and count >= 0 for count in counts):
            raise ValueError(f"numbers of evaluations are not negative, got {counts}")
        result.summary()  # reads all else
    found.summary()


def number_columns(samples: Point, names: list[str] | None = None) -> dict[str, np.ndarray]:
    """Return every number of the samples that varies under its name, `theta[2]` say."""
    leaves = named_leaves(samples)
    unknown = [name for name in names or [] if name not in leaves]
    if unknown:
        raise ValueError(f"there is no variable {unknown[0]!r} among the samples, only {', '.join(leaves)}.")
    columns = {}
    for name in names or leaves:
        leaf = np.asarray(leaves[name]).astype(float)
        for index in np.ndindex(*leaf.shape[1:]):
            values = leaf[(slice(None), *index)]
            if np.ptp(values) > 0:  # parts of a matrix may be constant
                columns[name + "".join(f"[{i}]" for i in index)] = values
    return columns


def weighted_quantiles(
    values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"], shares: tuple[float, ...]
) -> Float[np.ndarray, " k"]:
    """Return quantiles of weighted draws."""
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    return values[order][np.minimum(np.searchsorted(cumulative, np.asarray(shares) * cumulative[-1]), len(order) - 1)]


def _range(values: AnyArray, form: str) -> str:
    """The median of some values, with the smallest and largest where they differ."""
    values = np.asarray(values)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return "unknown"
    low, middle, high = (form.format(v) for v in np.percentile(values, [0, 50, 100]))
    return middle if low == high else f"{middle} (from {low} to {high})"
