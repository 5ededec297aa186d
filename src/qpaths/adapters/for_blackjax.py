"""qpaths as an SMC algorithm of BlackJAX; `qpaths.kernels.BlackJAXKernel` is the way in the other direction."""

from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..algorithms import SMC
from ..annealing import Annealing, State
from ..core import Point, PRNGKey, TracedStream
from ..paths import AbstractPath
from ..rows import evaluator_of
from ..schedules import AbstractFixedSchedule, AdaptiveSchedule


class SMCState(NamedTuple):
    """Hold what BlackJAX's SMC states have (`particles`, `weights`, `tempering_param`), and the log evidence so far."""

    particles: Point
    weights: Array
    """They sum to 1."""
    tempering_param: Array
    """Beta: 0 at the base, 1 at the target."""
    log_evidence: Array
    run: State
    """All that a run of qpaths carries."""


class SMCInfo(NamedTuple):
    """About one step."""

    log_likelihood_increment: Array
    """Added to the log evidence."""
    ess: Array
    """Before resampling, as a number of particles."""
    acceptance_rate: Array


def as_blackjax(algorithm: SMC, path: AbstractPath[Any]) -> Any:
    """An SMC along a path with BlackJAX's interface: `init(particles)` and `step(rng_key, state)`.

    The particles are draws from the base of the path, as many as the algorithm has. `step` makes one step in beta. It
    can be compiled, and stands in any loop that is written for BlackJAX's tempered SMC:

        smc = as_blackjax(qpaths.SMC(1000, qpaths.AdaptiveSchedule(), qpaths.HMC()), path)
        state = smc.init(jax.vmap(path.base.sample)(jax.random.split(key, 1000)))
        while state.tempering_param < 1:
            state, info = jax.jit(smc.step)(next_key(), state)

    `state.log_evidence` is the log evidence so far. Steps beyond beta = 1 change nothing but the particles, which move.

    Args:
        algorithm: An `SMC`; its number of particles must be that of `init`.
        path: Any path.

    Returns:
        An object with `init` and `step`, as BlackJAX's sampling algorithms have.

    It needs the extra `qpaths[blackjax]`. The particles of `init` must be exact draws from the base: nothing checks it.
    See [BlackJAX](your_model.md#blackjax).

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))

        >>> smc = as_blackjax(qp.SMC(8, qp.LinearSchedule(3), qp.RandomWalk()), qp.GeometricPath(base, base))
        >>> state = jax.jit(smc.init)(jax.random.normal(jax.random.key(0), (8, 2)))  # draws from the base
        >>> float(state.tempering_param)
        0.0
    """
    base = _import_base()

    def init(particles: Point, rng_key: PRNGKey | None = None) -> SMCState:
        num = jax.tree.leaves(particles)[0].shape[0]
        if num != algorithm.num_particles:
            raise ValueError(
                f"`particles` must be {algorithm.num_particles} draws from the base, as the algorithm has, got {num}."
            )
        annealing = _annealing(algorithm, path, jax.random.key(0) if rng_key is None else rng_key)
        positions = annealing.evaluator.layout.rows(particles)
        return _state(
            annealing,
            annealing.population.start(annealing.evaluator, annealing.kernel, positions, annealing.stream),
        )

    def step(rng_key: PRNGKey, state: SMCState) -> tuple[SMCState, SMCInfo]:
        annealing, before = _annealing(algorithm, path, rng_key), state.run
        if annealing.num_stages is not None:  # after the last beta of a fixed schedule there is no other
            before = before._replace(stage=jnp.minimum(before.stage, annealing.num_stages - 1))
        run, stats = annealing.step(before, annealing.next_beta(before))
        new = _state(annealing, run)
        return new, SMCInfo(new.log_evidence - state.log_evidence, stats["ess"], stats["acceptance"])

    return base.SamplingAlgorithm(init, step)


def _annealing(algorithm: SMC, path: AbstractPath[Any], key: PRNGKey) -> Annealing:
    """The settings of a run with the random numbers of one key."""
    stream, schedule = TracedStream(key), algorithm.schedule
    return Annealing(
        evaluator_of(path, stream, with_slopes=algorithm.kernel.with_slopes),
        algorithm.kernel,
        algorithm.population,
        jnp.asarray(schedule.betas) if isinstance(schedule, AbstractFixedSchedule) else None,
        schedule.target_ess if isinstance(schedule, AdaptiveSchedule) else None,
        0,
        stream,
    )


def _state(annealing: Annealing, run: State) -> SMCState:
    points = annealing.evaluator.layout.points(run.particles.position)
    return SMCState(points, jax.nn.softmax(run.log_weights), run.beta, run.log_evidence, run)


def _import_base() -> ModuleType:
    """The module of BlackJAX's interface, or an error that says how to install it."""
    try:
        import blackjax.base
    except ImportError as error:
        raise ImportError("`as_blackjax` needs BlackJAX: pip install 'qpaths[blackjax]'.") from error
    return blackjax.base
