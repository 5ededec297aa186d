"""Models side by side: log Bayes factors, model probabilities, and which differences are beyond noise."""

import dataclasses
import html
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float

from .core import softmax
from .remarks import Level, Verdict
from .results import Result, Status

Column = Float[np.ndarray, " models"]

if TYPE_CHECKING:
    Results: TypeAlias = Mapping[str, Result]
    Probabilities: TypeAlias = Mapping[str, float]
else:
    Results: TypeAlias = Any  # other things get an error of ours
    Probabilities: TypeAlias = Any

_SURE = 2.0
"""Standard errors by which a log Bayes factor must differ from 0."""
_NUM_DRAWS = 4000
"""Draws of the log evidences within their errors, for the intervals of the probabilities."""
_HEADER = ("model", "log evidence", "se", "log BF to best", "se", "probability", "90% interval", "verdict")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Models by evidence, the best one first. `qpaths.compare` makes it.

    `str()` is a table in plain text. `rich.print` and notebooks show it as tables, `to_pandas()` returns a data frame,
    and `qpaths.plotting.plot_compare` draws it. [Compare models](tutorials/compare_models.md) says how to read it. The
    standard errors of two models are taken as independent.

    Attributes:
        names: The names of the models.
        log_evidence: Their log evidences.
        log_evidence_se: The standard errors of these.
        log_prior: Log prior probabilities of the models.
        levels: Of the verdicts: sound, doubtful or wrong; empty where there is none.

    Examples:
        >>> import numpy as np
        >>> table = Comparison(("a", "b"), np.array([-1.0, -3.0]), np.array([0.3, 0.4]), np.log([0.5, 0.5]), ("", ""))
        >>> table.log_bayes_factor("a", "b"), table.probabilities.round(3).tolist()
        ((2.0, 0.5), [0.881, 0.119])
    """

    names: tuple[str, ...]
    log_evidence: Column
    log_evidence_se: Column
    log_prior: Column
    """Log prior probabilities of the models."""
    levels: tuple[str, ...]
    """Levels of the verdicts: sound, doubtful or wrong; empty where there is none."""

    def log_bayes_factor(self, first: str, second: str) -> tuple[float, float]:
        """Return the log evidence of the first model minus that of the second, and its standard error."""
        i, j = self._index(first), self._index(second)
        difference = float(self.log_evidence[i] - self.log_evidence[j])
        return difference, math.hypot(float(self.log_evidence_se[i]), float(self.log_evidence_se[j])) if i != j else 0.0

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise KeyError(f"there is no model {name!r}, only {', '.join(self.names)}.")
        return self.names.index(name)

    @property
    def probabilities(self) -> Column:
        """Posterior probabilities of the models."""
        return softmax(self.log_evidence + self.log_prior)

    @property
    def intervals(self) -> Float[np.ndarray, "models 2"]:
        """Intervals that hold 90 % of each probability as the log evidences vary within their standard errors."""
        noise = np.random.default_rng(0).standard_normal((_NUM_DRAWS, len(self.names)))
        drawn = softmax(self.log_evidence + self.log_prior + self.log_evidence_se * noise)
        return np.quantile(drawn, [0.05, 0.95], axis=0).T

    @property
    def conclusion(self) -> str:
        """A sentence about the best model and the next one."""
        if len(self.names) == 1:
            return "One model: nothing to compare."
        first, second = self.names[:2]
        difference, error = self.log_bayes_factor(first, second)
        if not difference > _SURE * error:  # also where the error is NaN
            words = (
                f"Which of {first} and {second} has the higher evidence cannot be told: they differ by "
                f"{difference:.3f} +- {error:.3f} nats. Smaller standard errors would tell."
            )
        else:
            factor = f"{math.exp(difference):.3g}" if difference < 14 else f"10^{difference / math.log(10):.1f}"
            words = (
                f"{first} has the higher evidence: {difference:.3f} +- {error:.3f} nats above {second}, a Bayes factor "
                f"of {factor}."
            )
        doubtful = [
            f"{name} ({level})" for name, level in zip(self.names, self.levels, strict=True) if level != "sound"
        ]
        doubtful = [words for words in doubtful if not words.endswith("()")]
        return f"{words} Beware of {', '.join(doubtful)}: read `result.verdict` first." if doubtful else words

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text, without its header."""
        found: list[tuple[str, ...]] = []
        for i, (name, (low, high)) in enumerate(zip(self.names, self.intervals, strict=True)):
            difference, error = self.log_bayes_factor(name, self.names[0])
            own = float(self.log_evidence_se[i])
            found.append(
                (
                    name,
                    f"{self.log_evidence[i]:.{_digits(own)}f}",
                    f"{own:.{_digits(own)}f}",
                    f"{difference:.{_digits(error)}f}",
                    f"{error:.{_digits(error)}f}",
                    f"{self.probabilities[i]:.3g}",
                    f"{low:.3g} to {high:.3g}",
                    self.levels[i] or "none",
                )
            )
        return found

    def __str__(self) -> str:
        table = [_HEADER, *self.rows()]
        widths = [max(len(row[column]) for row in table) for column in range(len(_HEADER))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        return "\n".join([*lines, self.conclusion])

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(*_HEADER)
        for row in self.rows():
            table.add_row(*map(Text, row))  # brackets in names are no markup
        return Group(table, Text(self.conclusion))

    def _repr_html_(self) -> str:
        def line(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(row, "td") for row in self.rows())
        return f"<table>{line(_HEADER, 'th')}{body}</table><p>{html.escape(self.conclusion)}</p>"

    def to_latex(self) -> str:
        """Return the table for LaTeX, with the rules of the package `booktabs`."""
        special = {char: f"\\{char}" for char in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
        escapes = str.maketrans(special | {"^": r"\textasciicircum{}"})
        lines = [" & ".join(cell.translate(escapes) for cell in row) + r" \\" for row in (_HEADER, *self.rows())]
        head = rf"\begin{{tabular}}{{l{'r' * (len(_HEADER) - 2)}l}}"
        return "\n".join([head, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"])

    def to_pandas(self) -> Any:
        """Return a data frame with one row for each model, the numbers in full."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("`to_pandas` needs pandas: pip install pandas.") from error
        factors = [self.log_bayes_factor(name, self.names[0]) for name in self.names]
        low, high = self.intervals.T
        columns = {
            "log_evidence": self.log_evidence,
            "log_evidence_se": self.log_evidence_se,
            "log_bayes_factor": [value for value, _ in factors],
            "log_bayes_factor_se": [error for _, error in factors],
            "probability": self.probabilities,
            "probability_low": low,
            "probability_high": high,
            "verdict": list(self.levels),
        }
        return pandas.DataFrame(columns, index=pandas.Index(self.names, name="model"))


def compare(*results: Results | Result, prior: Probabilities | None = None) -> Comparison:
    """Compare models by their evidence.

    Args:
        *results: A dictionary of results by the names of the models; or the results themselves, which are called
            "model 1", "model 2" and so on.
        prior: Prior probabilities of the models, which are made to sum to 1; equal ones by default.

    Results on different data cannot be compared. That is an error where the results know their data: those of
    `evidence(..., data=...)` and of models from NumPyro or PyMC do.
    [Compare models](tutorials/compare_models.md) says how to read the table (Kass and Raftery, 1995, on Bayes factors).
    A Bayes factor depends on the priors of the models, also where the posteriors do not.

    Returns:
        A `Comparison`: the models by evidence, with log Bayes factors and posterior probabilities.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> run = qp.SMC(200, qp.LinearSchedule(6), qp.RandomWalk(3)).run
        >>> runs = {"first": run(path, key=jax.random.key(0)), "second": run(path, key=jax.random.key(1))}
        >>> table = qp.compare(runs)
        >>> difference, error = table.log_bayes_factor("first", "second")
        >>> bool(abs(difference) < 5 * error)  # two runs on one problem
        True
    """
    given = _by_name(results)
    for name, result in given.items():
        if not isinstance(result, Result):
            raise TypeError(f"`{name}` must be a `Result` of a run, got {type(result).__name__}.")
        if int(result.status) not in (Status.OK, Status.UNFINISHED) or not np.isfinite(float(result.log_evidence)):
            raise ValueError(
                f"`{name}` has no evidence to compare ({Status(int(result.status)).message}): run it again, or leave "
                f"it out."
            )
    _check_same_data(given)
    names = sorted(given, key=lambda name: -float(given[name].log_evidence))
    return Comparison(
        names=tuple(names),
        log_evidence=np.array([float(given[name].log_evidence) for name in names]),
        log_evidence_se=np.array([float(given[name].log_evidence_se) for name in names]),
        log_prior=_log_prior(names, prior),
        levels=tuple(_level(given[name]) for name in names),
    )


def _digits(error: float) -> int:
    """Return how many decimals to show: three, or more if a standard error has fewer than two digits by then."""
    return min(max(3, 1 - math.floor(math.log10(error))), 6) if 0 < error < math.inf else 3


def _by_name(results: Sequence[Any]) -> dict[str, Any]:
    """Return results by the names of their models, which may be given as they are or in one container."""
    first = results[0] if len(results) == 1 else results
    if isinstance(first, Mapping) and first:
        return dict(first)
    results = first if isinstance(first, list | tuple) else results
    if not results or any(isinstance(result, Mapping) for result in results):
        kinds = ", ".join(type(result).__name__ for result in results) or "nothing"
        raise TypeError(f"`compare` takes a dictionary of results by name, or the results themselves, got {kinds}.")
    return {f"model {i + 1}": result for i, result in enumerate(results)}


def _level(result: Result) -> str:
    verdict = Verdict.of(result.verdict, log_evidence_se=result.log_evidence_se)
    return "" if verdict is None else str(Level(verdict.level))


def _log_prior(names: list[str], prior: Probabilities | None) -> Column:
    """Return the log probabilities of the models before the data."""
    if prior is None:
        return np.full(len(names), -math.log(len(names)))
    if set(prior) != set(names):
        raise ValueError(
            f"`prior` must have a probability for each of {', '.join(sorted(names))}, got {', '.join(sorted(prior))}."
        )
    values = np.array([float(prior[name]) for name in names])
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"`prior` must have positive probabilities, got {dict(prior)}: leave out what is impossible.")
    return np.log(values / values.sum())


def _check_same_data(results: Results) -> None:
    """Raise where two results have no observed array in common."""
    known = [(name, set(result.data)) for name, result in results.items() if result.data]
    for name, data in known[1:]:
        first, others = known[0]
        if not data & others:
            raise ValueError(
                f"`{first}` and `{name}` were computed on different data: they have no observed array in common. A "
                f"Bayes factor needs the same data in both; keep the observations in the same order and units."
            )
