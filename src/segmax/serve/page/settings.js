// Settings of a search: which there are, the form that changes them, and what a request says of them.

import {h} from "./dom.js";

const share = (label, help) => ({kind: "share", label, help});
const limit = (label, help) => ({kind: "count", label, help});

export const METHODS = {
  asc: "ASC: blocks, best bound first",
  target: "ASC for a target recall",
  exhaustive: "Exhaustive: every posting",
  sequential: "The paper's ASC: cluster by cluster",
  anytime: "Anytime Ranking",
  maxscore: "MaxScore",
};

export const OPTIONS = {
  method: {kind: "choice", label: "Method", choices: Object.keys(METHODS), names: METHODS},
  target_recall: share("Target recall", "The part of the exact results to find, as the index was calibrated."),
  mu: share("μ", "Leave out clusters with MaxSBound ≤ θ/μ and AvgSBound ≤ θ/η. 1 is exact."),
  eta: share("η", "Leave out blocks with a bound of at most θ/η. 1 is exact."),
  max_blocks: limit("Blocks at most", "Score at most this many blocks of eight documents."),
  max_clusters: limit("Clusters at most", "Visit at most this many clusters, those with the best bounds."),
  bound_mass: share("Bound mass", "Make bounds of the heaviest terms with this share of the query's mass."),
  query_mass: share("Query mass", "Search with the heaviest terms with this share of the query's mass."),
  max_terms: limit("Terms at most", "Search with at most this many terms, the heaviest."),
  dropped: {
    kind: "choice",
    label: "Dropped terms",
    choices: ["ignored", "bounded"],
    help: "Leave them out of scores, or count them in every bound and score.",
  },
  budget_ms: {kind: "time", label: "Time limit, ms", help: "Return the best that was found by then."},
};

const TERMS = ["query_mass", "max_terms", "dropped"];
const TAKES = {
  asc: ["max_clusters", "mu", "eta", "max_blocks", "bound_mass", ...TERMS, "budget_ms"],
  target: ["target_recall", "budget_ms"],
  exhaustive: [],
  sequential: ["mu", "eta", "max_clusters", ...TERMS, "budget_ms"],
  anytime: ["mu", "max_clusters", ...TERMS, "budget_ms"],
  maxscore: [],
};
const COMMON = new Set(["target_recall", "mu", "eta", "budget_ms"]);

export const methodOf = (settings) => settings.method ?? "asc";

/** What a request says about method and options. */
export function paramsOf(settings) {
  const method = methodOf(settings);
  if (method === "target") return null;
  const params = {method};
  for (const option of TAKES[method]) {
    if (option !== "budget_ms" && settings[option] !== undefined) params[option] = settings[option];
  }
  return params;
}

/** The parts of a search request that follow from settings. */
export function requestOf(settings) {
  const request = {};
  const params = paramsOf(settings);
  if (params === null) request.target_recall = settings.target_recall ?? 0.95;
  else request.params = params;
  if (settings.budget_ms !== undefined) request.budget_ms = settings.budget_ms;
  return request;
}

const SIGNS = {
  mu: "μ =",
  eta: "η =",
  target_recall: "recall ≥",
  max_blocks: "blocks ≤",
  max_clusters: "clusters ≤",
  bound_mass: "bound mass =",
  query_mass: "query mass =",
  max_terms: "terms ≤",
  dropped: "dropped terms",
  budget_ms: "ms ≤",
};

/** Settings in a few words: "exact", "μ = 0.9, η = 0.8", "maxscore". */
export function describe(settings) {
  const method = methodOf(settings);
  const all = method === "target" ? {target_recall: 0.95, ...settings} : settings;
  const options = TAKES[method]
    .filter(
      (option) =>
        all[option] !== undefined && !(OPTIONS[option].kind === "share" && all[option] === 1 && method !== "target"),
    )
    .map((option) => `${SIGNS[option]} ${all[option]}`);
  const named = method === "asc" || method === "target" ? [] : [method];
  const words = [...named, ...options].join(", ");
  return words || "exact";
}

function control(option, settings, id, change) {
  const {kind, choices, names} = OPTIONS[option];
  const onchange = (event) => change(option, event.target);
  if (kind === "choice") {
    const selected = settings[option] ?? choices[0];
    const choice = (value) => h("option", {value, selected: value === selected}, names?.[value] ?? value);
    return h("select", {id, onchange}, choices.map(choice));
  }
  const ranges = {share: {min: 0.01, max: 1, step: "any"}, count: {min: 1, step: 1}, time: {min: 0.01, step: "any"}};
  const usual = option === "target_recall" ? "0.95" : kind === "share" ? "1" : "none";
  return h("input", {
    id,
    onchange,
    type: "number",
    inputmode: "decimal",
    placeholder: usual,
    value: settings[option],
    ...ranges[kind],
  });
}

/**
 * A form of settings. `change` receives the new settings; `id` tells several forms on a page apart.
 */
export function settingsForm(settings, id, change) {
  const method = methodOf(settings);
  const set = (option, input) => {
    const next = {...settings};
    const isNumber = OPTIONS[option].kind !== "choice";
    if (isNumber && !input.checkValidity()) return void input.reportValidity();
    if (input.value === "" || input.value === OPTIONS[option].choices?.[0]) delete next[option];
    else next[option] = isNumber ? Number(input.value) : input.value;
    change(next);
  };
  const row = (option) => {
    const {label, help} = OPTIONS[option];
    const named = `${id}-${option}`;
    const input = control(option, settings, named, set);
    if (help) input.title = help;
    return h("div", {class: `setting ${option}`}, h("label", {for: named, title: help ?? null}, label), input);
  };
  const [common, rest] = [TAKES[method].filter((o) => COMMON.has(o)), TAKES[method].filter((o) => !COMMON.has(o))];
  const isOpen = rest.some((option) => settings[option] !== undefined);
  return h(
    "div",
    {class: "settings"},
    row("method"),
    common.map(row),
    rest.length
      ? h("details", {open: isOpen}, h("summary", {}, "More options"), h("div", {class: "rest"}, rest.map(row)))
      : null,
  );
}
