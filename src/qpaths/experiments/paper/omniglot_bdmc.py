"""Bounds on the likelihood of simulated images by q and number of distributions, the released protocol beside ours."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...models import compile_bounds, evaluate_bounds
from ..experiment import Claim, Experiment, Row, Run, Settings, Verdict
from ..judging import all_of, judge, yes_or_no
from ..statistics import Estimate, in_words, mean
from .shared.decoder_figures import Cells, pictures, sheets
from .shared.decoders import (
    DEFAULTS,
    FREE,
    LABELS,
    SMOKE,
    chain_key,
    check,
    check_finite,
    inputs,
    plan_of,
    precision_of,
    problem_of,
    rounded,
    runs_of,
    simulated,
    timed,
)
from .shared.published import figures

_BEYOND_NOISE = 4.0
"""Standard errors, where the worst of many comparisons is looked at."""
_PAPER_BEST = 0.994, 0.996


def _runs(settings: Settings, num_seeds: int) -> list[Run]:
    return [Run(run, seed) for run in runs_of(settings) for seed in range(num_seeds)]


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    problem, plan = problem_of(settings), plan_of(settings, seed)
    z, x = simulated(settings, seed)
    with precision_of(settings):
        bounds, seconds = timed(
            lambda: compile_bounds(problem, x, z, plan.both_ways),
            lambda: evaluate_bounds(problem, x, z, plan.both_ways, key=chain_key(seed)),
        )
    check_finite(np.concatenate([bounds.forward, bounds.reverse], axis=1))
    averaged = bounds.averaged()
    num_chains = settings["num_chains"]
    error = np.sqrt((np.var(bounds.forward, axis=1, ddof=1) + np.var(bounds.reverse, axis=1, ddof=1)) / num_chains)
    single = mean(bounds.gap)
    return {
        **plan.described(),
        "lower": float(np.mean(averaged.lower)),
        "upper": float(np.mean(averaged.upper)),
        "lower_se": mean(averaged.lower).standard_error,
        "gaps": rounded(averaged.gap),
        "single_gap": single.value,
        "single_gap_se": single.standard_error,
        "num_crossed": int(np.sum(np.asarray(bounds.gap) < -5 * error)),
        "acceptance": float(np.mean(bounds.acceptance)),
        "seconds": seconds,
    }


def _claims(rows: list[Row]) -> list[Claim]:
    cells = Cells(rows, "gaps")
    claims = [_ordered(rows, cells), *_narrowing(cells), *_papers_orders(cells)]
    for column in cells.columns[1:]:
        claims += _best_order(cells, column)
    if rows[0]["model"] == "paper":
        claims += _figures(cells)
    return claims


def _ordered(rows: list[Row], cells: Cells) -> Claim:
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
    """The one furthest below zero in standard errors, or in nats where one image cannot tell these."""
    return min(estimates, key=lambda one: one.value / one.standard_error if one.standard_error > 0 else one.value)


def _none_negative(estimates: Iterable[Estimate]) -> Verdict:
    """Whether no estimate is below zero beyond noise; open where the noise is not known."""
    return all_of(
        Verdict.OPEN if np.isnan(one.standard_error) else yes_or_no(one.value >= -_BEYOND_NOISE * one.standard_error)
        for one in estimates
    )


def _papers_orders(cells: Cells) -> list[Claim]:
    """The paper: q = 0.994 or 0.996 consistently outperform the geometric path."""
    claims = []
    for base in cells.bases:
        for q in _PAPER_BEST:
            found = [
                d
                for num in cells.nums
                if (d := cells.difference((base, "released", q, num), (base, "released", 1.0, num)))
            ]
            if found:
                least = max(found, key=lambda difference: difference.value)
                claims.append(
                    Claim(
                        f"released protocol, from the {base}: q = {q} has a smaller gap than the geometric path at "
                        f"every number of distributions",
                        "consistently" if base == "prior" else "not given",
                        f"least: {in_words(least, 'nats')}",
                        all_of(judge(*difference, -np.inf, 0.0) for difference in found),
                    )
                )
    return claims


def _best_order(cells: Cells, column: str) -> list[Claim]:
    """Whether some q is better than the geometric path once more is tuned; q is chosen on other images."""
    claims = []
    for base in cells.bases:
        found = [d for num in cells.nums if (d := cells.best_difference(base, column, num))]
        if found:
            wins = sum(difference.value < -2 * difference.standard_error for difference in found)
            best = min(found, key=lambda difference: difference.value)
            claims.append(
                Claim(
                    f"{LABELS[column]}, from the {base}: the best q, chosen on other images, has a smaller gap than "
                    f"the geometric path at every number of distributions",
                    "not given",
                    f"at {wins} of {len(found)} beyond two standard errors; most: {in_words(best, 'nats')}",
                    all_of(judge(*difference, -np.inf, 0.0) for difference in found),
                )
            )
    return claims


def _figures(cells: Cells) -> list[Claim]:
    """What is known about the paper's weights: figures of the released example and of earlier measurements."""
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
    """The gap at one q, or at the best of them."""
    if q is None:
        best = cells.best_q("prior", column, 500)
        return (None, "") if best is None else (cells.mean("prior", column, best, 500), f"best q ({best:g})")
    key = ("prior", column, q, 500)
    return (cells.mean(*key) if key in cells.values else None), "geometric" if q == 1 else f"q = {q:g}"


def _within(statement: str, paper: str, gap: Estimate, low: float, high: float) -> Claim:
    return Claim(statement, paper, str(gap), judge(*gap, low, high))


EXPERIMENT = Experiment(
    name="omniglot_bdmc",
    title="gaps of bidirectional Monte Carlo on a decoder model, by q and number of distributions",
    paper="Figures 7b and 11 (section 7.2)",
    duration="15 min on an H200",
    about="Annealing from the prior, or the encoder, to the posterior of each of 2,500 images that the model itself "
    "drew, forwards and backwards, with Hamiltonian Monte Carlo; 10 chains each, whose weights are averaged under the "
    "log. The released protocol adapts the step size of each chain as it goes. The other columns are tuned on other "
    "images and frozen: kernel and schedule, then also the split of the same number of gradients between distributions "
    "and leapfrog steps; a further column, kernel, has the tuned kernel on the linear schedule. Made for a GPU.",
    settings=DEFAULTS,
    smoke=SMOKE,
    runs=_runs,
    run_one=_run_one,
    check=check,
    inputs=inputs,
    pictures=pictures,
    sheets=sheets,
    claims=_claims,
    num_seeds=1,
    free=FREE,
)
