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

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from qpaths.models import Evaluation

from ..harness.experiment import Claim, Experiment, Judgment, Row, Settings
from ..harness.judging import all_of, judge, smaller, yes_or_no
from ..harness.statistics import Estimate, in_words, mean
from ..parts import decoders
from ..parts.decoder_figures import Cells, pictures, sheets
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
    evaluation = Evaluation(problem, plan.both_ways)
    with decoders.precision_of(settings):
        bounds, seconds = decoders.timed(
            lambda: evaluation.compile(x, z), lambda: evaluation.run(x, z, key=decoders.chain_key(seed))
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


def _claims(rows: list[Row]) -> Iterator[Claim]:
    """Bounds are ordered and narrow; then q against the geometric path; then numbers of the paper's weights."""
    cells = Cells(rows, "gaps")
    gaps = [cells.mean(*key) for key in cells.values]
    crossed, images = sum(row["num_crossed"] for row in rows), sum(len(row["gaps"]) for row in rows)
    yield Claim(
        f"the lower bound is below the upper bound, in the mean over the images of every run, within "
        f"{_BEYOND_NOISE:.0f} standard errors",
        "by construction",
        f"least: gap {_least(gaps)}; {crossed} of {images:,} images cross by more than 5 standard errors of their "
        f"chains",
        _none_negative(gaps),
    )
    falls = [
        Estimate(-change.value, change.standard_error)
        for line in cells.lines
        for few, many in itertools.pairwise(cells.nums)
        if (change := cells.difference((*line, many), (*line, few)))
    ]
    if falls:
        least = _least(falls)
        yield Claim(
            "more distributions never widen the gap beyond noise",
            "holds in the figure",
            f"least in {len(falls)} comparisons: {in_words(Estimate(-least.value, least.standard_error), 'nats')}",
            _none_negative(falls),
        )
    yield from _papers_orders(cells)
    for column in cells.columns[1:]:
        for base in cells.bases:
            found = cells.best_differences(base, column)
            yield from smaller(
                f"{LABELS[column]}, from the {base}: the best q, chosen on other images, has a smaller gap than the "
                f"geometric path at every number of distributions",
                "not given",
                found,
                functools.partial(_wins, list(found.values())),
            )
    if rows[0]["model"] == "paper":
        yield from _figures(cells)


def _wins(found: list[Estimate], num: int, least: str) -> str:
    wins = sum(difference.value < -2 * difference.standard_error for difference in found)
    best = min(found, key=lambda difference: difference.value)
    return f"at {wins} of {len(found)} beyond two standard errors; most: {in_words(best, 'nats')}"


def _least(estimates: Iterable[Estimate]) -> Estimate:
    """The estimate furthest below zero in standard errors, or in nats if one image gives no standard error."""
    return min(estimates, key=lambda one: one.value / one.standard_error if one.standard_error > 0 else one.value)


def _none_negative(estimates: Iterable[Estimate]) -> Judgment:
    """Judge whether no estimate is below zero beyond noise; open if the noise is not known."""
    return all_of(
        Judgment.OPEN if np.isnan(one.standard_error) else yes_or_no(one.value >= -_BEYOND_NOISE * one.standard_error)
        for one in estimates
    )


def _papers_orders(cells: Cells) -> Iterator[Claim]:
    """Judge whether the two values of q that the paper recommends beat q = 1 with the released protocol."""
    for base in cells.bases:
        for q in _PAPER_BEST:
            here, there = (base, "released", q), (base, "released", 1.0)
            found = {num: d for num in cells.nums if (d := cells.difference((*here, num), (*there, num)))}
            statement = f"released protocol, from the {base}: q = {q} has a smaller gap than the geometric path at "
            statement += "every number of distributions"
            yield from smaller(statement, "consistently" if base == "prior" else "not given", found)


def _figures(cells: Cells) -> Iterator[Claim]:
    """With the paper's weights: gaps of the released example, and of earlier measurements of ours."""
    known = {(float(line["q"]), int(line["num_distributions"])): line for line in figures("omniglot")}
    wanted = [
        (1.0, 100, 32.0, 37.0),
        (0.997, 100, 24.0, 29.0),
        (1.0, 500, 6.8, 7.6),
        (0.994, 500, 2.8, 3.6),
    ]
    for q, num, low, high in wanted:
        key = ("prior", "released", q, num)
        if key in cells.values:
            line, gap = known.get((q, num)), cells.mean(*key)
            yield Claim(
                f"{LABELS['released']}, q = {q}, {num} distributions: the gap lies between {low:g} and {high:g} nats",
                f"{line['gap']} ({line['num_images']} images)" if line else "a curve without numbers",
                str(gap),
                judge(*gap, low, high),
            )
    for column, order, most in (("tuned", 1.0, 0.20), ("tuned", None, 0.15), ("split", None, 0.08)):
        best = order or cells.best_q("prior", column, 500)
        if best is not None and ("prior", column, best, 500) in cells.values:
            gap, name = cells.mean("prior", column, best, 500), "geometric" if order else f"best q ({best:g})"
            statement = f"{LABELS[column]}, {name}, 500 distributions' worth of gradients: at most {most} nats"
            yield Claim(statement, "not given", str(gap), judge(*gap, -np.inf, most))


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
