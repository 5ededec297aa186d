"""The contract of a layer, and chains of layers: noise becomes points, and points become noise."""

import abc
from typing import Any, NamedTuple

import equinox as eqx

from ..core import Module, Rows, Vector, namespace


class At(NamedTuple):
    """Noise, the points that a layer makes of it, and what the layer computed on the way from one to the other."""

    noise: Rows
    points: Rows
    work: Any = None


class AbstractLayer(Module):
    """A map from noise to points, rows of equal length.

    `forward` and `inverse` return where they are. The other methods take that, and solve nothing again.
    """

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """The number of coordinates."""

    @property
    def is_linear(self) -> bool:
        """Return whether the points are a linear function of the noise."""
        return True

    @abc.abstractmethod
    def forward(self, noise: Rows) -> At:
        """Compute the points of some noise."""

    @abc.abstractmethod
    def inverse(self, points: Rows) -> At:
        """Compute the noise of some points."""

    @abc.abstractmethod
    def log_volume(self, at: At) -> Any:
        """Return the log determinant of the derivative of points by noise: one number for each row, or for all."""

    @abc.abstractmethod
    def pull_back(self, at: At, slopes: Rows) -> Rows:
        """Return the gradient by the noise of `h(points) + log_volume` from that of h."""

    @abc.abstractmethod
    def push_forward(self, at: At, slopes: Rows) -> Rows:
        """Return the gradient by the points of `h(noise) - log_volume` from that of h."""

    def relative_to(self, other: Any) -> "AbstractLayer":
        """Return the layer whose points are the noise of another one that leads to the same points."""
        return Chain.of(self, Inverse(other))


class Chain(AbstractLayer):
    """Layers one after the other; the first one takes the noise. A chain without layers changes nothing."""

    layers: tuple[AbstractLayer, ...]
    width: int = eqx.field(static=True)

    @staticmethod
    def of(*layers: AbstractLayer) -> "Chain":
        """Return the chain of some layers, in which chains among them are taken apart."""
        flat = [part for layer in layers for part in (layer.layers if isinstance(layer, Chain) else (layer,))]
        return Chain(tuple(flat), layers[0].dimension)

    def relative_to(self, other: Any) -> "Chain":
        if self is other:
            return Chain((), self.width)
        if len(self.layers) == len(other.layers) == 1:
            return Chain.of(self.layers[0].relative_to(other.layers[0]))
        return Chain.of(self, Inverse(other))

    @property
    def dimension(self) -> int:
        return self.width

    @property
    def is_linear(self) -> bool:
        return all(layer.is_linear for layer in self.layers)

    def forward(self, noise: Rows) -> At:
        ats, points = [], noise
        for layer in self.layers:
            ats.append(layer.forward(points))
            points = ats[-1].points
        return At(noise, points, tuple(ats))

    def inverse(self, points: Rows) -> At:
        ats, noise = [], points
        for layer in reversed(self.layers):
            ats.append(layer.inverse(noise))
            noise = ats[-1].noise
        return At(noise, points, tuple(reversed(ats)))

    def log_volume(self, at: At) -> Vector:
        xp = namespace(at.noise, self.layers)
        total = sum((layer.log_volume(own) for layer, own in zip(self.layers, at.work, strict=True)), 0.0)
        return xp.broadcast_to(xp.asarray(total), at.noise.shape[:1])

    def pull_back(self, at: At, slopes: Rows) -> Rows:
        for layer, own in zip(reversed(self.layers), reversed(at.work), strict=True):
            slopes = layer.pull_back(own, slopes)
        return slopes

    def push_forward(self, at: At, slopes: Rows) -> Rows:
        for layer, own in zip(self.layers, at.work, strict=True):
            slopes = layer.push_forward(own, slopes)
        return slopes


class Inverse(AbstractLayer):
    """A layer the other way round: its points are the noise of this one."""

    layer: AbstractLayer

    @property
    def dimension(self) -> int:
        return self.layer.dimension

    @property
    def is_linear(self) -> bool:
        return self.layer.is_linear

    def forward(self, noise: Rows) -> At:
        return _turned(self.layer.inverse(noise))

    def inverse(self, points: Rows) -> At:
        return _turned(self.layer.forward(points))

    def log_volume(self, at: At) -> Any:
        return -self.layer.log_volume(at.work)

    def pull_back(self, at: At, slopes: Rows) -> Rows:
        return self.layer.push_forward(at.work, slopes)

    def push_forward(self, at: At, slopes: Rows) -> Rows:
        return self.layer.pull_back(at.work, slopes)


def _turned(at: At) -> At:
    return At(at.points, at.noise, at)
