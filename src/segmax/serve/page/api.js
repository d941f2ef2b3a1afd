// Calls of the service: keys, retries, errors, and answers that come too late.

import {byId} from "./dom.js";

const KEY = "segmax-key";
const PATIENCE_S = 5; // the longest wait before a quiet second try

/** What went wrong, in a sentence for people. `status` is 0 where no answer came. */
export class ApiError extends Error {
  constructor(message, status, retryAfter = 0) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

// JavaScript's numbers end at 2^53; ids and metadata do not. Longer ones become BigInt, and go back as they came.
const LONG_INTEGER = /(?<![\d.eE"+])\d{16,}(?![\d.eE])/;

function parsed(text) {
  if (!LONG_INTEGER.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    const isLong = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "");
    return isLong ? BigInt(context.source) : value;
  });
}

export function json(value) {
  return JSON.stringify(value, (_, part) =>
    typeof part === "bigint" ? (JSON.rawJSON?.(String(part)) ?? Number(part)) : part,
  );
}

function storedKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

let key = storedKey();
let asking = null;

/** Ask for a key, once for all calls that wait for one; false if nobody wants to give one. */
function askForKey(refused) {
  asking ??= new Promise((resolve) => {
    const [dialog, form, input, message] = ["key", "key-form", "key-input", "key-message"].map(byId);
    const used = new AbortController();
    const end = (given) => {
      used.abort();
      asking = null;
      if (dialog.open) dialog.close();
      resolve(given);
    };
    message.textContent = refused
      ? "The service does not accept this key. Check it and try again."
      : "Enter a key that this service accepts. The browser forgets it when you close the tab.";
    message.classList.toggle("wrong", refused);
    input.value = "";
    form.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        const given = input.value.trim();
        if (!/^[\x21-\x7e]+$/.test(given)) {
          message.textContent = "A key has only letters, digits and signs of ASCII.";
          message.classList.add("wrong");
          return;
        }
        key = given;
        try {
          sessionStorage.setItem(KEY, key);
        } catch {
          // Then it is asked for again after a reload.
        }
        end(true);
      },
      {signal: used.signal},
    );
    byId("key-cancel").addEventListener("click", () => end(false), {signal: used.signal});
    dialog.addEventListener("cancel", () => end(false), {signal: used.signal});
    dialog.showModal();
  });
  return asking;
}

const pause = (seconds, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        reject(signal.reason);
      },
      {once: true},
    );
  });

async function send(path, body, signal) {
  const headers = body === undefined ? {} : {"Content-Type": "application/json"};
  if (key) headers.Authorization = `Bearer ${key}`;
  try {
    const method = body === undefined ? "GET" : "POST";
    return await fetch(path, {method, headers, body, signal, credentials: "omit"});
  } catch (error) {
    if (signal?.aborted) throw error;
    const hint = navigator.onLine ? "Is it still running?" : "This device is offline.";
    throw new ApiError(`The service cannot be reached. ${hint}`, 0);
  }
}

async function problem(response) {
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  let detail = "";
  try {
    detail = (await response.json()).detail;
  } catch {
    // Not an answer of segmax: perhaps one of a proxy in between.
  }
  return new ApiError(detail || `The service answered with status ${response.status}.`, response.status, retryAfter);
}

/**
 * Call the service: GET without a body, POST with one. `again` counts how often it may be asked again quietly when it
 * is busy.
 */
export async function call(path, {body, signal, again = 1} = {}) {
  const sentKey = key;
  const response = await send(path, body === undefined ? undefined : json(body), signal);
  if (response.ok) return parsed(await response.text());
  const error = await problem(response);
  if (response.status === 401) {
    if (key !== sentKey || (await askForKey(sentKey !== ""))) return call(path, {body, signal, again});
    throw new ApiError("This service needs a key.", 401);
  }
  if ((response.status === 503 || response.status === 429) && again > 0) {
    await pause(Math.min(error.retryAfter || 1, PATIENCE_S), signal);
    return call(path, {body, signal, again: again - 1});
  }
  throw error;
}

/** The address of something about an index. */
export const at = (index, ...parts) =>
  ["v1/indexes", ...[index, ...parts].map((part) => encodeURIComponent(part))].join("/");

/** Runs one thing at a time: a new one ends the one before, whose answer is never seen. */
export class Latest {
  #running = null;

  /** Run an async function of a signal; the result is undefined where a newer one took its place. */
  async run(work) {
    this.stop();
    const mine = new AbortController();
    this.#running = mine;
    try {
      const result = await work(mine.signal);
      return mine.signal.aborted ? undefined : result;
    } catch (error) {
      if (mine.signal.aborted) return undefined;
      throw error;
    } finally {
      if (this.#running === mine) this.#running = null;
    }
  }

  stop() {
    this.#running?.abort();
    this.#running = null;
  }
}
