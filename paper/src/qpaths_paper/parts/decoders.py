"""Parts that the experiments on decoder models share: models, images, precision, and the columns that are compared.

A run is one base, column, q and number of distributions, for all images of a seed. The column `released` is the
protocol of the paper's code, which adapts the step size of each chain as it goes. The other columns take settings from
pilots on images that no bound is computed for, and freeze them.
"""

import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from qpaths.algorithms import AIS, BDMC
from qpaths.models import (
    VAE,
    DecoderProblem,
    ReleasedProtocol,
    default_vae,
    find_omniglot,
    load_omniglot,
    load_vae,
    low_precision,
    simulate,
)
from qpaths.recipe import Recipe
from qpaths.schedules import FixedSchedule, LinearSchedule
from qpaths.search import tune

from ..harness.errors import UserError
from ..harness.experiment import Settings, product
from ..harness.settings import checks

LABELS = {
    "released": "released protocol, linear",
    "kernel": "tuned kernel, linear",
    "tuned": "tuned kernel and schedule",
    "split": "tuned, best split of gradients",
}
"""The columns: the protocol of the released code, then one more thing tuned and frozen in each."""

BASES = "prior", "encoder"
"""The bases at which the annealing starts."""

PAPER_WEIGHTS = "vae_paper.npz"
PRECISIONS = {
    "mixed": "highest",
    "fast": "tensorfloat32",
    "float32": "highest",
    "tensorfloat32": "tensorfloat32",
}
"""Precision of matrix products, by setting.

`mixed` and `fast` follow gradients in bfloat16; their densities are in float32 and in TF32.
"""

_LONGEST_PILOT = 250
"""Distributions of a pilot; longer runs have the same settings on a finer schedule."""

_ENOUGH_CHAINS = 1000
"""Chains of a run for each image of a pilot, with which every one of these is used."""

DEFAULTS: dict[str, Any] = {
    "model": "default",
    "base": ["prior"],
    "columns": ["released", "tuned", "split"],
    "q": [1.0, 0.998, 0.996, 0.994, 0.992],
    "num_distributions": [100, 500, 1000, 5000],
    "num_leapfrog": 10,
    "num_chains": 10,
    "num_images": 2500,
    "num_pilot_images": 128,
    "precision": "mixed",
}
SMOKE = {
    "columns": ["released", "tuned"],
    "q": [1.0, 0.996],
    "num_distributions": [12],
    "num_leapfrog": 2,
    "num_chains": 2,
    "num_images": 8,
    "num_pilot_images": 4,
    "precision": "float32",
}
FREE = frozenset({"model", "model_digest", "base", "columns", "images", "images_digest", "precision"})
"""Settings whose change makes other rows, but no smaller ones than the paper's."""


@functools.cache
def load_model(name: str) -> VAE:
    """Load `default`, which ships with the package, `paper`, or a file of weights."""
    return default_vae() if name == "default" else load_vae(_model_file(name))


def _model_file(name: str) -> Path:
    """The file of a model; the paper's weights are looked for in `QPATHS_DATA` and in the current folder."""
    if name != "paper":
        return Path(name)
    for folder in (os.environ.get("QPATHS_DATA"), "."):
        if folder and (Path(folder) / PAPER_WEIGHTS).is_file():
            return Path(folder) / PAPER_WEIGHTS
    raise UserError(
        f"the paper's weights do not ship with qpaths: put `{PAPER_WEIGHTS}` (the weights of "
        f"github.com/vmasrani/qpaths_uai_2021 as arrays, PyTorch's names) into this folder or into the one that "
        f"QPATHS_DATA names, or give any file of weights as the model."
    )


@functools.cache
def test_images(name: str) -> np.ndarray:
    """Gray test images from a file. If the name is `find`, `find_omniglot` looks for the file."""
    return load_omniglot(_images_file(name)).test


def _images_file(name: str) -> Path:
    """The file of the images."""
    return find_omniglot() if name == "find" else Path(name)


def inputs(settings: Settings) -> Settings:
    """Digests of the files of weights and images, since a name does not say which weights made a row."""
    files = {}
    if settings["model"] != "default":
        files["model_digest"] = _model_file(settings["model"])
    if settings.get("images", "simulated") != "simulated":
        files["images_digest"] = _images_file(settings["images"])
    return {name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for name, file in files.items()}


def problem_of(settings: Settings) -> DecoderProblem:
    """The annealing problem of a run: a path for every image.

    With precision `mixed` or `fast` a decoder in bfloat16 guides the gradients; densities and weights do not use it.
    """
    model = load_model(settings["model"])
    encoder = model.encoder if settings["base"] == "encoder" else None
    guide = low_precision(model.decoder) if settings["precision"] in ("mixed", "fast") else None
    return DecoderProblem(model.decoder, q=settings["q"], encoder=encoder, guide=guide)


@contextlib.contextmanager
def precision_of(settings: Settings) -> Iterator[None]:
    """Compute matrix products in the precision of the settings."""
    with jax.default_matmul_precision(PRECISIONS[settings["precision"]]):
        yield


class ChainPlan(NamedTuple):
    """The algorithm for bounds from both sides, and the seconds of the pilots that chose its settings."""

    both_ways: BDMC | ReleasedProtocol
    num_leapfrog: int
    pilot_seconds: float

    @property
    def forward(self) -> AIS | ReleasedProtocol:
        """The algorithm for lower bounds alone."""
        return self.both_ways if isinstance(self.both_ways, ReleasedProtocol) else self.both_ways.forward

    def described(self) -> dict[str, Any]:
        """Return what a row says about the plan."""
        return {
            "distributions_used": int(self.both_ways.schedule.betas.size),  # type: ignore[attr-defined]
            "leapfrog_used": self.num_leapfrog,
            "pilot_seconds": self.pilot_seconds,
        }


def plan_of(settings: Settings, seed: int) -> ChainPlan:
    """The plan of a run: released settings, or settings from pilots.

    Pilots have at most 250 distributions. Longer runs use the same settings on a finer schedule. The column `split`
    also chooses the leapfrog steps, and has as many distributions as the same number of gradients allows.
    """
    column, num, num_leapfrog = settings["column"], settings["num_distributions"], settings["num_leapfrog"]
    num_chains = settings["num_chains"]
    if column == "released":
        return ChainPlan(ReleasedProtocol(num_chains, LinearSchedule(num), num_leapfrog), num_leapfrog, 0.0)  # type: ignore[call-arg]
    wanted = {name: settings[name] for name in ("model", "base", "q", "num_leapfrog", "num_pilot_images", "precision")}
    recipe, seconds = _tuned(seed, column == "split", min(num, _LONGEST_PILOT), tuple(sorted(wanted.items())))
    betas = np.linspace(0, 1, num)
    if column != "kernel":
        chosen: int = recipe.kernel.kernel.num_leapfrog  # type: ignore[attr-defined]
        num, num_leapfrog = 1 + (num - 1) * num_leapfrog // chosen, chosen
        old = np.asarray(recipe.betas)
        betas = np.interp(np.linspace(0, old.size - 1, num), np.arange(old.size), old)
    return ChainPlan(BDMC(num_chains, FixedSchedule(betas), recipe.kernel), num_leapfrog, seconds)


@functools.lru_cache(maxsize=64)
def _tuned(seed: int, split: bool, num: int, items: tuple[tuple[str, Any], ...]) -> tuple[Recipe, float]:
    """Run pilots, and count their seconds.

    The runs of a sweep that need the same pilots share them; `items` are their settings.
    """
    settings = dict(items)
    problem = problem_of(settings)
    start = time.perf_counter()
    with precision_of(settings):
        z, x = simulate(problem.decoder, settings["num_pilot_images"], key=_key(seed, 1))
        recipe = tune(
            problem,
            problems=x,
            target_samples=z,
            num_gradients=(num - 1) * settings["num_leapfrog"],
            num_leapfrog=None if split else settings["num_leapfrog"],
            q=settings["q"],
            num_chains=_ENOUGH_CHAINS,
            key=_key(seed, 2),
        )
    return recipe, time.perf_counter() - start


def _key(seed: int, purpose: int) -> jax.Array:
    """A key of a seed for one purpose: images 0, pilot images 1, pilots 2, chains 3."""
    return jax.random.fold_in(jax.random.key(seed), purpose)


def simulated(settings: Settings, seed: int) -> tuple[Any, Any]:
    """Latent points and images that the model draws, the same for all runs of a seed."""
    with jax.default_matmul_precision("highest"):
        return simulate(load_model(settings["model"]).decoder, settings["num_images"], key=_key(seed, 0))


def chain_key(seed: int) -> jax.Array:
    """The key of the chains. All runs of a seed share it, so that their differences have less noise."""
    return _key(seed, 3)


def timed(compile_it: Callable[[], None], run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `run` returns, and its seconds without those of the compiler, which `compile_it` spends before."""
    compile_it()
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    return result, time.perf_counter() - start


def check_finite(values: Any) -> None:
    """Raise if a log weight is NaN or infinite."""
    bad = int(jnp.sum(~jnp.isfinite(values).all(axis=-1)))
    if bad:
        raise FloatingPointError(f"the log weights of {bad} images are not finite: look at the weights of the model.")


def rounded(values: Any) -> list[float]:
    """One number per image, rounded so that thousands of them can be stored."""
    return [round(float(value), 4) for value in np.asarray(values)]


runs_of = product(
    num_distributions=lambda settings, run: sorted(settings["num_distributions"]),
    base="base",
    column="columns",
    q="q",
)
"""All runs of a sweep, the short ones first, so that an unfinished sweep has something of everything."""

_check = checks(
    words={"base": BASES, "columns": LABELS, "precision": PRECISIONS},
    least={"num_leapfrog": 1, "num_images": 1, "num_pilot_images": 1, "num_distributions": 2, "num_chains": 2},
)


def check(settings: Settings) -> None:
    """Raise if a name is unknown, a number is too small, or the model cannot be loaded."""
    _check(settings)
    load_model(settings["model"])
