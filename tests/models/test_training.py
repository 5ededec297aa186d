"""Training: the bound rises, the seed decides, a resumed run equals an uninterrupted one; data and bad data."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.io import savemat

from qpaths.models import (
    VAE,
    TrainingSettings,
    binarize,
    check_images,
    importance_bounds,
    load_omniglot,
    load_vae,
    omniglot,
    train,
    train_vae,
    training,
)
from qpaths.models.train import main

SETTINGS = TrainingSettings(
    num_epochs=4, batch_size=20, num_samples=4, num_partitions=5, learning_rate=0.02, hidden=(6,), num_latent=2
)


@pytest.fixture(scope="module")
def images():
    """Two kinds of blurred bars."""
    rows = np.tile([0.9, 0.1], (50, 5)), np.tile([0.1, 0.9], (55, 5))
    return np.concatenate(rows).astype(np.float32)


@pytest.fixture(scope="module")
def trained(images):
    return train_vae(images, SETTINGS)


def test_the_bound_rises(trained, images, key):
    assert trained.history.shape == (4,)
    assert trained.history[-1] > trained.history[0] + 0.3
    bounds = importance_bounds(trained.model, binarize(images, key), key=key, num_samples=50, batch_size=30)
    assert bounds.shape == (105,)
    assert trained.history[-1] - 1.0 < jnp.mean(bounds) < 0.0


def test_the_seed_decides(trained, images):
    again = train_vae(images, SETTINGS)
    jax.tree.map(np.testing.assert_array_equal, again, trained)
    other = train_vae(images, dataclasses.replace(SETTINGS, seed=1))
    assert other.history[0] != trained.history[0]


def test_resumed_training_gives_the_same_numbers(trained, images, tmp_path, monkeypatch):
    file, line = tmp_path / "state.qpaths", training._line

    def interrupted(history, settings, seconds):
        if len(history) == 2:
            raise KeyboardInterrupt
        return line(history, settings, seconds)

    with monkeypatch.context() as patch:
        patch.setattr(training, "_line", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_vae(images, SETTINGS, checkpoint=file)
    again = train_vae(images, SETTINGS, checkpoint=file)
    jax.tree.map(np.testing.assert_array_equal, again, trained)
    with pytest.raises(ValueError, match="belongs to another run: `num_samples` was 4, and is 5"):
        train_vae(images, dataclasses.replace(SETTINGS, num_samples=5), checkpoint=file)
    with pytest.raises(ValueError, match="belongs to another run: `images` was array"):
        train_vae(1 - images, SETTINGS, checkpoint=file)


def test_progress_is_told(images, tmp_path, capsys, trained):
    file = tmp_path / "state.qpaths"
    train_vae(images, SETTINGS, checkpoint=file, progress=True, save_every=2)
    assert "epoch 4/4: objective -" in capsys.readouterr().err


def test_training_that_diverges_says_so(images, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_epoch", lambda state, *_: (state, jnp.nan))
    with pytest.raises(FloatingPointError, match=r"became nan in epoch 1: take a `learning_rate` below 0.02"):
        train_vae(images, SETTINGS)


def test_settings():
    paper = TrainingSettings()
    assert (paper.num_epochs, paper.batch_size, paper.num_samples) == (5000, 100, 50)
    betas = paper.objective.schedule.betas
    assert betas.shape == (101,)
    np.testing.assert_allclose(betas[1], 0.025)
    assert TrainingSettings(q=0.0).objective.rule == "right"
    with pytest.raises(ValueError, match="`batch_size` must be at least 1, got 0"):
        TrainingSettings(batch_size=0)
    with pytest.raises(ValueError, match="`num_samples` must be at least 1, got 0"):
        TrainingSettings(num_samples=0)
    with pytest.raises(ValueError, match="`num_latent` must be at least 1, got 0"):
        TrainingSettings(num_latent=0)
    with pytest.raises(ValueError, match="`hidden` must hold sizes of layers"):
        TrainingSettings(hidden=())
    with pytest.raises(ValueError, match="`gradient` must be reparameterized or covariance, got 'foo'"):
        TrainingSettings(gradient="foo")
    with pytest.raises(ValueError, match="the step size must fall to a positive one"):
        TrainingSettings(final_learning_rate=1.0)
    with pytest.raises(ValueError, match="`batch_size` is 100, and there are only 3 images"):
        train_vae(np.zeros((3, 4)))


def test_command(tmp_path, capsys):
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", train=generator.integers(0, 256, (22, 784), np.uint8), test=np.eye(3, 784))
    small = [
        "--epochs",
        "1",
        "--batch-size",
        "10",
        "--samples",
        "2",
        "--partitions",
        "2",
        "--test-samples",
        "3",
        "--latent",
        "4",
        "--test-every",
        "1",
    ]
    out = tmp_path / "weights.npz"
    assert main(["--data", str(tmp_path / "data.npz"), "--out", str(out), *small]) == 0
    assert "test bound with 3 samples on 3 images" in capsys.readouterr().out
    log = json.loads(out.with_suffix(".json").read_text())
    assert len(log["objective"]) == len(log["tests_on_the_way"]) == 1
    assert log["settings"]["num_latent"] == load_vae(out).decoder.num_latent == 4
    assert main(["--data", str(tmp_path / "none.npz"), "--out", str(out)]) == 2
    assert "error: there are no Omniglot images at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "weights.pt"], "stored as .npz or .safetensors, got `weights.pt`"),
        (["--out", "none/weights.npz"], "there is no folder `none`"),
        (["--checkpoint", "none/state"], "`checkpoint` lies in a folder that does not exist: make none first"),
        (["--test-images", "0"], "--test-images: it must be a whole number of at least 1, got '0'"),
        (["--precision", "foo"], "--precision: invalid choice: 'foo'"),
        (["--samples", "0"], "--samples: it must be a whole number of at least 1, got '0'"),
    ],
)
def test_wrong_options_are_told_before_the_training(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("qpaths.models.train.load_omniglot", lambda path: pytest.fail("the data were read"))
    try:
        code = main(["--data", "data.npz", "--out", "weights.npz", *options])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert message in capsys.readouterr().err


def test_every_option_has_help_and_ctrl_c_says_where_the_state_is(tmp_path, monkeypatch, capsys):
    assert all(action.help for action in train._parser()._actions)

    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "run", interrupted)
    state = tmp_path / "state.qpaths"
    state.touch()
    command = ["--data", "data.npz", "--out", "weights.npz"]
    assert main([*command, "--checkpoint", str(state)]) == 130
    assert (
        capsys.readouterr().err == f"interrupted; the checkpoint is {state}, and the same command goes on from there.\n"
    )
    assert main(command) == 130
    assert "nothing is stored: with --checkpoint FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: 255 * x, r"must lie in \[0, 1\], got 255"),
        (lambda x: x[0], r"one image of 12 pixels per row, got shape \(12,\): .* give a single one as `x\[None\]`"),
        (lambda x: x[:, :1], r"one image of 12 pixels per row, got shape \(2, 1\)"),
    ],
)
def test_importance_bounds_of_bad_images(change, message, key):
    model = VAE.random(key, num_pixels=12, hidden=(3,), num_latent=2)
    with pytest.raises(ValueError, match=message):
        importance_bounds(model, change(jnp.ones((2, 12))), key=key, num_samples=2)


def test_canonical_file(tmp_path, monkeypatch):
    """One image per column, each in Fortran order."""
    monkeypatch.setattr(omniglot, "_CANONICAL", {"data": 3, "testdata": 2})
    upright = np.random.default_rng(0).random((3, 28, 28))
    columns = np.stack([image.ravel(order="F") for image in upright], axis=1)
    file = tmp_path / "chardata.mat"
    savemat(file, {"data": columns, "testdata": columns[:, :2]})
    images = load_omniglot(file)
    np.testing.assert_allclose(images.train, upright.reshape(3, 784), rtol=1e-6)
    assert images.test.shape == (2, 784)
    savemat(file, {"data": columns.T, "testdata": columns[:, :2]})
    with pytest.raises(ValueError, match=r"data` must have shape \(784, 3\), got \(3, 784\)"):
        load_omniglot(file)


def test_files_without_images(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"(?s)no Omniglot images at .* Give either the canonical `chardata.mat`"
    ):
        load_omniglot(tmp_path / "none.mat")
    (tmp_path / "a.csv").touch()
    with pytest.raises(ValueError, match=r"neither .mat nor .npz"):
        load_omniglot(tmp_path / "a.csv")
    (tmp_path / "a.mat").write_bytes(b"no matlab file")
    with pytest.raises(ValueError, match="cannot be read"):
        load_omniglot(tmp_path / "a.mat")
    np.savez(tmp_path / "a.npz", train=np.zeros((1, 784)))
    with pytest.raises(ValueError, match="has no array `test`: it holds train"):
        load_omniglot(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.full((2, 784), 1.5), r"must lie in \[0, 1\], got 1.5 at pixel 0 of image 0"),
        (np.full((2, 784), np.nan), "got nan at pixel 0 of image 0"),
        (np.zeros((2, 783)), r"one image of 784 pixels per row, got shape \(2, 783\)"),
        (np.zeros((2, 28, 28)), r"got shape \(2, 28, 28\): flatten"),
        (np.zeros((0, 784)), r"got shape \(0, 784\)"),
        (np.full((1, 784), "a"), "must hold numbers, got"),
    ],
)
def test_bad_images(images, message):
    with pytest.raises(ValueError, match=message):
        check_images(images)


def test_bytes_are_scaled(key):
    images = check_images(np.full((1, 784), 255, np.uint8))
    assert images.dtype == np.float32
    np.testing.assert_array_equal(images, 1.0)
    np.testing.assert_array_equal(binarize(images, key), 1.0)
    np.testing.assert_array_equal(check_images(np.eye(2, 784, dtype=np.uint8)), np.eye(2, 784))  # already 0 and 1
    half = jnp.mean(binarize(np.full((100, 784), 0.3, np.float32), key))
    np.testing.assert_allclose(half, 0.3, atol=5 * 0.46 / 280)
