// Keys, the help about them, and the theme.

import {byId} from "./dom.js";
import {VIEWS} from "./state.js";

function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // Then it lasts as long as the page.
  }
}

const SYSTEM_DARK = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (SYSTEM_DARK.matches ? "dark" : "light")) === "dark";

function showTheme() {
  byId("theme").setAttribute("aria-pressed", String(isDark()));
}

function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  remember("segmax-theme", theme);
  showTheme();
}

const isWriting = (element) =>
  element instanceof Element &&
  element.closest("input:not([type=checkbox]), textarea, select, [contenteditable]") !== null;

/** Listen to keys for as long as the page lives. */
export function listen(app) {
  const help = byId("help");
  const search = byId("q");
  const keysOn = byId("keys-on");
  keysOn.checked = remembered("segmax-keys") !== "off";
  keysOn.addEventListener("change", () => remember("segmax-keys", keysOn.checked ? "on" : "off"));
  byId("help-button").addEventListener("click", () => help.showModal());
  byId("theme").addEventListener("click", switchTheme);
  SYSTEM_DARK.addEventListener("change", showTheme);
  showTheme();

  const turn = (step) => {
    const page = app.results.pageAt(step);
    if (page !== null) app.go({page, doc: ""});
  };
  const why = () => {
    const {doc, tab} = app.state;
    if (doc) app.go({tab: tab === "why" ? "document" : "why"}, "replace");
    else if (app.results.current) app.go({doc: app.results.current, tab: "why"});
  };
  const move = (step) => app.state.view === "search" && app.results.move(step);
  const letters = {
    "/": () => app.focusSearch(),
    "?": () => help.showModal(),
    j: () => move(1),
    k: () => move(-1),
    n: () => app.state.view === "search" && turn(1),
    p: () => app.state.view === "search" && turn(-1),
    w: why,
    d: switchTheme,
    ...Object.fromEntries(VIEWS.map((view, number) => [String(number + 1), () => app.go({view, doc: ""})])),
  };

  const close = () => {
    if (app.panel.isOpen) app.panel.close();
    else if (document.activeElement === search) search.blur();
  };

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const modal = document.querySelector("dialog:modal");
    const isPanel = modal === app.panel.dialog;
    if (event.key === "Escape" && !modal) {
      event.preventDefault();
      return close();
    }
    if (modal && !isPanel) return;
    const [inSearch, inField] = [event.target === search, isWriting(event.target)];
    const arrow = {ArrowDown: 1, ArrowUp: -1}[event.key];
    const isScrolling = app.panel.hasFocus; // arrows scroll a document
    if (arrow && (inSearch ? arrow > 0 : !inField && !isScrolling) && app.state.view === "search") {
      event.preventDefault();
      return move(arrow);
    }
    if (inField || !keysOn.checked || !Object.hasOwn(letters, event.key)) return;
    event.preventDefault();
    letters[event.key]();
  });
}
