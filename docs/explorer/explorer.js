// The explorer itself: its state, what follows from it, and the controls that change it.
"use strict";

const Explorer = (() => {
  const NUM_CHAINS = 300, MOST_STEPS = 47, MOST_MOVES = 12, LIMITS = { scale: [0.3, 4], mean: [-8, 8] };
  const WIDE = 10, HIGH = 5, POINTS = 241, NX = 101, NY = 51;
  const normal = (mean, scale, rest = {}) => ({ kind: "normal", mean, scale, df: 5, correlation: 0, ...rest });
  const student = (mean, scale, df, rest = {}) => ({ ...normal(mean, scale, rest), kind: "student", df });

  const PRESETS = {
    narrow: { planar: false, base: normal([-3, 0], 2.5), target: normal([2, 0], 0.4), num: 16, moves: 6 },
    apart: { planar: false, base: normal([-4, 0], 1), target: normal([4, 0], 0.7), num: 32, moves: 10 },
    student: { planar: false, base: student([-4, 0], 1, 5), target: student([4, 0], 0.5, 5), num: 32, moves: 10 },
    plane: { planar: true, base: normal([-3, -1.5], 1.5), target: normal([3, 1], 0.7, { correlation: 0.6 }), num: 24, moves: 8 },
  };
  const state = { beta: 0.3, q: 1, schedule: "linear", seed: 1, ...structuredClone(PRESETS.narrow) };
  const byId = (id) => document.getElementById(id);

  /** Values that are kept until what they depend on changes. */
  const kept = new Map();
  function keep(name, inputs, compute) {
    const key = JSON.stringify(inputs), old = kept.get(name);
    if (old?.key === key) return old.value;
    const value = compute();
    kept.set(name, { key, value });
    return value;
  }

  /** Points of the pictures: a row, or the rows and columns of a plane. */
  function gridPoints(planar) {
    const even = (num, reach) => Float64Array.from({ length: num }, (_, i) => reach * (2 * i / (num - 1) - 1));
    if (!planar) return { xs: even(POINTS, WIDE), ys: null, logWeights: new Float64Array(POINTS) };
    const line = (num, reach) => ({ points: even(num, reach), logWeights: new Float64Array(num) });
    return Model.product(line(NX, WIDE), line(NY, HIGH));
  }

  /** All numbers that the pictures show, from the state. */
  function compute() {
    const { planar, q, num, schedule, moves, seed } = state;
    const endpoint = ({ mean, ...rest }) => ({ ...rest, mean: mean.slice(0, planar ? 2 : 1) });
    const [base, target] = [endpoint(state.base), endpoint(state.target)], ends = [base, target];
    const values = keep("ends", ends, () => {
      const nodes = Model.nodesFor(base, target), points = gridPoints(planar);
      return { nodes, points, atNodes: ends.map((end) => Model.valuesAt(end, nodes)),
        atPoints: ends.map((end) => Model.valuesAt(end, points)) };
    });
    const lengthNodes = planar ? 32 : 64;
    const pathOf = (order) => {
      const path = Model.pathOn(values.nodes, ...values.atNodes, order);
      return { path, cumulative: Model.cumulativeLength(path, lengthNodes) };
    };
    const reference = keep("reference", ends, () => pathOf(1));
    const { path, cumulative } = q === 1 ? reference : keep("path", [ends, q], () => pathOf(q));
    const onGrid = keep("grid", [ends, q], () => Model.pathOn(values.points, ...values.atPoints, q));
    const random = keep("random", seed, () => Sampler.randomness(NUM_CHAINS * MOST_STEPS * MOST_MOVES, seed));
    const points = keep("draws", [base, seed], () => Sampler.draws(base, NUM_CHAINS, seed));
    const runOf = (order, along) => Sampler.anneal({
      base, target, q: order, betas: Model.schedule(schedule, num, along), moves, points, random,
    });
    const settings = [ends, num, schedule, moves, seed];
    const referenceRun = keep("reference run", settings, () => runOf(1, reference.cumulative));
    const run = q === 1 ? referenceRun : keep("run", [settings, q], () => runOf(q, cumulative));
    const betas = run.records.map((one) => one.beta);
    const shares = keep("steps", [ends, q, betas], () => Model.stepLengths(path, betas).map((l) => Math.exp(-l * l)));
    const logNormalizer = (beta) => Model.logSumExp(path.logAt(beta), values.nodes.logWeights);
    const densityAt = (beta) => keep(`density ${beta}`, [ends, q], () => {
      const shift = logNormalizer(beta);
      return onGrid.logAt(beta).map((value) => Math.exp(value - shift));
    });
    const grid = gridView(planar, values);
    const marginalAt = (beta) => marginal(onGrid, beta, logNormalizer(beta));
    const ridges = keep("ridges", [ends, q], () => ridgesOf(planar ? marginalAt : densityAt, grid));
    return { state, base, target, path, cumulative, betas, shares, run, grid, ridges, densityAt, marginalAt,
      reference: { ...reference, run: referenceRun } };
  }

  function gridView(planar, { points, atPoints }) {
    const [base, target] = atPoints.map((logs) => logs.map(Math.exp)), common = { wide: WIDE, high: HIGH, base, target };
    if (!planar) return { ...common, xs: points.xs };
    return { ...common, nx: NX, ny: NY, xs: Float64Array.from({ length: NX }, (_, i) => points.xs[i * NY]) };
  }

  /** The density of the first coordinate at the grid's columns; every second row is enough for the sum. */
  function marginal({ logBase, logTarget, delta }, beta, logNormalizer) {
    const step = 4 * HIGH / (NY - 1), sums = new Float64Array(NX);
    for (let i = 0; i < NX; i++) {
      for (let k = i * NY; k < (i + 1) * NY; k += 2) {
        sums[i] += step * Math.exp(Model.interpolate(beta, logBase[k], logTarget[k], delta) - logNormalizer);
      }
    }
    return sums;
  }

  function ridgesOf(rowAt, { xs }) {
    const betas = Array.from({ length: 21 }, (_, i) => i / 20);
    return { betas, rows: betas.map(rowAt), xs };
  }

  const areas = {};
  /** Draw everything from the state. */
  function draw() {
    for (const key of kept.keys()) if (key.startsWith("density ")) kept.delete(key);
    const view = compute();
    Draw.measure();
    for (const name of ["density", "ridges", "length", "steps", "particles", "run"]) areas[name] = Pictures[name](view);
    Controls.show(state, view, areas.density);
  }

  let waiting = false;
  /** Change the state; the pictures follow in the next frame, once for all changes until then. */
  function update(change) {
    Object.assign(state, change);
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }

  const clamp = (value, [low, high]) => Math.min(Math.max(value, low), high);
  /** Change one endpoint, within the limits of the sliders. */
  function updateEnd(name, change) {
    const end = { ...state[name], ...change };
    end.scale = clamp(Math.round(end.scale * 20) / 20, LIMITS.scale);
    end.mean = end.mean.map((value, i) => clamp(Math.round(value * 20) / 20, i ? [-HIGH + 1, HIGH - 1] : LIMITS.mean));
    update({ [name]: end });
  }

  function start() {
    Controls.connect({ state, areas, update, updateEnd, PRESETS });
    Controls.restore(state);
    draw();
    new ResizeObserver(() => update({})).observe(byId("density"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update({}));
  }

  return { start, state, update, compute };
})();
