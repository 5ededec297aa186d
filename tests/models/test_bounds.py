"""Bounds of many observations as a value: standard errors of the means, a summary, a file, progress."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qpaths as qp
from qpaths.models import VAE, DecoderBounds, DecoderProblem, evaluate_bounds, evaluate_lower, load_bounds, simulate


def _bounds(num=400, num_reverse=5):
    rng = np.random.default_rng(0)
    level = rng.standard_normal((num, 1))  # shared by both bounds of an observation
    forward = level - 0.1 + 0.01 * rng.standard_normal((num, 5))
    reverse = -(level + 0.1) + 0.01 * rng.standard_normal((num, 5))
    return DecoderBounds(
        jnp.asarray(forward),
        jnp.asarray(reverse[:, :num_reverse]),
        jnp.full(num, 0.8),
        jnp.zeros(num, int).at[3].set(int(qp.Status.COLLAPSED)),
    )


def test_means_have_standard_errors():
    bounds = _bounds()
    lower, lower_se = bounds.mean_lower
    assert abs(lower + 0.1) < 5 / 20
    assert lower_se == pytest.approx(1 / 20, rel=0.15)  # the observations differ by 1
    gap, gap_se = bounds.mean_gap
    # The level cancels: what is left is the noise of five chains in each direction.
    assert abs(gap - 0.2) < 5 * gap_se
    assert gap_se == pytest.approx(0.01 * (2 / 5) ** 0.5 / 20, rel=0.15)


def test_summary():
    text = _bounds().summary()
    assert "400 observations with 5 chains each, 80% accepted" in text
    assert "mean gap 0.2" in text
    assert "beware: 1 observations: every particle has weight zero" in text
    assert "upper" not in _bounds(num_reverse=0).summary()


def test_saved_and_loaded(tmp_path):
    bounds = _bounds()
    bounds.save(tmp_path / "bounds.npz")
    again = load_bounds(tmp_path / "bounds.npz")
    for name in ("forward", "reverse", "acceptance", "status"):
        np.testing.assert_array_equal(getattr(again, name), getattr(bounds, name))
    with pytest.raises(ValueError, match="holds a decoder bounds, and result or bounds is wanted here"):
        qp.load_result(tmp_path / "bounds.npz")


def test_progress_goes_to_standard_error(capsys, key):
    model = VAE.random(jax.random.key(0), num_pixels=6, hidden=(4, 4), num_latent=2)
    latents, images = simulate(model.decoder, 5, key=key)
    kernel = qp.HMC(num_leapfrog=2, step_size=0.3, preconditioner="none")
    problem = DecoderProblem(model.decoder)
    algorithm = qp.BDMC(2, qp.LinearSchedule(3), kernel)
    bounds = evaluate_bounds(problem, images, latents, algorithm, key=key, batch_size=2, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"{num} of 5 observations" for num in (2, 4, 5)]
    assert f"lower {float(bounds.lower.mean()):.3f}, upper {float(bounds.upper.mean()):.3f}" in lines[-1]
    evaluate_lower(problem, images, algorithm.forward, key=key)
    assert not capsys.readouterr().err
