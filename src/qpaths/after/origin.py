"""Keep in a result of `evidence` what can be asked about its model."""

from typing import Any

from ..core import PRNGKey
from ..results import Result
from .given import Given
from .polish import EqualDraws, equal_draws
from .sensitivity import reweighted
from .update import updated


class Origin(Given):
    """The model behind a result, with the questions that methods of the result pass on."""

    def draws(self, result: Result, num: int, key: PRNGKey) -> EqualDraws:
        """Return equally weighted draws."""
        return equal_draws(self, result, num, key)

    def reweight(self, result: Result, prior: Any, key: PRNGKey | None) -> Result:
        """Return the result with another prior."""
        return reweighted(self, result, prior, key)

    def update(self, result: Result, new_data: Any, key: PRNGKey) -> Result:
        """Return the result with new data in the model."""
        return updated(self, result, new_data, key)
