// The mathematics of the explorer: densities, q-paths, and integrals along them. Nothing here touches the page.
//
// The formulas are those of the library: `numerics/power_mean.py`, `families/nodes.py`, `estimators.py` and
// `schedules.py`. `tests/test_explorer.py` compares them with numbers that the library wrote to `numbers.json`.
"use strict";

const Model = (() => {
  /** `log Gamma(z)` for z > 0: Stirling's series from 10 on, and the recurrence below. */
  function logGamma(z) {
    let shift = 0;
    for (; z < 10; z += 1) shift += Math.log(z);
    const w = 1 / (z * z);
    const tail = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / z;
    return (z - 0.5) * Math.log(z) - z + 0.5 * Math.log(2 * Math.PI) + tail - shift;
  }

  /**
   * The log density of an endpoint at a point, as a function of its coordinates.
   *
   * An endpoint has `kind` ("normal" or "student"), `mean` (one or two numbers), `scale`, `df` for a Student-t, and
   * `correlation` in two dimensions, where the scale matrix is `scale^2 [[1, c], [c, 1]]`.
   */
  function logDensity(endpoint) {
    const { kind, mean, scale, df, correlation = 0 } = endpoint;
    const dimension = mean.length;
    const rest = 1 - correlation * correlation;
    const [mx, my = 0] = mean;
    const precision = 1 / (scale * scale);
    const distance = dimension === 1
      ? (x) => (x - mx) * (x - mx) * precision
      : (x, y) => {
        const u = x - mx, v = y - my;
        return (u * u - 2 * correlation * u * v + v * v) * precision / rest;
      };
    const logVolume = dimension * Math.log(scale) + (dimension === 1 ? 0 : 0.5 * Math.log(rest));
    if (kind === "normal") {
      const constant = -0.5 * dimension * Math.log(2 * Math.PI) - logVolume;
      return (x, y) => constant - 0.5 * distance(x, y);
    }
    const power = 0.5 * (df + dimension);
    const constant = logGamma(power) - logGamma(df / 2) - 0.5 * dimension * Math.log(df * Math.PI) - logVolume;
    return (x, y) => constant - power * Math.log1p(distance(x, y) / df);
  }

  /** Log of the power mean of two log densities at one beta; the library's `log_power_mean_pair` without a shift. */
  function interpolate(beta, logBase, logTarget, delta) {
    if (beta === 0) return logBase;
    if (beta === 1) return logTarget;
    const r = logTarget - logBase;
    if (delta === 0) return beta <= 0.5 ? logBase + beta * r : logTarget - (1 - beta) * r;
    const y = delta * r;
    // Near, measure from the endpoint of the larger weight; far, from the endpoint of the larger term.
    if (Math.abs(y) < 0.5) {
      return beta > 0.5
        ? logTarget + Math.log1p((1 - beta) * Math.expm1(-y)) / delta
        : logBase + Math.log1p(beta * Math.expm1(y)) / delta;
    }
    return y > 0
      ? logTarget + Math.log(beta + (1 - beta) * Math.exp(-y)) / delta
      : logBase + Math.log(1 - beta + beta * Math.exp(y)) / delta;
  }

  /** Derivative of `interpolate` in beta. */
  function derivative(beta, logBase, logTarget, delta) {
    const r = logTarget - logBase;
    if (delta === 0) return r;
    const y = delta * r, small = Math.exp(-Math.abs(y));
    const total = y > 0 ? (1 - beta) * small + beta : 1 - beta + beta * small;
    return -Math.sign(y) * Math.expm1(-Math.abs(y)) / total / delta;
  }

  /** Nodes of the double-exponential rule on the whole line (`Nodes.line`), around a center. */
  function lineNodes(center, scale, num) {
    const points = new Float64Array(num), logWeights = new Float64Array(num);
    const reach = 4.9, step = 2 * reach / (num - 1);
    for (let i = 0; i < num; i++) {
      const t = reach * (2 * i / (num - 1) - 1);
      const u = Math.PI / 2 * Math.sinh(t), a = Math.abs(u);
      points[i] = center + scale * Math.sinh(u);
      const logCosh = a + Math.log1p(Math.exp(-2 * a)) - Math.LN2;
      logWeights[i] = Math.log(scale) + logCosh + Math.log(Math.PI / 2 * Math.cosh(t)) + Math.log(step);
    }
    return { points, logWeights };
  }

  /** Nodes of the trapezoid rule after `x = sinh t`: fewer than `lineNodes` needs, for products of two lines. */
  function shortLineNodes(center, scale, reach) {
    const num = 2 * Math.round(reach / 0.22) + 1, points = new Float64Array(num), logWeights = new Float64Array(num);
    const step = 2 * reach / (num - 1);
    for (let i = 0; i < num; i++) {
      const t = reach * (2 * i / (num - 1) - 1);
      points[i] = center + scale * Math.sinh(t);
      logWeights[i] = Math.log(scale * Math.cosh(t) * step);
    }
    return { points, logWeights };
  }

  /** Nodes that resolve both endpoints, in one or two dimensions: `{ xs, ys, logWeights }`. */
  function nodesFor(base, target) {
    const center = base.mean.map((value, i) => 0.5 * (value + target.mean[i]));
    const smallest = Math.min(base.scale, target.scale);
    const width = (i) => Math.max(0.25 * Math.abs(base.mean[i] - target.mean[i]), smallest);
    if (base.mean.length === 1) {
      const line = lineNodes(center[0], width(0), 801);
      return { xs: line.points, ys: null, logWeights: line.logWeights };
    }
    // Heavy tails need far nodes: beyond R a Student-t has a mass of about R^-df.
    const heaviest = Math.min(...[base, target].map((end) => end.kind === "student" ? end.df : Infinity));
    const reach = Math.min(Math.max(14 / heaviest, 5.5), 9);
    const [across, up] = [0, 1].map((i) => shortLineNodes(center[i], width(i), reach));
    return product(across, up);
  }

  /** All pairs of the nodes of two lines. */
  function product(across, up) {
    const n = across.points.length, m = up.points.length;
    const xs = new Float64Array(n * m), ys = new Float64Array(n * m), logWeights = new Float64Array(n * m);
    for (let i = 0, k = 0; i < n; i++) {
      for (let j = 0; j < m; j++, k++) {
        xs[k] = across.points[i];
        ys[k] = up.points[j];
        logWeights[k] = across.logWeights[i] + up.logWeights[j];
      }
    }
    return { xs, ys, logWeights };
  }

  /** The values of an endpoint at all nodes. */
  function valuesAt(endpoint, { xs, ys }) {
    const density = logDensity(endpoint);
    return Float64Array.from(xs, ys === null ? (x) => density(x) : (x, i) => density(x, ys[i]));
  }

  /**
   * A q-path on nodes: what does not depend on beta is computed once.
   *
   * `logAt(beta)` are the log densities at the nodes, `moments(beta)` the log normalizer with mean and variance of
   * the derivative in beta, and `stepLength(from, to)` is the library's measure of one step.
   */
  function pathOn(nodes, logBase, logTarget, q) {
    const delta = 1 - q, n = logBase.length, { logWeights } = nodes;
    const y = new Float64Array(n), small = new Float64Array(n), less = new Float64Array(n);
    for (let i = 0; i < n; i++) {
      y[i] = delta * (logTarget[i] - logBase[i]);
      const size = -Math.abs(y[i]);
      less[i] = Math.expm1(size);
      small[i] = Math.exp(size);
    }

    function logAt(beta, out = new Float64Array(n)) {
      if (delta === 0 || beta === 0 || beta === 1) {
        for (let i = 0; i < n; i++) out[i] = interpolate(beta, logBase[i], logTarget[i], delta);
        return out;
      }
      for (let i = 0; i < n; i++) {
        const above = y[i] > 0;
        const far = less[i] < -0.39; // |y| > 1/2
        const other = above ? 1 - beta : beta, own = above ? beta : 1 - beta;
        const mean = far ? Math.log(own + other * small[i]) : Math.log1p(other * less[i]);
        out[i] = (above ? logTarget[i] : logBase[i]) + mean / delta;
      }
      return out;
    }

    function derivativeAt(beta, i) {
      if (delta === 0) return logTarget[i] - logBase[i];
      const above = y[i] > 0;
      const total = above ? (1 - beta) * small[i] + beta : 1 - beta + beta * small[i];
      return (above ? -less[i] : less[i]) / total / delta;
    }

    const logs = new Float64Array(n);
    function moments(beta) {
      logAt(beta, logs);
      const logNormalizer = logSumExp(logs, logWeights);
      let mean = 0, square = 0;
      for (let i = 0; i < n; i++) {
        const weight = Math.exp(logs[i] + logWeights[i] - logNormalizer);
        if (weight === 0) continue;
        const value = derivativeAt(beta, i);
        mean += weight * value;
        square += weight * value * value;
      }
      return { logNormalizer, mean, variance: Math.max(square - mean * mean, 0) };
    }

    return { q, delta, logBase, logTarget, nodes, logAt, moments };
  }

  /** `log sum exp(values + logWeights)`. */
  function logSumExp(values, logWeights) {
    let largest = -Infinity, sum = 0;
    for (let i = 0; i < values.length; i++) largest = Math.max(largest, values[i] + logWeights[i]);
    if (!Number.isFinite(largest)) return largest;
    for (let i = 0; i < values.length; i++) sum += Math.exp(values[i] + logWeights[i] - largest);
    return largest + Math.log(sum);
  }

  /**
   * The lengths of the steps of a schedule, `sqrt(log E[w^2] - 2 log E[w])` under exact draws (`step_length`).
   *
   * The effective sample size of a step is the share `exp(-length^2)` of the draws.
   */
  function stepLengths(path, betas) {
    const { logWeights } = path.nodes;
    let here = path.logAt(betas[0]), hereSum = logSumExp(here, logWeights);
    const twice = new Float64Array(here.length), lengths = [];
    for (const beta of betas.slice(1)) {
      const next = path.logAt(beta), nextSum = logSumExp(next, logWeights);
      for (let i = 0; i < next.length; i++) twice[i] = 2 * next[i] - here[i];
      lengths.push(Math.sqrt(Math.max(logSumExp(twice, logWeights) + hereSum - 2 * nextSum, 0)));
      [here, hereSum] = [next, nextSum];
    }
    return lengths;
  }

  /**
   * The length of the path in the Fisher-Rao metric up to each of `num + 1` betas.
   *
   * The integral of the standard deviation of `d/dbeta log pi`, by the midpoint rule after
   * `beta = 1 / (1 + exp(-pi sinh t))`. The substitution is dense at both ends, where paths with q far from 1 have
   * most of their length.
   */
  function cumulativeLength(path, num = 64) {
    const reach = 3.05, step = 2 * reach / num, betas = [0], lengths = [0];
    const betaAt = (t) => 1 / (1 + Math.exp(-Math.PI * Math.sinh(t)));
    for (let k = 0; k < num; k++) {
      const t = (k + 0.5) * step - reach, beta = betaAt(t);
      const slope = Math.PI * Math.cosh(t) * beta * betaAt(-t);
      lengths.push(lengths[k] + Math.sqrt(path.moments(beta).variance) * slope * step);
      betas.push(k === num - 1 ? 1 : betaAt(t + 0.5 * step));
    }
    return { betas, lengths, total: lengths[num] };
  }

  /** `num` betas: equally spaced, or at equal lengths along the path. */
  function schedule(kind, num, cumulative) {
    const even = Array.from({ length: num }, (_, i) => i / (num - 1));
    if (kind === "linear" || !(cumulative.total > 1e-6)) return even;
    const { betas, lengths, total } = cumulative;
    let k = 0;
    return even.map((share, i) => {
      if (i === 0 || i === num - 1) return share;
      while (lengths[k + 1] < share * total) k += 1;
      return betas[k] + (betas[k + 1] - betas[k]) * (share * total - lengths[k]) / (lengths[k + 1] - lengths[k]);
    });
  }

  /** The effective sample size of log weights, as a share of their number. */
  function essShare(logWeights) {
    let largest = -Infinity, sum = 0, squares = 0;
    for (const value of logWeights) largest = Math.max(largest, value);
    for (const value of logWeights) {
      const weight = Math.exp(value - largest);
      sum += weight;
      squares += weight * weight;
    }
    return sum * sum / squares / logWeights.length;
  }

  return {
    logGamma, logDensity, interpolate, derivative, nodesFor, product, valuesAt, pathOn, logSumExp, stepLengths,
    cumulativeLength, schedule, essShare,
  };
})();

if (typeof module !== "undefined") module.exports = Model;
