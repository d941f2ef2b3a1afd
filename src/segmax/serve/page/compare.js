// Two settings side by side: what moved, what was lost or gained, and what each cost.

import {Latest, at, call, json} from "./api.js";
import {bar, h, s} from "./dom.js";
import {chips} from "./filters.js";
import {count, duration, percent, plural, short} from "./format.js";
import {titleNodes} from "./hits.js";
import {LatencyChart} from "./latency.js";
import {searchRequest} from "./requests.js";
import {describe, settingsForm} from "./settings.js";
import {name, pieces, plain} from "./text.js";

const ROW = 56; // pixels of a result, as in the style sheet
const RUNS = 20;
const USUAL_B = {method: "asc", eta: 0.9};

const PRESETS = [
  ["η = 0.9", {}, {method: "asc", eta: 0.9}],
  ["η = 0.7", {}, {method: "asc", eta: 0.7}],
  ["recall 0.9", {}, {method: "target", target_recall: 0.9}],
  ["the paper's μ = 0.7", {}, {method: "sequential", mu: 0.7}],
  ["exhaustive", {}, {method: "exhaustive"}],
  ["5 blocks", {}, {method: "asc", max_blocks: 5}],
];

/** The settings of B. Unless somebody chose them, B differs from A in one thing: in the index, or in its settings. */
export function sideB(state) {
  const {index = state.index, ...settings} = state.b;
  if (Object.keys(settings).length) return {index, settings};
  return {index, settings: index === state.index ? USUAL_B : {}};
}

const WORK = [
  ["Time in the service", (answer) => answer.took_ms, duration],
  ["Time in the core", (answer) => answer.stats.elapsed_ns / 1e6, duration],
  ["Clusters visited", (answer) => answer.stats.clusters_visited, count],
  ["Blocks scored", (answer) => answer.stats.blocks_scored, count],
  ["Documents scored", (answer) => answer.stats.docs_scored, count],
  ["Postings read", (answer) => answer.stats.postings_read, count],
];

export class CompareView {
  #latest = new Latest();
  #runs = new Latest();
  #asked = "";
  #isRunning = false;

  constructor(app) {
    this.app = app;
    this.forms = h("div", {class: "sides"});
    this.chips = h("div");
    this.empty = h("p", {class: "empty"});
    this.summary = h("p", {class: "summary", role: "status"});
    this.lists = h("div", {class: "lists"});
    this.work = h("div");
    this.latency = new LatencyChart();
    this.again = h("button", {type: "button", onclick: () => this.#runAgain()}, `Run again ×${RUNS}`);
    const clear = h("button", {type: "button", class: "more", onclick: () => this.latency.clear()}, "Clear");
    this.latency.controls.append(this.again, clear);
    this.body = h(
      "div",
      {},
      this.summary,
      this.lists,
      h("h2", {}, "Work"),
      this.work,
      h("h2", {}, "Latency"),
      this.latency.element,
    );
    const preset = ([label, settings, b]) =>
      h("button", {type: "button", class: "chip", onclick: () => this.#preset(settings, b)}, label);
    this.element = h(
      "section",
      {class: "compare-view", "aria-label": "Comparison"},
      h("h1", {}, "Compare two settings"),
      h("p", {class: "presets"}, h("span", {}, "Exact against"), PRESETS.map(preset)),
      this.forms,
      this.chips,
      this.empty,
      this.body,
    );
  }

  #preset(settings, b) {
    const {state} = this.app;
    this.app.go({settings, b: {...b, ...(state.b.index ? {index: state.b.index} : {})}});
  }

  reset() {
    this.#asked = "";
  }

  leave() {
    this.#latest.stop();
    this.#runs.stop();
    this.#asked = "";
  }

  /** What to ask for A and B: name of the index, request, or what is wrong. */
  #sides() {
    const {app} = this;
    const {state} = app;
    const b = sideB(state);
    const side = (index, settings) => {
      const info = app.infoOf(index);
      if (!info) return {index, problem: `There is no index “${plain(index)}” here.`};
      try {
        const request = searchRequest({...state, page: 1}, info, settings);
        return {index, info, settings, request};
      } catch (error) {
        return {index, problem: error.message};
      }
    };
    return {a: side(state.index, state.settings), b: side(b.index, b.settings)};
  }

  update() {
    this.#drawForms();
    this.chips.replaceChildren(...[chips(this.app, this.app.state.filters)].filter(Boolean));
    const sides = this.#sides();
    const asked = json([sides, sides.a.info?.version, sides.b.info?.version]);
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#runs.stop();
    const problem = sides.a.problem ?? sides.b.problem;
    const isEmpty = problem !== undefined || !sides.a.request || !sides.b.request;
    this.empty.textContent = problem ?? "Type a query to compare what the two settings find.";
    this.empty.hidden = !isEmpty;
    this.body.hidden = isEmpty;
    if (isEmpty) this.#latest.stop();
    else this.#load(sides);
  }

  async #timed(side, {index, request}, signal) {
    const start = performance.now();
    const answer = await call(at(index, "search"), {body: request, signal});
    const times = {core: answer.stats.elapsed_ns / 1e6, service: answer.took_ms, trip: performance.now() - start};
    if (!signal.aborted) this.latency.add(side, times);
    return answer;
  }

  async #load(sides) {
    const {app} = this;
    try {
      // One after the other: together, each would be slower for the other.
      const answers = await this.#latest.run((signal) =>
        app.busy(
          (async () => ({a: await this.#timed("a", sides.a, signal), b: await this.#timed("b", sides.b, signal)}))(),
        ),
      );
      if (answers === undefined) return;
      app.succeed();
      this.#draw(answers, sides);
    } catch (error) {
      this.#asked = "";
      app.fail(error, () => this.update());
    }
  }

  async #runAgain() {
    if (this.#isRunning) return this.#runs.stop();
    const sides = this.#sides();
    if (!sides.a.request || !sides.b.request) return;
    this.#isRunning = true;
    try {
      await this.#runs.run(async (signal) => {
        for (let run = 1; run <= RUNS; run += 1) {
          this.again.textContent = `Stop (${run} of ${RUNS})`;
          await this.#timed("a", sides.a, signal);
          await this.#timed("b", sides.b, signal);
        }
      });
    } catch (error) {
      this.app.fail(error, () => this.#runAgain());
    } finally {
      this.#isRunning = false;
      this.again.textContent = `Run again ×${RUNS}`;
    }
  }

  #draw({a, b}, sides) {
    const placesIn = (hits) => new Map(hits.map((hit, place) => [String(hit.id), place]));
    const [inA, inB] = [placesIn(a.hits), placesIn(b.hits)];
    const common = [...inA.keys()].filter((id) => inB.has(id));
    const moved = common.filter((id) => inA.get(id) !== inB.get(id)).length;
    const [lost, gained] = [inA.size - common.length, inB.size - common.length];
    const recall = inA.size ? common.length / inA.size : NaN;
    this.summary.replaceChildren(
      h(
        "span",
        {class: "recall"},
        h("b", {}, percent(recall)),
        ` recall@${count(Math.max(1, inA.size))} of B against A`,
      ),
      h("span", {}, lost || gained ? `${count(lost)} lost, ${count(gained)} gained` : "nothing lost"),
      common.length ? h("span", {}, moved ? `${plural(moved, "result")} moved` : "same order") : "",
      ...[
        ["A", a],
        ["B", b],
      ]
        .filter(([, answer]) => !answer.complete)
        .map(([label]) => h("span", {class: "partial"}, `${label} is partial`)),
    );
    this.lists.replaceChildren(
      this.#list("A", a, sides.a, inB, null),
      this.#lines(a.hits, inB, b.hits.length),
      this.#list("B", b, sides.b, null, inA),
    );
    this.#drawWork(a, b);
  }

  #list(label, answer, side, inOther, before) {
    const {app} = this;
    const item = (hit, place) => {
      const id = String(hit.id);
      const from = before?.get(id);
      const isLost = inOther !== null && !inOther.has(id);
      const isNew = before !== null && from === undefined;
      const step = from === undefined ? 0 : from - place;
      const move = isLost
        ? ["lost", "lost"]
        : isNew
          ? ["gained", "new"]
          : step > 0
            ? ["up", `▲ ${step}`]
            : step < 0
              ? ["down", `▼ ${-step}`]
              : null;
      const spoken = {up: `up ${step}`, down: `down ${-step}`}[move?.[0]] ?? move?.[1];
      const target = label === "A" ? {} : {index: side.index, settings: side.settings};
      return h(
        "li",
        {class: isLost ? "lost" : isNew ? "gained" : null},
        h("span", {class: "rank", "aria-hidden": "true"}, place + 1),
        h(
          "span",
          {class: "what"},
          h(
            "a",
            {href: app.href({view: "search", page: 1, doc: id, tab: "why", ...target})},
            h("bdi", {}, titleNodes(hit)),
          ),
          hit.highlights?.text?.length
            ? h("span", {class: "line", dir: "auto"}, pieces(hit.highlights.text, 160))
            : null,
        ),
        h("span", {class: "score"}, short(hit.score)),
        move && h("span", {class: `move ${move[0]}`, "aria-label": spoken, role: "img"}, move[1]),
      );
    };
    const title = h(
      "h2",
      {},
      h("span", {class: `side-${label.toLowerCase()}`}, label),
      " ",
      h("span", {}, this.app.indexes.length > 1 ? [name(side.index, 40), ", "] : null, describe(side.settings)),
    );
    return h(
      "div",
      {class: `list list-${label.toLowerCase()}`},
      title,
      answer.hits.length ? h("ol", {}, answer.hits.map(item)) : h("p", {class: "quiet"}, "No results."),
    );
  }

  /** Lines from each result's place in A to its place in B. */
  #lines(hits, inB, rowsB) {
    const middle = (place) => (place + 0.5) * ROW;
    const height = Math.max(hits.length, rowsB, 1) * ROW;
    const paths = hits.flatMap((hit, place) => {
      const to = inB.get(String(hit.id));
      if (to === undefined) return [];
      const kind = to < place ? "up" : to > place ? "down" : "same";
      return [s("path", {class: kind, d: `M0 ${middle(place)}C40 ${middle(place)} 40 ${middle(to)} 80 ${middle(to)}`})];
    });
    return s("svg", {class: "lines", viewBox: `0 0 80 ${height}`, width: 80, height, "aria-hidden": "true"}, paths);
  }

  #drawWork(a, b) {
    const row = ([label, figure, format]) => {
      const [inA, inB] = [figure(a), figure(b)];
      const most = Math.max(inA, inB) || 1;
      const ratio = inA > 0 && Number.isFinite(inB / inA) ? `×${Number((inB / inA).toPrecision(2))}` : "–";
      return h(
        "tr",
        {},
        h("th", {scope: "row"}, label),
        h("td", {}, h("span", {class: "number"}, format(inA)), bar(inA / most, "side-a")),
        h("td", {}, h("span", {class: "number"}, format(inB)), bar(inB / most, "side-b")),
        h("td", {class: "number"}, ratio),
      );
    };
    this.work.replaceChildren(
      h(
        "div",
        {class: "scroll", tabindex: "0", role: "group", "aria-label": "Work of both"},
        h(
          "table",
          {class: "work"},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["", "A", "B", "B / A"].map((text) => (text ? h("th", {scope: "col"}, text) : h("td", {}))),
            ),
          ),
          h("tbody", {}, WORK.map(row)),
        ),
      ),
    );
  }

  #drawForms() {
    const {app} = this;
    const {state} = app;
    const b = sideB(state);
    const key = json([state.settings, state.index, b]);
    if (this.drawnForms === key) return;
    this.drawnForms = key;
    const focused = this.forms.contains(document.activeElement) ? document.activeElement.id : "";
    const choice = (id, selected, change) =>
      app.indexes.length < 2
        ? null
        : h(
            "div",
            {class: "setting"},
            h("label", {for: id}, "Index"),
            h(
              "select",
              {id, onchange: (event) => change(event.target.value)},
              app.indexes.map((info) =>
                h("option", {value: info.name, selected: info.name === selected}, plain(info.name, 60)),
              ),
            ),
          );
    const {index: indexB, ...chosenB} = state.b;
    const goB = (settings, index) => app.go({b: {...settings, ...(index && index !== state.index ? {index} : {})}});
    this.forms.replaceChildren(
      h(
        "fieldset",
        {class: "card side-a"},
        h("legend", {}, "A"),
        choice("a-index", state.index, (index) => app.go({index})),
        settingsForm(state.settings, "a", (settings) => app.go({settings})),
      ),
      h(
        "fieldset",
        {class: "card side-b"},
        h("legend", {}, "B"),
        choice("b-index", b.index, (index) => goB(chosenB, index)),
        settingsForm(b.settings, "b", (settings) => goB({method: "asc", ...settings}, indexB)),
      ),
    );
    if (focused) document.getElementById(focused)?.focus();
  }
}
