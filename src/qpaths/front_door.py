"""The front door: the log evidence of a model, how far it may be off, and what to think of it."""

import math
import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import storage
from ._types import Point, PRNGKey
from .algorithms import BDMC, SMC
from .algorithms.checkpoint import check_features, check_folder, check_settings, describe_all
from .algorithms.checks import CollapsedError, check_parts
from .algorithms.progress import Show, display
from .densities import is_numpy
from .endpoints import Probe, model_path, path_given, probe
from .evaluation import Layout, evaluator_of, layout_of, stream_for
from .islands import NUM_ISLANDS, Balance, Islands, balance, run_islands
from .kernels import HMC, AbstractKernel, RandomWalk
from .paths import AbstractPath
from .results import NumEvaluations, Result, Status
from .tuning import Tuned, tune
from .tuning.store import from_tree, to_tree
from .verdict import findings, verdict

_BUDGET, _STANDARD_ERROR = 1_000_000, 0.005
_SMALLEST_BUDGET = 20_000
_BLIND_STEPS = 10
"""Random-walk moves at each beta where there is no gradient."""
_CEILING = 100 * _BUDGET
"""Evaluations that a wanted standard error may come to cost where nothing else limits the run."""
_PARTICLES, _FEWEST = 512, 200
"""Particles of an island: the most, and the fewest for which two batches are better than one."""
_ENOUGH_BATCHES = 4
"""Batches after which it can be told what a wanted standard error would cost."""


class Limits(NamedTuple):
    """When to stop: evaluations in all, seconds, and the standard error that is good enough."""

    budget: float
    seconds: float
    standard_error: float


def evidence(
    base: Any = None,
    target: Any = None,
    *,
    key: PRNGKey,
    log_prior: Any = None,
    log_likelihood: Any = None,
    sample_prior: Any = None,
    data: Any = None,
    simulate: Any = None,
    backend: str = "jax",
    budget: int | None = None,
    seconds: float | int | None = None,
    standard_error: float | int | None = None,
    kernel: AbstractKernel[Any] | None = None,
    reference: bool = True,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Result:
    """The log evidence of a model with its standard error, posterior draws, and a verdict in plain words.

    Give the endpoints (`base`, which can be sampled, and the unnormalised `target`), or `log_prior(x)`,
    `log_likelihood(x)` and `sample_prior(key)`; with `data`, `log_likelihood(x, data)`. Pilots choose where to anneal
    from, the path, its schedule and the kernel (`qpaths.tune`); then independent islands of SMC run with these settings
    frozen, until the standard error is small enough or the budget is spent. Whatever the settings, the estimate of the
    evidence is unbiased.

    `budget` counts evaluations of the target, a gradient as two, pilots included; `seconds` is another limit, and
    `standard_error` what is good enough. By default a million evaluations, or an error of 0.005; with a wanted error
    alone, no limit unless it would take more than a hundred million. `kernel` is HMC unless given. `reference=False`
    always anneals from the base. With `simulate(key, x)`, which draws data given a point, the same procedure runs on
    simulated data, beside the budget, where bidirectional Monte Carlo bounds its error from both sides.

    With `checkpoint` what there is goes to that file after the pilots and each batch of islands, and the same call goes
    on from it. Ctrl-C returns what the finished batches say, with `status` UNFINISHED. `progress` shows the batches on
    standard error.

    The result's `verdict` says what was chosen and why, what looks unreliable, and what to do about it; what looks
    unreliable is also a warning.
    """
    limits = _limits(budget, seconds, standard_error)
    path, likelihood = model_path(base, target, log_prior, log_likelihood, sample_prior, data, backend)
    if simulate is not None and (data is None or likelihood is None):
        raise ValueError("`simulate` needs `log_prior`, `log_likelihood(x, data)`, `sample_prior` and `data`.")
    kernel, remark = _kernel_for(path) if kernel is None else (kernel, "")
    check_parts(kernel)
    stream = stream_for(key, path, pilots=True)
    tune_stream, run_stream, check_stream, certificate_stream = stream.split(4)
    evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
    seen = probe(evaluator, check_stream)
    for finding in seen.findings:
        warnings.warn(f"evidence: {finding}", stacklevel=2)
    # A share of a base that is not normalised would make the reference neither one nor the other.
    reference = reference and seen.is_normalised
    simulated = None if simulate is None else _simulated(path, likelihood, simulate, certificate_stream)
    started = time.monotonic()
    file = _File(checkpoint, path, kernel, evaluator.layout, key, seen)
    with display(progress) as show:
        state = file.read()
        if state is None:
            show("pilots", None)
            try:
                tuned = tune(path, key=tune_stream, budget=_finite(limits.budget), kernel=kernel, reference=reference)
            except CollapsedError as error:
                return _nothing_found(evaluator.layout, error)
            state = _State(tuned, None, 0)
            file.write(state)
            show(f"pilots: {_rate(tuned.num_evaluations, time.monotonic() - started)}", None)
        certificate, certificate_cost = "", NumEvaluations(0, 0, 0, 0)
        if simulated is not None:
            show("bounds on simulated data", None)
            certificate, certificate_cost = _certify(
                *simulated, _finite(limits.budget), kernel, reference, certificate_stream
            )
        islands, num_evaluations, status, ending = _run(state, limits, started, run_stream, file, show)
        num_evaluations += certificate_cost
    scores = Balance(0.0, 1.0)
    if kernel.with_slopes:
        num_draws = _num_balanced(limits)
        scores = balance(evaluator, islands, num_draws)
        num_evaluations += NumEvaluations(0, 0, 0, num_draws)
    found = findings(islands, state.tuned, scores)
    for finding in found:
        warnings.warn(f"evidence: {finding}", stacklevel=2)
    if budget is not None and standard_error is not None and islands.pooled[1] > standard_error:
        warnings.warn(f"evidence: `budget` and `standard_error` exclude each other: {ending}", stacklevel=2)
    text = verdict(state.tuned, ending, seen.findings + found, certificate, remark)
    return islands.result(state.tuned.schedule.betas, scores.error, num_evaluations, status, text)


class _State(NamedTuple):
    """What a call has come to: settings, the islands that have run, and in how many batches."""

    tuned: Tuned
    islands: Islands | None
    num_batches: int


class _File:
    """The file from which an interrupted call goes on, where there is one."""

    def __init__(
        self,
        name: Any,
        path: AbstractPath[Any],
        kernel: AbstractKernel[Any],
        layout: Layout,
        key: PRNGKey,
        seen: Probe,
    ):
        self.name = name
        self.parts = path, kernel, layout
        self.features = seen.features._asdict()
        if name is not None:
            check_folder(name)
            self.settings = describe_all({"kernel": kernel, "path": path, "key": key})

    def read(self) -> _State | None:
        if self.name is None or not Path(self.name).exists():
            return None
        _, notes, tree = storage.read(self.name, ("evidence",))
        check_settings(self.name, notes["settings"], self.settings)
        check_features(self.name, tree["features"], self.features)
        islands = None if tree["islands"] is None else Islands(**tree["islands"])
        return _State(from_tree(notes["tuned"], tree["tuned"], *self.parts), islands, notes["num_batches"])

    def write(self, state: _State) -> None:
        if self.name is not None:
            notes, arrays = to_tree(state.tuned)
            islands = None if state.islands is None else state.islands._asdict()
            storage.write(
                self.name,
                "evidence",
                {"settings": self.settings, "tuned": notes, "num_batches": state.num_batches},
                {"tuned": arrays, "islands": islands, "features": self.features},
            )


def _kernel_for(path: AbstractPath[Any]) -> tuple[AbstractKernel[Any], str]:
    """Hamiltonian Monte Carlo, or a random walk where an endpoint has no gradient; and what to say of the choice."""
    blind = [
        name for name in ("base", "target") if is_numpy(getattr(path, name)) and getattr(path, name).gradient is None
    ]
    if not blind:
        return HMC(num_leapfrog=5), ""
    return RandomWalk(_BLIND_STEPS), (
        f"random-walk moves, because the {' and the '.join(blind)} {'has' if len(blind) == 1 else 'have'} no gradient; "
        f"with `Density(..., gradient=...)` they would be guided by it"
    )


def _limits(budget: int | None, seconds: float | int | None, standard_error: float | int | None) -> Limits:
    for name, value in (("budget", budget), ("seconds", seconds), ("standard_error", standard_error)):
        if value is not None and not value > 0:
            raise ValueError(f"`{name}` must be positive, got {value}.")
    if budget is not None and budget < _SMALLEST_BUDGET:
        raise ValueError(
            f"`budget` must be at least {_SMALLEST_BUDGET:,} evaluations, got {budget}: the pilots alone need some."
        )
    if budget is None and seconds is None and standard_error is None:
        return Limits(float(_BUDGET), math.inf, _STANDARD_ERROR)
    return Limits(float(budget or math.inf), float(seconds or math.inf), float(standard_error or 0.0))


def _finite(budget: float) -> int:
    """What the pilots take as the budget where there is none in evaluations."""
    return _BUDGET if math.isinf(budget) else int(budget)


def _num_balanced(limits: Limits) -> int:
    """Draws at which the scores are looked at in the end."""
    return min(4096, _finite(limits.budget) // 50)


def _run(
    state: _State, limits: Limits, started: float, stream: Any, file: _File, show: Show
) -> tuple[Islands, NumEvaluations, Status, str]:
    """Batches of islands until a limit is met or Ctrl-C; also which, in words."""
    tuned, islands, num_batches = state
    left = _finite(limits.budget) - tuned.num_evaluations.cost - 2 * _num_balanced(limits)
    # A call that goes on makes batches of the size that is there.
    num_particles = _particles(tuned, left) if islands is None else islands.log_weights.shape[1]
    each = SMC(num_particles, tuned.schedule, tuned.kernel, moves_last=False).count(tuned.schedule.betas.size - 1)
    batch = NumEvaluations(*(NUM_ISLANDS * num for num in each))
    while True:
        spent = tuned.num_evaluations + NumEvaluations(*(num_batches * num for num in batch))
        if islands is not None:
            ending = _ending(islands, limits, spent, tuned, batch.cost, time.monotonic() - started)
            if ending:
                return islands, spent, Status.OK, ending
        try:
            begun = time.monotonic()
            new = run_islands(tuned.path, tuned.schedule, tuned.kernel, num_particles, stream=stream.fold(num_batches))
            islands, num_batches = (new if islands is None else islands + new), num_batches + 1
            file.write(_State(tuned, islands, num_batches))
            value, error = islands.pooled
            rate = _rate(batch, time.monotonic() - begun)
            show(f"{islands.log_evidence.size} islands: log evidence {value:.4f} +- {error:.4f}, {rate}", None)
        except KeyboardInterrupt:
            if islands is None:
                raise
            return islands, spent, Status.UNFINISHED, f"interrupted after {spent.cost:,} evaluations."


def _rate(num: NumEvaluations, seconds: float) -> str:
    """How fast the target was evaluated, in a few words."""
    total = num.target + num.target_gradient
    return f"{total:,} evaluations, {total / max(seconds, 1e-9):,.0f}/s"


def _ending(
    islands: Islands, limits: Limits, spent: NumEvaluations, tuned: Tuned, next_cost: int, seconds: float
) -> str:
    """Which limit is met, in words; empty while none is."""
    error = islands.pooled[1]
    cost = f"{spent.cost:,} evaluations, {tuned.num_evaluations.cost:,} of them in pilots"
    if error <= limits.standard_error:
        return f"stopped at a standard error of {limits.standard_error:g}, as wanted, after {cost}."
    if spent.cost + next_cost + 2 * _num_balanced(limits) > limits.budget:
        return f"stopped where the budget was spent, after {cost}." + _short_of(error, limits, spent)
    if seconds > limits.seconds:
        return f"stopped after {limits.seconds:g} seconds and {cost}." + _short_of(error, limits, spent)
    endless = math.isinf(limits.budget) and math.isinf(limits.seconds)
    if (
        endless
        and islands.log_evidence.size >= _ENOUGH_BATCHES * NUM_ISLANDS
        and _needed(error, limits, spent) > _CEILING
    ):
        advice = " Give a `budget` or `seconds` to go on nevertheless."
        return f"stopped, after {cost}, short of what was wanted." + _short_of(error, limits, spent) + advice
    return ""


def _short_of(error: float, limits: Limits, spent: NumEvaluations) -> str:
    """What the wanted standard error would have cost."""
    if not limits.standard_error > 0 or not np.isfinite(error):
        return ""
    return f" A standard error of {limits.standard_error:g} would take about {_needed(error, limits, spent):,.0f}."


def _needed(error: float, limits: Limits, spent: NumEvaluations) -> float:
    """Evaluations for the wanted standard error, which falls with their square root."""
    return spent.cost * (error / limits.standard_error) ** 2


def _particles(tuned: Tuned, left: int) -> int:
    """Particles of an island: a whole number of batches, at least two unless islands would become too small."""
    total = left / tuned.cost_per_particle / NUM_ISLANDS
    num_batches = max(math.ceil(total / _PARTICLES), 2 if total >= 2 * _FEWEST else 1)
    return max(4, int(total / num_batches))


def _simulated(path: AbstractPath[Any], likelihood: Any, simulate: Any, stream: Any) -> tuple[AbstractPath[Any], Point]:
    """The path for data simulated from the prior, and the point that they came from: an exact draw of the posterior."""
    point, data = stream.split(2)
    if is_numpy(path.base):
        truth = path.base.sample(point.generator)  # type: ignore[attr-defined]
        simulated = path_given(path.base, likelihood, simulate(data.generator, truth))  # type: ignore[arg-type]
    else:
        truth = path.sample_base(point.as_key())
        simulated = path_given(path.base, likelihood, simulate(data.as_key(), truth))  # type: ignore[arg-type]
    layout_of(simulated)  # which says what does not fit, before anything long
    return simulated, truth


def _certify(
    simulated: AbstractPath[Any],
    truth: Point,
    budget: int,
    kernel: AbstractKernel[Any],
    reference: bool,
    stream: Any,
) -> tuple[str, NumEvaluations]:
    """Bounds of bidirectional Monte Carlo by the same procedure, and what they cost beside the budget."""
    tune_stream, run_stream = stream.fold(2).split(2)
    settings = tune(simulated, key=tune_stream, budget=budget, kernel=kernel, reference=reference)
    bounds = BDMC(64, settings.schedule, settings.kernel).run(settings.path, truth, key=run_stream)
    text = (
        f"on data simulated from the prior the log evidence lies between {float(bounds.lower):.3f} +- "
        f"{float(bounds.lower_se):.3f} and {float(bounds.upper):.3f} +- {float(bounds.upper_se):.3f}, a gap of "
        f"{float(bounds.gap):.3f} nats for single chains of the same procedure"
    )
    return text, settings.num_evaluations + bounds.forward.num_evaluations + bounds.reverse.num_evaluations


def _nothing_found(layout: Layout, error: Exception) -> Result:
    """The honest answer where no draw from the base ever reached the target."""
    text = (
        f"no particle reached the target ({error}) The evidence may be anything. Give a base that overlaps the target, "
        f"or a target that is positive where the base is."
    )
    warnings.warn(f"evidence: {text}", stacklevel=3)
    nothing = np.zeros(0)
    return Result(
        log_evidence=np.asarray(-np.inf),
        log_evidence_se=np.asarray(np.inf),
        samples=layout.points(np.zeros((1, layout.dimension))),
        log_weights=np.full(1, -np.inf),
        betas=np.array([0.0, 1.0]),
        stats=dict.fromkeys(("beta", "ess", "acceptance", "step_size", "log_evidence"), nothing),
        status=np.asarray(int(Status.COLLAPSED)),
        num_evaluations=NumEvaluations(0, 0, 0, 0),
        algorithm="Evidence",
        verdict=text,
    )
