// Why a document is, or is not, among the results: what each term added, and its cluster's bounds against θ.

import {bar, h, styled} from "./dom.js";
import {plural, short} from "./format.js";
import {name, sentence} from "./text.js";

const MOST_TERMS = 12;

function termRow(match, largest) {
  const formula = `${short(match.query_weight)} × ${short(match.document_weight)}`;
  return h(
    "tr",
    {class: match.searched ? null : "left-out"},
    h("th", {scope: "row"}, name(match.word ?? `term ${match.term}`, 40)),
    h("td", {class: "drawn"}, bar(match.contribution / largest)),
    h("td", {class: "formula"}, formula),
    h("td", {class: "number"}, short(match.contribution)),
  );
}

function terms(matched) {
  if (!matched.length) return h("p", {class: "quiet"}, "The document and the query share no term.");
  const largest = Math.max(...matched.map((match) => Math.abs(match.contribution))) || 1;
  const rest = matched.slice(MOST_TERMS);
  const body = h(
    "tbody",
    {},
    matched.slice(0, MOST_TERMS).map((match) => termRow(match, largest)),
  );
  const more =
    rest.length &&
    h(
      "button",
      {
        type: "button",
        class: "more",
        onclick: () => {
          body.append(...rest.map((match) => termRow(match, largest)));
          more.remove();
        },
      },
      `${plural(rest.length, "more term")}, which add ${short(rest.reduce((sum, match) => sum + match.contribution, 0))}`,
    );
  const leftOut = matched.some((match) => !match.searched)
    ? h("p", {class: "quiet"}, "The search left out the terms in gray.")
    : null;
  return [
    h(
      "table",
      {class: "terms"},
      h("caption", {class: "hidden"}, "Terms that matched, and what each adds to the score"),
      h(
        "thead",
        {class: "hidden"},
        h(
          "tr",
          {},
          ["Term", "Share", "Weight in the query × in the document", "Adds"].map((text) =>
            h("th", {scope: "col"}, text),
          ),
        ),
      ),
      body,
    ),
    more || null,
    leftOut,
  ];
}

/** Lines that bounds are compared with: θ, and θ/μ and θ/η where they differ from it. */
export function thresholds(theta, settings, label = "θ") {
  const lines = [{label, value: theta, kind: "theta"}];
  for (const [option, sign] of [
    ["mu", "μ"],
    ["eta", "η"],
  ]) {
    const by = settings[option];
    if (by !== undefined && by < 1) lines.push({label: `θ/${sign}`, value: theta / by, kind: option});
  }
  return lines;
}

/** Whether θ was what it became in the end when the decision fell. */
const isFinal = (found) => Math.abs(found.threshold - found.final_threshold) <= 1e-6 * found.final_threshold;

function theta(found) {
  if (!(found.final_threshold > 0)) return "There are fewer results than asked for, so there was no θ to reach.";
  const last = `θ, the score of the last result, was ${short(found.final_threshold)}`;
  return isFinal(found) || !(found.threshold > 0)
    ? `${last}.`
    : `At that time θ was ${short(found.threshold)}; at the end ${last}.`;
}

/** Bounds, the score and θ on one scale. */
function scale(found, settings) {
  const needed = found.threshold > 0 ? found.threshold : found.final_threshold;
  const rows = [
    [
      "BoundSum",
      found.bound_sum,
      "sum",
      "no document of the cluster can score more: the largest weight of every term in the cluster",
    ],
    [
      "MaxSBound",
      found.max_bound,
      "max",
      "the same for each random segment of the cluster, of which this is the largest",
    ],
    ["AvgSBound", found.avg_bound, "avg", "the average over the segments"],
    ["Score", found.score, "own", "what this document scores"],
  ];
  const lines = needed > 0 ? thresholds(needed, settings, isFinal(found) ? "θ" : "θ then") : [];
  const most = 1.06 * Math.max(...rows.map(([, value]) => value), ...lines.map((line) => line.value)) || 1;
  const row = ([label, value, kind, help]) =>
    h(
      "div",
      {class: `bound ${kind}`, title: help},
      h("dt", {}, label),
      h("dd", {}, bar(value / most, kind), h("span", {class: "number"}, short(value))),
    );
  const side = (share) => (share < 0.2 ? "at-start" : share > 0.8 ? "at-end" : "");
  const line = ({label, value, kind}) =>
    styled(h("div", {class: `threshold ${kind} ${side(value / most)}`}, h("span", {}, `${label} = ${short(value)}`)), {
      left: `${(100 * value) / most}%`,
    });
  const marks = h("div", {class: "thresholds", "aria-hidden": "true"}, lines.map(line));
  const spoken = lines.map(({label, value}) => `${label} is ${short(value)}`).join(", ");
  return h(
    "div",
    {class: "bounds"},
    h("dl", {}, rows.map(row)),
    marks,
    spoken ? h("p", {class: "hidden"}, spoken) : null,
  );
}

const DECIDED = {
  visited: "was visited",
  pruned: "was pruned: its bounds were too low for μ and η",
  tied: "was left out: its bound equals θ and ties come later",
  stopped: "was not reached: its bounds were too low by then",
  limited: "was left out by a limit",
  zero: "has no term of the query",
};

/** An explanation in full. */
export function explained(found, settings) {
  const rank =
    found.rank === null
      ? h("strong", {class: "not"}, "Not returned")
      : h("strong", {class: "is"}, `Rank ${found.rank}`);
  return [
    h("p", {class: "verdict"}, rank, h("span", {}, "score ", h("b", {}, short(found.score)))),
    h("p", {class: "reason"}, sentence(found.reason)),
    h("h3", {}, "What each term added"),
    ...[terms(found.matched)].flat().filter(Boolean),
    h("h3", {}, `Its cluster: ${found.cluster}`),
    h("p", {class: "quiet"}, `Cluster ${found.cluster} ${DECIDED[found.decision] ?? found.decision}. `, theta(found)),
    scale(found, settings),
  ];
}
