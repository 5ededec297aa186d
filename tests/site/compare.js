// The largest difference between the page's functions and the library's numbers, by quantity. Runs in Node and in a page.
"use strict";

function compare(Model, Sampler, numbers) {
  const worst = {};
  const note = (name, found, wanted, scale = Math.max(1, Math.abs(wanted))) => {
    const error = found === wanted ? 0 : Math.abs(found - wanted) / scale;
    worst[name] = Math.max(worst[name] ?? 0, Number.isNaN(error) ? Infinity : error);
  };
  const even = (num) => Array.from({ length: num }, (_, i) => i / (num - 1));

  for (const spec of numbers.cases) {
    const planar = spec.base.mean.length === 2;
    const ends = [spec.base, spec.target], names = ["log_base", "log_target"];
    ends.forEach((end, k) => {
      const density = Model.logDensity(end);
      spec.points.forEach((point, i) => note("endpoint", density(...point), spec[names[k]][i]));
    });
    const nodes = Model.nodesFor(...ends);
    const [logBase, logTarget] = ends.map((end) => Model.valuesAt(end, nodes));
    for (const wanted of spec.q) {
      const path = Model.pathOn(nodes, logBase, logTarget, wanted.q);
      const onPoints = Model.pathOn(
        { logWeights: new Float64Array(spec.points.length) }, Float64Array.from(spec.log_base),
        Float64Array.from(spec.log_target), wanted.q);
      numbers.betas.forEach((beta, k) => {
        onPoints.logAt(beta).forEach((value, i) => {
          const single = Model.interpolate(beta, spec.log_base[i], spec.log_target[i], 1 - wanted.q);
          note("log density", value, wanted.log_density[k][i]);
          note("log density", single, wanted.log_density[k][i]);
          if (beta > 0 && beta < 1) {
            note("derivative", Model.derivative(beta, spec.log_base[i], spec.log_target[i], 1 - wanted.q),
              wanted.derivative[k - 1][i]);
          }
        });
      });
      for (const [beta, [logNormalizer, mean, variance]] of Object.entries(wanted.moments)) {
        const found = path.moments(Number(beta)), kind = planar ? " in 2-D" : "";
        // Where the variance is infinite at an end, its size close to the end depends on the last of the nodes.
        const inside = beta > 0.01 && beta < 0.99;
        note("log normalizer" + kind, found.logNormalizer, logNormalizer);
        if (inside) note("mean" + kind, found.mean, mean);
        if (inside) note("variance" + kind, found.variance, variance);
      }
      Model.stepLengths(path, even(numbers.num_distributions)).forEach((length, i) =>
        note("share of a step" + (planar ? " in 2-D" : ""), Math.exp(-(length ** 2)), Math.exp(-(wanted.steps[i] ** 2))));
      note("length", Model.cumulativeLength(path).total, wanted.length, wanted.length);
      compareRun(wanted.run, spec, wanted.q);
    }
  }
  return worst;

  function compareRun(wanted, { base, target }, q) {
    const planar = base.mean.length === 2, column = (rows, k) => Float64Array.from(rows, (row) => row[k]);
    const steps = wanted.noise.flat().flatMap((row) => [row[0], row[1] ?? 0]);
    const { records } = Sampler.anneal({
      base, target, q, betas: even(wanted.noise.length + 1), moves: 1,
      points: { xs: column(wanted.start, 0), ys: planar ? column(wanted.start, 1) : null },
      random: { steps, logUniforms: wanted.uniform.flat().map(Math.log) },
    });
    const last = records.at(-1);
    wanted.positions.forEach((point, i) => {
      note("run: position", last.xs[i], point[0]);
      if (planar) note("run: position", last.ys[i], point[1]);
      note("run: log weight", last.logWeights[i], wanted.log_weights[i]);
    });
    note("run: effective share", last.ess, wanted.ess);
  }
}

if (typeof module !== "undefined") {
  const [, , folder] = process.argv, path = require("path"), file = (name) => path.resolve(folder, name);
  const numbers = require(file("numbers.json"));
  console.log(JSON.stringify(compare(require(file("model.js")), require(file("sampler.js")), numbers)));
}
