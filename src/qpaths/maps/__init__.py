"""Transport maps as chains of small layers, and the regression that fits them."""

from .base import AbstractLayer, At, Chain, Inverse
from .conditional import Conditional, Pulls
from .features import CLIP, AbstractFeatures, Bends, Drivers, features_of
from .linear import Permute, Rotate, Scale, Triangular
from .marginal import Marginal, Mixture, Student
from .regression import clear_terms as clear_terms
from .regression import least_squares as least_squares
from .regression import mean_and_log_scale as mean_and_log_scale
from .regression import solved as solved

__all__ = [
    "CLIP",
    "AbstractFeatures",
    "AbstractLayer",
    "At",
    "Bends",
    "Chain",
    "Conditional",
    "Drivers",
    "Inverse",
    "Marginal",
    "Mixture",
    "Permute",
    "Pulls",
    "Rotate",
    "Scale",
    "Student",
    "Triangular",
    "features_of",
]
