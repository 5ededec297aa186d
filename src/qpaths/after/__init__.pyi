from .carry import Ensemble as Ensemble
from .given import Given as Given
from .given import digests as digests
from .given import named_by as named_by
from .origin import Origin as Origin
from .polish import EqualDraws as EqualDraws
