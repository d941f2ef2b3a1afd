// Small parts of drawings: scales and paths. Colors come from the style sheet, so drawings follow the theme.

import {s} from "./dom.js";
import {short} from "./format.js";

/** Round values for an axis from 0 to a maximum: three to six of them. */
export function ticks(most) {
  if (!(most > 0)) return [0];
  const power = 10 ** Math.floor(Math.log10(most / 3));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => most / size <= 5.5);
  return Array.from({length: Math.floor(most / step + 1e-9) + 1}, (_, at) => at * step);
}

/** A function from values between 0 and a maximum to heights of a drawing. */
export const heights = (most, top, bottom) => (value) => bottom - ((bottom - top) * Math.max(0, value)) / (most || 1);

/** Lines and labels of a vertical axis. */
export function verticalAxis(most, y, left, right, label = short) {
  return s(
    "g",
    {class: "axis"},
    ticks(most).map((value) => [
      s("line", {x1: left, x2: right, y1: y(value), y2: y(value)}),
      s("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, label(value)),
    ]),
  );
}

const place = (number) => Math.round(10 * number) / 10;

/** The outline of a bar, as part of a path. */
export const barPath = (left, right, top, bottom) =>
  `M${place(left)} ${place(bottom)}V${place(top)}H${place(right)}V${place(bottom)}Z`;

/** A circle, as part of a path. */
export const dotPath = (x, y, r) =>
  `M${place(x - r)} ${place(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

/** Call a function with the width of an element now, and whenever it changes. */
export function onWidth(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now > 0 && now !== width) draw((width = now));
  });
  observer.observe(element);
}
