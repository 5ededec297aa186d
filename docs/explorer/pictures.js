// The pictures of the explorer: each function draws one figure from the numbers of a view (see `explorer.js`).
"use strict";

const Pictures = (() => {
  const { frame, bottomAxis, leftAxis, text, line, color, roundTicks, round } = Draw;
  const X_TICKS = [-8, -4, 0, 4, 8], SHARES = [0, 0.5, 1], percent = (share) => `${Math.round(100 * share)} %`;
  const svgOf = (id) => document.querySelector(`#${id} svg`);
  const short = (value) => Number(value.toPrecision(3)).toString();

  /** Replace what was drawn before, but not the handles. */
  function put(svg, content, label) {
    let group = svg.querySelector(".content");
    if (!group) {
      group = document.createElementNS("http://www.w3.org/2000/svg", "g");
      group.setAttribute("class", "content");
      svg.prepend(group);
    }
    group.innerHTML = content;
    svg.setAttribute("aria-label", label);
  }

  const nowLine = (area, beta) => `<path class="now" d="M${round(area.x(beta))} ${area.top}V${area.bottom}"/>`;

  function planeFrame(svg, view) {
    const width = Draw.widths.get(svg), margin = [24, 14, 44, 30];
    const height = Math.round((width - 44) * view.grid.high / view.grid.wide) + 68;
    return frame(svg, { height, margin, x: [-view.grid.wide, view.grid.wide], y: [-view.grid.high, view.grid.high] });
  }

  /** The density at beta; returns the frame, which places the handles. */
  function density(view) {
    const svg = svgOf("density"), { beta, q, planar } = view.state;
    const label = `Density at beta = ${short(beta)}, q = ${short(q)}, between base and target`;
    if (planar) {
      const area = planeFrame(svg, view);
      heatMap(svg, area, view);
      put(svg, planeAxes(area, view) + outline(area, view.base, "base") + outline(area, view.target, "target")
        + nameAt(area, view.base, "base") + nameAt(area, view.target, "target"), label);
      return area;
    }
    clearCanvas(svg);
    const { xs, base, target } = view.grid, now = view.densityAt(beta);
    const top = 1.12 * Math.max(largest(base), largest(target));
    const area = frame(svg, {
      height: 300, x: [-view.grid.wide, view.grid.wide], y: [0, top], margin: [18, 14, 44, 14],
    });
    const px = Array.from(xs, area.x), curve = (values) => line(px, Array.from(values, (v) => Math.max(area.y(v), -20)));
    const filled = `${curve(now)}L${area.right} ${area.bottom}L${area.left} ${area.bottom}Z`;
    const peak = now.indexOf(largest(now));
    put(svg, `<path d="${filled}" fill="var(--accent)" fill-opacity=".16"/><path class="path" d="${curve(now)}"/>`
      + `<path class="end" stroke="var(--base)" d="${curve(base)}"/><path class="end" stroke="var(--target)" d="${curve(target)}"/>`
      + peakName(area, view.grid, base, "base") + peakName(area, view.grid, target, "target")
      + (beta > 0.02 && beta < 0.98
        ? text(area.x(xs[peak]), (Math.max(area.y(now[peak]), 20) + area.bottom) / 2, `β = ${beta.toFixed(2)}`, "middle",
          'class="name halo" style="fill:var(--accent)"') : "")
      + bottomAxis(area, X_TICKS, "x"), label);
    return area;
  }

  const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

  function peakName(area, grid, values, name) {
    const at = values.indexOf(largest(values));
    return text(area.x(grid.xs[at]), area.y(values[at]) - 7, name, "middle", `class="name halo" style="fill:var(--${name})"`);
  }

  const planeAxes = (area, view) => bottomAxis(area, X_TICKS, "first coordinate")
    + [-4, 0, 4].map((tick) => text(area.left - 8, area.y(tick) + 4, tick, "end")).join("") + text(0, 12, "second coordinate");

  /** The ellipses at one and two scales from the center of an endpoint. */
  function outline(area, { mean, scale, correlation }, name) {
    const unit = area.x(1) - area.x(0), [major, minor] = [1 + correlation, 1 - correlation].map(Math.sqrt);
    return [1, 2].map((k) => `<ellipse class="end" stroke="var(--${name})" rx="${round(k * scale * major * unit)}"
      ry="${round(k * scale * minor * unit)}"
      transform="translate(${round(area.x(mean[0]))} ${round(area.y(mean[1]))}) rotate(-45)"/>`).join("");
  }

  const nameAt = (area, end, name) => text(area.x(end.mean[0]), area.y(end.mean[1]) + 26, name, "middle",
    `class="name halo" style="fill:var(--${name})"`);

  function clearCanvas(svg) {
    const canvas = svg.parentNode.querySelector("canvas");
    if (canvas.width > 1) canvas.width = canvas.height = 1;
    canvas.style.width = canvas.style.height = "0";
  }

  /** The density of two coordinates as shades of one color. */
  function heatMap(svg, area, view) {
    const canvas = svg.parentNode.querySelector("canvas"), { nx, ny } = view.grid;
    const values = view.densityAt(view.state.beta), top = largest(values);
    const [r, g, b] = Draw.shade.accent, image = new ImageData(nx, ny);
    const pixels = new Uint32Array(image.data.buffer), color = (b << 16) | (g << 8) | r; // as bytes: r, g, b, opacity
    for (let i = 0; i < nx; i++) {
      for (let j = 0; j < ny; j++) {
        pixels[(ny - 1 - j) * nx + i] = (Math.round(215 * Math.sqrt(values[i * ny + j] / top)) << 24) | color;
      }
    }
    if (canvas.width !== nx || canvas.height !== ny) Object.assign(canvas, { width: nx, height: ny });
    canvas.getContext("2d").putImageData(image, 0, 0);
    Object.assign(canvas.style, {
      left: `${area.left}px`, top: `${area.top}px`, width: `${area.right - area.left}px`, height: `${area.bottom - area.top}px`,
    });
  }

  /** The densities along the path, one above the other. */
  function ridges(view) {
    const svg = svgOf("ridges"), { beta, q, planar } = view.state, { betas, rows, xs } = view.ridges;
    const wide = view.grid.wide, margin = [96, 14, 44, 44];
    const area = frame(svg, { height: 430, x: [-wide, wide], y: [0, 1], margin });
    const top = largest(rows.map(largest)), px = Array.from(xs, area.x);
    const scale = Math.min(110 / top, 75 / largest([rows[0], rows.at(-1)].map(largest)));
    const curve = (values, at) => line(px, Array.from(values, (v) => area.y(at) - scale * v));
    const hills = betas.map((at, i) => `<path d="${curve(rows[i], at)}" fill="${color(at)}" fill-opacity=".8"
      stroke="var(--page)" stroke-width="1"/>`).reverse();
    const here = planar ? view.marginalAt(beta) : view.densityAt(beta);
    put(svg, hills.join("")
      + `<path class="axis" d="M${area.left} ${round(area.y(beta))}H${area.right}"/>`
      + `<path d="${visible(px, here, (v) => area.y(beta) - scale * v)}" fill="none" stroke="var(--ink)" stroke-width="2"/>`
      + SHARES.map((at) => text(area.left - 8, area.y(at) + 4, at, "end")).join("")
      + text(4, area.y(0.75) + 4, "β", "start", 'class="name"')
      + text(area.right, area.y(beta) - 6, `β = ${beta.toFixed(2)}`, "end", 'class="name halo" style="fill:var(--ink)"')
      + bottomAxis(area, X_TICKS, planar ? "first coordinate (the other is integrated out)" : "x"),
    `Densities along the path for q = ${short(q)}, from the base at the bottom to the target at the top`);
    return area;
  }

  /** The line of a density where it can be told from zero. */
  function visible(px, values, py) {
    const least = 0.003 * largest(values), from = values.findIndex((v) => v > least), to = values.findLastIndex((v) => v > least);
    return line(px.slice(from, to + 1), Array.from(values.slice(from, to + 1), py));
  }

  /** Length from the base up to beta. */
  function length(view) {
    const { beta, q } = view.state, { cumulative, reference } = view;
    const high = Math.max(1.08 * cumulative.total, 1.08 * reference.cumulative.total, 0.1);
    const area = frame(svgOf("length"), { height: 250, x: [0, 1], y: [0, high], margin: [28, 24, 44, 36] });
    const curve = ({ betas, lengths }) => line(betas.map(area.x), lengths.map(area.y));
    put(area.svg, leftAxis(area, roundTicks(high), "length")
      + `<path class="reference" d="${curve(reference.cumulative)}"/><path class="path" d="${curve(cumulative)}"/>`
      + view.betas.map((at) => `<path d="M${round(area.x(at))} ${area.bottom}v-7" stroke="var(--accent)"/>`).join("")
      + (q === 1 ? "" : text(area.right, area.y(reference.cumulative.total) - 6, "q = 1", "end", 'class="halo"'))
      + nowLine(area, beta) + bottomAxis(area, SHARES, "β; marks: the steps"),
    `Length of the path up to beta: ${cumulative.total.toFixed(2)} in all, ${reference.cumulative.total.toFixed(2)} for q = 1`);
    document.getElementById("length-note").textContent =
      `In all ${cumulative.total.toFixed(2)}${q === 1 ? "" : `, and ${reference.cumulative.total.toFixed(2)} for q = 1`}.`;
    return area;
  }

  /** The effective sample size of each step. */
  function steps(view) {
    const { beta } = view.state, { betas, shares } = view;
    const area = frame(svgOf("steps"), { height: 250, x: [0, 1], y: [0, 1], margin: [28, 24, 44, 46] });
    const current = stepOf(betas, beta), worst = shares.indexOf(Math.min(...shares));
    const bars = shares.map((share, i) => {
      const [x0, x1] = [area.x(betas[i]), area.x(betas[i + 1])], gap = Math.min(1, (x1 - x0) / 4);
      return `<rect x="${round(x0 + gap / 2)}" y="${round(area.y(share))}" width="${round(x1 - x0 - gap)}"
        height="${round(Math.max(area.bottom - area.y(share), 1.5))}" fill="var(--accent)" fill-opacity="${i === current ? 1 : 0.4}"/>`;
    });
    put(area.svg, leftAxis(area, SHARES, "share that is left", percent) + bars.join("") + nowLine(area, beta)
      + bottomAxis(area, SHARES, "β"), `Effective sample size of each step; the smallest is ${percent(shares[worst])}`);
    document.getElementById("steps-note").textContent = `The step at β = ${beta.toFixed(2)} leaves `
      + `${percent(shares[current])}; the hardest, from β = ${short(betas[worst])}, leaves ${percent(shares[worst])}.`;
    return area;
  }

  const stepOf = (betas, beta) => Math.max(betas.findIndex((next, i) => i > 0 && beta <= next) - 1, 0);

  /** The draws at beta, with areas that are their weights. */
  function particles(view) {
    const svg = svgOf("particles"), { planar } = view.state;
    const record = recordAt(view.run.records, view.state.beta), num = record.xs.length;
    const most = largest(record.logWeights);
    const weights = record.logWeights.map((value) => Math.exp(value - most));
    const total = weights.reduce((a, b) => a + b, 0), unit = planar ? 2.2 : 2.4;
    let area, behind;
    if (planar) {
      area = planeFrame(svg, view);
      heatMap(svg, area, { ...view, state: { ...view.state, beta: record.beta } });
      behind = planeAxes(area, view);
    } else {
      clearCanvas(svg);
      const values = view.densityAt(record.beta), top = 1.1 * largest(values);
      area = frame(svg, { height: 250, x: [-view.grid.wide, view.grid.wide], y: [0, top], margin: [28, 14, 44, 14] });
      const d = line(Array.from(view.grid.xs, area.x), Array.from(values, area.y));
      behind = `<path d="${d}L${area.right} ${area.bottom}L${area.left} ${area.bottom}Z" fill="var(--accent)" fill-opacity=".14"/>`
        + bottomAxis(area, X_TICKS, "x");
    }
    const inside = (value, low, high) => Math.min(Math.max(value, low), high), tall = area.bottom - area.top;
    let dots = "";
    for (let i = 0; i < num; i++) {
      const x = inside(area.x(record.xs[i]), area.left, area.right);
      // In one dimension the height means nothing: it spreads the dots.
      const y = planar ? inside(area.y(record.ys[i]), area.top, area.bottom) : area.top + tall * ((i * 0.618034) % 1);
      dots += `<circle cx="${round(x)}" cy="${round(y)}" r="${(Math.max(unit * Math.sqrt(num * weights[i] / total), 0.4)).toFixed(2)}"/>`;
    }
    const fill = color(record.beta);
    put(svg, `${behind}<g fill="${fill}" fill-opacity=".5" stroke="${fill}" stroke-width=".6">${dots}</g>`
      + text(area.left, planar ? area.top + 14 : 14, `β = ${record.beta.toFixed(2)}, effective sample size ${percent(record.ess)}`,
        "start", 'class="name halo" style="fill:var(--ink)"'),
    `The draws at beta = ${record.beta.toFixed(2)}: effective sample size ${percent(record.ess)}`);
    return area;
  }

  const recordAt = (records, beta) => records.reduce((best, one) =>
    Math.abs(one.beta - beta) < Math.abs(best.beta - beta) ? one : best);

  /** Effective sample size along the run, and along that of q = 1. */
  function run(view) {
    const area = frame(svgOf("run"), { height: 250, x: [0, 1], y: [0, 1], margin: [28, 24, 44, 46] });
    const curve = ({ records }) => line(records.map((one) => area.x(one.beta)), records.map((one) => area.y(one.ess)));
    const end = view.run.records.at(-1).ess, other = view.reference.run.records.at(-1).ess;
    put(area.svg, leftAxis(area, SHARES, "effective sample size", percent)
      + `<path class="reference" d="${curve(view.reference.run)}"/><path class="path" d="${curve(view.run)}"/>`
      + nowLine(area, view.state.beta) + bottomAxis(area, SHARES, "β"),
    `Effective sample size along the run: it ends at ${percent(end)}, and with q = 1 at ${percent(other)}`);
    return area;
  }

  return { density, ridges, length, steps, particles, run, short, percent };
})();
