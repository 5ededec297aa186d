"""Generative models: decoders, the paper's variational autoencoder, and their evaluation by annealing."""

from .evaluate import DecoderBounds as DecoderBounds
from .evaluate import Evaluation as Evaluation
from .evaluate import evaluate_bounds as evaluate_bounds
from .evaluate import evaluate_lower as evaluate_lower
from .evaluate import load_bounds as load_bounds
from .networks import BernoulliDecoder as BernoulliDecoder
from .networks import Decoder as Decoder
from .networks import DecoderProblem as DecoderProblem
from .networks import DiagonalNormal as DiagonalNormal
from .networks import GaussianDecoder as GaussianDecoder
from .networks import Network as Network
from .networks import low_precision as low_precision
from .networks import posterior_path as posterior_path
from .networks import simulate as simulate
from .networks import standard_normal as standard_normal
from .omniglot import binarize as binarize
from .omniglot import check_images as check_images
from .omniglot import find_omniglot as find_omniglot
from .omniglot import load_omniglot as load_omniglot
from .released import ReleasedProtocol as ReleasedProtocol
from .training import TrainingSettings as TrainingSettings
from .training import importance_bounds as importance_bounds
from .training import train_vae as train_vae
from .vae import VAE as VAE
from .vae import default_vae as default_vae
from .vae import load_vae as load_vae
