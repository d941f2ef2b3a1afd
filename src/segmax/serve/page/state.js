// The state of the page, and its form in the address. What is on the screen follows from this object alone:
// #/inside?index=vaswani&q=copper&in.lang=["en"]&min.year=2020&mu=0.9 is a query with a filter, seen from inside.

import {json} from "./api.js";
import {OPTIONS} from "./settings.js";

export const VIEWS = ["search", "compare", "inside", "index"];
export const PAGE_SIZES = [10, 20, 50, 100];

export const DEFAULTS = {
  view: "search",
  index: "",
  q: "",
  input: "", // "text", "words" or "vector"; empty: what the index takes
  filters: {}, // by field: {in: [value, ...], min, max}
  page: 1,
  k: 10,
  settings: {}, // how to search; empty: exactly
  b: {}, // of a comparison: the other settings, and perhaps another index
  doc: "",
  tab: "document", // or "why"
  first: 0, // how many clusters the picture shows; 0: as many as are readable
};

const number = (text) => (text !== null && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

const counted = (text, otherwise) => {
  const found = number(text);
  return found !== null && Number.isInteger(found) && found >= 0 && found < 2 ** 31 ? found : otherwise;
};

const chosen = (text, choices, otherwise) => (choices.includes(text) ? text : otherwise);

function readSettings(params, prefix) {
  const settings = {};
  for (const [option, {kind, choices}] of Object.entries(OPTIONS)) {
    const text = params.get(prefix + option);
    const value = kind === "choice" ? chosen(text, choices, null) : number(text);
    if (value !== null) settings[option] = value;
  }
  return settings;
}

function writeSettings(params, prefix, settings) {
  for (const option of Object.keys(OPTIONS)) {
    if (settings[option] !== undefined) params.set(prefix + option, settings[option]);
  }
}

function readFilters(params) {
  const filters = {};
  for (const [name, text] of params) {
    const [, part, field] = /^(in|min|max)\.(.+)$/s.exec(name) ?? [];
    if (!part) continue;
    const filter = (filters[field] ??= {});
    try {
      if (part === "in") filter.in = [JSON.parse(text)].flat();
      else if (number(text) !== null) filter[part] = number(text);
    } catch {
      // An address that somebody broke: without this filter, the rest still works.
    }
    if (!Object.keys(filter).length) delete filters[field];
  }
  return filters;
}

function writeFilters(params, filters) {
  for (const [field, filter] of Object.entries(filters)) {
    if (filter.in?.length) params.set(`in.${field}`, json(filter.in));
    if (filter.min !== undefined) params.set(`min.${field}`, filter.min);
    if (filter.max !== undefined) params.set(`max.${field}`, filter.max);
  }
}

/** Read the part of an address after the #. */
export function parse(hash) {
  const [, path = "", query = ""] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash) ?? [];
  const params = new URLSearchParams(query);
  const b = readSettings(params, "b.");
  if (params.get("b.index")) b.index = params.get("b.index");
  return {
    view: chosen(path, VIEWS, "search"),
    index: params.get("index") ?? "",
    q: params.get("q") ?? "",
    input: chosen(params.get("input"), ["text", "words", "vector"], ""),
    filters: readFilters(params),
    page: Math.max(1, counted(params.get("page"), 1)),
    k: Math.max(1, counted(params.get("k"), DEFAULTS.k)),
    settings: readSettings(params, ""),
    b,
    doc: params.get("doc") ?? "",
    tab: chosen(params.get("tab"), ["document", "why"], "document"),
    first: counted(params.get("first"), 0),
  };
}

/** Write a state as the part of an address after the #, and leave out what is as usual. */
export function format(state) {
  const params = new URLSearchParams();
  for (const part of ["index", "q", "input", "page", "k"]) {
    if (state[part] !== DEFAULTS[part]) params.set(part, state[part]);
  }
  writeFilters(params, state.filters);
  writeSettings(params, "", state.settings);
  writeSettings(params, "b.", state.b);
  if (state.b.index) params.set("b.index", state.b.index);
  for (const part of ["doc", "first"]) if (state[part] !== DEFAULTS[part]) params.set(part, state[part]);
  if (state.doc && state.tab !== DEFAULTS.tab) params.set("tab", state.tab);
  const query = String(params);
  return `#/${state.view}${query ? `?${query}` : ""}`;
}

/** The filters in segmax's language, or null. */
export function whereOf(filters, except = null) {
  const where = {};
  for (const [field, filter] of Object.entries(filters)) {
    if (field === except) continue;
    const tests = {};
    if (filter.in?.length) tests.$in = filter.in;
    if (filter.min !== undefined) tests.$gte = filter.min;
    if (filter.max !== undefined) tests.$lte = filter.max;
    if (Object.keys(tests).length) where[field] = tests;
  }
  return Object.keys(where).length ? where : null;
}
