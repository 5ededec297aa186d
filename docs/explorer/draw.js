// What the pictures share: axes, lines, labels and handles, as text of SVG elements.
"use strict";

const Draw = (() => {
  const round = (value) => Math.round(value * 10) / 10;

  const widths = new WeakMap(), shade = { accent: [0, 0, 0] };
  /**
   * Look up the widths of all pictures and the color of shades, before the first picture is drawn.
   *
   * After it each question would make the browser lay out the page anew.
   */
  function measure() {
    for (const svg of document.querySelectorAll(".picture svg")) widths.set(svg, Math.max(svg.parentNode.clientWidth, 240));
    const hex = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
    shade.accent = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  }

  /** A frame for a picture: its size and the maps from numbers to pixels. */
  function frame(svg, { height, x, y, margin = [10, 14, 44, 44] }) {
    const width = widths.get(svg), box = `0 0 ${width} ${height}`;
    const [top, right, bottom, left] = margin;
    if (svg.getAttribute("viewBox") !== box) {
      svg.setAttribute("viewBox", box);
      svg.setAttribute("height", height);
    }
    const map = ([low, high], start, end) => (value) => start + (value - low) / (high - low) * (end - start);
    const back = ([low, high], start, end) => (pixel) => low + (pixel - start) / (end - start) * (high - low);
    return {
      svg, width, height, left, top, right: width - right, bottom: height - bottom,
      x: map(x, left, width - right), y: map(y, height - bottom, top),
      xAt: back(x, left, width - right), yAt: back(y, height - bottom, top),
    };
  }

  /** The horizontal axis with numbers and a name. */
  function bottomAxis(area, ticks, name, show = String) {
    const marks = ticks.map((tick) => {
      const at = round(area.x(tick));
      return `<path class="axis" d="M${at} ${area.bottom}v4"/>${text(at, area.bottom + 21, show(tick), "middle")}`;
    });
    const middle = (area.left + area.right) / 2;
    return `<path class="axis" d="M${area.left} ${area.bottom}H${area.right}"/>${marks.join("")}`
      + text(middle, area.bottom + 38, name, "middle");
  }

  /** The vertical axis with numbers and a name above it. */
  function leftAxis(area, ticks, name, show = String) {
    const marks = ticks.map((tick) => {
      const at = round(area.y(tick));
      return `<path class="axis" d="M${area.left} ${at}H${area.right}"/>${text(area.left - 7, at + 4, show(tick), "end")}`;
    });
    return marks.join("") + text(0, area.top - 8, name);
  }

  function text(x, y, words, anchor = "start", attributes = "") {
    return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}" ${attributes}>${words}</text>`;
  }

  /** The `d` of a line through points given in pixels. */
  function line(xs, ys) {
    let d = "";
    for (let i = 0; i < xs.length; i++) d += `${i ? "L" : "M"}${round(xs[i])} ${round(ys[i])}`;
    return d;
  }

  /** The color of a beta, between that of the base and that of the target. */
  function color(beta) {
    return `color-mix(in oklch, var(--base), var(--target) ${Math.round(100 * beta)}%)`;
  }

  /** Numbers at round steps that cover [0, high]. */
  function roundTicks(high, count = 4) {
    const raw = high / count, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
    return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(12)));
  }

  /** Call `move(x, y)` in pixels of the picture while a pointer drags `element`. */
  function draggable(element, svg, move) {
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      move(event.clientX - box.left, event.clientY - box.top);
    };
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.stopPropagation();
      element.setPointerCapture(event.pointerId);
      element.focus?.({ preventScroll: true });
      at(event);
    });
    element.addEventListener("pointermove", (event) => {
      if (element.hasPointerCapture(event.pointerId)) at(event);
    });
  }

  /** A knob that is dragged, or moved by the arrow keys: `step(dx, dy)` gets -1, 0 or 1. */
  function handle(svg, label, shape, { drag, step }) {
    const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
    group.setAttribute("class", "handle");
    group.setAttribute("tabindex", "0");
    group.setAttribute("role", "slider");
    group.setAttribute("aria-label", label);
    group.innerHTML = `<circle class="target-area" r="20"/>${shape}`;
    draggable(group, svg, drag);
    const keys = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    group.addEventListener("keydown", (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      step(...keys[event.key]);
    });
    return group;
  }

  return { measure, widths, shade, frame, bottomAxis, leftAxis, text, line, color, roundTicks, draggable, handle, round };
})();
