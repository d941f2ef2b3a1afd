// Text from documents, made safe to look at: characters that are not seen, or that would turn the text around them, are
// written out; long texts are cut.

import {h} from "./dom.js";

// Control characters, halves of surrogate pairs, line separators, overrides of direction, annotations, tags.
const HIDDEN_IN_TEXT = /(?:(?![\t\n\r])[\p{Cc}\p{Cs}\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\u{e0000}-\u{e007f}])+/gu;
// In names and ids, whatever cannot be seen may be what makes the difference. Joiners are part of emoji.
const HIDDEN_IN_NAMES = /(?:(?![\u200c\u200d])[\p{Cc}\p{Cs}\p{Cf}\u2028\u2029])+/gu;

function written(character) {
  const code = character.codePointAt(0);
  const digits = code.toString(16);
  if (code > 0xffff) return `\\u{${digits}}`;
  return code > 0xff ? `\\u${digits.padStart(4, "0")}` : `\\x${digits.padStart(2, "0")}`;
}

function nodes(text, hidden) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(hidden)) {
    if (match.index > at) found.push(text.slice(at, match.index));
    const escapes = Array.from(match[0], written).join("");
    found.push(h("span", {class: "escape", title: "a character that cannot be seen"}, escapes));
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push(text.slice(at));
  return found;
}

/** The first characters of a text, without half of a character at the end. */
export function cut(text, limit) {
  if (text.length <= limit) return text;
  const last = text.charCodeAt(limit - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? limit - 1 : limit);
}

/** A short piece of data inside other text: an id, a word, a value. */
export function name(value, limit = 120) {
  const text = String(value);
  const ellipsis = text.length > limit ? "…" : null;
  return h("bdi", {class: "name"}, nodes(cut(text, limit), HIDDEN_IN_NAMES), ellipsis);
}

/** The same as a plain string, for labels that only a screen reader speaks and for titles. */
export function plain(value, limit = 80) {
  const text = String(value);
  const shown = cut(text, limit).replace(HIDDEN_IN_NAMES, (run) => Array.from(run, written).join(""));
  return text.length > limit ? `${shown}…` : shown;
}

/** A sentence of the service, from its capital letter to its full stop. */
export function sentence(text, limit = 1000) {
  const capital = /^\p{Ll}/u.test(text) ? text[0].toUpperCase() + text.slice(1) : text;
  return name(/[.!?]$/.test(capital) ? capital : `${capital}.`, limit);
}

/** The nodes of highlighted pieces, up to a number of characters. */
export function pieces(found, limit) {
  const result = [];
  let left = limit;
  for (const piece of found) {
    const shown = nodes(cut(piece.text, left), HIDDEN_IN_TEXT);
    result.push(piece.match ? h("mark", {}, shown) : shown);
    left -= piece.text.length;
    if (left <= 0) return [...result, "…"];
  }
  return result;
}

/** Cut a text into pieces at the given words, as the service does for passages. */
function marked(text, words) {
  if (!words.size) return [{text}];
  const some = [...words].sort((a, b) => b.length - a.length).map((word) => word.replace(/[^\p{L}\p{N}]/gu, "\\$&"));
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_])(?:${some.join("|")})(?![\\p{L}\\p{N}_])`, "giu");
  const found = [];
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > at) found.push({text: text.slice(at, match.index)});
    found.push({text: match[0], match: true});
    at = match.index + match[0].length;
  }
  return [...found, {text: text.slice(at)}];
}

/** A paragraph that shows the start of a long text, and more of it on request. */
export function longText(text, {words = new Set(), limit = 3000} = {}) {
  const body = h("p", {class: "long", dir: "auto"});
  const more = h("button", {type: "button", class: "more"});
  let shown = 0;
  const grow = () => {
    const upTo = shown === 0 ? limit : shown * 10;
    const part = cut(text, upTo);
    body.replaceChildren(...pieces(marked(part, words), part.length + 1).flat());
    shown = upTo;
    more.hidden = part.length >= text.length;
    more.textContent = `Show more (${(text.length - part.length).toLocaleString("en-US")} characters left)`;
  };
  more.addEventListener("click", grow);
  grow();
  return h("div", {class: "text"}, body, more);
}
