"""How often a cloud of draws is said to fall into several groups: unimodal clouds, and two modes at a distance.

    python -m benchmarks.reliability.groups [number of clouds]

Only the fit of a reference is run (`fit_map`), on exact draws with their scores, rotated at random.
"""

import sys

import numpy as np

from qpaths.references.curves import fit_map
from qpaths.remarks import Refusal

SIZES = 256, 512, 1024


def gamma(shape, num, dimension, rng):
    x = rng.gamma(shape, size=(num, dimension))
    return x, (shape - 1) / x - 1


def log_gamma(shape, num, dimension, rng):
    x = np.log(rng.gamma(shape, size=(num, dimension)))
    return x, shape - np.exp(x)


def log_normal(sd, num, dimension, rng):
    z = rng.normal(size=(num, dimension))
    x = np.exp(sd * z)
    return x, (-z / sd - 1) / x


def student(df, num, dimension, rng):
    z = rng.normal(size=(num, dimension)) / np.sqrt(rng.chisquare(df, (num, 1)) / df)
    return z, -(df + dimension) * z / (df + np.sum(z**2, axis=1, keepdims=True))


def students(df, num, dimension, rng):
    x = rng.standard_t(df, (num, dimension))
    return x, -(df + 1) * x / (df + x**2)


def uniform(_, num, dimension, rng):
    return rng.uniform(size=(num, dimension)), np.zeros((num, dimension))


def funnel(sd, num, dimension, rng):
    v = sd * rng.normal(size=(num, 1))
    z = rng.normal(size=(num, dimension - 1))
    slope = -v / sd**2 + 0.5 * np.sum(z**2 - 1, axis=1, keepdims=True)
    return np.hstack([v, np.exp(0.5 * v) * z]), np.hstack([slope, -z * np.exp(-0.5 * v)])


def banana(bend, num, dimension, rng):
    """Every second coordinate is bent by the square of the one before it; the dimension is even."""
    first, noise = 2 * rng.normal(size=(num, dimension // 2)), rng.normal(size=(num, dimension // 2))
    x, scores = np.empty((num, dimension)), np.empty((num, dimension))
    x[:, ::2], x[:, 1::2] = first, noise + bend * (first**2 - 4)
    scores[:, ::2], scores[:, 1::2] = -first / 4 + 2 * bend * first * noise, -noise
    return x, scores


def two_modes(distance, share, num, dimension, rng):
    x = rng.normal(size=(num, dimension))
    x[:, 0] += distance * (rng.random(num) < share)
    odds = np.log(share / (1 - share)) + distance * (x[:, 0] - 0.5 * distance)
    scores = -x
    scores[:, 0] += distance / (1 + np.exp(-odds))
    return x, scores


CLOUDS = {
    "normal": (student, 1e9),
    "gamma, shape 3": (gamma, 3.0),
    "exponential": (gamma, 1.0),
    "log gamma, shape 0.3": (log_gamma, 0.3),
    "log-normal, sd 0.5": (log_normal, 0.5),
    "log-normal, sd 1": (log_normal, 1.0),
    "Student-t, 3": (student, 3.0),
    "independent Student-t, 3": (students, 3.0),
    "independent Cauchy": (students, 1.0),
    "uniform": (uniform, None),
    "funnel, sd 1.5": (funnel, 1.5),
    "funnel, sd 3": (funnel, 3.0),
    "banana, bend 0.1": (banana, 0.1),
    "banana, bend 0.5": (banana, 0.5),
}


def refused(x, scores, rng):
    rotation = np.linalg.qr(rng.normal(size=(x.shape[1], x.shape[1])))[0]
    return fit_map(x @ rotation, scores @ rotation).refusal is Refusal.SEVERAL_GROUPS


def rates(draw, dimensions, num_clouds):
    """Of clouds with two modes or one, by number of draws and dimension."""
    for num in SIZES:
        for dimension in dimensions:
            rng = np.random.default_rng([num, dimension])
            yield sum(refused(*draw(num, dimension, rng), rng) for _ in range(num_clouds))


def table(rows, dimensions, num_clouds):
    names = [f"{num} x {dimension}" for num in SIZES for dimension in dimensions]
    print(f"| cloud | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for name, draw in rows:
        print(f"| {name} | {' | '.join(map(str, rates(draw, dimensions, num_clouds)))} |", flush=True)


if __name__ == "__main__":
    num_clouds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print(f"Said to have several groups, of {num_clouds} clouds; draws x dimension.\n")
    one = ((name, lambda *args, f=f, a=a: f(a, *args)) for name, (f, a) in CLOUDS.items())
    table(one, (2, 10), num_clouds)
    print()
    two = (
        (f"two modes {distance:g} sd apart, {share:.0%}", lambda *args, d=distance, s=share: two_modes(d, s, *args))
        for distance in (3.0, 4.0, 6.0)
        for share in (0.5, 0.3, 0.1)
    )
    table(two, (1, 2, 10), num_clouds)
