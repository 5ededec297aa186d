"""Generative models: decoders, the paper's variational autoencoder, and their evaluation by annealing."""

from .networks import BernoulliDecoder as BernoulliDecoder
from .networks import Decoder as Decoder
from .networks import GaussianDecoder as GaussianDecoder
from .networks import Network as Network
from .posterior import DiagonalNormal as DiagonalNormal
from .posterior import posterior_path as posterior_path
from .posterior import simulate as simulate
from .posterior import standard_normal as standard_normal
from .vae import VAE as VAE
from .vae import load_vae as load_vae
