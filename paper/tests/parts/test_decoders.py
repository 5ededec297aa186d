"""Experiments on generative models: rows of both agree, settings from the command line, and what is wrong is told."""

import warnings

import jax
import numpy as np
import pytest
from scipy.io import savemat
from typer.testing import CliRunner

from qpaths.cli import app
from qpaths.models import VAE, evaluate
from qpaths.models import omniglot as data
from qpaths_paper.experiments import omniglot_ais, omniglot_bdmc
from qpaths_paper.harness.errors import UserError
from qpaths_paper.harness.registry import find
from qpaths_paper.harness.settings import rehearsed
from qpaths_paper.parts import decoders

SETTINGS = {
    "base": "encoder",
    "q": 0.99,
    "num_distributions": 9,
    "num_leapfrog": 2,
    "num_chains": 4,
    "num_images": 6,
    "num_pilot_images": 2,
    "precision": "mixed",
    "images": "simulated",
}


def _call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "small.npz"
    VAE.random(jax.random.key(3), num_pixels=12, hidden=(7, 5), num_latent=3).save(path)
    return str(path)


@pytest.mark.parametrize("column", ["released", "tuned"])
def test_forward_chains_are_those_of_both_directions(column, weights):
    settings = {**SETTINGS, "model": weights, "column": column}
    both, forward = omniglot_bdmc.EXPERIMENT.run_one(settings, 0), omniglot_ais.EXPERIMENT.run_one(settings, 0)
    np.testing.assert_allclose(np.mean(forward["negative_bounds"]), -both["lower"], atol=1e-4)  # rows are rounded
    assert forward["distributions_used"] == both["distributions_used"]
    assert len(both["gaps"]) == len(forward["negative_bounds"]) == 6
    np.testing.assert_allclose(np.mean(both["gaps"]), both["upper"] - both["lower"], atol=1e-4)


def test_a_run_goes_on_where_the_device_has_no_memory(weights, monkeypatch):
    settings = {**SETTINGS, "model": weights, "column": "released"}
    wanted = omniglot_bdmc.EXPERIMENT.run_one(settings, 0)
    run = evaluate._run_chains

    def on_a_small_device(path_of, kernel, fitted, chunk_size, betas, num_steps, x, *arrays):
        """A device that has room for three images."""
        if len(x) > 3:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return run(path_of, kernel, fitted, chunk_size, betas, num_steps, x, *arrays)

    monkeypatch.setattr(evaluate, "_run_chains", on_a_small_device)
    with pytest.warns(UserWarning, match="no memory for that many observations at once: 3 from now on"):
        found = omniglot_bdmc.EXPERIMENT.run_one(settings, 0)
    assert found["gaps"] == wanted["gaps"]


def test_a_wrong_value_in_a_list_is_told_before_the_first_run(weights, tmp_path):
    small = ["--smoke", "--set", f"model={weights}", "--set", "columns=released,guessed", "--out", tmp_path / "new"]
    done = _call("run", "omniglot_bdmc", *small)
    assert done.exit_code == 2
    assert "`columns` must be among released, kernel, tuned, split, got 'guessed'" in done.stderr
    assert not (tmp_path / "new").exists()


def test_other_weights_under_the_same_name_need_another_folder(tmp_path, monkeypatch):
    """The row is made up: what counts is that it was stored for other content of the file."""
    monkeypatch.chdir(tmp_path)

    def interrupted(experiment, settings, num_seeds, store, **named):
        store.add(experiment.runs(settings, num_seeds)[0], {}, store.add_environment({}), 1.0)
        raise KeyboardInterrupt

    monkeypatch.setattr("qpaths_paper.harness.sweep.sweep", interrupted)
    command = ["run", "omniglot_ais", "--smoke", "--set", "model=some.npz", "--set", "images=some_images.npz"]
    for seed, code in ((3, 130), (3, 130), (4, 2)):
        VAE.random(jax.random.key(seed), num_pixels=784, hidden=(2, 2), num_latent=2).save("some.npz")
        np.savez("some_images.npz", train=np.zeros((1, 784)), test=np.zeros((1, 784)))
        decoders.load_model.cache_clear()
        decoders.test_images.cache_clear()
        done = _call(*command)
        assert done.exit_code == code, done.output
    assert "holds runs with other settings (model_digest = " in done.stderr
    VAE.random(jax.random.key(3), num_pixels=784, hidden=(2, 2), num_latent=2).save("some.npz")
    np.savez("some_images.npz", train=np.zeros((1, 784)), test=np.ones((1, 784)))
    decoders.load_model.cache_clear()
    assert "other settings (images_digest = " in _call(*command).stderr
    decoders.load_model.cache_clear()
    decoders.test_images.cache_clear()


def test_what_ships_with_the_package_has_no_digest():
    experiment = find("omniglot_ais")
    assert experiment.inputs({**experiment.settings, **experiment.smoke}) == {}
    changed = {**experiment.settings, "model": "paper", "model_digest": "0" * 16}
    assert not rehearsed(experiment, changed, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fig2", "--set", "base=encoder"], "no setting 'base'"),
        (["table1", "--set", "model=paper"], "no setting 'model'"),
        (["omniglot_bdmc", "--smoke", "--set", "model=paper"], "put `vae_paper.npz`"),
        (["omniglot_bdmc", "--smoke", "--set", "model=none.npz"], "`none.npz` is no file"),
        (["omniglot_bdmc", "--smoke", "--set", "model=bad.npz"], "`bad.npz` cannot be read as .npz"),
        (["omniglot_bdmc", "--smoke", "--set", "model=nan.npz"], "entries that are NaN or infinite"),
        (["omniglot_bdmc", "--smoke", "--set", "model=wide.npz"], "decoder.0.weight must have shape (out, in)"),
        (["omniglot_bdmc", "--smoke", "--set", "base=sky"], "`base` must be among prior, encoder, got 'sky'"),
        (["omniglot_bdmc", "--smoke", "--set", "precision=high"], "`precision` must be among mixed, fast, float32"),
        (["omniglot_ais", "--smoke", "--set", "images=find"], "neither chardata.mat nor omniglot28_strokes.npz"),
        (["omniglot_ais", "--smoke", "--set", "images=gray.npz"], "must lie in [0, 1], got 7"),
        (["omniglot_ais", "--smoke", "--set", "images=narrow.npz"], "one image of 784 pixels per row"),
        (
            ["omniglot_ais", "--smoke", "--set", "images=white.npz", "--set", "model=tiny.npz"],
            "have 784 pixels, and model",
        ),
    ],
)
def test_errors_are_one_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QPATHS_DATA", raising=False)
    (tmp_path / "bad.npz").write_bytes(b"no weights")
    small = VAE.random(jax.random.key(3), num_pixels=784, hidden=(2, 2), num_latent=2)
    small.save("good.npz")
    arrays = dict(np.load("good.npz"))
    np.savez("nan.npz", **{**arrays, "enc_mu.bias": arrays["enc_mu.bias"] * np.nan})
    np.savez("wide.npz", **{**arrays, "decoder.0.weight": arrays["decoder.0.weight"][0]})
    np.savez("gray.npz", train=np.full((2, 784), 7.0), test=np.full((2, 784), 7.0))
    np.savez("white.npz", train=np.zeros((2, 784)), test=np.zeros((2, 784)))
    VAE.random(jax.random.key(3), num_pixels=9, hidden=(2, 2), num_latent=2).save("tiny.npz")
    np.savez("narrow.npz", train=np.zeros((2, 9)), test=np.zeros((2, 9)))
    decoders.load_model.cache_clear()
    decoders.test_images.cache_clear()
    done = _call("run", *arguments)
    assert done.exit_code == 2, done.output
    line = done.stderr.splitlines()[-1]
    assert line.startswith("qpaths: ")
    assert words in line


def test_weights_of_the_paper_are_found_where_the_data_are(weights, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    decoders.load_model(weights).save(tmp_path / "there" / "vae_paper.npz")
    decoders.load_model.cache_clear()
    monkeypatch.delenv("QPATHS_DATA", raising=False)
    with pytest.raises(UserError, match="do not ship with qpaths"):
        decoders.load_model("paper")
    monkeypatch.setenv("QPATHS_DATA", str(tmp_path / "there"))
    assert decoders.load_model("paper").decoder.num_pixels == 12
    decoders.load_model.cache_clear()


def test_another_model_is_no_rehearsal():
    experiment = find("omniglot_bdmc")
    assert not rehearsed(experiment, {**experiment.settings, "model": "paper", "base": ["encoder"]}, 1)
    assert rehearsed(experiment, {**experiment.settings, "num_images": 100}, 1) == ["num_images"]
    assert rehearsed(find("toy_bdmc"), find("toy_bdmc").settings, 2) == ["seeds"]


def test_another_order_of_the_runs_is_no_rehearsal():
    experiment = find("omniglot_bdmc")
    nums = experiment.settings["num_distributions"]
    assert not rehearsed(experiment, {**experiment.settings, "num_distributions": nums[::-1]}, 1)
    for fewer in (nums[1:], [nums[0], *nums[:-1]]):
        changed = rehearsed(experiment, {**experiment.settings, "num_distributions": fewer}, 1)
        assert changed == ["num_distributions"]


def test_data_command(tmp_path, monkeypatch):
    """The canonical file by its shapes, in the small; drawings of any number; and words where there is nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QPATHS_DATA", raising=False)
    done = _call("data", "omniglot")
    assert done.exit_code == 2
    assert "datasets/OMNIGLOT of github.com/yburda/iwae" in done.stderr
    np.savez("omniglot28_strokes.npz", train=np.full((5, 784), 51, np.uint8), test=np.zeros((2, 784), np.uint8))
    done = _call("data", "omniglot")
    assert done.exit_code == 0, done.output
    assert "drawings, 5 for training and 2 for tests" in done.output
    assert "20.0% and 0.0% of the pixels inked" in done.output
    assert "--set images=omniglot28_strokes.npz" in done.output
    monkeypatch.setattr(data, "_CANONICAL", {"data": 3, "testdata": 2})
    savemat("chardata.mat", {"data": np.zeros((784, 3)), "testdata": np.ones((784, 2))})
    assert "the canonical characters, 3 for training and 2 for tests" in _call("data", "omniglot").output
    savemat("other.mat", {"data": np.zeros((784, 4)), "testdata": np.ones((784, 2))})
    done = _call("data", "omniglot", "other.mat")
    assert done.exit_code == 2
    assert "must have shape (784, 3), got (784, 4): this is not the canonical file" in done.stderr
    assert _call("data", "mnist").exit_code == 2


def test_canonical_numbers():
    assert data._CANONICAL == {"data": 24_345, "testdata": 8_070}


def test_precision_is_set_around_a_run():
    for name, precision in decoders.PRECISIONS.items():
        with warnings.catch_warnings(), decoders.precision_of({"precision": name}):
            assert jax.config.jax_default_matmul_precision == precision
