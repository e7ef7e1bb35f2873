// Station 15: the page recomputes its own numbers and shows the largest difference.
import { softmaxOf } from "../data.js";
import { el, table } from "../draw.js";
import { dotOf, meanOf, maxAbsOf, rowOf, deviationOf } from "../math.js";
import { placesOf } from "../names.js";

const HALF = 2 ** -11; // the largest relative rounding error of a float16
const TINY = 2 ** -24; // the largest absolute rounding error of a very small (subnormal) float16
const SLACK = 1e-5; // the rounding of float32 in the model itself

/** Collect comparisons of two numbers, each with the difference that rounding can explain. */
class Tally {
  constructor(name, formula) {
    this.name = name;
    this.formula = formula;
    this.n = 0;
    this.most = 0; // the largest difference
    this.allowed = 0; // the difference that rounding can explain there
    this.worst = 0; // the largest ratio of difference to allowed; above 1 something is wrong
  }

  /** Compare two numbers; `bound` is the error from the rounding of the operands. NaN counts. */
  add(found, expected, bound) {
    this.n += 1;
    const difference = found === expected ? 0 : Math.abs(found - expected);
    const size = Math.abs(expected);
    const allowed = bound + HALF * size + TINY + SLACK * Math.max(1, size);
    if (!(difference <= this.most)) [this.most, this.allowed] = [difference, allowed];
    if (!(difference / allowed <= this.worst)) this.worst = difference / allowed;
  }
}

/** The largest error of a dot product that the rounding of both vectors can cause. */
function boundOf(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i += 1)
    sum += Math.abs(a[i] * b[i]) + TINY * (Math.abs(a[i]) + Math.abs(b[i]));
  return 2.01 * HALF * sum;
}

/** Recompute every tensor that follows from others in the trace: one tally for each kind. */
export function checkTrace(trace) {
  const tallies = [
    checkScores,
    checkWeights,
    checkMixed,
    checkSums,
    checkNorms,
    checkInputs,
    checkAlignment,
    checkProbs,
  ].map((check) => check(trace));
  return tallies.filter((tally) => tally.n > 0);
}

function checkScores(trace) {
  const tally = new Tally("scores", "q \u00b7 k = raw");
  for (const place of placesOf(trace)) {
    if (!trace.has(`${place}.q`) || !trace.has(`${place}.raw`)) continue;
    const [q, k, raw] = ["q", "k", "raw"].map((last) => trace.get(`${place}.${last}`));
    const [h, n, m] = raw.shape;
    for (let head = 0; head < h; head += 1)
      for (let i = 0; i < n; i += 1)
        for (let j = 0; j < m; j += 1)
          tally.add(
            dotOf(rowOf(q, head, i), rowOf(k, head, j)),
            rowOf(raw, head, i)[j],
            boundOf(rowOf(q, head, i), rowOf(k, head, j)),
          );
  }
  return tally;
}

/** softmax(QK^T / sqrt(d_k) + mask) from q and k, Eq. 1; without rows that an edit set. */
function checkWeights(trace) {
  const tally = new Tally("weights", "softmax(QK\u1d40 / \u221ad_k + mask) = weights");
  for (const place of placesOf(trace)) {
    if (!trace.has(`${place}.q`)) continue;
    const [q, k, weights] = ["q", "k", "weights"].map((last) => trace.get(`${place}.${last}`));
    const [h, n, m] = weights.shape;
    const scale = trace.ran("scale") ? Math.sqrt(q.shape[2]) : 1;
    for (let head = 0; head < h; head += 1) {
      for (let i = 0; i < n; i += 1) {
        if (
          trace.meta.edits.some(
            (edit) =>
              edit.op === "row" && edit.at === place && edit.head === head && edit.row === i,
          )
        )
          continue;
        const scores = Float64Array.from({ length: m }, (_, j) =>
          trace.isCausal(place) && j > i
            ? -Infinity
            : dotOf(rowOf(q, head, i), rowOf(k, head, j)) / scale,
        );
        const off = Math.max(
          ...scores.map((_, j) => boundOf(rowOf(q, head, i), rowOf(k, head, j)) / scale),
        );
        softmaxOf(scores).forEach((w, j) =>
          tally.add(w, rowOf(weights, head, i)[j], w * (1 - w) * Math.expm1(2 * off)),
        );
      }
    }
  }
  return tally;
}

/** weights V = heads; without muted heads. */
function checkMixed(trace) {
  const tally = new Tally("heads", "weights \u00b7 V = heads");
  for (const place of placesOf(trace)) {
    if (!trace.has(`${place}.v`) || !trace.has(`${place}.heads`)) continue;
    const [v, weights, heads] = ["v", "weights", "heads"].map(
      (last) => trace.get(`${place}.${last}`),
    );
    const [h, n, m] = weights.shape;
    const width = v.shape[2];
    for (let head = 0; head < h; head += 1) {
      if (trace.meta.edits.some(
        (edit) => edit.op === "mute" && edit.at === place && edit.head === head,
      ))
        continue;
      for (let i = 0; i < n; i += 1) {
        const row = rowOf(weights, head, i);
        const sum = new Float64Array(width);
        const bound = new Float64Array(width);
        for (let j = 0; j < m; j += 1) {
          const value = rowOf(v, head, j);
          for (let c = 0; c < width; c += 1) {
            sum[c] += row[j] * value[c];
            bound[c] += 2.01 * HALF * Math.abs(row[j] * value[c]) +
              TINY * (row[j] + Math.abs(value[c]));
          }
        }
        const stored = rowOf(heads, head, i);
        sum.forEach((x, c) => tally.add(x, stored[c], bound[c]));
      }
    }
  }
  return tally;
}

/** With post-norm a sub-layer reads the residual itself, so in + out = add. */
function checkSums(trace) {
  const tally = new Tally("sums", "x + Sublayer(x) = add");
  if (trace.meta.model.norm === "pre") return tally;
  for (const name of trace.names()) {
    const sub = name.endsWith(".add") ? name.slice(0, -4) : null;
    if (!sub || !trace.has(`${sub}.in`) || !trace.has(`${sub}.out`)) continue;
    const [read, out, add] = ["in", "out", "add"].map((last) => trace.get(`${sub}.${last}`).data);
    add.forEach(
      (x, i) => tally.add(read[i] + out[i], x, HALF * (Math.abs(read[i]) + Math.abs(out[i]))),
    );
  }
  return tally;
}

/**
 * LayerNorm. Its gain and bias are not in the trace: they are fitted for each dimension, a straight
 * line on which all positions must lie.
 */
function checkNorms(trace) {
  const tally = new Tally("norms", "gain \u00b7 (add \u2212 mean) / deviation + bias = norm");
  const epsilon = trace.meta.model.norm_epsilon ?? 1e-6; // older traces do not name it
  if (trace.meta.model.norm === "pre") return tally;
  for (const name of trace.names()) {
    const sub = name.endsWith(".norm") ? name.slice(0, -5) : null;
    if (!sub || !trace.has(`${sub}.add`)) continue;
    const [add, norm] = [trace.get(`${sub}.add`), trace.get(name)];
    const [n, d] = add.shape;
    if (n < 4) continue;
    const unit = Array.from({ length: n }, (_, i) => {
      const row = rowOf(add, i);
      const mean = meanOf(row);
      const spread = Math.sqrt(deviationOf(row) ** 2 + epsilon);
      return Float64Array.from(row, (x) => (x - mean) / spread);
    });
    // The rounding error of the largest number of any row.
    const off = Math.max(...unit.map((row) => HALF * 2 * Math.max(...row.map(Math.abs))));
    for (let c = 0; c < d; c += 1) {
      const xs = unit.map((row) => row[c]);
      const ys = unit.map((_, i) => rowOf(norm, i)[c]);
      const [mx, my] = [meanOf(xs), meanOf(ys)];
      const spread = xs.reduce((sum, x) => sum + (x - mx) ** 2, 0);
      const gain = spread ? xs.reduce((sum, x, i) => sum + (x - mx) * (ys[i] - my), 0) / spread : 0;
      const most = Math.max(...ys.map(Math.abs));
      xs.forEach(
        (x, i) => tally.add(my + gain * (x - mx), ys[i], 2 * (Math.abs(gain) * off + HALF * most)),
      );
    }
  }
  return tally;
}

function checkInputs(trace) {
  const tally = new Tally("inputs", "embedding + position = x");
  for (const side of ["src", "tgt"]) {
    if (!trace.has(`${side}.emb`) || !trace.has(`${side}.x`)) continue;
    const [emb, pos, x] = ["emb", "pos", "x"].map((last) => trace.get(`${side}.${last}`).data);
    x.forEach(
      (value, i) => tally.add(emb[i] + pos[i], value, HALF * (Math.abs(emb[i]) + Math.abs(pos[i]))),
    );
  }
  return tally;
}

function checkAlignment(trace) {
  const tally = new Tally("alignment", "mean of the heads = align.attention");
  const place = `dec.${trace.meta.model.alignment_layer}.cross.weights`;
  if (!trace.has("align.attention") || !trace.has(place)) return tally;
  const weights = trace.get(place);
  const [h, n, m] = weights.shape;
  const aligned = trace.get("align.attention");
  for (let i = 0; i < n; i += 1)
    for (let j = 0; j < m; j += 1)
      tally.add(
        meanOf(Array.from({ length: h }, (_, head) => rowOf(weights, head, i)[j])),
        rowOf(aligned, i)[j],
        HALF,
      );
  return tally;
}

/** The listed probabilities, from the logits. */
function checkProbs(trace) {
  const tally = new Tally("probabilities", "softmax(logits) = listed probabilities");
  if (!trace.has("logits")) return tally;
  trace.meta.steps.forEach((step, t) => {
    const logits = rowOf(trace.get("logits"), t);
    const probs = softmaxOf(logits);
    const off = HALF * maxAbsOf(logits);
    for (const [id, , , p] of step.top) tally.add(probs[id], p, p * Math.expm1(2 * off));
  });
  return tally;
}

export const checkStation = {
  id: "check",
  fits: () => true,
  build(box, page) {
    const { trace } = page;
    const said = el("p", { id: "proof", role: "status" }, "Computing \u2026");
    box.append(said);
    setTimeout(() => tell(box, said, checkTrace(trace)), 0); // after the rest is drawn
    return null;
  },
};

function tell(box, said, tallies) {
  const n = tallies.reduce((sum, tally) => sum + tally.n, 0);
  const worst = Math.max(...tallies.map((tally) => tally.worst));
  const most = Math.max(...tallies.map((tally) => tally.most));
  const weights = tallies.find((tally) => tally.name === "weights");
  const isRight = worst <= 1;
  Object.assign(said.dataset, { count: n, weights: weights?.most ?? 0, largest: most, worst });
  const verdict = isRight
    ? "every one is within what storing them as float16 can explain"
    : "which is more than storing them as float16 can explain: something is wrong";
  const probs = tallies.find((tally) => tally.name === "probabilities");
  const mostOfWeights = Math.max(weights?.most ?? 0, probs?.most ?? 0);
  said.replaceChildren(
    el("b", { class: isRight ? "good" : "bad" }, isRight ? "\u2713 " : "\u2717 "),
    `Recomputed ${n.toLocaleString("en")} values. Attention weights and probabilities differ by ` +
      `at most ${mostOfWeights.toExponential(1)}, any number by at most ` +
      `${most.toExponential(1)}; ${verdict}.`,
  );
  const rows = tallies.map((tally) => [
    tally.name,
    tally.formula,
    tally.n.toLocaleString("en"),
    tally.most.toExponential(1),
    tally.allowed.toExponential(1),
    tally.worst <= 1 ? "\u2713" : "\u2717",
  ]);
  const details = el(
    "details",
    { class: "deep" },
    el("summary", {}, "What was computed once more"),
  );
  details.append(
    table(
      "what was computed once more",
      ["", "what must be equal", "values", "largest difference", "float16 allows there", ""],
      rows,
    ),
    el(
      "p",
      { class: "quiet" },
      "A float16 holds about three digits: a number near 100 is stored to the nearest 0.06. What " +
        "is allowed follows from that for each number by itself. Of LayerNorm the gain and bias " +
        "are not stored; they are fitted, one line for each dimension, and all positions must " +
        "lie on it.",
    ),
  );
  box.append(details);
}
