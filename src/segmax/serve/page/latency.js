// Times of the last searches of two settings, drawn as they come.

import {dotPath, heights, onWidth, verticalAxis} from "./charts.js";
import {h, s} from "./dom.js";
import {duration, plural} from "./format.js";

const MOST = 100;
const HEIGHT = 170;
const MARGIN = {top: 10, right: 8, bottom: 8, left: 58};

export const MEASURES = {
  core: "in the core",
  service: "in the service",
  trip: "seen by this page",
};

export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : NaN;
}

/** A chart of the last hundred searches of A and B. */
export class LatencyChart {
  #samples = {a: [], b: []};
  #measure = "core";
  #width = 0;

  constructor() {
    this.drawing = s("svg", {class: "latency", height: HEIGHT, role: "img"});
    this.frame = h("div", {class: "frame"}, this.drawing);
    this.summary = h("p", {class: "medians"});
    const choice = ([measure, label]) => h("option", {value: measure}, label);
    const select = h(
      "select",
      {
        id: "measure",
        onchange: (event) => {
          this.#measure = event.target.value;
          this.draw();
        },
      },
      Object.entries(MEASURES).map(choice),
    );
    this.controls = h("div", {class: "chart-controls"}, h("label", {for: "measure"}, "Time"), select);
    this.element = h("div", {class: "latency-chart"}, this.controls, this.frame, this.summary);
    onWidth(this.frame, (width) => {
      this.#width = width;
      this.draw();
    });
  }

  /** Add the times of a search of "a" or "b", by measure. */
  add(side, times) {
    this.#samples[side] = [...this.#samples[side], times].slice(-MOST);
    this.draw();
  }

  clear() {
    this.#samples = {a: [], b: []};
    this.draw();
  }

  draw() {
    const times = (side) =>
      this.#samples[side].map((sample) => sample[this.#measure]).filter((time) => Number.isFinite(time));
    const [a, b] = [times("a"), times("b")];
    const figure = (label, kind, values) =>
      h(
        "span",
        {class: kind},
        h("b", {}, label),
        ` median ${duration(quantile(values, 0.5))}, 95th percentile ${duration(quantile(values, 0.95))}`,
        ` of ${plural(values.length, "search", "searches")}`,
      );
    this.summary.replaceChildren(figure("A", "side-a", a), figure("B", "side-b", b));
    this.drawing.setAttribute(
      "aria-label",
      `Times of the last searches ${MEASURES[this.#measure]}. ` +
        `A: median ${duration(quantile(a, 0.5))}. B: median ${duration(quantile(b, 0.5))}.`,
    );
    if (!this.#width) return;
    const most = 1.1 * Math.max(...a, ...b, 0) || 1;
    const bottom = HEIGHT - MARGIN.bottom;
    const y = heights(most, MARGIN.top, bottom);
    const right = this.#width - MARGIN.right;
    const step = (right - MARGIN.left) / MOST;
    const dots = (values) =>
      values.map((time, at) => dotPath(right - (values.length - at - 0.5) * step, y(time), 2.6)).join("");
    const middle = (values, kind) =>
      values.length
        ? [
            s("line", {
              class: `median ${kind}`,
              x1: MARGIN.left,
              x2: right,
              y1: y(quantile(values, 0.5)),
              y2: y(quantile(values, 0.5)),
            }),
          ]
        : [];
    this.drawing.setAttribute("width", this.#width);
    this.drawing.setAttribute("viewBox", `0 0 ${this.#width} ${HEIGHT}`);
    this.drawing.replaceChildren(
      verticalAxis(most, y, MARGIN.left, right, (time) => (time ? duration(time) : "0")),
      ...middle(a, "side-a"),
      ...middle(b, "side-b"),
      s("path", {class: "side-a", d: dots(a)}),
      s("path", {class: "side-b", d: dots(b)}),
    );
  }
}
