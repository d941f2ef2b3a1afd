// The view of an index itself: its sizes and figures.

import {Latest, at, call} from "./api.js";
import {barPath, heights, onWidth, verticalAxis} from "./charts.js";
import {bar, h, s} from "./dom.js";
import {bytes, count, percent, plural, short} from "./format.js";
import {name} from "./text.js";

const HEIGHT = 180;
const MOST_COMPONENTS = 12;
const MARGIN = {top: 10, right: 4, bottom: 24, left: 46};

const tile = (label, value, note) =>
  h(
    "div",
    {class: "tile"},
    h("dt", {}, label),
    h("dd", {}, h("b", {}, value), note ? h("span", {}, ` ${note}`) : null),
  );

/** The sizes of clusters as bars, the largest first. */
function sizesChart(sizes) {
  const drawing = s("svg", {
    class: "sizes",
    height: HEIGHT,
    role: "img",
    "aria-label": `Documents in each cluster, from ${count(sizes[0])} to ${count(sizes.at(-1))}`,
  });
  const frame = h("div", {class: "frame"}, drawing);
  onWidth(frame, (width) => {
    const [right, bottom] = [width - MARGIN.right, HEIGHT - MARGIN.bottom];
    const most = 1.05 * sizes[0] || 1;
    const y = heights(most, MARGIN.top, bottom);
    const step = Math.min(40, (right - MARGIN.left) / sizes.length);
    const gap = step > 4 ? 1 : 0;
    const path = sizes
      .map((size, number) =>
        barPath(MARGIN.left + number * step, MARGIN.left + (number + 1) * step - gap, y(size), bottom),
      )
      .join("");
    drawing.setAttribute("width", width);
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    drawing.replaceChildren(
      verticalAxis(most, y, MARGIN.left, right, count),
      s("path", {class: "size", d: path}),
      s("text", {class: "label", x: MARGIN.left, y: HEIGHT - 6}, "largest cluster"),
      s("text", {class: "label", x: right, y: HEIGHT - 6, "text-anchor": "end"}, "smallest →"),
    );
  });
  return frame;
}

function componentRows(sizes) {
  const all = Object.entries(sizes)
    .filter(([, size]) => size > 0)
    .sort(([, a], [, b]) => b - a);
  const rest = all.slice(MOST_COMPONENTS).reduce((sum, [, size]) => sum + size, 0);
  const found = rest
    ? [...all.slice(0, MOST_COMPONENTS), [`${plural(all.length - MOST_COMPONENTS, "smaller one")}`, rest]]
    : all;
  const total = found.reduce((sum, [, size]) => sum + size, 0) || 1;
  const most = found[0]?.[1] ?? 1;
  const row = ([component, size]) =>
    h(
      "tr",
      {},
      h("th", {scope: "row"}, name(component.replaceAll("_", " "), 60)),
      h("td", {class: "drawn"}, bar(size / most)),
      h("td", {class: "number"}, bytes(size)),
      h("td", {class: "number"}, percent(size / total)),
    );
  return h(
    "table",
    {class: "components"},
    h(
      "thead",
      {class: "hidden"},
      h(
        "tr",
        {},
        ["Component", "Size, drawn", "Size", "Share"].map((text) => h("th", {scope: "col"}, text)),
      ),
    ),
    h("tbody", {}, found.map(row)),
  );
}

function parts(collection) {
  return [
    h("h2", {}, "Collection"),
    h(
      "dl",
      {class: "tiles"},
      tile("Parts", count(collection.num_parts), `${plural(collection.num_in_memory, "document")} in memory`),
      tile("Deleted", count(collection.num_deleted), "documents that still take space"),
      tile("Files of parts", bytes(collection.part_bytes)),
      tile("Log", bytes(collection.log_bytes), `up to write ${count(collection.sequence)}`),
    ),
  ];
}

export class FiguresView {
  #latest = new Latest();
  #asked = "";

  constructor(app) {
    this.app = app;
    this.element = h("section", {class: "figures-view", "aria-label": "The index"});
  }

  reset() {
    this.#asked = "";
  }

  leave() {
    this.#latest.stop();
    this.#asked = "";
  }

  async update() {
    const {app} = this;
    const {info} = app;
    const asked = `${info.name} ${info.version}`;
    if (asked === this.#asked) return;
    this.#asked = asked;
    try {
      const stats = await this.#latest.run((signal) => app.busy(call(at(info.name, "stats"), {signal})));
      if (stats === undefined) return;
      app.succeed();
      this.#draw(stats);
    } catch (error) {
      this.#asked = "";
      app.fail(error, () => this.update());
    }
  }

  #draw({info, sizes, cluster_sizes: clusters, quantization_error: error, collection}) {
    const mean = info.num_docs ? info.num_postings / info.num_docs : 0;
    const fields = Object.entries(info.fields);
    const sample =
      clusters.length < info.num_clusters
        ? ` A sample of ${count(clusters.length)} of ${count(info.num_clusters)} clusters.`
        : "";
    this.element.replaceChildren(
      ...[
        h("h1", {}, name(info.name)),
        h(
          "p",
          {class: "quiet"},
          info.kind === "collection"
            ? "A collection: documents can be added and deleted."
            : "An index: it does not change.",
          info.encoder
            ? " Texts become queries by "
            : " It has no encoder, so queries are words with weights or vectors.",
          info.encoder ? [h("b", {}, name(info.encoder)), "."] : null,
        ),
        h(
          "dl",
          {class: "tiles"},
          tile("Documents", count(info.num_docs), info.has_texts ? "with texts" : "vectors only"),
          tile("Postings", count(info.num_postings), `${short(mean)} a document`),
          tile("Terms", count(info.num_terms), info.has_vocabulary ? "with words" : "numbers only"),
          tile("Clusters", count(info.num_clusters), `× ${plural(info.num_segments, "segment")}`),
          tile(
            "Size",
            bytes(info.num_bytes),
            info.num_docs ? `${bytes(Math.round(info.num_bytes / info.num_docs))} a document` : "",
          ),
          tile("Weights", `${info.bits} bits`, error === null ? "" : `off by ${percent(error)} on average`),
        ),
        ...(collection ? parts(collection) : []),
        h("h2", {}, "Bytes by component"),
        componentRows(sizes),
        ...(clusters.length
          ? [
              h("h2", {}, "Documents in each cluster"),
              h(
                "p",
                {class: "quiet"},
                `The largest has ${plural(clusters[0], "document")}, the smallest ${count(clusters.at(-1))}.${sample}`,
              ),
              sizesChart(clusters),
            ]
          : []),
        ...(fields.length
          ? [
              h("h2", {}, "Fields of the metadata"),
              h(
                "ul",
                {class: "field-kinds"},
                fields
                  .slice(0, 200)
                  .map(([field, kinds]) => h("li", {}, h("b", {}, name(field, 60)), " ", kinds.join(", "))),
              ),
            ]
          : []),
      ],
    );
  }
}
