"""The experiment of `benchmarks/scale.py`, in a package that workers can import."""
