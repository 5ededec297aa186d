"""Parametric families of densities."""

from .gaussian import MultivariateNormal as MultivariateNormal
from .gaussian import Normal as Normal
