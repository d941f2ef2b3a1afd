// Facets and filters: what values the fields of the metadata have, and which of them are asked for.

import {Latest, at, call, json} from "./api.js";
import {bar, h} from "./dom.js";
import {count} from "./format.js";
import {whereOf} from "./state.js";
import {name, plain} from "./text.js";

const FEW = 6; // values of a field that are shown at first
const MANY = 100;
const OPEN_FIELDS = 5; // fields whose values are shown at first
const MOST_FIELDS = 60;

const isNumeric = (kinds) => kinds.some((kind) => kind === "int" || kind === "float");
const hasValues = (kinds) => kinds.some((kind) => ["int", "float", "string", "bool", "list", "null"].includes(kind));

/** The fields of an index that can be filtered by. */
export function fieldsOf(info) {
  return Object.entries(info.fields).filter(([field, kinds]) => !field.startsWith("$") && hasValues(kinds));
}

const shown = (value) => (value === null ? h("em", {}, "null") : name(value, 60));

/** The filters without one of their parts; without all of a field's parts, the field goes, too. */
function changed(filters, field, change) {
  const next = {...filters, [field]: {...filters[field], ...change}};
  for (const [part, value] of Object.entries(next[field])) {
    if (value === undefined || (part === "in" && !value.length)) delete next[field][part];
  }
  if (!Object.keys(next[field]).length) delete next[field];
  return next;
}

function withValue(filters, field, value, isIn) {
  const others = (filters[field]?.in ?? []).filter((other) => json(other) !== json(value));
  return changed(filters, field, {in: isIn ? [...others, value] : others});
}

/** The filters in force, each with a button that removes it. */
export function chips(app, filters) {
  const go = (next) => app.go({filters: next, page: 1, doc: ""});
  const chip = (field, label, next) =>
    h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "chip",
          onclick: () => go(next),
          "aria-label": `Remove the filter ${plain(field)} ${label.textContent ?? label}`,
        },
        h("b", {}, name(field, 40)),
        " ",
        label,
        h("span", {class: "times", "aria-hidden": "true"}, "×"),
      ),
    );
  const found = [];
  for (const [field, filter] of Object.entries(filters)) {
    for (const value of filter.in ?? [])
      found.push(chip(field, h("span", {}, shown(value)), withValue(filters, field, value, false)));
    if (filter.min !== undefined)
      found.push(chip(field, h("span", {}, `≥ ${filter.min}`), changed(filters, field, {min: undefined})));
    if (filter.max !== undefined)
      found.push(chip(field, h("span", {}, `≤ ${filter.max}`), changed(filters, field, {max: undefined})));
  }
  if (!found.length) return null;
  const all = h("li", {}, h("button", {type: "button", class: "more", onclick: () => go({})}, "Clear filters"));
  return h("ul", {class: "chips", "aria-label": "Filters in force"}, found, found.length > 1 ? all : null);
}

/** One field: its values with the number of documents that have each, or a range of numbers. */
class Field {
  #latest = new Latest();
  #list = h("ul", {class: "values"});
  #more = h("button", {type: "button", class: "more"}, "Show more");
  #limit = FEW;
  #asked = "";
  #range = null;

  constructor(app, field, kinds, isOpen) {
    this.app = app;
    this.field = field;
    this.isNumeric = isNumeric(kinds);
    if (this.isNumeric) this.#range = this.#rangeForm();
    this.#more.addEventListener("click", () => {
      this.#limit = MANY;
      this.update();
    });
    this.#more.hidden = true;
    this.element = h(
      "details",
      {class: "field", open: isOpen, ontoggle: () => this.update()},
      h("summary", {}, name(field, 60)),
      this.#range,
      this.#list,
      this.#more,
    );
  }

  #rangeForm() {
    const input = (part, label) =>
      h("input", {
        type: "number",
        step: "any",
        class: part,
        placeholder: label,
        "aria-label": `${plain(this.field)}: ${label}`,
        onchange: (event) => {
          const value = event.target.value === "" ? undefined : Number(event.target.value);
          this.app.go({filters: changed(this.app.state.filters, this.field, {[part]: value}), page: 1, doc: ""});
        },
      });
    return h(
      "div",
      {class: "range"},
      input("min", "from"),
      h("span", {"aria-hidden": "true"}, "–"),
      input("max", "to"),
    );
  }

  /** Show what the state says, and ask for values where filters changed. */
  async update() {
    const {state, info} = this.app;
    const filter = state.filters[this.field] ?? {};
    if (this.#range) {
      for (const part of ["min", "max"]) this.#range.querySelector(`.${part}`).value = filter[part] ?? "";
    }
    for (const box of this.#list.querySelectorAll("input")) {
      box.checked = (filter.in ?? []).some((value) => json(value) === box.value);
    }
    if (!this.element.open) return;
    const where = whereOf(state.filters, this.field);
    const asked = json([info.name, info.version, where, this.#limit]);
    if (asked === this.#asked) return;
    this.#asked = asked;
    try {
      const body = {field: this.field, where, limit: this.#limit + 1};
      const answer = await this.#latest.run((signal) => call(at(info.name, "facets"), {body, signal}));
      if (answer) this.#draw(answer.values);
    } catch (error) {
      this.#asked = "";
      this.#list.replaceChildren(h("li", {class: "quiet"}, error.message));
    }
  }

  #draw(values) {
    const chosen = this.app.state.filters[this.field]?.in ?? [];
    const unlisted = chosen.filter((value) => !values.some((found) => json(found.value) === json(value)));
    // Many different numbers are what ranges are for.
    const isLong = this.isNumeric && values.length > this.#limit && this.#limit === FEW;
    const listed = isLong ? [] : values.slice(0, this.#limit);
    const most = Math.max(1, ...values.map((found) => found.count));
    const focused = this.#list.contains(document.activeElement) ? document.activeElement.value : null;
    const item = ({value, count: number}) =>
      h(
        "li",
        {},
        h(
          "label",
          {class: "value"},
          h("input", {
            type: "checkbox",
            value: json(value),
            checked: chosen.some((other) => json(other) === json(value)),
            onchange: (event) =>
              this.app.go({
                filters: withValue(this.app.state.filters, this.field, value, event.target.checked),
                page: 1,
                doc: "",
              }),
          }),
          h("span", {class: "what"}, shown(value)),
          h("span", {class: "number"}, number === null ? "" : count(number)),
          bar(number / most),
        ),
      );
    this.#list.replaceChildren(...unlisted.map((value) => item({value, count: null})), ...listed.map(item));
    this.#more.hidden = values.length <= this.#limit || this.#limit === MANY;
    this.#more.textContent = isLong ? "Show values" : "Show more";
    if (focused !== null) [...this.#list.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
  }
}

/** All fields of the index. */
export class Filters {
  #shown = "";
  #fields = [];

  constructor(app) {
    this.app = app;
    this.element = h("div", {class: "fields"});
  }

  update() {
    const {state, info} = this.app;
    const fields = fieldsOf(info);
    const key = json([info.name, fields]);
    if (key !== this.#shown) {
      this.#shown = key;
      const isOpen = (field, number) => number < OPEN_FIELDS || state.filters[field] !== undefined;
      this.#fields = fields
        .slice(0, MOST_FIELDS)
        .map(([field, kinds], number) => new Field(this.app, field, kinds, isOpen(field, number)));
      const left = fields.length - this.#fields.length;
      this.element.replaceChildren(
        ...(fields.length
          ? [h("h2", {}, "Filters"), h("p", {class: "quiet"}, "Numbers count documents, whatever the query.")]
          : []),
        ...this.#fields.map((field) => field.element),
        ...(left > 0 ? [h("p", {class: "quiet"}, `${count(left)} more fields are not shown.`)] : []),
      );
    }
    for (const field of this.#fields) field.update();
  }
}
