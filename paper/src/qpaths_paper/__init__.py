"""The experiments of the q-paths paper, one file for each table or figure, and the harness that runs them.

Installed together with `qpaths`, it adds the commands `list`, `run`, `report`, `data` and `demo` to `qpaths`.
"""

__version__ = "0.1.0"
