// Annealed importance sampling in the page: random-walk moves, weights by the path, every step kept for the pictures.
"use strict";

const Sampler = (() => {
  const { logDensity, interpolate, essShare, logSumExp } = typeof module === "undefined" ? Model : require("./model.js");

  /** Uniform numbers in (0, 1) from a seed: Mulberry32. */
  function uniforms(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 4294967296;
    };
  }

  function normal(uniform) {
    return Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  }

  /** A gamma variate of unit scale (Marsaglia and Tsang, 2000). */
  function gamma(shape, uniform) {
    if (shape < 1) return gamma(shape + 1, uniform) * uniform() ** (1 / shape);
    const d = shape - 1 / 3, c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const z = normal(uniform), v = (1 + c * z) ** 3;
      if (v > 0 && Math.log(uniform()) < 0.5 * z * z + d - d * v + d * Math.log(v)) return d * v;
    }
  }

  /** Exact draws from an endpoint, `{ xs, ys }`. */
  function draws(endpoint, num, seed) {
    const { kind, mean, scale, df, correlation = 0 } = endpoint;
    const planar = mean.length === 2;
    const xs = new Float64Array(num), ys = planar ? new Float64Array(num) : null;
    for (let i = 0; i < num; i++) {
      // A stream for each draw: the others stay when one of the endpoint's numbers changes.
      const uniform = uniforms(seed * 7919 + i * 104729 + 1);
      const z = normal(uniform), other = normal(uniform);
      const spread = kind === "normal" ? scale : scale * Math.sqrt(df / (2 * gamma(df / 2, uniform)));
      xs[i] = mean[0] + spread * z;
      if (planar) ys[i] = mean[1] + spread * (correlation * z + Math.sqrt(1 - correlation ** 2) * other);
    }
    return { xs, ys };
  }

  /** The random numbers of the moves: normal steps and log uniforms, for each step, move and chain. */
  function randomness(num, seed) {
    const uniform = uniforms(seed), steps = new Float64Array(2 * num), logUniforms = new Float64Array(num);
    for (let i = 0; i < 2 * num; i++) steps[i] = normal(uniform);
    for (let i = 0; i < num; i++) logUniforms[i] = Math.log(uniform());
    return { steps, logUniforms };
  }

  /**
   * Anneal the points from the base to the target along a q-path.
   *
   * At each beta after the first the weights are updated, and then every point makes `moves` random-walk transitions.
   * The proposal is normal; its width is `2.38 / sqrt(d)` times a scale that runs geometrically from that of the base
   * to that of the target. It does not depend on the points, so the mean weight is an unbiased estimate.
   *
   * Returns one record for each beta: positions, log weights and the effective share; and the acceptance rate.
   */
  function anneal({ base, target, q, betas, moves, points, random }) {
    const [atBase, atTarget] = [logDensity(base), logDensity(target)];
    const delta = 1 - q, num = points.xs.length, planar = points.ys !== null;
    const xs = points.xs.slice(), ys = planar ? points.ys.slice() : null;
    const logBase = new Float64Array(num), logTarget = new Float64Array(num), logWeights = new Float64Array(num);
    const current = new Float64Array(num);
    for (let i = 0; i < num; i++) {
      logBase[i] = atBase(xs[i], planar ? ys[i] : 0);
      logTarget[i] = atTarget(xs[i], planar ? ys[i] : 0);
    }
    let accepted = 0, count = 0;
    const record = (beta) => ({
      beta, xs: xs.slice(), ys: planar ? ys.slice() : null, logWeights: logWeights.slice(), ess: essShare(logWeights),
    });
    const records = [record(betas[0])];
    for (let k = 1; k < betas.length; k++) {
      const beta = betas[k];
      for (let i = 0; i < num; i++) {
        current[i] = interpolate(beta, logBase[i], logTarget[i], delta);
        logWeights[i] += current[i] - interpolate(betas[k - 1], logBase[i], logTarget[i], delta);
      }
      const width = 2.38 / Math.sqrt(planar ? 2 : 1) * base.scale ** (1 - beta) * target.scale ** beta;
      for (let move = 0; move < moves; move++) {
        for (let i = 0; i < num; i++, count++) {
          const x = xs[i] + width * random.steps[2 * count];
          const y = planar ? ys[i] + width * random.steps[2 * count + 1] : 0;
          const newBase = atBase(x, y), newTarget = atTarget(x, y);
          const proposed = interpolate(beta, newBase, newTarget, delta);
          if (random.logUniforms[count] < proposed - current[i]) {
            current[i] = proposed;
            xs[i] = x;
            if (planar) ys[i] = y;
            logBase[i] = newBase;
            logTarget[i] = newTarget;
            accepted += 1;
          }
        }
      }
      records.push(record(beta));
    }
    return { records, acceptance: count ? accepted / count : 0 };
  }

  /** Log of the mean weight: the estimate of log Z. */
  function logMeanWeight(logWeights) {
    return logSumExp(logWeights, new Float64Array(logWeights.length)) - Math.log(logWeights.length);
  }

  return { uniforms, draws, randomness, anneal, logMeanWeight };
})();

if (typeof module !== "undefined") module.exports = Sampler;
