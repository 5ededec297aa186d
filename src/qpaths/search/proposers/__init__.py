"""Ways to find a reference, one file each."""

from .ascents import Climbers as Climbers
from .drivers import Drivers as Drivers
from .drivers import DriversOfBase as DriversOfBase
from .known import KnownModes as KnownModes
from .known import MissedModes as MissedModes
from .prior import Base as Base
from .prior import MapOfBase as MapOfBase
from .prior import Neck as Neck
from .refined import Refined as Refined
from .scans import Scans as Scans
from .scans import Shapes as Shapes
