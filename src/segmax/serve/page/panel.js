// The panel beside the results: a document, and why it is there. On small screens it covers them.

import {Latest, at, call, json} from "./api.js";
import {byId, h} from "./dom.js";
import {valueText, whyNotForm} from "./hits.js";
import {explainRequest, idOf} from "./requests.js";
import {methodOf} from "./settings.js";
import {longText, name, plain, sentence} from "./text.js";
import {explained} from "./why.js";

const WIDE = matchMedia("(min-width: 68rem)");

export class Panel {
  #latest = new Latest();
  #shown = "";

  constructor(app) {
    this.app = app;
    this.dialog = byId("panel");
    this.heading = byId("panel-title");
    this.body = byId("panel-body");
    this.tabs = {document: byId("tab-document"), why: byId("tab-why")};
    byId("panel-close").addEventListener("click", () => this.close());
    this.dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.close();
    });
    WIDE.addEventListener("change", () => {
      if (!this.isOpen) return;
      this.dialog.close();
      this.#open();
    });
  }

  get isOpen() {
    return this.dialog.open;
  }

  get hasFocus() {
    return this.dialog.contains(document.activeElement);
  }

  close() {
    const id = this.app.state.doc;
    this.app.go({doc: ""});
    this.app.focusHit(id);
  }

  #open() {
    if (WIDE.matches) this.dialog.show();
    else this.dialog.showModal();
    this.heading.focus({preventScroll: true});
  }

  /** Show the document that the state names, or none. */
  update() {
    const {state, info} = this.app;
    document.body.classList.toggle("with-panel", state.doc !== "");
    if (state.doc === "") {
      this.#latest.stop();
      this.#shown = "";
      if (this.isOpen) this.dialog.close();
      return;
    }
    for (const [tab, link] of Object.entries(this.tabs)) {
      link.href = this.app.href({tab});
      if (tab === state.tab) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    if (!this.isOpen) this.#open();
    const isWhy = state.tab === "why";
    const shown = json([info.name, info.version, state.doc, state.tab, isWhy ? this.#question() : null]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#load(isWhy);
  }

  /** What to ask about the document, or a sentence that says why nothing can be asked. */
  #question() {
    try {
      const question = explainRequest(this.app.state, this.app.info);
      return question ?? "Type a query first: an explanation is about a query and a document.";
    } catch (error) {
      return error.message;
    }
  }

  async #load(isWhy) {
    const {app} = this;
    const {state, info} = app;
    try {
      const found = await this.#latest.run((signal) =>
        app.busy(isWhy ? this.#why(info, signal) : this.#document(state, info, signal)),
      );
      if (found === undefined) return;
      this.body.replaceChildren(...found.flat().filter(Boolean));
    } catch (error) {
      this.#shown = "";
      this.heading.replaceChildren(name(state.doc));
      this.body.replaceChildren(
        h("p", {class: "wrong", role: "alert"}, sentence(error.message, 600)),
        whyNotForm(app, "why-not-other"),
      );
    }
    this.body.scrollTop = 0;
  }

  async #fetch(id, info, signal) {
    const body = {
      ids: [id],
      fields: [...(info.has_texts ? ["title", "text"] : []), ...(info.has_metadata ? ["metadata"] : [])],
    };
    return (await call(at(info.name, "documents", "get"), {body, signal})).documents[0];
  }

  #title(found) {
    const title = found?.title?.trim() ? h("bdi", {}, plain(found.title, 300)) : name(this.app.state.doc);
    this.heading.replaceChildren(title);
    document.title = `${plain(this.app.state.doc, 40)} · segmax`;
  }

  async #document(state, info, signal) {
    const found = await this.#fetch(idOf(state.doc, info), info, signal);
    this.#title(found);
    const entries = [["id", found.id], ...Object.entries(found.metadata ?? {})];
    const list = h(
      "dl",
      {class: "metadata"},
      entries.map(([field, value]) =>
        h("div", {}, h("dt", {}, name(field, 60)), h("dd", {}, name(valueText(value), 400))),
      ),
    );
    const text = found.text
      ? longText(found.text, {words: this.app.words()})
      : h(
          "p",
          {class: "quiet"},
          info.has_texts ? "This document has no text." : "This index stores vectors only: it has no texts to show.",
        );
    return [list, text];
  }

  async #why(info, signal) {
    const question = this.#question();
    const {app} = this;
    if (typeof question === "string") {
      this.#title(null);
      return [h("p", {}, question)];
    }
    const found = await call(at(info.name, "explain"), {body: question, signal});
    this.#title(info.has_texts ? await this.#fetch(question.id, info, signal) : null);
    const {settings} = app.state;
    const note =
      methodOf(settings) === "target"
        ? h("p", {class: "quiet"}, "Explanations are of exact search: they do not know a target recall.")
        : null;
    return [explained(found, settings), note, h("hr"), whyNotForm(app, "why-not-other")];
  }
}
