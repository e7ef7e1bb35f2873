// Arithmetic shared by several views. Nothing here is random.

/** One row along the last axis of a tensor; `index` are the indices of the other axes. */
export function rowOf(tensor, ...index) {
  const width = tensor.shape[tensor.shape.length - 1];
  let at = 0;
  index.forEach((i, axis) => {
    at = at * tensor.shape[axis] + i;
  });
  return tensor.data.subarray(at * width, (at + 1) * width);
}

/** The matrix of one head, from a tensor of shape [head, n, m]. */
export function sliceOf(tensor, head) {
  const [, n, m] = tensor.shape;
  return { shape: [n, m], data: tensor.data.subarray(head * n * m, (head + 1) * n * m) };
}

export function dotOf(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1) sum += a[i] * b[i];
  return sum;
}

export function normOf(a) {
  return Math.sqrt(dotOf(a, a));
}

export function meanOf(a) {
  let sum = 0;
  for (const x of a) sum += x;
  return a.length ? sum / a.length : 0;
}

/** The standard deviation as in LayerNorm: divided by n, not n - 1. */
export function deviationOf(a) {
  const mean = meanOf(a);
  return Math.sqrt(meanOf(Array.from(a, (x) => (x - mean) ** 2)));
}

/** Entropy in bits: 0 if all weight is on one element, log2(n) if it is uniform. */
export function entropyOf(weights) {
  let sum = 0;
  for (const p of weights) if (p > 0) sum -= p * Math.log2(p);
  return sum + 0;
}

export function argmax(a) {
  let best = 0;
  for (let i = 1; i < a.length; i += 1) if (a[i] > a[best]) best = i;
  return best;
}

/** The indices of the n largest elements, largest first; the first of equal ones comes first. */
export function topIndices(a, n) {
  const order = Array.from(a.keys());
  order.sort((i, j) => a[j] - a[i] || i - j);
  return order.slice(0, n);
}

/** The largest absolute value that is finite. */
export function maxAbsOf(a) {
  let most = 0;
  for (const x of a) if (Number.isFinite(x) && Math.abs(x) > most) most = Math.abs(x);
  return most;
}

/**
 * length^alpha, or ((5 + length) / 6)^alpha as Wu et al. 2016 and section 6.1: see
 * decode/search.py.
 */
export function lengthPenalty(kind, length, alpha) {
  return kind === "paper" ? ((5 + length) / 6) ** alpha : length ** alpha;
}

/**
 * The probabilities after temperature, top-k and top-p, in this order. Removed tokens get 0, the
 * others add up to 1.
 */
export function shapeProbs(logits, temperature, topK, topP) {
  let most = -Infinity;
  for (const x of logits) if (x > most) most = x;
  const probs = Float64Array.from(logits, (x) => Math.exp((x - most) / temperature));
  const total = probs.reduce((a, b) => a + b, 0);
  for (let i = 0; i < probs.length; i += 1) probs[i] /= total;
  if (topK >= logits.length && topP >= 1) return probs;
  const order = topIndices(probs, topK);
  const allowed = order.reduce((sum, i) => sum + probs[i], 0);
  const keep = new Float64Array(probs.length);
  let sum = 0;
  for (const i of order) {
    if (sum >= topP * allowed) break; // top-p is a share of what top-k has left
    keep[i] = probs[i];
    sum += probs[i];
  }
  return keep.map((p) => p / sum);
}

/** A number for display: about four digits. */
export function show(x) {
  if (x === -Infinity) return "\u2212\u221e";
  if (!Number.isFinite(x)) return String(x);
  const size = Math.abs(x);
  let text;
  if (size === 0) text = "0";
  else if (size >= 1000) text = x.toFixed(0);
  else if (size >= 100) text = x.toFixed(1);
  else if (size >= 10) text = x.toFixed(2);
  else if (size >= 1) text = x.toFixed(3);
  else if (size >= 0.001) text = x.toPrecision(4);
  else text = x.toExponential(2);
  return text.replace(/-/g, "\u2212");
}

/**
 * An operand for display: six digits, so that readers who repeat the arithmetic get the four digits
 * of the result.
 */
export function exact(x) {
  if (!Number.isFinite(x)) return show(x);
  const size = Math.abs(x);
  const text = size !== 0 && (size < 1e-4 || size >= 1e6)
    ? x.toExponential(5)
    : String(Number(x.toPrecision(6)));
  return text.replace(/-/g, "\u2212");
}

/**
 * A result that was computed from shown numbers. The stored float16 number is added if rounding
 * made it different.
 */
export function result(found, stored) {
  const text = show(found);
  return text === show(stored) ? text : `${text} (in the file, as float16: ${show(stored)})`;
}

/**
 * A number in two or three digits; with three decimals if the largest number of its figure,
 * `reach`, is small.
 */
export function brief(x, reach = 1) {
  if (x === -Infinity) return "\u2212\u221e";
  if (Number.isNaN(x)) return "\u2013";
  const size = Math.abs(x);
  const text = size >= 9.95
    ? x.toFixed(0)
    : size >= 0.995
    ? x.toFixed(1)
    : x.toFixed(reach < 0.095 ? 3 : 2);
  return text
    .replace(/^(-?)0\./, "$1.")
    .replace(/^-?\.0+$/, "0")
    .replace("-", "\u2212");
}

/** A probability in percent, with about two significant digits. */
export function percent(p) {
  const x = 100 * p;
  if (x === 0) return "0 %";
  if (x >= 99.95) return "100 %";
  if (x >= 10) return `${x.toFixed(0)} %`;
  if (x >= 1) return `${x.toFixed(1)} %`;
  if (x >= 0.01) return `${x.toFixed(2)} %`;
  return "< 0.01 %";
}

/** A factor for display: 3.2, 18,000, 1.5 million. */
export function times(x) {
  if (x >= 1e6) return `${(x / 1e6).toFixed(x >= 1e7 ? 0 : 1)} million`;
  if (x < 10) return x.toFixed(1);
  const round = Number(x.toPrecision(2));
  return String(round).replace(/\B(?=(\d{3})+$)/g, ",");
}
