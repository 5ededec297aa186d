"""Rows of arrays spread over devices, of one process or of several that form a JAX cluster."""

from .exchange import taken as taken
from .mesh import Devices as Devices
from .mesh import as_devices as as_devices
from .mesh import check_shares as check_shares
from .mesh import gathered as gathered
from .mesh import portable as portable
from .spread import Spread as Spread
from .spread import on_host as on_host
from .work import by_rows as by_rows
from .work import rows_at_once as rows_at_once
