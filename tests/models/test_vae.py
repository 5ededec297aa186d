"""The autoencoder: likelihoods against plain formulas, the path to the posterior, weights in files and bad ones."""

import jax
import jax.numpy as jnp
import jax.scipy.stats as jst
import numpy as np
import pytest

import qpaths as qp
from qpaths.models import (
    VAE,
    BernoulliDecoder,
    Decoder,
    GaussianDecoder,
    Network,
    default_vae,
    load_vae,
    posterior_path,
    simulate,
    standard_normal,
)
from qpaths.models.networks import bernoulli_log_likelihood
from qpaths.models.vae import arrays_of


@pytest.fixture
def small(key):
    return VAE.random(key, num_pixels=12, hidden=(7, 5), num_latent=3)


def test_sizes_of_the_paper(key):
    shapes = {name: array.shape for name, array in arrays_of(VAE.random(key)).items()}
    assert shapes["encoder.0.weight"] == (200, 784)
    assert shapes["encoder.2.weight"] == (200, 200)
    assert shapes["enc_mu.weight"] == shapes["enc_sig.weight"] == (50, 200)
    assert shapes["decoder.0.weight"] == (200, 50)
    assert shapes["decoder.4.weight"] == (784, 200)
    assert sum(array.size for array in arrays_of(VAE.random(key)).values()) == 425_284


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bernoulli_likelihood(dtype):
    logits = jnp.array([-200.0, -30.0, -3.0, -1e-3, 0.0, 0.2, 4.0, 30.0, 200.0], dtype)
    x = jnp.array([0.0, 0.0, 1.0, 0.3, 1.0, 0.0, 1.0, 1.0, 0.5], dtype)
    exact = np.sum(np.asarray(x, float) * np.asarray(logits, float) - np.logaddexp(0, np.asarray(logits, float)))
    value, (slope, in_x) = jax.value_and_grad(bernoulli_log_likelihood, (0, 1))(logits, x)
    assert value.dtype == slope.dtype == dtype
    np.testing.assert_allclose(value, exact, rtol=4 * jnp.finfo(dtype).eps)
    np.testing.assert_allclose(slope, x - jax.nn.sigmoid(logits), atol=1e-15)
    np.testing.assert_array_equal(in_x, logits)


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8"])
def test_whole_numbers_are_pixels_too(dtype, small):
    z, x = jnp.zeros(3, jnp.float32), jnp.arange(12) % 2
    value, slope = jax.value_and_grad(small.decoder.log_likelihood)(z, x.astype(dtype))
    wanted, wanted_slope = jax.value_and_grad(small.decoder.log_likelihood)(z, x.astype(jnp.float32))
    assert value.dtype == jnp.float32
    assert value == wanted
    np.testing.assert_array_equal(slope, wanted_slope)


def test_images_of_another_shape_or_range_are_refused(small):
    z, x = jnp.zeros(3, jnp.float32), jnp.ones(12, jnp.float32)
    for wrong in (x[:1], x[:11]):
        with pytest.raises(ValueError, match=r"one image of shape \(12,\), as the decoder draws them, got \(1"):
            small.decoder.log_likelihood(z, wrong)
    for wrong in (x - 2, 255 * x, x * jnp.nan):
        with pytest.raises(ValueError, match=r"`x` must lie in \[0, 1\], got (-1|255|nan)"):
            posterior_path(small.decoder, wrong)
    posterior_path(GaussianDecoder(small.decoder.network, 1.0), -x)


def test_bernoulli_samples_have_the_right_probabilities(key):
    """5 standard deviations of a share of 40,000 draws; drawing from the wrong side swaps the two pixels."""
    decoder = BernoulliDecoder(Network.random(key, [2, 2]))
    z = jnp.array([1.0, -2.0], jnp.float32)
    draws = jax.jit(jax.vmap(lambda k: decoder.sample(z, k)))(jax.random.split(key, 40_000))
    assert set(np.unique(draws)) <= {0.0, 1.0}
    chance = jax.nn.sigmoid(decoder.network(z))
    np.testing.assert_allclose(jnp.mean(draws, 0), chance, atol=5 * 0.5 / 200)
    assert jnp.max(jnp.abs(1 - 2 * chance)) > 0.05


def test_gaussian_decoder(key):
    decoder = GaussianDecoder(Network.random(key, [2, 4, 3]), 0.5)
    z, x = jnp.array([0.3, -1.0], jnp.float32), jnp.array([0.1, 0.2, 0.9], jnp.float32)
    exact = jnp.sum(jst.norm.logpdf(x, decoder.network(z), 0.5))
    np.testing.assert_allclose(decoder.log_likelihood(z, x), exact, rtol=1e-5)
    draws = jax.jit(jax.vmap(lambda k: decoder.sample(z, k)))(jax.random.split(key, 40_000))
    np.testing.assert_allclose(jnp.mean(draws, 0), decoder.network(z), atol=5 * 0.5 / 200)
    np.testing.assert_allclose(jnp.std(draws, 0), 0.5, rtol=5 / 280)
    with pytest.raises(ValueError, match="`scale` must be positive, got 0"):
        GaussianDecoder(decoder.network, 0)


def test_decoders_follow_the_protocol(small):
    assert isinstance(small.decoder, Decoder)
    assert isinstance(GaussianDecoder(small.decoder.network, 1.0), Decoder)


def test_encoder(small, key):
    """`softplus` standard deviation; the result is a normalized density."""
    normal = small.encoder(jnp.ones(12, jnp.float32))
    assert normal.mean.shape == normal.scale.shape == (3,)
    assert jnp.all(normal.scale > 0)
    z = normal.sample(key)
    np.testing.assert_allclose(normal.log_prob(z), jnp.sum(jst.norm.logpdf(z, normal.mean, normal.scale)), rtol=1e-5)


def test_path_to_the_posterior(small, key):
    z, x = simulate(small.decoder, 2, key=key)
    assert z.shape == (2, 3)
    assert x.shape == (2, 12)
    path = posterior_path(small.decoder, x[0])
    assert isinstance(path, qp.GeometricPath)
    joint = jnp.sum(jst.norm.logpdf(z[0])) + small.decoder.log_likelihood(z[0], x[0])
    np.testing.assert_allclose(path.log_density(1.0, z[0]), joint, rtol=1e-6)
    np.testing.assert_allclose(path.log_density(0.0, z[0]), jnp.sum(jst.norm.logpdf(z[0])), rtol=1e-6)
    from_encoder = posterior_path(small.decoder, x[0], q=0.9, base=small.encoder(x[0]))
    assert from_encoder.q == 0.9
    np.testing.assert_allclose(from_encoder.log_density(1.0, z[0]), joint, rtol=1e-6)
    np.testing.assert_allclose(from_encoder.log_density(0.0, z[0]), small.encoder(x[0]).log_prob(z[0]), rtol=1e-6)


def test_another_image_does_not_compile_again(small, key):
    _, x = simulate(small.decoder, 2, key=key)
    traces = []

    @jax.jit
    def density(path, z):
        traces.append(1)
        return path.log_density(0.5, z)

    for image in x:
        density(posterior_path(small.decoder, image, delta=0.01), jnp.zeros(3, jnp.float32))
    assert len(traces) == 1


class _Foreign:
    """A decoder that jax does not know, without a dimension of its own."""

    def log_likelihood(self, z, x):
        return -jnp.sum((x - z["a"]) ** 2)

    def sample(self, z, key):
        return z["a"] + jax.random.normal(key)


def test_foreign_decoder():
    with pytest.raises(ValueError, match="`prior` is needed, because _Foreign has no `num_latent`"):
        posterior_path(_Foreign(), jnp.ones(1))
    prior = qp.Density(lambda z: -jnp.sum(z["a"] ** 2), lambda key: {"a": jax.random.normal(key, (1,))})
    path = posterior_path(_Foreign(), jnp.ones(1), prior=prior)
    assert jax.jit(lambda p: p.log_density(1.0, {"a": jnp.zeros(1)}))(path) == -1.0


@pytest.mark.parametrize("name", ["weights.npz", "weights.safetensors"])
def test_weights_come_back_as_they_were(name, small, tmp_path):
    small.save(tmp_path / name)
    again = load_vae(tmp_path / name)
    jax.tree.map(np.testing.assert_array_equal, again, small)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert load_vae(tmp_path / name, jnp.float64).encoder.mean.bias.dtype == jnp.float64


def _change(**changes):
    def apply(arrays):
        return {name: changes.get(name.replace(".", "_"), lambda a: a)(array) for name, array in arrays.items()}

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_change(decoder_2_weight=np.transpose), r"decoder.2.weight must have shape \(out, 5\), got \(7, 5\)|layout"),
        (_change(decoder_0_weight=lambda a: a[:, :2]), "enc_mu.weight gives 3 latent numbers, and the decoder takes 2"),
        (_change(encoder_2_bias=lambda a: a[:-1]), r"encoder.2.bias must have shape \(5,\), got \(4,\)"),
        (_change(enc_sig_bias=lambda a: a * np.nan), "enc_sig.bias has 3 entries that are NaN or infinite"),
        (_change(encoder_0_weight=lambda a: a.astype(int)), "encoder.0.weight must hold real numbers, got int"),
        (lambda arrays: {k: v for k, v in arrays.items() if k != "enc_mu.bias"}, "has no enc_mu.bias"),
        (lambda arrays: {k: v for k, v in arrays.items() if "decoder.2" not in k}, "has no decoder.2.weight"),
        (lambda arrays: {k: v for k, v in arrays.items() if "decoder.0" not in k}, "has no decoder.0.weight"),
        (lambda arrays: {**arrays, "decoder.3.weight": arrays["decoder.2.weight"]}, "layers have even numbers"),
        (lambda arrays: {k: v for k, v in arrays.items() if "decoder" not in k}, "has no decoder.0.weight"),
        (_change(decoder_4_weight=lambda a: a[1:], decoder_4_bias=lambda a: a[1:]), "gives 11 pixels"),
    ],
)
def test_bad_weights(change, message, small, tmp_path):
    np.savez(tmp_path / "bad.npz", **change({k: np.asarray(v) for k, v in arrays_of(small).items()}))
    with pytest.raises(ValueError, match=message):
        load_vae(tmp_path / "bad.npz")


def test_unreadable_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no file"):
        load_vae(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"stored as .npz or .safetensors, got"):
        load_vae(tmp_path / "weights.pt")
    for name in ("a.npz", "a.safetensors"):
        (tmp_path / name).write_bytes(b"not weights at all")
        with pytest.raises(ValueError, match="cannot be read as"):
            load_vae(tmp_path / name)


def test_standard_normal_follows_the_precision(small):
    assert posterior_path(small.decoder, jnp.zeros(12, jnp.float32)).base.mean.dtype == jnp.float32
    assert standard_normal(2).mean.dtype == jnp.float64


def test_default_model_knows_its_own_images(key):
    """Images that it simulates have a far higher bound than inverted ones, which a random model could not tell."""
    model = default_vae()
    z, x = simulate(model.decoder, 8, key=key)
    log_likelihood = jax.vmap(model.decoder.log_likelihood)
    assert model.encoder.mean.weight.shape == (50, 200)
    assert (log_likelihood(z, x) > log_likelihood(z, 1 - x) + 200).all()
