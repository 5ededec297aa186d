"""Bridges to other packages, each an optional extra that is imported only where it is used."""
