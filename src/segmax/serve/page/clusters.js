// The picture of clusters: bounds as bars, θ as a line, colored by what the search decided. From 1 to 20,000 clusters.

import {barPath, dotPath, heights, verticalAxis} from "./charts.js";
import {h, s} from "./dom.js";
import {count, plural, short} from "./format.js";

export const DECISIONS = {
  visited: "looked into",
  tied: "bound equals θ, and ties come later",
  limited: "left out by a limit",
  pruned: "MaxSBound ≤ θ/μ and AvgSBound ≤ θ/η",
  stopped: "not reached: its bounds were too low by then",
  zero: "has no term of the query",
};

const HEIGHT = 360;
const MARGIN = {top: 26, right: 10, bottom: 40, left: 46};
const LABEL = {width: 92, height: 18};
const LEAST_BAR = 2.5; // pixels; more clusters than fit share bars

/** Clusters that share a bar, as one: the largest of each figure, and the decision that let the search see most. */
function merged(clusters) {
  const largest = (part) => Math.max(...clusters.map((cluster) => cluster[part]));
  const decided = new Set(clusters.map((cluster) => cluster.decision));
  return {
    first: clusters[0],
    bound_sum: largest("bound_sum"),
    max_bound: largest("max_bound"),
    avg_bound: largest("avg_bound"),
    best_score: largest("best_score"),
    num_hits: clusters.reduce((sum, cluster) => sum + cluster.num_hits, 0),
    decision: Object.keys(DECISIONS).find((decision) => decided.has(decision)) ?? "stopped",
  };
}

/** What there is to say about one cluster. */
export function described(cluster, rank, total) {
  const theta = cluster.threshold === null ? "" : `, θ at that time ${short(cluster.threshold)}`;
  const hits = cluster.num_hits ? `, ${plural(cluster.num_hits, "result")} in it` : "";
  return (
    `Cluster ${cluster.cluster}, number ${count(rank)} of ${count(total)}, ${plural(cluster.num_docs, "document")}: ` +
    `${cluster.decision} (${DECISIONS[cluster.decision] ?? ""})${theta}. BoundSum ${short(cluster.bound_sum)}, ` +
    `MaxSBound ${short(cluster.max_bound)}, AvgSBound ${short(cluster.avg_bound)}, ` +
    `best score ${short(cluster.best_score)}${hits}.`
  );
}

/** A drawing that can be explored with a pointer or the arrow keys. `choose` receives a cluster's place, or -1. */
export class ClusterChart {
  #clusters = [];
  #lines = [];
  #width = 0;
  #at = -1;
  #perBar = 1;

  constructor(choose) {
    this.choose = choose;
    this.drawing = s("svg", {class: "clusters", height: HEIGHT, "aria-hidden": "true"});
    this.element = h(
      "div",
      {
        class: "chart",
        tabindex: "0",
        role: "slider",
        "aria-label": "Clusters, the highest bound first",
        "aria-valuemin": "1",
        "aria-valuemax": "1",
        "aria-valuenow": "1",
        "aria-valuetext": "no cluster chosen",
        onpointermove: (event) => this.#point(event),
        onpointerdown: (event) => this.#point(event),
        onkeydown: (event) => this.#key(event),
      },
      this.drawing,
    );
  }

  /** Show clusters and lines, `{label, value, kind}` each. */
  show(clusters, total, lines) {
    this.#clusters = clusters;
    this.#lines = lines;
    this.total = total;
    this.element.setAttribute("aria-valuemax", Math.max(1, clusters.length));
    this.#at = -1;
    this.draw(this.#width);
  }

  get #right() {
    return this.#width - MARGIN.right;
  }

  draw(width) {
    this.#width = width;
    if (!width) return;
    const clusters = this.#clusters;
    const room = this.#right - MARGIN.left;
    this.#perBar = Math.max(1, Math.ceil(clusters.length / Math.floor(room / LEAST_BAR)));
    const bars = [];
    for (let at = 0; at < clusters.length; at += this.#perBar) bars.push(merged(clusters.slice(at, at + this.#perBar)));
    const most = 1.03 * Math.max(...bars.map((bar) => bar.bound_sum), ...this.#lines.map((line) => line.value), 0) || 1;
    const bottom = HEIGHT - MARGIN.bottom;
    const y = heights(most, MARGIN.top, bottom);
    this.drawing.setAttribute("width", width);
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.cursor = s("rect", {class: "cursor", y: MARGIN.top - 6, height: bottom - MARGIN.top + 12});
    this.drawing.replaceChildren(
      verticalAxis(most, y, MARGIN.left, this.#right),
      this.cursor,
      ...this.#bars(bars, y, bottom),
      ...this.#thetas(y),
      s("text", {class: "label", x: MARGIN.left, y: HEIGHT - 6}, "highest bound"),
      s("text", {class: "label", x: this.#right, y: HEIGHT - 6, "text-anchor": "end"}, "lowest bound →"),
    );
    this.#moveCursor();
  }

  #bars(bars, y, bottom) {
    const step = Math.min(48, (this.#right - MARGIN.left) / Math.max(1, bars.length));
    this.step = step;
    const gap = step > 5 ? Math.min(6, step / 5) : 0;
    const inset = step > 8 ? step / 6 : 0;
    const paths = {sum: "", avg: "", best: "", hits: ""};
    const byDecision = {};
    bars.forEach((bar, at) => {
      const [left, right] = [MARGIN.left + at * step + gap / 2, MARGIN.left + (at + 1) * step - gap / 2];
      const middle = (left + right) / 2;
      paths.sum += barPath(left, right, y(bar.bound_sum), bottom);
      byDecision[bar.decision] =
        (byDecision[bar.decision] ?? "") + barPath(left + inset, right - inset, y(bar.max_bound), bottom);
      if (bar.avg_bound > 0) paths.avg += `M${left + inset} ${y(bar.avg_bound)}H${right - inset}`;
      if (bar.best_score > 0) paths.best += dotPath(middle, y(bar.best_score), step > 8 ? 3 : step > 4 ? 2 : 1.2);
      if (bar.num_hits) paths.hits += `M${middle} ${bottom + 4}l-4.5 8h9z`;
    });
    return [
      s("path", {class: "sum", d: paths.sum}),
      ...Object.entries(byDecision).map(([decision, d]) => s("path", {class: `max ${decision}`, d})),
      s("path", {class: "avg", d: paths.avg}),
      s("path", {class: "best", d: paths.best}),
      s("path", {class: "at-hits", d: paths.hits}),
    ];
  }

  #thetas(y) {
    let [last, shift] = [Infinity, 0]; // a label that would lie on the one below it moves to the left of it
    const sorted = [...this.#lines].sort((a, b) => a.value - b.value);
    const line = ({value, kind}) =>
      s("line", {class: `theta ${kind}`, x1: MARGIN.left, x2: this.#right, y1: y(value), y2: y(value)});
    const text = ({label, value, kind}) => {
      const height = y(value);
      shift = last - height < LABEL.height ? shift + LABEL.width : 0;
      last = height;
      return s(
        "text",
        {class: `theta ${kind}`, x: this.#right - 4 - shift, y: height - 5, "text-anchor": "end"},
        `${label} = ${short(value)}`,
      );
    };
    return [...sorted.map(line), ...sorted.map(text)];
  }

  #moveCursor() {
    if (!this.cursor) return;
    const bar = Math.floor(this.#at / this.#perBar);
    this.cursor.setAttribute("visibility", this.#at < 0 ? "hidden" : "visible");
    this.cursor.setAttribute("x", MARGIN.left + Math.max(0, bar) * this.step);
    this.cursor.setAttribute("width", Math.max(2, this.step));
  }

  #set(at) {
    if (at === this.#at || !this.#clusters.length) return;
    this.#at = at;
    this.#moveCursor();
    this.element.setAttribute("aria-valuenow", at + 1);
    this.element.setAttribute("aria-valuetext", described(this.#clusters[at], at + 1, this.total));
    this.choose(at);
  }

  #point(event) {
    const x = event.clientX - this.drawing.getBoundingClientRect().left - MARGIN.left;
    const at = Math.floor((x / this.step) * this.#perBar);
    if (at >= 0 && at < this.#clusters.length) this.#set(at);
  }

  #key(event) {
    const steps = {
      ArrowLeft: -1,
      ArrowDown: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      PageUp: 10,
      PageDown: -10,
      Home: -Infinity,
      End: Infinity,
    };
    const step = steps[event.key];
    if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const far = Math.abs(step) === 10 ? step * this.#perBar : step;
    const next = this.#at < 0 && Number.isFinite(step) ? 0 : Math.max(0, this.#at) + far;
    this.#set(Math.min(this.#clusters.length - 1, Math.max(0, next)));
  }
}
