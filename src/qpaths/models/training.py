"""Training of the autoencoder by a thermodynamic objective: one compiled program per epoch, the data on the device."""

import dataclasses
import datetime
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int, Shaped

from ..algorithms import ThermodynamicObjective, iwae
from ..core import Clock, PRNGKey, PyTree, Scalar, display
from ..io import Checkpoint, by_name
from ..rows import AtMost
from ..schedules import LogUniformSchedule
from .networks import check_rows, posterior_path
from .omniglot import binarize, check_images
from .vae import HIDDEN, NUM_LATENT, VAE


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training; the defaults are those of the paper's appendix (Table 2) where it gives them.

    Args:
        num_epochs: Passes over the images.
        batch_size: Images of a step.
        num_samples: Importance samples of each image.
        num_partitions: Intervals of beta.
        first_beta: The smallest beta after 0; the betas are log-uniform from there.
        q: The order of the path from the encoder to the joint density. The sum is the left one for q > 0 and the right
            one otherwise: a lower bound for q >= 1 and for q <= 0. Between 0 and 1 neither sum is a bound.
        gradient: As in `ThermodynamicObjective`.
        learning_rate: Adam's step size at first. It falls along half a cosine.
        final_learning_rate: The step size at the end.
        hidden: Sizes of the hidden layers.
        num_latent: Latent coordinates.
        seed: All random numbers follow from it.

    Examples:
        >>> TrainingSettings(num_epochs=100).num_partitions
        100
    """

    num_epochs: int = 5000
    batch_size: int = 100
    num_samples: int = 50
    num_partitions: int = 100
    first_beta: float = 0.025
    q: float = 1.0
    gradient: str = "reparameterized"
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-5
    hidden: tuple[int, ...] = HIDDEN
    num_latent: int = NUM_LATENT
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_epochs", "batch_size", "num_samples", "num_partitions", "num_latent"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1, got {getattr(self, name)}.")
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"`hidden` must hold sizes of layers, at least one of at least 1, got {self.hidden}.")
        if not self.learning_rate >= self.final_learning_rate > 0:
            raise ValueError(
                f"the step size must fall to a positive one, got `learning_rate` {self.learning_rate} and "
                f"`final_learning_rate` {self.final_learning_rate}."
            )
        _ = self.objective  # which checks the rest

    @property
    def objective(self) -> ThermodynamicObjective:
        schedule = LogUniformSchedule(self.num_partitions + 1, self.first_beta)  # type: ignore[arg-type]
        return ThermodynamicObjective(schedule, self.num_samples, "right" if self.q <= 0 else "left", self.gradient)

    def optimizer(self, num_images: int) -> Any:
        import optax  # only training needs it

        num_steps = self.num_epochs * (num_images // self.batch_size)
        alpha = self.final_learning_rate / self.learning_rate
        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, num_steps, alpha))


class TrainingState(NamedTuple):
    """All that training carries from one epoch to the next."""

    epoch: Int[Array, ""]
    model: VAE
    optimizer: PyTree


class Trained(NamedTuple):
    """The model, and the mean training objective of each epoch."""

    model: VAE
    history: Float[np.ndarray, " epochs"]


def train_vae(
    images: Float[Any, "num pixels"],
    settings: TrainingSettings | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    save_every: int = 50,
    progress: bool = False,
    observe: Callable[[int, VAE], None] | None = None,
) -> Trained:
    """Train an autoencoder on images in [0, 1], binarized anew each time they are seen.

    Args:
        images: One image per row.
        settings: The settings; the paper's by default.
        checkpoint: A file to which the state is written. The same call continues from it and gives the numbers of an
            uninterrupted training.
        save_every: Epochs between two writes; an interrupt writes too.
        progress: Whether to show the epochs on standard error.
        observe: `observe(epoch, model)` is called after each epoch.

    Returns:
        The trained `model`, and the `history` of the objective. See [Training](models.md#training).

    It needs optax. Images that do not fill a batch are left out of an epoch, others each time. An objective that
    becomes NaN is an error.

    Examples:
        >>> import numpy as np
        >>> sizes = {"hidden": (3, 3), "num_latent": 1, "num_samples": 2, "num_partitions": 2}
        >>> settings = TrainingSettings(num_epochs=1, batch_size=4, **sizes)
        >>> len(train_vae(np.eye(4), settings).history)
        1
    """
    settings = settings or TrainingSettings()
    pixels = check_images(images, num_pixels=np.shape(images)[-1])
    if len(pixels) < settings.batch_size:
        raise ValueError(f"`batch_size` is {settings.batch_size}, and there are only {len(pixels)} images.")
    key, model_key = jax.random.split(jax.random.key(settings.seed))
    model = VAE.random(model_key, num_pixels=pixels.shape[1], hidden=settings.hidden, num_latent=settings.num_latent)
    optimizer = settings.optimizer(len(pixels))
    state = TrainingState(jnp.zeros((), jnp.int32), model, optimizer.init(eqx.filter(model, eqx.is_inexact_array)))
    history: list[float] = []
    file = Checkpoint(checkpoint, "training", {**dataclasses.asdict(settings), "images": pixels})
    stored = file.read()
    if stored is not None:
        state, history = file.filled(state, stored[0]), stored[1]

    on_device, clock, at_once = jnp.asarray(pixels), Clock(), AtMost(settings.batch_size, "images of a batch")
    with display(progress) as show:
        try:
            while len(history) < settings.num_epochs:
                new_state, mean = at_once.run(lambda size: _epoch(state, on_device, key, settings, size))  # noqa: B023
                _check(float(mean), len(history), settings)
                state = new_state
                history.append(float(mean))
                left = clock.seconds_left(float(settings.num_epochs - len(history)))
                show(_line(history, settings, left), len(history) / settings.num_epochs)
                if len(history) % save_every == 0:
                    file.write((by_name(state), history))
                if observe is not None:
                    observe(len(history), state.model)
        finally:
            file.write((by_name(state), history))
    return Trained(state.model, np.array(history))


@eqx.filter_jit
def _epoch(
    state: TrainingState, images: Float[Array, "num pixels"], key: PRNGKey, settings: TrainingSettings, size: int
) -> tuple[TrainingState, Scalar]:
    """Pass once over the shuffled images, of which at most `size` are worked on at once."""
    num_steps = images.shape[0] // settings.batch_size
    optimizer, objective = settings.optimizer(images.shape[0]), settings.objective
    keys = jax.random.split(jax.random.fold_in(key, state.epoch), num_steps + 1)
    order = jax.random.permutation(keys[0], images.shape[0])[: num_steps * settings.batch_size]

    def step(carry: tuple[VAE, Any], inputs: tuple[Array, PRNGKey]) -> tuple[tuple[VAE, Any], Scalar]:
        model, optimizer_state = carry
        rows, key = inputs
        binarize_key, sample_key = jax.random.split(key)
        x = binarize(images[rows], binarize_key)
        loss, slope = _slope(model, x, sample_key, objective, settings.q, size)
        updates, optimizer_state = optimizer.update(slope, optimizer_state)
        return (eqx.apply_updates(model, updates), optimizer_state), -loss

    rows = order.reshape(num_steps, settings.batch_size)
    (model, optimizer_state), values = jax.lax.scan(step, (state.model, state.optimizer), (rows, keys[1:]))
    return TrainingState(state.epoch + 1, model, optimizer_state), jnp.mean(values)


def _slope(
    model: VAE, x: Float[Array, "batch pixels"], key: PRNGKey, objective: ThermodynamicObjective, q: float, size: int
) -> tuple[Scalar, VAE]:
    """Return the loss of a batch and its gradient, summed over pieces of at most `size` images."""

    @eqx.filter_value_and_grad
    def loss(model: VAE, x: Array, keys: Array, shares: Array) -> Scalar:
        def one(x: Array, key: PRNGKey) -> Scalar:
            delta = None if q == 1 else 1 - q
            return objective(posterior_path(model.decoder, x, delta=delta, base=model.encoder(x)), key=key)

        return -jnp.sum(shares * jax.vmap(one)(x, keys))

    num = x.shape[0]
    num_pieces = -(-num // size)
    size = -(-num // num_pieces)
    rows = np.arange(num_pieces * size)
    inputs = x[rows % num], jax.random.split(key, num)[rows % num], jnp.asarray((rows < num) / num, x.dtype)
    if num_pieces == 1:
        return loss(model, *inputs)
    pieces = jax.tree.map(lambda leaf: leaf.reshape(num_pieces, size, *leaf.shape[1:]), inputs)
    found = jax.lax.map(lambda piece: loss(model, *piece), pieces)
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), found)


def importance_bounds(
    model: VAE, x: Shaped[Array, "..."], *, key: PRNGKey, num_samples: int = 500, batch_size: int = 50
) -> Float[Array, " num"]:
    """Bound log p(x) by importance weights of draws from the encoder (Burda, Grosse and Salakhutdinov, 2016).

    Args:
        model: The model.
        x: Binary images, one per row.
        key: For the draws.
        num_samples: Draws for each image.
        batch_size: Images at once; halved where memory runs out.

    Returns:
        The log of the mean weight for each image: a lower bound in expectation. Where the encoder fits badly it is far
        too low: `evaluate_lower` anneals instead.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
        >>> importance_bounds(model, jnp.ones((3, 6)), key=jax.random.key(1), num_samples=10).shape
        (3,)
    """
    check_rows(model.decoder, x)
    at_once = AtMost(batch_size, "images")
    return at_once.run(lambda size: _importance_bounds(model, x, key, num_samples, size))


@eqx.filter_jit
def _importance_bounds(
    model: VAE, x: Shaped[Array, "num pixels"], key: PRNGKey, num_samples: int, batch_size: int
) -> Float[Array, " num"]:
    def one(inputs: tuple[Array, PRNGKey]) -> Scalar:
        x, key = inputs
        path = posterior_path(model.decoder, x, base=model.encoder(x))
        return iwae(path, key=key, num_samples=num_samples)

    return jax.lax.map(one, (x, jax.random.split(key, x.shape[0])), batch_size=batch_size)


def _check(mean: float, epoch: int, settings: TrainingSettings) -> None:
    if not np.isfinite(mean):
        raise FloatingPointError(
            f"the objective became {mean} in epoch {epoch + 1}: take a `learning_rate` below {settings.learning_rate}. "
            f"A checkpoint, where there is one, holds the state before that epoch."
        )


def _line(history: list[float], settings: TrainingSettings, seconds: float | None) -> str:
    left = "" if seconds is None else f", {datetime.timedelta(seconds=round(seconds))} left"
    return f"epoch {len(history)}/{settings.num_epochs}: objective {history[-1]:.3f}{left}"
