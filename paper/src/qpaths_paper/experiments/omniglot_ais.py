"""Figure 7a: bounds on the negative log-likelihood of real test images, by q and number of distributions.

Annealed importance sampling gives a lower bound on the log-likelihood of each Omniglot test image under a decoder
model. The images are binarized once for all runs of a seed. They do not ship with qpaths: `qpaths data omniglot` says
where to get them. The columns are those of `omniglot_bdmc` (`parts/decoders.py`).

Settings: as in `omniglot_bdmc`, and
    images: A file of images, `find` to look for one, or `simulated` for images that the model draws.

Rows:
    negative_bounds: The bound on the negative log-likelihood of each image.
    distributions_used, leapfrog_used, pilot_seconds: What the column chose, and how long that took.
    acceptance, seconds: The mean acceptance rate, and the time of the run without the compiler's.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

from qpaths.models import Evaluation, binarize, find_omniglot, load_omniglot

from ..harness.errors import UserError
from ..harness.experiment import Claim, Experiment, Picture, Row, Settings, Sheet
from ..harness.judging import smaller
from ..harness.statistics import Estimate
from ..parts import decoders
from ..parts.decoder_figures import (
    Cells,
    costs,
    curves,
    gap_sheet,
    label_of,
    legend,
    number_axis,
    panels,
    seconds_axis,
)
from ..parts.decoders import LABELS


def _check(settings: Settings) -> None:
    """Also raise if the images cannot be read, or have another size than those of the model."""
    decoders.check(settings)
    if settings["images"] != "simulated":
        num_pixels = decoders.load_model(settings["model"]).decoder.num_pixels
        images = decoders.test_images(settings["images"])
        if images.shape[1] != num_pixels:
            raise UserError(
                f"the images have {images.shape[1]} pixels, and model {settings['model']!r} draws {num_pixels}: the "
                f"two must be equal."
            )


def images_of(settings: Settings, seed: int) -> Any:
    """The first test images, binarized by the seed; or images that the model draws, which need no file."""
    if settings["images"] == "simulated":
        return decoders.simulated(settings, seed)[1]
    images = decoders.test_images(settings["images"])
    num = min(settings["num_images"], len(images))
    return binarize(images[:num], jax.random.fold_in(jax.random.key(seed), 4))


def _run_one(settings: Settings, seed: int) -> dict[str, Any]:
    """Bounds for all images, from the forward chains alone."""
    x = images_of(settings, seed)
    problem, plan = decoders.problem_of(settings), decoders.plan_of(settings, seed)
    evaluation = Evaluation(problem, plan.forward)
    with decoders.precision_of(settings):
        bounds, seconds = decoders.timed(
            lambda: evaluation.compile(x), lambda: evaluation.run(x, key=decoders.chain_key(seed))
        )
    decoders.check_finite(bounds.forward)
    return {
        **plan.described(),
        "negative_bounds": decoders.rounded(-bounds.averaged().lower),
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


def _claims(rows: list[Row]) -> Iterator[Claim]:
    """The best q against the geometric path, and tuned settings against the released protocol."""
    cells = Cells(rows, "negative_bounds")
    for base in cells.bases:
        for column in cells.columns:
            statement = f"{LABELS[column]}, from the {base}: the best q, chosen on other images, has a better bound "
            statement += "than the geometric path at every number of distributions"
            printed = column == "released" and base == "prior"
            paper = "q from 0.992 to 0.998 can, even for many" if printed else "not given"
            yield from smaller(statement, paper, cells.best_differences(base, column))
    for q in cells.orders:
        if 0.992 <= q <= 0.998:
            keys = [(("prior", "released", q, num), ("prior", "released", 1.0, num)) for num in cells.nums]
            at_each = {num: d for num, pair in zip(cells.nums, keys, strict=True) if (d := cells.difference(*pair))}
            statement = f"released protocol, linear, from the prior: q = {q:g} has a better bound than the geometric "
            statement += "path at every number of distributions"
            yield from smaller(statement, "fig. 7a, even for a large number", at_each)
    for column in cells.columns[1:] if "released" in cells.columns else cells.columns:
        found = {
            (base, q, num): d
            for base in cells.bases
            for num in cells.nums
            for q in cells.orders
            if (d := cells.difference((base, column, q, num), (base, "released", q, num)))
        }
        statement = f"{LABELS[column]}: a better bound than the released protocol at every q and number of "
        yield from smaller(statement + "distributions", "not given", found)


def _pictures(rows: list[Row]) -> list[Picture]:
    """Bounds against the number of distributions, and against time.

    Standard errors are left out: the spread over the images is the same for all, and would hide the differences.
    """
    cells = Cells(rows, "negative_bounds")
    figure, axes = panels(cells, 4.0, sharey=False)
    for ax, column in zip(axes, cells.columns, strict=True):
        curves(ax, cells, column, lambda key: Estimate(cells.mean(*key).value, 0.0))
        number_axis(ax, cells.nums)
    axes[0].set_ylabel("negative log-likelihood bound in nats")
    legend(figure, axes[0], cells)
    caption = "Upper bound on the mean negative log-likelihood, lower is better. Each panel has its scale."
    return [Picture("bounds", caption, figure), _seconds(cells)]


def _seconds(cells: Cells) -> Picture:
    """The bound at the best q against the seconds of the run."""
    figure, ax = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for base in cells.bases:
        for column in cells.columns:
            keys = [(base, column, q, num) for num in cells.nums if (q := cells.best_q(base, column, num)) is not None]
            ax.plot(
                [cells.of_rows(key, "seconds") for key in keys],
                [cells.mean(*key).value for key in keys],
                marker=".",
                linestyle="-" if base == "prior" else "--",
                label=label_of(cells, base, column),
            )
    seconds_axis(ax, "all images")
    ax.set_ylabel("negative log-likelihood bound in nats")
    ax.legend(frameon=False, fontsize=9)
    caption = "The bound at the best q of each number of distributions, against the seconds of the run."
    return Picture("seconds", caption, figure)


def _sheets(rows: list[Row]) -> list[Sheet]:
    """Bounds from each base, then settings and costs."""
    cells = Cells(rows, "negative_bounds")
    found = [gap_sheet(cells, base, "negative log-likelihood bound in nats") for base in cells.bases]
    return [*found, costs(cells)]


EXPERIMENT = Experiment(
    name="omniglot_ais",
    title="negative log-likelihood bounds on the Omniglot test images, by q and number of distributions",
    paper="Figure 7a (section 7.2)",
    duration="10 min on an H200",
    about="Annealed importance sampling from the prior, or the encoder, to the posterior of each test image; 10 chains "
    "each, whose weights are averaged under the log. The images are those of chardata.mat or, in the stored rows, "
    "drawings rendered from the strokes, binarized once. Columns as in omniglot_bdmc. Made for a GPU.",
    settings={**decoders.DEFAULTS, "columns": ["released", "tuned"], "num_images": 8070, "images": "find"},
    smoke={**decoders.SMOKE, "images": "simulated"},
    runs=decoders.runs_of,
    run_one=_run_one,
    check=_check,
    inputs=decoders.inputs,
    pictures=_pictures,
    sheets=_sheets,
    claims=_claims,
    num_seeds=1,
    free=decoders.FREE,
    data_sets={"omniglot": describe_images},
)
