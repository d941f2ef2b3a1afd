// Numbers as people read them.

const whole = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});
const significant = new Intl.NumberFormat("en-US", {maximumSignificantDigits: 4});
const share = new Intl.NumberFormat("en-US", {style: "percent", maximumFractionDigits: 1});

export const count = (number) => whole.format(number);

/** A score, a weight or a bound. */
export function short(number) {
  if (typeof number !== "number" || !Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  return size !== 0 && (size < 1e-4 || size >= 1e9) ? number.toExponential(2) : significant.format(number);
}

export function percent(fraction) {
  if (!Number.isFinite(fraction)) return "–";
  return fraction > 0 && fraction < 0.001 ? "< 0.1%" : share.format(fraction);
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A duration in milliseconds. */
export function duration(ms) {
  if (typeof ms !== "number" || !Number.isFinite(ms)) return "–";
  if (ms >= 1000) return `${significant.format(Number((ms / 1000).toPrecision(3)))} s`;
  return `${ms >= 100 ? whole.format(ms) : Number(ms.toPrecision(ms < 0.1 ? 2 : 3))} ms`;
}

export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let [value, unit] = [number, 0];
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${Number(value.toPrecision(3))} ${units[unit]}`;
}
