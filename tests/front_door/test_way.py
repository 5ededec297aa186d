"""The way of a call of `evidence` through the folders: from the front door each stage is entered once, in order."""

import inspect
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

import qpaths as qp

SOURCE = Path(qp.__file__).parent
STAGES = {"search", "algorithms", "annealing", "models", "adapters"}
"""Folders that do a part of the work; the others (kernels, evaluation, results, ...) are tools that every part uses."""


def _place(frame):
    """Folder of the package that a frame or the nearest one below it lives in, since type checks come between."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(f"{SOURCE}{os.sep}"):
            return Path(name).relative_to(SOURCE).parts[0]
        frame = frame.f_back
    return None


def _way(function):
    """Stages that functions of the front door call, without repetitions in a row."""
    way = []

    def follow(frame, event, _):
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # and not the body of a module or class
        if event == "call" and is_function and frame.f_code.co_filename.startswith(f"{SOURCE}{os.sep}"):
            called, caller = _place(frame), _place(frame.f_back)
            if caller == "front_door" and called in STAGES and way[-1:] != [called]:
                way.append(called)

    sys.setprofile(follow)
    try:
        function()
    finally:
        sys.setprofile(None)
    return way


def test_each_folder_is_entered_once():
    base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
    target = qp.Density(lambda x: -2 * jnp.sum((x - 1.0) ** 2))
    way = _way(lambda: qp.evidence(base, target, key=jax.random.key(0), budget=20_000))
    print(" -> ".join(["front_door", *way]))
    assert way == ["search", "algorithms"]
