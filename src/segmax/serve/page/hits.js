// What results look like.

import {json} from "./api.js";
import {bar, h} from "./dom.js";
import {count, short} from "./format.js";
import {PASSAGE} from "./requests.js";
import {name, pieces, plain} from "./text.js";

const MOST_TITLE = 240;
const MOST_METADATA = 6;

/** The words that were marked in results, to mark them in whole documents, too. */
export function markedWords(hits) {
  const marked = hits.flatMap((hit) => [...(hit.highlights?.title ?? []), ...(hit.highlights?.text ?? [])]);
  return new Set(
    marked.filter((piece) => piece.match && piece.text.length < 100).map((piece) => piece.text.toLowerCase()),
  );
}

const pairs = (metadata) =>
  Object.entries(metadata ?? {}).filter(([, value]) => value !== null && value !== "" && value.length !== 0);

export const valueText = (value) =>
  Array.isArray(value) && value.every((part) => typeof part !== "object")
    ? value.map(String).join(", ")
    : typeof value === "object"
      ? json(value)
      : String(value);

function metadataLine(metadata) {
  const all = pairs(metadata);
  if (!all.length) return [];
  const entry = ([field, value]) =>
    h("span", {class: "pair"}, h("b", {}, name(field, 30)), " ", name(valueText(value), 60));
  return [all.slice(0, MOST_METADATA).map(entry), all.length > MOST_METADATA ? `+${all.length - MOST_METADATA}` : null];
}

/** The title of a result, or its id where it has none. */
export function titleNodes(hit) {
  const title = hit.highlights?.title ?? (hit.title ? [{text: hit.title}] : []);
  return title.some((piece) => piece.text.trim()) ? pieces(title, MOST_TITLE) : [name(hit.id)];
}

/** A result of the list. */
export function hitItem(app, hit, rank, best) {
  const id = String(hit.id);
  const open = (tab) => app.href({doc: id, tab});
  const passage = hit.highlights?.text ?? [];
  const metadata = metadataLine(hit.metadata);
  const isTitled = titleNodes(hit).every((node) => !node.classList?.contains("name"));
  return h(
    "li",
    {"data-id": id, class: "hit"},
    h(
      "article",
      {},
      h("span", {class: "rank", "aria-hidden": "true"}, count(rank)),
      h(
        "h3",
        {class: isTitled ? null : "untitled"},
        h("a", {href: open("document"), class: "open"}, h("bdi", {}, titleNodes(hit))),
      ),
      h("a", {class: "why", href: open("why"), "aria-label": `Why ${plain(hit.id)}?`}, "why?"),
      h(
        "span",
        {class: "score", title: "Score"},
        h("span", {class: "hidden"}, "score "),
        short(hit.score),
        bar(hit.score / best),
      ),
      passage.length ? h("p", {class: "passage", dir: "auto"}, pieces(passage, 4 * PASSAGE)) : null,
      isTitled || metadata.length
        ? h(
            "p",
            {class: "about"},
            isTitled ? h("span", {class: "pair"}, h("b", {}, "id"), " ", name(hit.id, 60)) : null,
            metadata,
          )
        : null,
    ),
  );
}

/** A small form that explains any document: also one that is not in the list. */
export function whyNotForm(app, id = "why-not") {
  const input = h("input", {
    id,
    type: "text",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    size: 12,
    placeholder: "document id",
  });
  return h(
    "form",
    {
      class: "why-not",
      onsubmit: (event) => {
        event.preventDefault();
        app.go({doc: input.value.trim(), tab: "why"});
      },
    },
    h("label", {for: id}, "Why not:"),
    input,
    h("button", {}, "Explain"),
  );
}
