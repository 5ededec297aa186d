"""The log evidences of many data sets of one shape, and of models over all of them."""

import dataclasses
import math
import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from ..adapters import Model, from_prior
from ..core import Cost, PRNGKey, QpathsTypeError, display, is_double, named_leaves, quiet, softmax
from ..densities import marked, sampler_of
from ..front_door import evidence
from ..io import Checkpoint, Codec
from ..paths import GeometricPath
from ..remarks import AfterNote, Finding, Level, Verdict
from ..results import REMARKS, Result, Status
from ..rows import Layout, in_pieces, layout_of, spread_of_call, spread_over
from ..stats import importance_log_evidence, pareto_shape
from .given import Given, digests
from .laplace import NUM_KEPT, Weigher, cost_of_pilots

_NUMS, _AT_ONCE = (2048, 16384), {"cpu": 2**14}
"""Draws that count of a data set, in the first round and the second, and those of all data sets
of a piece: more would not stay in the cache of a CPU."""
MOST_DIMENSIONS = 30
_MOST_SHAPE, _FEWEST, _MOST_BAD = 0.5, 100, 0.01
"""A Pareto index, an effective sample size and a share of draws without a density beyond which draws do not count."""
_NUM_PRIOR, _NUM_AUDITED = 512, 4
"""Draws that show the scale of the prior, and data sets that `evidence` checks."""
_UNUSUAL, _SMALLEST = 4.0, 0.02
"""Standard errors and nats by which two answers are said to differ."""
_OFTEN = 10.0
"""Seconds between two writes of a file."""

Column = Float[np.ndarray, " sets"]


@dataclasses.dataclass(frozen=True)
class ManyResults:
    """The answers for many data sets, from `evidence_many`. `many[i]` is the `Result` of one.

    Attributes:
        log_evidence: One for each data set.
        log_evidence_se: Their standard errors.
        ess: What the draws of each are worth.
        verdicts: One for each data set.
        samples: Posterior draws of equal weight, with axes of data sets and of draws in front.
        mean: Posterior means of the variables.
        sd: Posterior standard deviations.
        num_evaluations: Evaluations of the likelihoods of all data sets.
        data: Digests of the data, for `compare_many`.
        stopped: Why the call ended early; None where it did not. Data sets without an answer have NaN.

    Examples:
        >>> import jax, jax.numpy as jnp, qpaths as qp
        >>> norm = jax.scipy.stats.norm.logpdf
        >>> y = 1.0 + jax.random.normal(jax.random.key(0), (5, 20))  # five data sets
        >>> model = {"prior": {"mu": qp.Normal(0.0, 2.0)}, "log_likelihood": lambda p, y: norm(y, p["mu"]).sum()}
        >>> many = qp.evidence_many(**model, data=y, key=jax.random.key(1))
        >>> many.log_evidence.shape, many.samples["mu"].shape, len(many), str(many[0].verdict.level)
        ((5,), (5, 100), 5, 'sound')
    """

    log_evidence: Column
    log_evidence_se: Column
    ess: Column
    verdicts: tuple[Verdict, ...]
    samples: dict[str, Any]
    mean: dict[str, Any]
    sd: dict[str, Any]
    num_evaluations: Cost
    data: tuple[str, ...] = ()
    stopped: str | None = None

    def __len__(self) -> int:
        return len(self.log_evidence)

    @property
    def levels(self) -> tuple[Level, ...]:
        """Those of the verdicts."""
        return tuple(verdict.level for verdict in self.verdicts)

    def __getitem__(self, number: int) -> Result:
        value, error = self.log_evidence[number], self.log_evidence_se[number]
        unknown = np.full(1, np.nan)
        return Result(
            log_evidence=np.asarray(value),
            log_evidence_se=np.asarray(error),
            samples={name: leaf[number] for name, leaf in self.samples.items()},
            log_weights=np.full(NUM_KEPT, value),
            betas=np.array([0.0, 1.0]),
            stats={
                "beta": np.ones(1),
                "ess": self.ess[number][None],
                "acceptance": unknown,
                "step_size": unknown,
                "log_evidence": value[None],
            },
            status=np.asarray(int(Status.OK if np.isfinite(value) else Status.UNFINISHED)),
            num_evaluations=Cost(),
            algorithm="EvidenceMany",
            verdict=self.verdicts[number],
        )

    def summary(self) -> str:
        """Return a few lines for a person."""
        levels, errors = self.levels, self.log_evidence_se[np.isfinite(self.log_evidence_se)]
        worst = [i for i, level in enumerate(levels) if level != Level.SOUND]
        lines = [
            f"{len(self)} data sets: median standard error {np.median(errors):.2g}, largest {np.max(errors):.2g}",
            f"  {levels.count(Level.SOUND)} sound, {levels.count(Level.DOUBTFUL)} doubtful, "
            f"{levels.count(Level.WRONG)} wrong; {self.num_evaluations.target:,} evaluations",
        ]
        lines += [f"  data set {i}: {self.verdicts[i].findings[0]}." for i in worst[:5]]
        return "\n".join(lines + ([f"  {self.stopped}"] if self.stopped else []))


def evidence_many(
    *,
    data: Any,
    key: PRNGKey,
    log_likelihood: Any = None,
    prior: Mapping[str, Any] | None = None,
    model: Model | None = None,
    standard_error: float = 0.02,
    budget: int = 1_000_000,
    executor: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> ManyResults:
    """The log evidences of thousands of data sets of one shape, each with its standard error and verdict.

    Args:
        data: Arrays, or a tree of arrays, with an axis of data sets in front; or a list of data sets of equal shapes.
            Data sets of different sizes are padded to one shape, with a mask among the arrays of the likelihood.
        key: A `jax.random.key`. A data set has the same answer whatever other ones there are.
        log_likelihood: `log_likelihood(p, data)` for one data set; `p` has the variables by name.
        prior: A distribution for each variable.
        model: A model of `qpaths.adapters` in place of both. Its own data do not count.
        standard_error: What is good enough for each data set.
        budget: The most evaluations for a data set whose draws do not do, and that `evidence` takes over.
        executor: As in `evidence`. Pieces of the data sets go to its workers.
        checkpoint: A file from which the same call goes on.
        progress: Whether to show how far it is.

    Each data set has Newton ascents from draws of the prior, a Student-t distribution fitted to weighted pilot draws,
    and a thousand draws from it and the prior, which only get weights. One compiled program does this for all. Where
    the weights have a heavy tail, or the standard error is too large, there are eight times as many draws. Where these
    do not do either, `evidence` runs on that data set alone; it also checks a few of the others.

    Returns:
        `ManyResults`, with an entry for each data set. Those that look unreliable are a warning.

    Models with more than 30 parameters, and NumPy functions, have `evidence` for each data set: this is no faster then.

    Examples:
        >>> import jax, jax.numpy as jnp, qpaths as qp
        >>> norm = jax.scipy.stats.norm.logpdf
        >>> y = jnp.array([[0.5], [2.0]])  # two data sets of one observation
        >>> model = {"prior": {"mu": qp.Normal(0.0, 1.0)}, "log_likelihood": lambda p, y: norm(y, p["mu"]).sum()}
        >>> many = qp.evidence_many(**model, data=y, key=jax.random.key(0))
        >>> exact = norm(y[:, 0], 0.0, 2**0.5)
        >>> bool((abs(many.log_evidence - exact) < 5 * many.log_evidence_se).all())
        True
    """
    if not standard_error > 0:
        raise ValueError(f"`standard_error` must be positive, got {standard_error}: it is in nats.")
    data, num = _stacked(data)
    if model is None:
        if prior is None or log_likelihood is None:
            raise ValueError("`prior` and `log_likelihood` must be given, or a `model`.")
        model = from_prior(prior, log_likelihood, _one(data, 0))
    elif prior is not None or log_likelihood is not None:
        raise ValueError("`model` has its own prior and likelihood: leave out `prior` and `log_likelihood`.")
    call = Call(model, data, num, standard_error, budget, key, _NUM_AUDITED)
    settings = {"data": data, "key": key, "standard_error": standard_error, "budget": budget}
    file = Checkpoint(checkpoint, "many", settings, Codec((Table, Cost, *REMARKS)))
    with spread_over(executor), display(progress) as show:
        table = call.run(file.read() or Table({}, Cost()), file, show)
    levels = [one["verdict"].level for one in table.rows.values()]
    if bad := len(levels) - levels.count(Level.SOUND):
        warnings.warn(
            f"evidence_many: {bad} of {num} data sets are doubtful or wrong; see `levels` and `verdicts`.", stacklevel=2
        )
    return call.results(table)


@dataclasses.dataclass
class Table:
    """Collect what is known so far: a row for each data set with an answer."""

    rows: dict[int, Any]
    cost: Cost
    audited: int = 0


class Call:
    """One call of `evidence_many`."""

    def __init__(
        self,
        model: Model,
        data: Any,
        num: int,
        error: float,
        budget: int,
        key: PRNGKey,
        num_audited: int,
        nums: Any = _NUMS,
    ):
        self.model, self.data, self.num, self.error, self.budget = model, data, num, error, budget
        self.num_audited, self.nums = num_audited, nums
        self.keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(np.arange(num))
        self.fits = model.prior.backend == "jax"
        if not self.fits:
            return
        given = Given(GeometricPath(model.prior, model.prior))
        first = marked(given.plus(model.log_likelihood, _one(data, 0)), called="log_likelihood")
        self.layout: Layout = layout_of(GeometricPath(marked(model.prior, called="log_prior"), first))
        self.fits = self.layout.dimension <= MOST_DIMENSIONS
        # The scale of the prior; which draws show it does not matter.
        points = jax.vmap(sampler_of(model.prior, "prior"))(jax.random.split(jax.random.key(0), _NUM_PRIOR))
        rows = np.asarray(self.layout.rows(points), float)
        low, self.center, high = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
        self.spread = np.maximum((high - low) / 1.349, 1e-12)

    def run(self, table: Table, file: Checkpoint, show: Any) -> Table:
        """Answer all data sets; after Ctrl-C, those that were reached."""
        try:
            if self.fits:
                for draws in self.nums:
                    left = [i for i in range(self.num) if self._needs(table, i, draws)]
                    self._weigh(table, np.array(left, int), draws, file, show)
            left = [i for i in range(self.num) if i not in table.rows or not table.rows[i]["good"]]
            for done, number in enumerate(left):
                show(f"evidence of data set {number}", done / len(left))
                table.rows[number] = self._alone(number, table)
                file.write(table)
            if self.fits:
                self._audit(table, file, show)
        except KeyboardInterrupt:
            if not table.rows:
                raise
        return table

    def _needs(self, table: Table, number: int, draws: int) -> bool:
        row = table.rows.get(number)
        return row is None or (not row["good"] and row["draws"] < draws)

    def _weigh(self, table: Table, numbers: Int[np.ndarray, " left"], draws: int, file: Checkpoint, show: Any) -> None:
        """Weigh draws for some data sets, in pieces of one size."""
        if not numbers.size:
            return
        model, size = self.model, max(_AT_ONCE.get(jax.default_backend(), 2**20) // draws, 1)
        size = min(size, max(1, numbers.size))
        keys, spread = np.asarray(jax.random.key_data(self.keys)), spread_of_call()
        parts = model.prior, model.log_likelihood, _Named(model), self.layout, self.center, self.spread
        weigher = Weigher(*parts, self.data, keys, draws, is_double())
        each: Any = {} if spread is None else {"where": spread.each}
        work = weigher if spread is None else spread.model((id(self), draws), lambda: weigher)
        at_once = size * (1 if spread is None else 8)
        written = time.monotonic()
        for start in range(0, numbers.size, at_once):
            own = numbers[start : start + at_once]
            found = in_pieces(work, own, size, is_filled=True, **each)
            for place, number in enumerate(own):
                table.rows[int(number)] = self._judged(jax.tree.map(lambda leaf: leaf[place], found), draws)  # noqa: B023
            table.cost += own.size * (Cost(target=draws) + cost_of_pilots(self.layout.dimension))
            show(
                f"{start + own.size} of {numbers.size} data sets, {draws} draws each", (start + own.size) / numbers.size
            )
            if time.monotonic() - written > _OFTEN:
                file.write(table)
                written = time.monotonic()
        file.write(table)

    @quiet()
    def _judged(self, found: Any, draws: int) -> dict[str, Any]:
        """Return the row of a data set: its answer, and whether it may stand."""
        log_weights, (_, named), mean, sd, bad = found
        log_weights = np.asarray(log_weights, float)
        value, error = (float(number) for number in importance_log_evidence(log_weights))
        shape, worth = pareto_shape(log_weights), 1 / np.sum(np.square(softmax(log_weights)))
        good = shape <= _MOST_SHAPE and worth >= _FEWEST and error <= self.error and bad <= _MOST_BAD
        note = AfterNote.WEIGHED(num=draws, ess=worth / draws, tail_index=shape)
        parts = {"samples": named, "mean": mean, "sd": sd}
        return (
            {"value": value, "error": error, "ess": worth, "draws": draws, "good": bool(good)}
            | parts
            | {"verdict": Verdict(note)}
        )

    def _evidence(self, number: int) -> Result:
        own = dataclasses.replace(self.model, data=_one(self.data, number))
        error = max(0.5 * self.error, 0.005)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evidence(  # type: ignore[operator]  # the function, not the module of its name
                own, key=self.keys[number], standard_error=error, budget=self.budget
            )

    def _alone(self, number: int, table: Table) -> dict[str, Any]:
        """Return the row of a data set to which draws by their weights do not do justice."""
        result = self._evidence(number)
        table.cost += result.num_evaluations
        row = {"value": float(result.log_evidence), "error": float(result.log_evidence_se), "ess": float(result.ess)}
        if np.isfinite(row["value"]):
            draws = result.draws(NUM_KEPT, key=self.keys[number])
            weights = softmax(np.asarray(result.log_weights, float))
            mean = jax.tree.map(lambda leaf: np.tensordot(weights, np.asarray(leaf), 1), result.samples)
            sd = jax.tree.map(
                lambda leaf, m: np.sqrt(np.tensordot(weights, (np.asarray(leaf) - m) ** 2, 1)), result.samples, mean
            )
            moments = {"samples": draws.samples, "mean": mean, "sd": sd}
        else:
            moments = {"samples": None, "mean": None, "sd": None}
        return row | {"draws": 0, "good": True, "verdict": result.verdict} | moments

    def _audit(self, table: Table, file: Checkpoint, show: Any) -> None:
        """Compare a few answers with those of `evidence`, and doubt all others where they differ."""
        weighed = [i for i in sorted(table.rows) if table.rows[i]["draws"]]
        # From the one whose draws are worth least to the one whose draws are worth most.
        order = sorted(weighed, key=lambda i: table.rows[i]["ess"] / table.rows[i]["draws"])
        places = np.linspace(0, len(order) - 1, min(self.num_audited, len(order))).astype(int)
        chosen = [order[place] for place in places]
        while table.audited < len(chosen):
            number = chosen[table.audited]
            show(f"`evidence` checks data set {number}", table.audited / len(chosen))
            row, other = table.rows[number], self._alone(number, table)
            apart = abs(other["value"] - row["value"])
            if not apart <= max(_UNUSUAL * math.hypot(other["error"], row["error"]), _SMALLEST):
                finding = Finding.AUDIT(number=number, apart=apart)
                for i in weighed:
                    verdict = table.rows[i]["verdict"]
                    table.rows[i]["verdict"] = dataclasses.replace(verdict, findings=(*verdict.findings, finding))
                table.audited = len(chosen)
            elif other["verdict"].level != Level.SOUND:  # of the model, perhaps: a prior that is not normalized
                for i in weighed:
                    verdict = table.rows[i]["verdict"]
                    findings = tuple(f for f in other["verdict"].findings if f.kind.level == Level.WRONG)
                    table.rows[i]["verdict"] = dataclasses.replace(verdict, findings=(*verdict.findings, *findings))
                table.rows[number] = other
            table.audited += 1
        file.write(table)

    def results(self, table: Table) -> ManyResults:
        """Return all rows as columns."""
        nothing = Verdict(AfterNote.NOT_REACHED())
        empty = {"value": np.nan, "error": np.nan, "ess": 0.0, "verdict": nothing, "samples": None}
        rows = [table.rows.get(i, empty) for i in range(self.num)]
        example = next(row for row in rows if row["samples"] is not None)

        def column(name: str) -> dict[str, Any]:
            unknown = jax.tree.map(lambda leaf: np.full(np.shape(leaf), np.nan), example[name])
            found = [unknown if row["samples"] is None else row[name] for row in rows]
            return {part: np.stack([np.asarray(row[part]) for row in found]) for part in example["mean"]}

        numbers = {name: np.array([row[name] for row in rows], float) for name in ("value", "error", "ess")}
        left = sum(row["samples"] is None and i not in table.rows for i, row in enumerate(rows))
        return ManyResults(
            log_evidence=numbers["value"],
            log_evidence_se=numbers["error"],
            ess=numbers["ess"],
            verdicts=tuple(row["verdict"] for row in rows),
            samples=column("samples"),
            mean=column("mean"),
            sd=column("sd"),
            num_evaluations=table.cost,
            data=digests(self.data),
            stopped=f"interrupted, {left} data sets were not reached" if left else None,
        )


class _Named:
    """The variables of a model at a point, in the order of its prior."""

    def __init__(self, model: Model):
        self.constrain, self.order = model.constrain, list(model.variables)

    def __call__(self, point: Any) -> dict[str, Any]:
        named = self.constrain(point)
        return {name: named[name] for name in [*self.order, *(n for n in named if n not in self.order)]}


def _one(data: Any, number: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[number], data)


def _stacked(data: Any) -> tuple[Any, int]:
    """Return data sets with their axis in front, and how many there are."""
    if isinstance(data, list):
        if not data:
            raise ValueError("`data` is an empty list: give at least one data set.")
        shapes = [{name: np.shape(leaf) for name, leaf in named_leaves(one).items()} for one in data]
        for number, shape in enumerate(shapes):
            if shape != shapes[0]:
                name = next((n for n in shape if shape.get(n) != shapes[0].get(n)), next(iter(shapes[0])))
                raise ValueError(
                    f"data sets must have one shape: `{name}` of data set 0 has {shapes[0].get(name)}, that of "
                    f"data set {number} {shape.get(name)}. Pad them to one shape, with a mask as another array, by "
                    f"which the likelihood multiplies its terms."
                )
        data = jax.tree.map(lambda *leaves: np.stack(leaves), *data)
    data = jax.tree.map(np.asarray, data)
    nums = {name: leaf.shape[:1] for name, leaf in named_leaves(data).items()}
    if len(set(nums.values())) != 1 or () in nums.values():
        shown = ", ".join(f"{name} {shape}" for name, shape in nums.items()) or "nothing"
        raise QpathsTypeError(f"all arrays of `data` must have the axis of data sets in front, got lengths {shown}.")
    num = next(iter(nums.values()))[0]
    if num == 0:
        raise ValueError("`data` holds no data sets: its arrays have length 0.")
    return data, num


@dataclasses.dataclass(frozen=True)
class ManyComparison:
    """Models over many data sets, from `compare_many`.

    Attributes:
        names: The models.
        log_evidence: A row for each data set, a column for each model.
        log_evidence_se: The standard errors.
        is_sound: Where the verdict on every model is "sound".

    Examples:
        >>> import numpy as np
        >>> table = ManyComparison(("a", "b"), np.array([[0.0, -3.0]]), np.array([[0.1, 0.1]]), np.array([True]))
        >>> table.log_bayes_factor("a", "b")[0].tolist(), table.wins
        ([3.0], {'a': 1, 'b': 0})
    """

    names: tuple[str, ...]
    log_evidence: Float[np.ndarray, "sets models"]
    log_evidence_se: Float[np.ndarray, "sets models"]
    is_sound: Any

    def log_bayes_factor(self, first: str, second: str) -> tuple[Column, Column]:
        """Return the log Bayes factor of two models for each data set, and its standard error."""
        for name in (first, second):
            if name not in self.names:
                raise KeyError(f"there is no model {name!r}, only {', '.join(self.names)}.")
        i, j = self.names.index(first), self.names.index(second)
        errors = self.log_evidence_se
        return self.log_evidence[:, i] - self.log_evidence[:, j], np.hypot(errors[:, i], errors[:, j])

    @property
    def probabilities(self) -> Float[np.ndarray, "sets models"]:
        """Return the posterior probabilities of the models for each data set, with equal prior ones."""
        return softmax(self.log_evidence)

    @property
    def wins(self) -> dict[str, int]:
        """Return for how many data sets each model has the highest evidence, beyond two standard errors."""
        order = np.argsort(-self.log_evidence, axis=1)[:, :2]
        found = dict.fromkeys(self.names, 0)
        for row, (best, next_) in enumerate(order):
            errors = self.log_evidence_se[row]
            if self.log_evidence[row, best] - self.log_evidence[row, next_] > 2 * math.hypot(
                errors[best], errors[next_]
            ):
                found[self.names[best]] += 1
        return found

    def __str__(self) -> str:
        total = self.log_evidence.sum(axis=0)
        error = np.sqrt(np.square(self.log_evidence_se).sum(axis=0))
        width = max(5, *map(len, self.names))
        lines = [f"{'model':{width}}  {'log evidence of all':>20} {'se':>8} {'wins':>6}"]
        lines += [
            f"{name:{width}}  {total[i]:20.2f} {error[i]:8.2g} {self.wins[name]:6}" for i, name in enumerate(self.names)
        ]
        bad = len(self.is_sound) - int(np.sum(self.is_sound))
        undecided = len(self.is_sound) - sum(self.wins.values())
        lines.append(
            f"{undecided} of {len(self.is_sound)} data sets do not tell; {bad} have a verdict that is not sound."
        )
        return "\n".join(lines)


def compare_many(results: Mapping[str, ManyResults]) -> ManyComparison:
    """Compare models over many data sets.

    Args:
        results: Results of `evidence_many` by the names of the models, all on the same data.

    Returns:
        A `ManyComparison`, with log Bayes factors and probabilities for each data set.

    Examples:
        >>> import jax, qpaths as qp
        >>> norm = jax.scipy.stats.norm.logpdf
        >>> y = 1.0 + jax.random.normal(jax.random.key(0), (3, 20))
        >>> def many(scale):
        ...     likelihood = lambda p, y: norm(y, p["mu"], scale).sum()
        ...     return qp.evidence_many(
        ...         prior={"mu": qp.Normal(0.0, 2.0)}, log_likelihood=likelihood, data=y, key=jax.random.key(1)
        ...     )
        >>> compare_many({"one": many(1.0), "five": many(5.0)}).wins
        {'one': 3, 'five': 0}
    """
    if not isinstance(results, Mapping) or len(results) < 2:
        raise TypeError(f"`results` must be a dictionary of two or more results by name, got {results!r}.")
    for name, one in results.items():
        if not isinstance(one, ManyResults):
            raise TypeError(f"`{name}` must be a result of `evidence_many`, got {type(one).__name__}.")
    first, columns = next(iter(results)), list(results.values())
    for name, other in results.items():
        if len(other) != len(columns[0]) or (other.data and not set(other.data) & set(columns[0].data)):
            raise ValueError(f"`{first}` and `{name}` were computed on different data sets: give both the same ones.")
    return ManyComparison(
        names=tuple(results),
        log_evidence=np.stack([one.log_evidence for one in columns], axis=1),
        log_evidence_se=np.stack([one.log_evidence_se for one in columns], axis=1),
        is_sound=np.array(
            [all(v.level == Level.SOUND for v in row) for row in zip(*(c.verdicts for c in columns), strict=True)]
        ),
    )
