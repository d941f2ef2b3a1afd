// What is asked of the service, as it follows from the state. Each function returns null where there is no query yet,
// and raises a SyntaxError that says what is wrong with one.

import {endsInWord, modeOf, queryOf} from "./query.js";
import {paramsOf, requestOf} from "./settings.js";
import {whereOf} from "./state.js";

export const PASSAGE = 280; // characters of a text that a result shows

/** An id as the index has it: ids that are numbers are not found by their digits. */
export function idOf(text, info) {
  if (info.id_kind !== "int" || !/^-?\d+$/.test(text)) return text;
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

/** The query; while somebody is typing a word, words that start with it count, too. */
function asked(state, info) {
  const mode = modeOf(state, info);
  const query = queryOf(state.q, mode);
  return query && mode === "text" && endsInWord(state.q) ? {...query, prefix: true} : query;
}

/** A search with all that a result shows. */
export function searchRequest(state, info, settings = state.settings) {
  const query = asked(state, info);
  const where = whereOf(state.filters);
  return (
    query && {
      ...query,
      k: state.k,
      ...(state.page > 1 ? {offset: (state.page - 1) * state.k} : {}),
      ...(where ? {where} : {}),
      ...requestOf(settings),
      fields: [...(info.has_texts ? ["title"] : []), ...(info.has_metadata ? ["metadata"] : [])],
      ...(info.has_texts ? {highlight: {width: PASSAGE}} : {}),
      stats: true,
    }
  );
}

/** Why the open document is, or is not, among the results up to this page. */
export function explainRequest(state, info) {
  const query = asked(state, info);
  const [params, where] = [paramsOf(state.settings), whereOf(state.filters)];
  const more = {...(params ? {params} : {}), ...(where ? {where} : {})};
  return query && {...query, id: idOf(state.doc, info), k: state.page * state.k, ...more};
}

/** What the search decides about every cluster. */
export function insideRequest(state, info) {
  const query = asked(state, info);
  const params = paramsOf(state.settings);
  return query && {...query, k: state.k, ...(params ? {params} : {})};
}
