"""What a run costs: how often it evaluates the densities at the two ends of its path."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Cost:
    """Numbers of evaluations: of values alone, and of values together with their gradient.

    Costs add up and can be multiplied by a number.

    Attributes:
        base: Values of the base.
        target: Values of the target.
        base_gradient: Values with gradient of the base.
        target_gradient: Values with gradient of the target.

    A gradient counts as two values in `total`. Costs are counted from the settings of a run, so evaluations that a
    density makes inside itself are not seen. See [The result](algorithms.md#the-result).

    Examples:
        >>> total = Cost.values(100) + 3 * Cost.gradients(50)
        >>> total.target, total.target_gradient, total.total
        (100, 150, 400)
    """

    base: int = 0
    target: int = 0
    base_gradient: int = 0
    target_gradient: int = 0

    @staticmethod
    def values(num: int) -> "Cost":
        """`num` values of each end."""
        return Cost(base=num, target=num)

    @staticmethod
    def gradients(num: int) -> "Cost":
        """`num` values with gradient of each end."""
        return Cost(base_gradient=num, target_gradient=num)

    @property
    def total(self) -> int:
        """Evaluations of the target, a gradient counted as two: what a budget is compared with."""
        return self.target + 2 * self.target_gradient

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.base + other.base,
            self.target + other.target,
            self.base_gradient + other.base_gradient,
            self.target_gradient + other.target_gradient,
        )

    def __mul__(self, factor: int) -> "Cost":
        return Cost(
            factor * self.base, factor * self.target, factor * self.base_gradient, factor * self.target_gradient
        )

    __rmul__ = __mul__
