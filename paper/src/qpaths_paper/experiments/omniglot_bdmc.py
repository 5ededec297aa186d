"""Figures 7b and 11: gaps of bidirectional Monte Carlo on a decoder model, by q and number of distributions.

The images are drawn by the model itself, so that a draw of each posterior is known, and chains can run in both
directions. The forward chains give a lower bound on the log-likelihood of an image, and the reverse chains give an
upper bound. The gap between them bounds the error of both.

The paper runs its released protocol. The other columns are ours (`parts/decoders.py`). With the paper's weights, which
do not ship with qpaths, the gaps are also compared with those of the released example.

Settings:
    model: `default`, `paper`, or a file of weights.
    base: Where the annealing starts: prior, encoder.
    columns: Which protocols to run: released, kernel, tuned, split.
    q, num_distributions: Values of q, and numbers of distributions.
    num_leapfrog, num_chains: Leapfrog steps of a move, and chains for each image.
    num_images, num_pilot_images: Images of a seed, and further images for the pilots.
    precision: Of gradients and matrix products: mixed, fast, float32, tensorfloat32.

Rows:
    lower, upper, lower_se: Mean bounds over the images.
    gaps: The gap of each image.
    single_gap, single_gap_se: The mean gap of single chains.
    num_crossed: Images whose bounds cross.
    distributions_used, leapfrog_used, pilot_seconds: What the column chose, and how long that took.
    acceptance, seconds: The mean acceptance rate, and the time of the run without the compiler's.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from qpaths.models import compile_bounds, evaluate_bounds

from ..harness.experiment import Claim, Experiment, Judgment, Row, Settings
from ..harness.judging import all_of, below, judge, yes_or_no
from ..harness.statistics import Estimate, in_words, mean
from ..parts import decoders
from ..parts.decoder_figures import Cells, below_zero, pictures, sheets
from ..parts.decoders import LABELS
from ..parts.published import figures

_BEYOND_NOISE = 4.0
"""Standard errors, where the worst of many comparisons is looked at."""
_PAPER_BEST = 0.994, 0.996
"""Values of q that, in the paper, consistently outperform the geometric path."""


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Bounds from both sides for all images.

    The weights of the chains of an image are averaged under the logarithm; `single_gap` is the gap without averaging.
    `num_crossed` counts the images whose bounds cross by more than 5 standard errors of their chains.
    """
    problem, plan = decoders.problem_of(settings), decoders.plan_of(settings, seed)
    z, x = decoders.simulated(settings, seed)
    with decoders.precision_of(settings):
        bounds, seconds = decoders.timed(
            lambda: compile_bounds(problem, x, z, plan.both_ways),
            lambda: evaluate_bounds(problem, x, z, plan.both_ways, key=decoders.chain_key(seed)),
        )
    decoders.check_finite(np.concatenate([bounds.forward, bounds.reverse], axis=1))
    averaged = bounds.averaged()
    num_chains = settings["num_chains"]
    error = np.sqrt((np.var(bounds.forward, axis=1, ddof=1) + np.var(bounds.reverse, axis=1, ddof=1)) / num_chains)
    single = mean(bounds.gap)
    return {
        **plan.described(),
        "lower": float(np.mean(averaged.lower)),
        "upper": float(np.mean(averaged.upper)),
        "lower_se": mean(averaged.lower).standard_error,
        "gaps": decoders.rounded(averaged.gap),
        "single_gap": single.value,
        "single_gap_se": single.standard_error,
        "num_crossed": int(np.sum(np.asarray(bounds.gap) < -5 * error)),
        "acceptance": float(np.mean(bounds.acceptance)),
        "seconds": seconds,
    }


def _claims(rows: list[Row]) -> list[Claim]:
    """Bounds are ordered and narrow; then q against the geometric path; then numbers of the paper's weights."""
    cells = Cells(rows, "gaps")
    claims = [_ordered(rows, cells), *_narrowing(cells), *_papers_orders(cells)]
    for column in cells.columns[1:]:
        claims += _best_order(cells, column)
    if rows[0]["model"] == "paper":
        claims += _figures(cells)
    return claims


def _ordered(rows: list[Row], cells: Cells) -> Claim:
    """Whether the mean lower bound is below the mean upper bound in every run."""
    gaps = [cells.mean(*key) for key in cells.values]
    crossed, images = sum(row["num_crossed"] for row in rows), sum(len(row["gaps"]) for row in rows)
    return Claim(
        f"the lower bound is below the upper bound, in the mean over the images of every run, within "
        f"{_BEYOND_NOISE:.0f} standard errors",
        "by construction",
        f"least: gap {_least(gaps)}; {crossed} of {images:,} images cross by more than 5 standard errors of their "
        f"chains",
        _none_negative(gaps),
    )


def _narrowing(cells: Cells) -> list[Claim]:
    """Whether more distributions never widen the gap, in any column."""
    if len(cells.nums) < 2:
        return []
    pairs = list(zip(cells.nums, cells.nums[1:], strict=False))
    changes = [
        change
        for base, column, q in cells.lines
        for few, many in pairs
        if (change := cells.difference((base, column, q, many), (base, column, q, few)))
    ]
    if not changes:
        return []
    falls = [Estimate(-change.value, change.standard_error) for change in changes]
    least = _least(falls)
    return [
        Claim(
            "more distributions never widen the gap beyond noise",
            "holds in the figure",
            f"least in {len(changes)} comparisons: {in_words(Estimate(-least.value, least.standard_error), 'nats')}",
            _none_negative(falls),
        )
    ]


def _least(estimates: Iterable[Estimate]) -> Estimate:
    """The estimate furthest below zero in standard errors, or in nats if one image gives no standard error."""
    return min(estimates, key=lambda one: one.value / one.standard_error if one.standard_error > 0 else one.value)


def _none_negative(estimates: Iterable[Estimate]) -> Judgment:
    """Whether no estimate is below zero beyond noise; open if the noise is not known."""
    return all_of(
        Judgment.OPEN if np.isnan(one.standard_error) else yes_or_no(one.value >= -_BEYOND_NOISE * one.standard_error)
        for one in estimates
    )


def _papers_orders(cells: Cells) -> list[Claim]:
    """Whether the two values of q that the paper recommends beat the geometric path with the released protocol."""
    claims = []
    for base, q in ((base, q) for base in cells.bases for q in _PAPER_BEST):
        keys = [((base, "released", q, num), (base, "released", 1.0, num)) for num in cells.nums]
        found = [difference for pair in keys if (difference := cells.difference(*pair))]
        if found:
            statement = f"released protocol, from the {base}: q = {q} has a smaller gap than the geometric path at "
            statement += "every number of distributions"
            claims.append(below_zero(statement, "consistently" if base == "prior" else "not given", found))
    return claims


def _best_order(cells: Cells, column: str) -> list[Claim]:
    """Whether some q still beats the geometric path once more is tuned; q is chosen on other images."""
    claims = []
    for base in cells.bases:
        found = [d for num in cells.nums if (d := cells.best_difference(base, column, num))]
        if found:
            wins = sum(difference.value < -2 * difference.standard_error for difference in found)
            best = min(found, key=lambda difference: difference.value)
            statement = f"{LABELS[column]}, from the {base}: the best q, chosen on other images, has a smaller gap "
            statement += "than the geometric path at every number of distributions"
            ours = f"at {wins} of {len(found)} beyond two standard errors; most: {in_words(best, 'nats')}"
            verdict = below(found)
            claims.append(Claim(statement, "not given", ours, verdict))
    return claims


def _figures(cells: Cells) -> list[Claim]:
    """With the paper's weights: gaps of the released example, and of earlier measurements of ours."""
    known = {(float(line["q"]), int(line["num_distributions"])): line for line in figures("omniglot")}
    wanted = [
        ("released", 1.0, 100, 32.0, 37.0),
        ("released", 0.997, 100, 24.0, 29.0),
        ("released", 1.0, 500, 6.8, 7.6),
        ("released", 0.994, 500, 2.8, 3.6),
    ]
    claims = []
    for column, q, num, low, high in wanted:
        key = ("prior", column, q, num)
        if key in cells.values:
            line = known.get((q, num))
            paper = f"{line['gap']} ({line['num_images']} images)" if line else "a curve without numbers"
            statement = (
                f"{LABELS[column]}, q = {q}, {num} distributions: the gap lies between {low:g} and {high:g} nats"
            )
            claims.append(_within(statement, paper, cells.mean(*key), low, high))
    for column, order, most in (("tuned", 1.0, 0.20), ("tuned", None, 0.15), ("split", None, 0.08)):
        gap, name = _gap_at_500(cells, column, order)
        if gap is not None:
            statement = f"{LABELS[column]}, {name}, 500 distributions' worth of gradients: at most {most} nats"
            claims.append(_within(statement, "not given", gap, -np.inf, most))
    return claims


def _gap_at_500(cells: Cells, column: str, q: float | None) -> tuple[Estimate | None, str]:
    """The gap with 500 distributions at one q, or at the best q if it is None; and the name of the q."""
    if q is None:
        best = cells.best_q("prior", column, 500)
        return (None, "") if best is None else (cells.mean("prior", column, best, 500), f"best q ({best:g})")
    key = ("prior", column, q, 500)
    return (cells.mean(*key) if key in cells.values else None), "geometric" if q == 1 else f"q = {q:g}"


def _within(statement: str, paper: str, gap: Estimate, low: float, high: float) -> Claim:
    """The claim that a gap lies between two numbers."""
    return Claim(statement, paper, str(gap), judge(*gap, low, high))


EXPERIMENT = Experiment(
    name="omniglot_bdmc",
    title="gaps of bidirectional Monte Carlo on a decoder model, by q and number of distributions",
    paper="Figures 7b and 11 (section 7.2)",
    duration="9 min on an H200",
    about="Annealing from the prior, or the encoder, to the posterior of each of 2,500 images that the model itself "
    "drew, forwards and backwards, with Hamiltonian Monte Carlo; 10 chains each, whose weights are averaged under the "
    "log. The released protocol adapts the step size of each chain as it goes. The other columns are tuned on other "
    "images and frozen: kernel and schedule, then also the split of the same number of gradients between distributions "
    "and leapfrog steps; a further column, kernel, has the tuned kernel on the linear schedule. Made for a GPU.",
    settings=decoders.DEFAULTS,
    smoke=decoders.SMOKE,
    runs=decoders.runs_of,
    run_one=_run_one,
    check=decoders.check,
    inputs=decoders.inputs,
    pictures=pictures,
    sheets=sheets,
    claims=_claims,
    num_seeds=1,
    free=decoders.FREE,
)
