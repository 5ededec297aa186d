"""The experiment of `benchmarks/speed/scale.py`, in a package that workers can import."""
