// The view of results: search as you type.

import {Latest, at, call, json} from "./api.js";
import {h} from "./dom.js";
import {Filters, chips, fieldsOf} from "./filters.js";
import {bytes, count, duration, plural} from "./format.js";
import {hitItem, markedWords, whyNotForm} from "./hits.js";
import {searchRequest} from "./requests.js";
import {describe, settingsForm} from "./settings.js";
import {PAGE_SIZES, whereOf} from "./state.js";
import {name} from "./text.js";

const SLOW_MS = 120; // after an answer that took longer, wait for a pause in typing
const PAUSE_MS = 110;

/**
 * How many documents a search scored, of all. A collection scores deleted ones that are still there too, so no number of
 * all is known for it; what the core counts in an index includes the empty places of blocks.
 */
function scored({docs_scored: found}, {kind, num_docs: all}) {
  if (kind === "collection") return `${plural(found, "document")} scored`;
  return `${count(Math.min(found, all))} of ${plural(all, "document")} scored`;
}

export class ResultsView {
  #latest = new Latest();
  #asked = "";
  #slow = 0; // how long the last answer took, in milliseconds
  #timer = 0;
  #current = -1;

  constructor(app) {
    this.app = app;
    this.hits = [];
    this.filters = new Filters(app);
    this.chips = h("div");
    this.status = h("p", {class: "status", role: "status"});
    this.list = h("ol", {class: "hits"});
    this.paging = h("nav", {class: "paging", "aria-label": "Pages"});
    this.settings = h("div", {id: "settings", class: "card folded"});
    this.whyNot = whyNotForm(app);
    this.aside = h("aside", {id: "aside", class: "aside", "aria-label": "Filters"}, this.filters.element);
    const toggle = (label, kind, part) => {
      const button = h(
        "button",
        {
          type: "button",
          class: `toggle ${kind}`,
          "aria-expanded": "false",
          "aria-controls": part.id,
          onclick: () => button.setAttribute("aria-expanded", String(part.classList.toggle("open"))),
        },
        label,
      );
      return button;
    };
    this.settingsToggle = toggle("Settings", "for-settings", this.settings);
    const bar = h(
      "div",
      {class: "toolbar"},
      this.status,
      toggle("Filters", "for-filters", this.aside),
      this.settingsToggle,
    );
    this.body = h("section", {class: "results", "aria-label": "Results"}, this.list, this.paging, this.whyNot);
    this.intro = h("section", {class: "intro"});
    this.element = h(
      "div",
      {class: "search-view"},
      this.aside,
      h("div", {class: "column"}, bar, this.settings, this.chips, this.intro, this.body),
    );
  }

  /** Show what the state says; search where that differs from what is shown. */
  update() {
    const {app} = this;
    const {state, info} = app;
    this.filters.update();
    this.element.classList.toggle("with-filters", fieldsOf(info).length > 0);
    this.chips.replaceChildren(...[chips(app, state.filters)].filter(Boolean));
    this.#drawSettings();
    this.#markOpen();
    let request = null;
    try {
      request = searchRequest(state, info);
      this.problem = "";
    } catch (error) {
      this.problem = error.message;
    }
    const asked = json([info.name, info.version, request ?? state.filters, this.problem]);
    if (asked === this.#asked) return;
    this.#asked = asked;
    clearTimeout(this.#timer);
    if (request === null) return this.#showIntro();
    if (this.#slow > SLOW_MS && app.isTyping) this.#timer = setTimeout(() => this.#search(request), PAUSE_MS);
    else this.#search(request);
  }

  /** Forget what is shown, so that it is asked for again. */
  reset() {
    this.#asked = "";
  }

  leave() {
    this.#latest.stop();
    clearTimeout(this.#timer);
    this.#asked = "";
  }

  async #search(request) {
    const {app} = this;
    const info = app.info;
    const start = performance.now();
    const waiting = setTimeout(() => this.body.classList.add("stale"), 250);
    try {
      const answer = await this.#latest.run((signal) =>
        app.busy(call(at(info.name, "search"), {body: request, signal})),
      );
      if (answer === undefined) return;
      this.#slow = performance.now() - start;
      app.succeed();
      this.#draw(answer, info);
    } catch (error) {
      this.#asked = "";
      this.#slow = 0;
      app.fail(error, () => this.update());
    } finally {
      clearTimeout(waiting);
      this.body.classList.remove("stale");
    }
  }

  #draw(answer, info) {
    const {app} = this;
    const {state} = app;
    const hadFocus = this.list.contains(document.activeElement);
    this.hits = answer.hits;
    this.words = markedWords(answer.hits);
    this.#current = -1;
    this.intro.hidden = true;
    this.body.hidden = false;
    this.#drawStatus(answer, info);
    const best = Math.max(...answer.hits.map((hit) => Math.abs(hit.score)), 0) || 1;
    const first = (state.page - 1) * state.k + 1;
    this.list.start = first;
    this.list.replaceChildren(...answer.hits.map((hit, at) => hitItem(app, hit, first + at, best)));
    this.list.hidden = !answer.hits.length;
    this.paging.replaceChildren(...this.#pages(answer.hits.length));
    this.#markOpen();
    if (hadFocus) this.move(1);
  }

  #drawStatus(answer, info) {
    const {state} = this.app;
    const {stats} = answer;
    const first = (state.page - 1) * state.k;
    const number = answer.hits.length;
    const found = number
      ? `Results ${count(first + 1)} to ${count(first + number)}`
      : first
        ? "No more results"
        : "No results";
    const parts = [h("strong", {}, found)];
    if (answer.took_ms !== undefined)
      parts.push(h("span", {title: "In the service, from the request to the answer"}, duration(answer.took_ms)));
    if (stats?.swept) {
      parts.push(
        h(
          "span",
          {title: "The search added up every posting of the query's terms, which was faster than to leave some out"},
          `${plural(stats.postings_read, "posting")} added up`,
        ),
      );
    } else if (stats) {
      parts.push(
        h(
          "span",
          {title: "Documents that the search scored"},
          scored(stats, info),
        ),
      );
    }
    if (stats?.unknown_terms) parts.push(h("span", {}, `${plural(stats.unknown_terms, "word")} not in the index`));
    if (!answer.complete) {
      parts.push(
        h(
          "span",
          {class: "partial", title: "A time limit or a limit of work left out what might have been among the results"},
          "partial results",
        ),
      );
    }
    this.status.replaceChildren(...parts);
    if (!number) this.#drawNothing(first);
  }

  #drawNothing(first) {
    const {app} = this;
    const advice =
      first > 0
        ? h("a", {href: app.href({page: 1})}, "Back to the first page")
        : Object.keys(app.state.filters).length
          ? h(
              "button",
              {type: "button", class: "more", onclick: () => app.go({filters: {}, page: 1})},
              "Search without filters",
            )
          : h("span", {class: "quiet"}, "No document has a word of the query.");
    this.status.append(h("span", {}, advice));
  }

  #pages(number) {
    const {state} = this.app;
    const page = (to, label, rel) => h("a", {href: this.app.href({page: to, doc: ""}), rel}, label);
    const [isFirst, isLast] = [state.page === 1, number < state.k];
    if (isFirst && isLast) return [];
    return [
      isFirst ? h("span", {}) : page(state.page - 1, "← Previous", "prev"),
      h("span", {class: "quiet"}, `Page ${count(state.page)}`),
      isLast ? h("span", {}) : page(state.page + 1, "Next →", "next"),
    ];
  }

  #showIntro() {
    const {app} = this;
    const {info, state} = app;
    this.#latest.stop();
    this.hits = [];
    this.status.replaceChildren();
    this.body.hidden = true;
    this.intro.hidden = false;
    const figures = [
      plural(info.num_docs, "document"),
      plural(info.num_terms, "term"),
      plural(info.num_clusters, "cluster"),
      bytes(info.num_bytes),
    ];
    const filtered = Object.keys(state.filters).length ? h("p", {class: "matching"}) : null;
    this.intro.replaceChildren(
      ...[
        h("h1", {}, name(info.name)),
        h("p", {class: "figures"}, figures.join(" · ")),
        this.problem && state.q ? h("p", {class: "quiet"}, this.problem) : null,
        filtered,
        h(
          "p",
          {class: "quiet"},
          "Results appear as you type. Press ",
          h("kbd", {}, "/"),
          " to search, ",
          h("kbd", {}, "?"),
          " for all keys.",
        ),
        fieldsOf(info).length
          ? h("p", {class: "quiet"}, "Narrow it down with the filters before or after you type.")
          : null,
      ].filter(Boolean),
    );
    if (filtered) this.#count(filtered);
  }

  async #count(place) {
    const {info, state} = this.app;
    try {
      const body = {where: whereOf(state.filters)};
      const answer = await this.#latest.run((signal) => call(at(info.name, "count"), {body, signal}));
      if (answer)
        place.textContent = `${plural(answer.count, "document")} ${answer.count === 1 ? "matches" : "match"} the filters.`;
    } catch (error) {
      this.#asked = "";
      this.app.fail(error, () => this.update());
    }
  }

  #drawSettings() {
    const {app} = this;
    const {state} = app;
    const key = json([state.settings, state.k]);
    if (this.drawnSettings === key) return;
    this.drawnSettings = key;
    const focused = this.settings.contains(document.activeElement) ? document.activeElement.id : "";
    const sizes = [...new Set([...PAGE_SIZES, state.k])].sort((a, b) => a - b);
    const size = h(
      "div",
      {class: "setting"},
      h("label", {for: "set-k"}, "Results a page"),
      h(
        "select",
        {
          id: "set-k",
          onchange: (event) => app.go({k: Number(event.target.value), page: 1}),
        },
        sizes.map((k) => h("option", {value: k, selected: k === state.k}, count(k))),
      ),
    );
    this.settings.replaceChildren(
      size,
      settingsForm(state.settings, "set", (settings) => app.go({settings, page: 1})),
    );
    const words = describe(state.settings);
    this.settingsToggle.textContent = words === "exact" ? "Settings" : `Settings: ${words}`;
    if (focused) document.getElementById(focused)?.focus();
  }

  /** Mark the result that the panel shows. */
  #markOpen() {
    for (const item of this.list.children) {
      const isOpen = item.dataset.id === this.app.state.doc;
      item.classList.toggle("opened", isOpen);
      item.querySelector("a.open").toggleAttribute("aria-current", isOpen);
    }
  }

  /** The id of the result that keys act on. */
  get current() {
    const items = [...this.list.children];
    const focused = items.findIndex((item) => item.contains(document.activeElement));
    if (focused >= 0) this.#current = focused;
    return items[this.#current]?.dataset.id ?? "";
  }

  /** Move to the next (1) or previous (-1) result; before the first one is the search box. */
  move(step) {
    const items = [...this.list.children];
    if (this.body.hidden || !items.length) return;
    void this.current;
    const next = this.#current + step;
    if (next < 0 && this.#current >= 0 && !this.app.state.doc) {
      this.#current = -1;
      this.app.focusSearch();
      return;
    }
    this.#current = Math.min(items.length - 1, Math.max(0, next));
    const item = items[this.#current];
    const isPanel = this.app.panel.isOpen;
    if (!isPanel || !this.app.panel.hasFocus) item.querySelector("a.open").focus({preventScroll: true});
    item.scrollIntoView({block: "nearest"});
    if (isPanel) this.app.go({doc: item.dataset.id}, "replace");
  }

  /** The neighboring page, or null where there is none. */
  pageAt(step) {
    const {state} = this.app;
    const page = state.page + step;
    return page < 1 || (step > 0 && this.hits.length < state.k) ? null : page;
  }
}
