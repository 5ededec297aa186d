"""Transport maps as chains of small layers, and the regression that fits them."""

from .base import AbstractLayer, At, Chain, Inverse
from .conditional import Conditional, Pulls
from .features import CLIP, AbstractFeatures, Bends, Drivers, features_of
from .linear import Permute, Rotate, Scale, Triangular
from .marginal import Marginal, Student

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
    "Permute",
    "Pulls",
    "Rotate",
    "Scale",
    "Student",
    "Triangular",
    "features_of",
]
