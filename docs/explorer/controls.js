// The controls of the explorer: sliders, buttons, handles in the pictures, and the address that holds the state.
"use strict";

const Controls = (() => {
  const byId = (id) => document.getElementById(id);
  const { short, percent } = Pictures;

  // The slider of q has most of its room near 1, where small changes matter.
  const BEND = 7, ABOVE = 0.5, TICKS = [0, 0.9, 0.99, 1, 1.01, 1.1, 1.5];
  const stretch = (share) => Math.expm1(BEND * share) / Math.expm1(BEND);
  const shrink = (delta) => Math.log1p(delta * Math.expm1(BEND)) / BEND;
  function qAt(position) {
    const delta = stretch(Math.abs(position) / 100);
    return Number((position < 0 ? 1 - delta : 1 + ABOVE * delta).toFixed(5));
  }
  const positionOf = (q) => 100 * (q < 1 ? -shrink(1 - q) : shrink((q - 1) / ABOVE));

  const NUMBERS = [
    { name: "mean", label: "Mean", index: 0, min: -8, max: 8, step: 0.05 },
    { name: "mean", label: "Mean, second coordinate", index: 1, min: -4, max: 4, step: 0.05, planar: true },
    { name: "scale", label: "Scale", min: 0.3, max: 4, step: 0.05 },
    { name: "df", label: "Degrees of freedom", min: 1, max: 30, step: 0.5, student: true },
    { name: "correlation", label: "Correlation", min: -0.9, max: 0.9, step: 0.05, planar: true },
  ];
  const fields = [], handles = [];

  /** Build the fields of an endpoint. */
  function endpointFields(fieldset, { state, updateEnd }) {
    const end = fieldset.dataset.end;
    fieldset.insertAdjacentHTML("beforeend", `<label>Kind <select id="${end}-kind">
      <option value="normal">normal</option><option value="student">Student-t</option></select></label>`);
    const kind = byId(`${end}-kind`);
    kind.addEventListener("change", () => updateEnd(end, { kind: kind.value }));
    fields.push({ row: null, show: () => { kind.value = state[end].kind; } });
    for (const { name, label, index, min, max, step, planar, student } of NUMBERS) {
      const id = `${end}-${name}${index ? "-second" : ""}`;
      fieldset.insertAdjacentHTML("beforeend", `<div class="control"><label for="${id}">${label}</label>
        <input type="range" id="${id}" min="${min}" max="${max}" step="${step}"><output for="${id}"></output></div>`);
      const input = byId(id), row = input.parentNode;
      input.addEventListener("input", () => {
        const value = Number(input.value);
        updateEnd(end, { [name]: index === undefined ? value : state[end].mean.map((old, i) => i === index ? value : old) });
      });
      fields.push({ show() {
        const value = index === undefined ? state[end][name] : state[end].mean[index];
        row.hidden = (planar && !state.planar) || (student && state[end].kind !== "student");
        input.value = value;
        row.lastElementChild.value = short(value);
      } });
    }
  }

  /** The handles of an endpoint in the picture of the density. */
  function endpointHandles(end, { state, areas, updateEnd }) {
    const svg = document.querySelector("#density svg"), fill = `style="fill:var(--${end})"`;
    const move = Draw.handle(svg, `Mean of the ${end}`, `<circle class="knob" r="9" ${fill}/>`, {
      drag: (x, y) => updateEnd(end, { mean: [areas.density.xAt(x), state.planar ? areas.density.yAt(y) : state[end].mean[1]] }),
      step: (dx, dy) => updateEnd(end, { mean: [state[end].mean[0] + dx / 10, state[end].mean[1] + (state.planar ? dy / 10 : 0)] }),
    });
    const widen = Draw.handle(svg, `Scale of the ${end}`, `<rect class="knob" x="-7" y="-7" width="14" height="14" ${fill}/>`, {
      drag: (x) => updateEnd(end, { scale: Math.abs(areas.density.xAt(x) - state[end].mean[0]) }),
      step: (dx, dy) => updateEnd(end, { scale: state[end].scale + (dx + dy) / 20 }),
    });
    svg.append(widen, move);
    const place = (handle, x, y, value) => {
      handle.setAttribute("transform", `translate(${Draw.round(x)} ${Draw.round(y)})`);
      handle.setAttribute("aria-valuenow", value);
      handle.setAttribute("aria-valuetext", short(value));
    };
    handles.push((area) => {
      const { mean, scale } = state[end], y = state.planar ? area.y(mean[1]) : area.bottom;
      place(move, area.x(mean[0]), y, mean[0]);
      place(widen, area.x(mean[0] + scale), y, scale);
    });
  }

  /** Play: beta runs from where it is to 1, or from 0 if it is there. */
  function player({ state, update }) {
    const button = byId("play");
    let last = null;
    const stop = () => {
      last = null;
      button.textContent = "Play";
      button.setAttribute("aria-pressed", "false");
    };
    const tick = (time) => {
      if (last === null) return;
      update({ beta: Math.min(1, state.beta + Math.min(time - last, 100) / 4000) });
      last = time;
      if (state.beta >= 1) stop();
      else requestAnimationFrame(tick);
    };
    button.addEventListener("click", () => {
      if (last !== null) return stop();
      if (state.beta >= 1) update({ beta: 0 });
      last = performance.now();
      button.textContent = "Pause";
      button.setAttribute("aria-pressed", "true");
      requestAnimationFrame(tick);
    });
    return stop;
  }

  /** Connect every control with the state. */
  function connect(explorer) {
    const { state, areas, update, PRESETS } = explorer, stop = player(explorer);
    const onInput = (id, change) => byId(id).addEventListener("input", (event) => update(change(event.target)));
    const setBeta = (value) => {
      stop();
      update({ beta: Math.min(Math.max(Math.round(value * 100) / 100, 0), 1) });
    };
    byId("beta").addEventListener("input", (event) => setBeta(Number(event.target.value)));
    onInput("q", ({ value }) => ({ q: qAt(Number(value)) }));
    byId("q-value").addEventListener("input", ({ target }) => {
      if (target.value !== "" && target.validity.valid) update({ q: Number(target.value) });
    });
    onInput("num", ({ value }) => ({ num: Number(value) }));
    onInput("moves", ({ value }) => ({ moves: Number(value) }));
    onInput("planar", ({ checked }) => ({ planar: checked }));
    byId("seed").addEventListener("click", () => update({ seed: state.seed + 1 }));
    for (const radio of document.getElementsByName("schedule")) {
      radio.addEventListener("change", () => update({ schedule: radio.value }));
    }
    for (const button of document.querySelectorAll("[data-preset]")) {
      button.addEventListener("click", () => update({ q: 1, ...structuredClone(PRESETS[button.dataset.preset]) }));
    }
    for (const fieldset of document.querySelectorAll("[data-end]")) endpointFields(fieldset, explorer);
    for (const end of ["base", "target"]) endpointHandles(end, explorer);
    const scrub = (name, betaAt) => {
      const svg = document.querySelector(`#${name} svg`);
      Draw.draggable(svg, svg, (x, y) => setBeta(betaAt(areas[name], x, y)));
    };
    scrub("ridges", (area, x, y) => area.yAt(y));
    for (const name of ["length", "steps", "run"]) scrub(name, (area, x) => area.xAt(x));
    byId("q-ticks").innerHTML = TICKS.map((q) => `<span style="left:${50 + positionOf(q) / 2}%">${q}</span>`).join("");
  }

  /** Show the state in the controls, the table, the verdict and the address. */
  function show(state, view, area) {
    const { q, beta, num, moves } = state;
    const set = (id, value) => { byId(id).value = value; };
    set("beta", beta);
    set("beta-value", beta.toFixed(2));
    set("q", positionOf(q));
    byId("q").setAttribute("aria-valuetext", `q = ${q}`);
    if (document.activeElement !== byId("q-value")) set("q-value", q);
    set("num", num);
    set("num-value", num);
    set("moves", moves);
    set("moves-value", moves);
    byId("planar").checked = state.planar;
    for (const radio of document.getElementsByName("schedule")) radio.checked = radio.value === state.schedule;
    for (const field of fields) field.show();
    for (const place of handles) place(area);
    showRun(q, view);
    byId("code").textContent = `QPath(${inPython(view.base)}, ${inPython(view.target)}, q=${q})`;
    remember(state);
  }

  function showRun(q, view) {
    const row = (name, { records, acceptance }) => {
      const { logWeights, ess } = records.at(-1), estimate = Sampler.logMeanWeight(logWeights);
      const share = Math.exp(Math.max(...logWeights) - estimate) / logWeights.length;
      return `<tr><th scope="row">${name}</th><td>${percent(ess)}</td><td>${percent(share)}</td>
        <td>${estimate.toFixed(2).replace("-", "−")}</td><td>${percent(acceptance)}</td></tr>`;
    };
    document.querySelector("#figures tbody").innerHTML =
      (q === 1 ? "" : row(`q = ${q}`, view.run)) + row("q = 1", view.reference.run);
    const { ess } = view.run.records.at(-1), num = view.run.records[0].xs.length;
    const [level, word, rest] = ess > 0.25
      ? ["good", "The weights hold.", "Most draws count."]
      : ess > 0.1
        ? ["open", "The weights are strained.", "More distributions, better steps or another q would help."]
        : ["bad", "The weights have collapsed.", "The estimate of log Z depends on a few draws."];
    const words = `<b class="${level}">${word}</b> ${num} draws are worth ${Math.max(1, Math.round(ess * num))} at the end. ${rest}`;
    if (byId("verdict").innerHTML !== words) byId("verdict").innerHTML = words;
  }

  function inPython({ kind, mean, scale, df, correlation }) {
    if (mean.length === 1) {
      return kind === "normal" ? `Normal(${short(mean[0])}, ${short(scale)})` : `StudentT(${short(df)}, ${short(mean[0])}, ${short(scale)})`;
    }
    const at = `jnp.array([${mean.map(short)}])`, square = scale * scale;
    const matrix = `jnp.array([[${[1, correlation].map((c) => short(c * square))}], [${[correlation, 1].map((c) => short(c * square))}]])`;
    return kind === "normal" ? `MultivariateNormal(${at}, ${matrix})` : `MultivariateStudentT(${short(df)}, ${at}, ${matrix})`;
  }

  /** Whether a value has the fields and kinds of another, with finite numbers. */
  function sameShape(value, model) {
    if (typeof model !== "object") return typeof value === typeof model && (typeof value !== "number" || Number.isFinite(value));
    return value !== null && typeof value === "object" && Object.keys(model).every((key) => sameShape(value[key], model[key]));
  }

  let timer = null;
  /** Put the state into the address, so that a link shows the same page; not while something is dragged. */
  function remember(state) {
    clearTimeout(timer);
    timer = setTimeout(() => history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(state))}`), 400);
  }

  /** Take the state from the address, where there is one. */
  function restore(state) {
    if (!location.hash.startsWith("#%7B")) return;
    try {
      const found = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      if (sameShape(found, state)) Object.assign(state, found);
    } catch {
      // A link that was cut short: the page starts as it always does.
    }
  }

  return { connect, show, restore, qAt, positionOf };
})();

Explorer.start();
