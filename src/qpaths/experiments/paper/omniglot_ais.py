"""Bounds on the negative log-likelihood of real test images by q and number of distributions."""

from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

from ...models import binarise, compile_lower, evaluate_lower, find_omniglot, load_omniglot
from ..errors import UserError
from ..experiment import Claim, Experiment, Picture, Row, Run, Settings, Sheet
from ..judging import all_of, judge
from ..statistics import Estimate, in_words
from .shared.decoder_figures import Cells, costs, curves, gap_sheet, legend, number_axis, panels, seconds_axis
from .shared.decoders import (
    DEFAULTS,
    FREE,
    LABELS,
    SMOKE,
    chain_key,
    check,
    check_finite,
    inputs,
    load_model,
    plan_of,
    precision_of,
    problem_of,
    rounded,
    runs_of,
    simulated,
    test_images,
    timed,
)


def _check(settings: Settings) -> None:
    check(settings)
    if settings["images"] != "simulated":
        num_pixels = load_model(settings["model"]).decoder.num_pixels
        images = test_images(settings["images"])
        if images.shape[1] != num_pixels:
            raise UserError(
                f"the images have {images.shape[1]} pixels, and model {settings['model']!r} draws {num_pixels}: the "
                f"two must be equal."
            )


def _runs(settings: Settings, num_seeds: int) -> list[Run]:
    return [Run(run, seed) for run in runs_of(settings) for seed in range(num_seeds)]


def images_of(settings: Settings, seed: int) -> Any:
    """The first test images, binarised once for all runs of a seed; or images that the model draws."""
    if settings["images"] == "simulated":
        return simulated(settings, seed)[1]
    images = test_images(settings["images"])
    num = min(settings["num_images"], len(images))
    return binarise(images[:num], jax.random.fold_in(jax.random.key(seed), 4))


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    x = images_of(settings, seed)
    problem, plan = problem_of(settings), plan_of(settings, seed)
    with precision_of(settings):
        bounds, seconds = timed(
            lambda: compile_lower(problem, x, plan.forward),
            lambda: evaluate_lower(problem, x, plan.forward, key=chain_key(seed)),
        )
    check_finite(bounds.forward)
    return {
        **plan.described(),
        "negative_bounds": rounded(-bounds.averaged().lower),
        "acceptance": float(np.mean(bounds.acceptance)),
        "seconds": seconds,
    }


def describe_images(path: Path | None) -> list[str]:
    """Check a file of Omniglot images, or look for one, and describe it: the data set `omniglot` of `qpaths data`."""
    path = find_omniglot() if path is None else path
    images = load_omniglot(path)
    kind = "the canonical characters" if path.suffix == ".mat" else "drawings"
    return [
        f"{path}: {kind}, {len(images.train):,} for training and {len(images.test):,} for tests, 28 x 28 pixels,",
        f"{images.train.mean():.1%} and {images.test.mean():.1%} of the pixels inked.",
        f"Bounds on the test images: qpaths run omniglot_ais --set images={path}",
    ]


def _claims(rows: list[Row]) -> list[Claim]:
    cells = Cells(rows, "negative_bounds")
    claims = []
    for base in cells.bases:
        for column in cells.columns:
            found = {num: d for num in cells.nums if (d := cells.best_difference(base, column, num))}
            if found:
                least = max(found.values(), key=lambda difference: difference.value)
                claims.append(
                    Claim(
                        f"{LABELS[column]}, from the {base}: the best q, chosen on other images, has a better bound "
                        f"than the geometric path at every number of distributions",
                        "q from 0.992 to 0.998 can, even for many" if column == "released" else "not given",
                        f"least: {in_words(least, 'nats')}",
                        all_of(judge(*difference, -np.inf, 0.0) for difference in found.values()),
                    )
                )
    return [*claims, *_against_released(cells)]


def _against_released(cells: Cells) -> list[Claim]:
    """Whether tuned and frozen settings are better than the released protocol at the same number of gradients."""
    claims = []
    for column in cells.columns:
        if column == "released":
            continue
        differences = [
            difference
            for base in cells.bases
            for num in cells.nums
            for q in cells.orders
            if (difference := cells.difference((base, column, q, num), (base, "released", q, num)))
        ]
        if differences:
            least = max(differences, key=lambda difference: difference.value)
            claims.append(
                Claim(
                    f"{LABELS[column]}: a better bound than the released protocol at every q and number of "
                    f"distributions",
                    "not given",
                    f"least: {in_words(least, 'nats')}",
                    all_of(judge(*difference, -np.inf, 0.0) for difference in differences),
                )
            )
    return claims


def _pictures(rows: list[Row]) -> list[Picture]:
    cells = Cells(rows, "negative_bounds")
    figure, axes = panels(cells, 4.0, sharey=False)
    for ax, column in zip(axes, cells.columns, strict=True):
        # The spread over the images is the same for all, and would hide what the paths do.
        curves(ax, cells, column, lambda key: Estimate(cells.mean(*key).value, 0.0))
        number_axis(ax, cells.nums)
    axes[0].set_ylabel("negative log-likelihood bound in nats")
    legend(figure, axes[0], cells)
    caption = "Upper bound on the mean negative log-likelihood, lower is better. Each panel has its scale."
    return [Picture("bounds", caption, figure), _seconds(cells)]


def _seconds(cells: Cells) -> Picture:
    figure, ax = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for base in cells.bases:
        for column in cells.columns:
            keys = [(base, column, q, num) for num in cells.nums if (q := cells.best_q(base, column, num)) is not None]
            ax.plot(
                [cells.of_rows(key, "seconds") for key in keys],
                [cells.mean(*key).value for key in keys],
                marker=".",
                linestyle="-" if base == "prior" else "--",
                label=f"{LABELS[column]}{', ' + base if len(cells.bases) > 1 else ''}",
            )
    seconds_axis(ax, "all images")
    ax.set_ylabel("negative log-likelihood bound in nats")
    ax.legend(frameon=False, fontsize=9)
    caption = "The bound at the best q of each number of distributions, against the seconds of the run."
    return Picture("seconds", caption, figure)


def _sheets(rows: list[Row]) -> list[Sheet]:
    cells = Cells(rows, "negative_bounds")
    found = [gap_sheet(cells, base, "negative log-likelihood bound in nats") for base in cells.bases]
    return [*found, costs(cells)]


EXPERIMENT = Experiment(
    name="omniglot_ais",
    title="negative log-likelihood bounds on the Omniglot test images, by q and number of distributions",
    paper="Figure 7a (section 7.2)",
    duration="10 min on an H200",
    about="Annealed importance sampling from the prior, or the encoder, to the posterior of each test image; 10 chains "
    "each, whose weights are averaged under the log. The images are those of chardata.mat, or drawings rendered from "
    "the strokes, binarised once. Columns as in omniglot_bdmc. Made for a GPU.",
    settings={**DEFAULTS, "columns": ["released", "tuned"], "num_images": 8070, "images": "find"},
    smoke={**SMOKE, "images": "simulated"},
    runs=_runs,
    run_one=_run_one,
    check=_check,
    inputs=inputs,
    pictures=_pictures,
    sheets=_sheets,
    claims=_claims,
    num_seeds=1,
    free=FREE,
    data_sets={"omniglot": describe_images},
)
