// The page of a segmax service. Start reading here: the state (state.js) is in the address, `go` changes it, and
// `apply` shows it in one of the views.

import {ApiError, call} from "./api.js";
import {CompareView} from "./compare.js";
import {byId, h, styled} from "./dom.js";
import {FiguresView} from "./figures.js";
import {InsideView} from "./inside.js";
import {listen} from "./keys.js";
import {Panel} from "./panel.js";
import {MODES, hintOf, modeOf, modesOf} from "./query.js";
import {ResultsView} from "./results.js";
import {VIEWS, format, parse} from "./state.js";
import {name, plain, sentence} from "./text.js";

const TYPING_PAUSE_MS = 1500; // a longer one makes a new entry in the history
const ADDRESS_PAUSE_MS = 250; // browsers limit how often an address may change
const BUSY_MS = 250; // what takes longer shows that it does
const SOON_MS = 2000; // between two tries to reach a service that is gone

class App {
  state = parse(location.hash);
  indexes = [];
  #unavailable = {}; // why others cannot be opened, by name
  isTyping = false;
  #lastTyped = 0;
  #addressTimer = 0;
  #written = -Infinity;
  #retryTimer = 0;
  #view = null;
  #failed = null;

  constructor() {
    this.input = byId("q");
    this.select = byId("index");
    this.panel = new Panel(this);
    this.results = new ResultsView(this);
    this.views = {
      search: this.results,
      compare: new CompareView(this),
      inside: new InsideView(this),
      index: new FiguresView(this),
    };
    this.input.value = this.state.q;
    this.input.addEventListener("input", () => this.#typed());
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.state.view === "search") this.results.move(1);
    });
    this.select.addEventListener("change", () =>
      this.go({index: this.select.value, filters: {}, page: 1, doc: "", input: ""}),
    );
    byId("mode").addEventListener("change", (event) => {
      this.go({input: event.target.value === modesOf(this.info)[0] ? "" : event.target.value, page: 1, doc: ""});
    });
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault();
      byId("main").focus();
    });
    addEventListener("popstate", () => this.#arrived());
    addEventListener("hashchange", () => this.#arrived());
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => this.#refresh());
    const header = document.querySelector(".top");
    new ResizeObserver(() => styled(document.documentElement, {"--top": `${header.offsetHeight}px`})).observe(header);
    listen(this);
  }

  /** Ask what is served, and show it. */
  async start() {
    try {
      const answer = await this.busy(call("v1/indexes"));
      this.#listed(answer);
      this.succeed();
    } catch (error) {
      return this.fail(error, () => this.start());
    }
    this.select.replaceChildren(...this.indexes.map((info) => h("option", {value: info.name}, plain(info.name, 60))));
    this.select.disabled = this.indexes.length < 2;
    if (!this.state.index && this.indexes.length) this.state.index = this.indexes[0].name;
    this.apply();
    if (!this.state.q && !this.state.doc && matchMedia("(hover: hover)").matches) this.focusSearch();
  }

  /** Look for what changed while nobody looked at this tab: documents may have been added. */
  async #refresh() {
    if (document.hidden || !this.indexes.length) return;
    try {
      this.#listed(await call("v1/indexes"));
      this.apply();
    } catch (error) {
      this.fail(error, () => this.#refresh());
    }
  }

  #listed({indexes, unavailable}) {
    this.indexes = indexes;
    this.#unavailable = unavailable ?? {};
  }

  infoOf(index) {
    return this.indexes.find((info) => info.name === index);
  }

  get info() {
    return this.infoOf(this.state.index);
  }

  /** The words to mark in a document: those that its results had. */
  words() {
    return this.results.words ?? new Set();
  }

  // --- state ---------------------------------------------------------------------------------------------------------

  href(changes) {
    return format({...this.state, ...changes});
  }

  /** Change the state. "push" makes an entry in the history, "replace" does not, "typing" makes one per pause. */
  go(changes, how = "push") {
    this.state = {...this.state, ...changes};
    clearTimeout(this.#addressTimer);
    if (how === "typing") this.#write();
    else if (how === "replace" || format(this.state) === location.hash)
      history.replaceState(null, "", format(this.state));
    else history.pushState(null, "", format(this.state));
    this.apply();
  }

  /** Write the state into the address: now, or as soon as that is allowed again. */
  #write() {
    const wait = this.#written + ADDRESS_PAUSE_MS - performance.now();
    if (wait > 0) {
      this.#addressTimer = setTimeout(() => this.#write(), wait);
      return;
    }
    this.#written = performance.now();
    history.replaceState(null, "", format(this.state));
  }

  #typed() {
    const now = performance.now();
    if (now - this.#lastTyped > TYPING_PAUSE_MS) history.pushState(null, "", location.href);
    this.#lastTyped = now;
    this.isTyping = true;
    this.go({q: this.input.value, page: 1, doc: ""}, "typing");
    this.isTyping = false;
  }

  #arrived() {
    if (format(this.state) === location.hash) return;
    clearTimeout(this.#addressTimer);
    const page = this.state.page;
    this.state = parse(location.hash);
    if (!this.state.index && this.indexes.length) this.state.index = this.indexes[0].name;
    this.apply();
    if (page !== this.state.page) scrollTo({top: 0});
  }

  /** Show the state. */
  apply() {
    const {state} = this;
    if (!this.indexes.length) return this.#none();
    this.#drawHeader();
    if (!this.info) return this.#unknown();
    const view = this.views[state.view];
    if (this.#view !== view) {
      this.#view?.leave();
      this.#view = view;
      byId("main").replaceChildren(view.element);
      scrollTo({top: 0});
    }
    document.title = state.q ? `${plain(state.q, 60)} · segmax` : `${plain(state.index, 60)} · segmax`;
    view.update();
    this.panel.update();
  }

  #none() {
    const reasons = Object.entries(this.#unavailable).map(([index, why]) => h("p", {}, h("b", {}, name(index)), ": ", why));
    byId("main").replaceChildren(h("div", {class: "empty"}, h("p", {}, "This service serves no index."), reasons));
  }

  #unknown() {
    this.#view?.leave();
    this.#view = null;
    const why = Object.hasOwn(this.#unavailable, this.state.index) ? `(${this.#unavailable[this.state.index]})` : "";
    const links = this.indexes.map((info) =>
      h("li", {}, h("a", {href: this.href({index: info.name, filters: {}, doc: ""})}, name(info.name))),
    );
    byId("main").replaceChildren(
      h(
        "div",
        {class: "empty"},
        h("p", {}, "There is no index ", h("b", {}, name(this.state.index)), " here. ", why, " These are served:"),
        h("ul", {}, links),
      ),
    );
  }

  #drawHeader() {
    const {state, info} = this;
    this.select.value = info ? state.index : "";
    if (this.input.value !== state.q) this.input.value = state.q;
    for (const view of VIEWS) {
      const link = byId(`view-${view}`);
      link.href = this.href({view, doc: ""});
      if (view === state.view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    byId("brand").href = format({...parse(""), index: state.index});
    if (info) this.#drawModes(info);
  }

  #drawModes(info) {
    const [mode, modes] = [modeOf(this.state, info), modesOf(info)];
    const hint = hintOf(info, mode);
    byId("hint").textContent = hint;
    byId("hint").hidden = hint === "";
    this.input.placeholder = MODES[mode].placeholder;
    this.input.classList.toggle("code", mode === "vector");
    const select = byId("mode");
    if (select.dataset.modes !== String(modes)) {
      select.dataset.modes = String(modes);
      select.replaceChildren(...modes.map((one) => h("option", {value: one}, MODES[one].label)));
    }
    select.hidden = modes.length < 2;
    select.value = mode;
  }

  // --- focus ---------------------------------------------------------------------------------------------------------

  focusSearch() {
    this.input.focus();
    this.input.select();
  }

  /** Go back to a result after its document was closed. */
  focusHit(id) {
    const item = [...document.querySelectorAll(".hit")].find((hit) => hit.dataset.id === id);
    (item?.querySelector("a.open") ?? this.input).focus();
  }

  // --- waiting and failing -------------------------------------------------------------------------------------------

  #waiting = 0;

  /** Show that something takes long, if it does. */
  async busy(promise) {
    const timer = setTimeout(() => byId("progress").toggleAttribute("hidden", false), BUSY_MS);
    this.#waiting += 1;
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting -= 1;
      if (!this.#waiting) byId("progress").hidden = true;
    }
  }

  succeed() {
    clearTimeout(this.#retryTimer);
    this.#failed = null;
    byId("notice").hidden = true;
  }

  /** Say what went wrong; what is on the screen stays there. */
  fail(error, again) {
    if (!(error instanceof ApiError)) console.error(error);
    const message =
      error instanceof ApiError ? error.message : "Something went wrong in this page. Reload it to start over.";
    const busy = error.status === 503 || error.status === 429;
    const wait = busy && error.retryAfter ? ` It asks to wait ${error.retryAfter} s.` : "";
    this.#failed = again;
    const button = h(
      "button",
      {type: "button", onclick: () => this.retry()},
      error.status === 401 ? "Enter a key" : "Try again",
    );
    byId("notice").replaceChildren(h("p", {}, sentence(message + wait, 800)), button);
    byId("notice").hidden = false;
    if (!byId("main").querySelector(":scope > :not(noscript)")) {
      byId("main").replaceChildren(h("p", {class: "empty"}, "Nothing to show yet."));
    }
    clearTimeout(this.#retryTimer);
    if (error.status === 0) this.#retryTimer = setTimeout(() => this.retry(), SOON_MS);
  }

  retry() {
    const again = this.#failed;
    if (!again) return;
    this.#view?.reset();
    again();
  }
}

new App().start();
