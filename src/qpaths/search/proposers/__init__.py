"""Ways to find a reference, one file each."""

from .from_ascents import Climbers as Climbers
from .from_chains import Chains as Chains
from .from_drivers import Drivers as Drivers
from .from_known import KnownModes as KnownModes
from .from_known import MissedModes as MissedModes
from .from_prior import Base as Base
from .from_prior import MapOfBase as MapOfBase
from .from_prior import Neck as Neck
from .from_scans import Scans as Scans
from .from_scans import Shapes as Shapes
from .from_weights import Weighted as Weighted
from .refined import Refined as Refined
