// The view from inside: what one search decided about every cluster.

import {Latest, at, call, json} from "./api.js";
import {onWidth} from "./charts.js";
import {ClusterChart, DECISIONS} from "./clusters.js";
import {bar, h} from "./dom.js";
import {count, duration, percent, plural, short} from "./format.js";
import {insideRequest} from "./requests.js";
import {describe, methodOf, settingsForm} from "./settings.js";
import {name} from "./text.js";
import {thresholds} from "./why.js";

const ROWS = 50; // of the table at first
const FIRST = [30, 100, 500, 2000];

const IDEA = [
  "Similar documents share a cluster, and for every cluster the index knows bounds that no score inside exceeds. " +
    "BoundSum adds up the largest weight that each term of the query has in the cluster. MaxSBound does the same within " +
    "each of a few random segments of the cluster and takes the largest, so it is lower and closer to the best real score.",
  "Once k documents have been found, θ is the score of the worst of them. What stays below θ cannot be a result, so the " +
    "search never looks at it.",
];

const PRESETS = [
  ["as it runs", {}],
  ["η = 0.8", {eta: 0.8}],
  ["cluster by cluster", {method: "sequential"}],
  ["cluster by cluster, μ = 0.7", {method: "sequential", mu: 0.7}],
  ["Anytime Ranking", {method: "anytime"}],
];

function tile(label, value, of, title) {
  const share = of > 0 ? value / of : NaN;
  return h(
    "div",
    {class: "tile", title},
    h("dt", {}, label),
    h(
      "dd",
      {},
      h("b", {}, count(value)),
      of === undefined ? null : h("span", {}, ` of ${count(of)}, ${percent(share)}`),
    ),
    of === undefined ? null : bar(share),
  );
}

export class InsideView {
  #latest = new Latest();
  #asked = "";
  #answer = null;
  #first = 0; // how many clusters the picture shows

  constructor(app) {
    this.app = app;
    this.tiles = h("dl", {class: "tiles"});
    this.notes = h("div");
    this.legend = h("ul", {class: "legend", "aria-label": "Legend"});
    this.readout = h("div", {class: "readout"});
    this.chart = new ClusterChart((number) => this.#read(number));
    this.zoom = h("div", {class: "zoom"});
    this.table = h(
      "details",
      {class: "as-table", ontoggle: () => this.#drawTable(ROWS)},
      h("summary", {}, "The same as a table"),
    );
    this.settings = h("details", {class: "card"});
    this.presets = h("p", {class: "presets"});
    this.picture = h(
      "div",
      {class: "picture"},
      this.notes,
      this.zoom,
      this.chart.element,
      this.legend,
      this.readout,
      this.table,
    );
    this.empty = h("p", {class: "empty"}, "Type a query to see what the search does with it.");
    this.status = h("p", {class: "hidden", role: "status"});
    const idea = h(
      "div",
      {class: "idea"},
      IDEA.map((text) => h("p", {}, text)),
      this.settings,
    );
    this.element = h(
      "section",
      {class: "inside-view", "aria-label": "Inside a search"},
      h("h1", {}, "Inside this search"),
      this.presets,
      this.status,
      this.empty,
      this.tiles,
      h("div", {class: "beside"}, this.picture, idea),
    );
    onWidth(this.chart.element, (width) => this.chart.draw(width));
  }

  reset() {
    this.#asked = "";
  }

  leave() {
    this.#latest.stop();
    this.#asked = "";
  }

  update() {
    const {app} = this;
    const {state, info} = app;
    this.#drawSettings();
    let request = null;
    this.empty.textContent = "Type a query to see what the search does with it.";
    try {
      request = insideRequest(state, info);
    } catch (error) {
      this.empty.textContent = error.message;
    }
    const asked = json([info.name, info.version, request]);
    if (asked === this.#asked) return void (this.#first !== state.first && this.#drawPicture());
    this.#asked = asked;
    if (request) this.#load(request, info);
    else this.#show(null);
  }

  async #load(request, info) {
    const {app} = this;
    try {
      const answer = await this.#latest.run((signal) =>
        app.busy(call(at(info.name, "inside"), {body: request, signal})),
      );
      if (answer === undefined) return;
      app.succeed();
      this.#show(answer);
    } catch (error) {
      this.#asked = "";
      app.fail(error, () => this.update());
    }
  }

  #show(answer) {
    this.#answer = answer;
    this.empty.hidden = answer !== null;
    for (const part of [this.tiles, this.picture]) part.hidden = answer === null;
    if (answer === null) return;
    const {state, info} = this.app;
    const {stats, clusters} = answer;
    const scored = Math.min(stats.docs_scored, answer.num_docs); // the core counts places of blocks, some are empty
    this.tiles.replaceChildren(
      tile(
        "Blocks looked at",
        stats.blocks_scored,
        answer.num_blocks,
        "Blocks of eight documents that were scored, of all",
      ),
      tile(
        "Documents scored",
        scored,
        answer.num_docs,
        "Of all that were searched, deleted ones that are still there among them",
      ),
      tile("Postings read", stats.postings_read, info.num_postings, "Weights of terms in documents"),
      h(
        "div",
        {class: "tile"},
        h("dt", {}, "Time"),
        h("dd", {}, h("b", {}, duration(stats.elapsed_ns / 1e6)), h("span", {}, ` ${describe(state.settings)}`)),
      ),
    );
    this.notes.replaceChildren(...this.#remarks(answer).map((text) => h("p", {class: "remark"}, text)));
    const visited = `${plural(stats.clusters_visited, "cluster")} of ${count(answer.num_clusters)} visited`;
    this.status.textContent = `${visited}, ${plural(scored, "document")} scored`;
    this.#drawLegend(clusters);
    this.#drawPicture();
  }

  /** Draw as many clusters as the state asks for. */
  #drawPicture() {
    const {state} = this.app;
    this.#first = state.first;
    if (!this.#answer) return;
    const {clusters, num_clusters: total, final_threshold: theta} = this.#answer;
    this.#drawZoom(clusters.length);
    this.chart.show(this.#seen(clusters), total, theta > 0 ? thresholds(theta, state.settings) : []);
    this.#read(-1);
    this.table.open = false;
  }

  #seen(clusters) {
    const {first} = this.app.state;
    return first > 0 ? clusters.slice(0, first) : clusters;
  }

  #remarks(answer) {
    const {state, info} = this.app;
    const found = [];
    if (answer.stats.swept)
      found.push(
        "This search would have looked at nearly everything, so it added up every posting of the query's terms " +
          "instead, which is faster: it swept. Search cluster by cluster to see bounds at work.",
      );
    else if (methodOf(state.settings) === "asc" && answer.stats.clusters_visited)
      found.push(
        "This method goes by blocks of eight documents, the best bound first. A cluster counts as visited once one of " +
          "its blocks was looked at.",
      );
    if (answer.final_threshold === 0)
      found.push("Fewer documents than asked for have a score, so there is no θ that others would have to reach.");
    if (answer.part !== null && info.kind === "collection")
      found.push(["This is about ", h("b", {}, name(answer.part)), ", one part of the collection."]);
    if (answer.clusters.length < answer.num_clusters)
      found.push(
        `These are the ${count(answer.clusters.length)} clusters with the highest bounds, ` +
          `of ${count(answer.num_clusters)}.`,
      );
    if (Object.keys(state.filters).length) found.push("The picture is of a search without filters.");
    if (methodOf(state.settings) === "target")
      found.push("The picture is of exact search: it does not know a target recall.");
    return found;
  }

  #drawLegend(clusters) {
    const number = (decision) => clusters.filter((cluster) => cluster.decision === decision).length;
    const decided = Object.entries(DECISIONS)
      .filter(([decision]) => number(decision))
      .map(([decision, meaning]) =>
        h(
          "li",
          {title: meaning},
          h("i", {class: `swatch max ${decision}`, "aria-hidden": "true"}),
          h("b", {}, decision),
          ` ${count(number(decision))}`,
          h("span", {class: "quiet"}, ` ${meaning}`),
        ),
      );
    const sign = (kind, label) => h("li", {}, h("i", {class: `swatch ${kind}`, "aria-hidden": "true"}), label);
    this.legend.replaceChildren(
      sign("sum", "BoundSum"),
      sign("max-any", "MaxSBound, colored by decision:"),
      ...decided,
      sign("avg", "AvgSBound"),
      sign("best", "best real score"),
      sign("at-hits", "has results"),
    );
  }

  #drawZoom(number) {
    const {app} = this;
    const choices = [...FIRST.filter((first) => first < number), 0];
    const link = (first) =>
      h(
        "a",
        {href: app.href({first}), "aria-current": first === app.state.first ? "true" : null},
        first ? `first ${count(first)}` : `all ${count(number)}`,
      );
    this.zoom.replaceChildren(...(choices.length > 1 ? ["Clusters: ", ...choices.map(link)] : []));
  }

  #read(number) {
    const answer = this.#answer;
    const cluster = answer?.clusters[number];
    if (!cluster) {
      this.readout.replaceChildren(
        h("p", {class: "quiet"}, "Point at a cluster, or use the arrow keys in the picture, to see its figures."),
      );
      return;
    }
    const figure = (label, value) => h("div", {}, h("dt", {}, label), h("dd", {}, value));
    this.readout.replaceChildren(
      h(
        "p",
        {},
        h("i", {class: `swatch max ${cluster.decision}`, "aria-hidden": "true"}),
        h("strong", {}, `Cluster ${cluster.cluster}`),
        `, number ${count(number + 1)} by bound, ${plural(cluster.num_docs, "document")}: `,
        `${cluster.decision}, ${DECISIONS[cluster.decision]}`,
      ),
      h(
        "dl",
        {},
        figure("BoundSum", short(cluster.bound_sum)),
        figure("MaxSBound", short(cluster.max_bound)),
        figure("AvgSBound", short(cluster.avg_bound)),
        figure("best score", short(cluster.best_score)),
        figure("θ then", cluster.threshold === null ? "–" : short(cluster.threshold)),
        figure("results", count(cluster.num_hits)),
      ),
    );
  }

  #drawTable(number) {
    if (!this.table.open || !this.#answer) return;
    const clusters = this.#seen(this.#answer.clusters);
    const heads = [
      "Cluster",
      "Documents",
      "BoundSum",
      "MaxSBound",
      "AvgSBound",
      "Best score",
      "θ then",
      "Decision",
      "Results",
    ];
    const cells = (c) => [
      c.cluster,
      count(c.num_docs),
      short(c.bound_sum),
      short(c.max_bound),
      short(c.avg_bound),
      short(c.best_score),
      c.threshold === null ? "–" : short(c.threshold),
      c.decision,
      c.num_hits,
    ];
    const rows = clusters.slice(0, number).map((cluster) =>
      h(
        "tr",
        {},
        cells(cluster).map((cell) => h("td", {}, String(cell))),
      ),
    );
    const more =
      clusters.length > number
        ? h(
            "button",
            {type: "button", class: "more", onclick: () => this.#drawTable(10 * number)},
            `Show more of ${count(clusters.length)}`,
          )
        : null;
    const scroller = h(
      "div",
      {class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of clusters"},
      h(
        "table",
        {class: "figures"},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            heads.map((head) => h("th", {scope: "col"}, head)),
          ),
        ),
        h("tbody", {}, rows),
      ),
    );
    this.table.replaceChildren(this.table.querySelector("summary"), scroller, ...(more ? [more] : []));
  }

  #drawSettings() {
    const {app} = this;
    const {state} = app;
    const key = json(state.settings);
    if (this.drawnSettings === key) return;
    this.drawnSettings = key;
    const focused = this.settings.contains(document.activeElement) ? document.activeElement.id : "";
    const preset = ([label, settings]) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(json(settings) === key),
          onclick: () => app.go({settings}),
        },
        label,
      );
    this.presets.replaceChildren(h("span", {}, "Search"), ...PRESETS.map(preset));
    this.settings.replaceChildren(
      h("summary", {}, "Settings: ", h("b", {}, describe(state.settings))),
      settingsForm(state.settings, "in", (settings) => app.go({settings})),
    );
    if (focused) document.getElementById(focused)?.focus();
  }
}
