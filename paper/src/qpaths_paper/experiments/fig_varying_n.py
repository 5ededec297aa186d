"""Figure 6: the best q and the smallest stable q against the number of data.

The more data, the larger the log likelihood, and the sooner `exp(delta log w)` leaves the range of numbers in the
formula as published: its smallest stable q rises towards 1. The best q is a little below 1 at every number of data. The
paper gives no numbers for this figure, so its statements are judged.

Settings:
    num_data: Sizes of the subsamples; each seed has its own.
    num_q: Values of 1 - q, from 1e-4 to 1 with equal distances in the logarithm; q = 1 is always added.
    moves, num_particles, num_distributions: Of each run of SMC.

Rows:
    log_evidence, log_evidence_se: The estimate of the run and its own standard error.
    delta_used: 1 - q.
    num_steps, acceptance, likelihoods: Steps of the schedule, mean acceptance rate, likelihood evaluations.
    share_lost: The share of the particles for which the formula as published has no number.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from ..harness.experiment import Claim, Experiment, Judgment, Picture, Row, Settings, Sheet, group, product
from ..harness.judging import above, all_of, yes_or_no
from ..harness.settings import checks
from ..harness.statistics import Estimate, choose_on_other_half, mean
from ..parts.datasets import Regression, load
from ..parts.published import delta_grid
from ..parts.regression import run_linear


def subsample(num: int, seed: int) -> Regression:
    """Draw some of the Pima data without replacement.

    The predictors keep the scaling of the whole data. A larger subsample of the same seed contains the smaller ones.
    """
    data = load("pima")
    if not 1 <= num <= len(data.labels):
        raise ValueError(f"`num_data` must lie between 1 and {len(data.labels)}, got {num}.")
    chosen = np.random.default_rng(seed).permutation(len(data.labels))[:num]
    return Regression(data.predictors[chosen], data.labels[chosen])


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """One run of SMC on the subsample of the seed."""
    return run_linear(subsample(settings["num_data"], seed), settings["delta"], settings, seed)


class Rule(NamedTuple):
    """A meaning of stable: as a sentence, and as a function of the share of lost particles in each run."""

    words: str
    is_stable: Callable[[list[float]], bool]


RULES = {
    "particles": Rule("the formula has a number at most particles", lambda lost: float(np.mean(lost)) < 0.5),
    "runs": Rule("no run is without a number", lambda lost: max(lost) < 1),
}
"""Two readings of the paper's "stable estimator". The released notebook counts runs without NaN, and a run has one as
soon as a single particle has weight at beta = 1."""


class _ByNumber:
    """The results on the grid of q, for each number of data."""

    def __init__(self, rows: list[Row]):
        self.rows = group(rows, "num_data", "delta")
        self.nums = sorted({row["num_data"] for row in rows})
        self.deltas = sorted({row["delta"] for row in rows})

    def found(self, num: int, delta: float) -> dict[int, Row]:
        """The rows of a cell, by seed."""
        return {row.seed: row for row in self.rows.get((num, delta), [])}

    def gains(self, num: int, delta: float) -> dict[int, float]:
        """Return by how much the log evidence is higher than along the geometric path, on the same data, by seed."""
        ours, geometric = self.found(num, delta), self.found(num, 0.0)
        return {
            seed: ours[seed]["log_evidence"] - geometric[seed]["log_evidence"] for seed in ours if seed in geometric
        }

    def best(self, num: int) -> float | None:
        """1 - q of the highest mean log evidence, which is a lower bound of the truth."""
        means = {delta: np.mean(list(gains.values())) for delta in self.deltas if (gains := self.gains(num, delta))}
        return max(means, key=lambda delta: means[delta]) if means else None

    def fair_gain(self, num: int) -> Estimate | None:
        """The gain of the best q, which is chosen on the other half of the seeds."""
        gains = {delta: self.gains(num, delta) for delta in self.deltas}
        fair = [gains[delta][seed] for delta, seed in choose_on_other_half(gains, lambda found: -np.mean(found))]
        return mean(fair) if fair else None

    def stable(self, num: int, rule: str) -> float | None:
        """The largest 1 - q up to which the formula as published is stable, by one of the `RULES`."""
        largest = None
        for delta in self.deltas:
            lost = [row["share_lost"] for row in self.found(num, delta).values()]
            if lost and RULES[rule].is_stable(lost):
                largest = delta
            elif lost:
                break
        return largest


def _claims(rows: list[Row]) -> Iterator[Claim]:
    """The smallest stable q rises with the number of data; the best q is a little below 1, and better than 1."""
    table = _ByNumber(rows)
    for name, rule in RULES.items():
        stable = [delta for num in table.nums if (delta := table.stable(num, name)) is not None]
        yield Claim(
            f"the smallest q at which the formula as published is stable rises with the number of data; stable: "
            f"{rule.words}",
            "rises",
            f"q from {1 - stable[0]:.3g} to {1 - stable[-1]:.3g}" if stable else "none is stable",
            _rises(stable, max(table.deltas)),
        )
    bests = [best for num in table.nums if (best := table.best(num)) is not None]
    gains = {num: gain for num in table.nums if (gain := table.fair_gain(num))}
    if bests and gains:
        least = min(gains, key=lambda num: gains[num].value)
        yield Claim(
            "the best q is a little below 1 at every number of data, and better than q = 1",
            "q = 1 - delta for small delta > 0",
            f"1 - q at most {max(bests):.2g}; least gain, q chosen on other seeds: {gains[least]} nats ({least} data)",
            all_of([yes_or_no(max(bests) <= 0.02), above(gains.values())]),
        )


def _rises(stable: list[float], edge: float) -> Judgment:
    """Judge whether 1 - q falls with the number of data; open if every q of the grid is stable."""
    if len(stable) < 2 or all(delta == edge for delta in stable):
        return Judgment.OPEN
    falls = stable[0] > stable[-1] and all(a >= b for a, b in itertools.pairwise(stable))
    return Judgment.HOLDS if falls else Judgment.FAILS


def _pictures(rows: list[Row]) -> list[Picture]:
    """Both values of 1 - q against the number of data, with the geometric path at the top."""
    table = _ByNumber(rows)
    figure, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
    ax.set(yscale="log", xlabel="number of data", ylabel="1 - q", ylim=(1.4, 0.7e-4))
    for rule, color in zip(RULES, ("C1", "C3"), strict=True):
        stable = [(num, delta) for num in table.nums if (delta := table.stable(num, rule))]
        label = f"smallest stable q: {RULES[rule].words}"
        ax.plot(*np.reshape(stable, (-1, 2)).T, "o-", color=color, label=label)
    best = [(num, delta) for num in table.nums if (delta := table.best(num))]
    ax.plot(*np.reshape(best, (-1, 2)).T, "o-", color="C0", label="best q")
    ax.set_xticks(table.nums, [str(num) for num in table.nums])
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    caption = "Subsamples of Pima. Upwards is towards the geometric path, q = 1."
    return [Picture("orders", caption, figure)]


def _sheets(rows: list[Row]) -> list[Sheet]:
    """A line for each number of data."""
    table = _ByNumber(rows)
    lines = []
    for num in table.nums:
        orders = [*(table.stable(num, rule) for rule in RULES), table.best(num)]
        gain = table.fair_gain(num)
        shown = [f"{1 - delta:.4g}" if delta is not None else "none" for delta in orders]
        lines.append([str(num), *shown, str(gain) if gain else ""])
    note = (
        "Stable: evaluated as the paper writes it, in double precision, the path has a number at most of the "
        "particles, or at one particle of every run at least, as the released notebook counts. qpaths evaluates it "
        "otherwise and has a number at every q. Best: the highest mean log "
        "evidence, a lower bound of the truth; the gain is over q = 1 on the same data, with q chosen on other seeds."
    )
    columns = ["data", "stable q, by particles", "by runs", "best q", "gain in nats"]
    return [Sheet("By number of data", columns, lines, note)]


EXPERIMENT = Experiment(
    name="fig_varying_n",
    title="best q and smallest stable q against the number of data",
    paper="Figure 6",
    duration="7 min",
    about="Random subsamples of the Pima data, one for each seed; a linear schedule of 10 distributions with 5 "
    "random-walk moves. The more data, the larger the log likelihood, and the sooner exp(delta log w) leaves the range "
    "of numbers in the formula as published. The paper gives no numbers for its figure, so its words are compared.",
    settings={
        "num_data": [50, 100, 200, 400, 768],
        "num_q": 20,
        "moves": 5,
        "num_particles": 10_000,
        "num_distributions": 10,
    },
    smoke={"num_data": [100, 768], "num_q": 4, "moves": 1, "num_particles": 200},
    runs=product(
        num_data="num_data",
        delta=lambda settings, run: [0.0, *delta_grid(settings["num_q"], 1e-4, 1.0)],
        without=["num_q"],
    ),
    run_one=_run_one,
    check=checks(
        least={"num_data": 1, "num_q": 1, "moves": 1, "num_particles": 2, "num_distributions": 2},
        most={"num_data": len(load("pima").labels)},
    ),
    pictures=_pictures,
    sheets=_sheets,
    claims=_claims,
    num_seeds=10,
    smoke_seeds=2,
    version=3,
)
