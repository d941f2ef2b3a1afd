// What is typed, as a query: a text, words with weights, or a vector.

/** The kinds of queries that an index takes, the most natural first. */
export function modesOf(info) {
  return [info.encoder !== null ? "text" : "", info.has_vocabulary ? "words" : "", "vector"].filter(Boolean);
}

export const modeOf = (state, info) => (modesOf(info).includes(state.input) ? state.input : modesOf(info)[0]);

export const MODES = {
  text: {label: "Text", placeholder: "Search", hint: ""},
  words: {
    label: "Words",
    placeholder: "copper:1.5 waveguide",
    hint: "Give words of the vocabulary, each with a weight if you like, such as copper:1.5 waveguide.",
  },
  vector: {
    label: "Vector",
    placeholder: '{"indices": [3, 17], "values": [1.5, 0.2]}',
    hint: 'Give a vector as JSON: {"indices": [3, 17], "values": [1.5, 0.2]}, or {"3": 1.5, "17": 0.2}.',
  },
};

/** One sentence about what an index takes, where that is not plain text. */
export function hintOf(info, mode) {
  const hint = MODES[mode].hint;
  return info.encoder === null ? `This index has no encoder, so it cannot read plain text. ${hint}` : hint;
}

function weights(text) {
  const terms = {};
  for (const [, quoted, quotedWeight, token] of text.matchAll(/"([^"]*)"?(?::(\S*))?|(\S+)/gu)) {
    let [word, weight] = [quoted, quotedWeight];
    if (token !== undefined) {
      const colon = token.lastIndexOf(":");
      const isWeight = colon > 0 && Number.isFinite(Number(token.slice(colon + 1)));
      [word, weight] = isWeight ? [token.slice(0, colon), token.slice(colon + 1)] : [token, ""];
    }
    if (word) terms[word] = (terms[word] ?? 0) + (weight ? Number(weight) || 0 : 1);
  }
  return terms;
}

function vector(text) {
  const given = JSON.parse(text);
  if (Array.isArray(given?.indices) && Array.isArray(given.values)) {
    return {indices: given.indices, values: given.values};
  }
  const pairs = Array.isArray(given) ? given : Object.entries(given);
  return {indices: pairs.map(([term]) => Number(term)), values: pairs.map(([, weight]) => Number(weight))};
}

/** The query that a text stands for; null where there is none yet. Raises a SyntaxError that says what is wrong. */
export function queryOf(text, mode) {
  if (!text.trim()) return null;
  if (mode === "text") return {text};
  if (mode === "words") return {terms: weights(text)};
  try {
    return {vector: vector(text)};
  } catch {
    throw new SyntaxError('This is not a vector as JSON yet, such as {"indices": [3, 17], "values": [1.5, 0.2]}.');
  }
}

/** Whether the last word may be the start of a longer one: somebody is still in it. */
export const endsInWord = (text) => /[\p{L}\p{N}]$/u.test(text);
