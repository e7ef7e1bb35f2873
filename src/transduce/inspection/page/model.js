// The trained model inside the page: the forward pass of `transduce.model`, the search of
// `transduce.decode.search` and the trace of `transduce.inspection.trace`, in plain JavaScript on
// Float32Array. Tests compare each of them with Python's numbers.
//
// Matrices are stored row by row, one row per position. Weights are stored as in the file, one row
// per output, so that a dot product reads contiguous memory. Sums are in double precision.

import { makeTrace, openTensors, readTensor } from "./data.js";
import { isCausal } from "./names.js";
import {
  cleanText,
  EOS_ID,
  isBlank,
  oneLine,
  PAD_ID,
  Pieces,
  SOS_ID,
  splitWords,
  UNKNOWN_ID,
} from "./pieces.js";

// The stop rule of transduce/decode/hypotheses.py.
const ENDS_PER_BEAM = 2;
const MIN_CERTAINTY = -0.5; // mean log-probability of a token
const EXTRA_LENGTH = 50; // tokens a translation may have more than its source (section 6.1)
const MAX_TOKENS = 128; // tokens on each side
const N_LISTED = 20; // candidates of a step
const N_NEAREST = 5; // similar tokens of a token
const MAX_EDITS = 32;
const MAX_KEYS = 129; // with [SOS] or [EOS]
const NUDGE = 1e-6; // relative step of the numerical gradient; in double precision
const BANNED_IDS = [PAD_ID, SOS_ID, UNKNOWN_ID]; // [EOS] is the only special token in a translation
const EDIT_FIELDS = {
  mute: { at: "str", head: "int" },
  row: { at: "str", head: "int", row: "int", values: "list" },
  no_positions: {},
  no_scale: {},
  no_mask: {},
  replace: { word: "int", with: "str" },
  force: { step: "int", piece: "int" },
};
const IS_OF_TYPE = {
  str: (value) => typeof value === "string",
  int: (value) => Number.isInteger(value),
  list: (value) => Array.isArray(value),
};

/**
 * Parse a model packed by inspection/page_model.py. `encode` returns the ids of a text; `logits`
 * expects ids with [EOS] and [SOS].
 */
export function openModel(bytes) {
  const model = new PageModel(bytes);
  return {
    trace: (text, edits = [], beam = null) => model.trace(text, edits, beam),
    translate: (text, beam = null) => model.translate(text, beam),
    encode: (text) => model.source.encode(cleanText(text, model.about.normalization)),
    logits: (sourceIds, targetIds) => model.read(makeRun([]), sourceIds, targetIds),
    pieces: model.target,
  };
}

/**
 * The options of a forward pass: its edits, a Map that records all tensors, a source position to
 * hide, and a source position whose vector is made slightly longer (`stretched`).
 */
function makeRun(edits, changes = {}) {
  const without = (what) => edits.some((edit) => edit.op === `no_${what}`);
  return {
    edits,
    hasPositions: !without("positions"),
    isScaled: !without("scale"),
    isMasked: !without("mask"),
    // With these edits a new token changes earlier rows, so nothing can be cached.
    readsAgain: edits.some((edit) => edit.op === "row" || edit.op === "no_mask"),
    record: null,
    hidden: -1,
    stretched: -1,
    Numbers: Float32Array,
    ...changes,
  };
}

function keepTensor(run, name, shape, data) {
  if (run.record !== null) run.record.set(name, { shape, data });
}

/**
 * y = x W^T + b for n rows, two rows and four outputs at a time. Here and below, the result has the
 * array type of x.
 */
function multiplyRows(x, n, weight, bias, nIn, nOut) {
  const y = new x.constructor(n * nOut);
  let o = 0;
  for (; o + 3 < nOut; o += 4) {
    const w0 = o * nIn;
    const w1 = w0 + nIn;
    const w2 = w1 + nIn;
    const w3 = w2 + nIn;
    let row = 0;
    for (; row + 1 < n; row += 2) {
      const at = row * nIn;
      let s0 = 0;
      let s1 = 0;
      let s2 = 0;
      let s3 = 0;
      let t0 = 0;
      let t1 = 0;
      let t2 = 0;
      let t3 = 0;
      for (let i = 0; i < nIn; i += 1) {
        const a = x[at + i];
        const b = x[at + nIn + i];
        const v0 = weight[w0 + i];
        const v1 = weight[w1 + i];
        const v2 = weight[w2 + i];
        const v3 = weight[w3 + i];
        s0 += a * v0;
        s1 += a * v1;
        s2 += a * v2;
        s3 += a * v3;
        t0 += b * v0;
        t1 += b * v1;
        t2 += b * v2;
        t3 += b * v3;
      }
      const to = row * nOut + o;
      y[to] = s0;
      y[to + 1] = s1;
      y[to + 2] = s2;
      y[to + 3] = s3;
      y[to + nOut] = t0;
      y[to + nOut + 1] = t1;
      y[to + nOut + 2] = t2;
      y[to + nOut + 3] = t3;
    }
    if (row < n) {
      const at = row * nIn;
      let s0 = 0;
      let s1 = 0;
      let s2 = 0;
      let s3 = 0;
      for (let i = 0; i < nIn; i += 1) {
        const a = x[at + i];
        s0 += a * weight[w0 + i];
        s1 += a * weight[w1 + i];
        s2 += a * weight[w2 + i];
        s3 += a * weight[w3 + i];
      }
      const to = row * nOut + o;
      y[to] = s0;
      y[to + 1] = s1;
      y[to + 2] = s2;
      y[to + 3] = s3;
    }
  }
  for (; o < nOut; o += 1) {
    for (let row = 0; row < n; row += 1) {
      let sum = 0;
      for (let i = 0; i < nIn; i += 1) sum += x[row * nIn + i] * weight[o * nIn + i];
      y[row * nOut + o] = sum;
    }
  }
  if (bias !== null) {
    for (let row = 0; row < n; row += 1)
      for (let i = 0; i < nOut; i += 1) y[row * nOut + i] += bias[i];
  }
  return y;
}

/** LayerNorm of each row; `epsilon` is added to the variance. */
function normRows(x, n, weight, bias, epsilon) {
  const width = weight.length;
  const y = new x.constructor(x.length);
  for (let row = 0; row < n; row += 1) {
    const at = row * width;
    let mean = 0;
    for (let i = 0; i < width; i += 1) mean += x[at + i];
    mean /= width;
    let variance = 0;
    for (let i = 0; i < width; i += 1) variance += (x[at + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / width + epsilon);
    for (let i = 0; i < width; i += 1) y[at + i] = (x[at + i] - mean) * scale * weight[i] + bias[i];
  }
  return y;
}

/** The error function, by a series of positive terms (Abramowitz & Stegun 7.1.6). */
export function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x); // to the last digit
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n += 1) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  swish: (x) => x / (1 + Math.exp(-x)),
};

function addRows(a, b) {
  const sum = new a.constructor(a.length);
  for (let i = 0; i < a.length; i += 1) sum[i] = a[i] + b[i];
  return sum;
}

/** Split the last axis into heads: [n, h * size] -> [h, n, size]. */
function splitHeads(x, n, h) {
  const size = x.length / n / h;
  const y = new Float32Array(x.length);
  for (let head = 0; head < h; head += 1) {
    for (let row = 0; row < n; row += 1) {
      const from = (row * h + head) * size;
      y.set(x.subarray(from, from + size), (head * n + row) * size);
    }
  }
  return y;
}

/** Append rows to cached rows; `past` is null if there are none. */
function joinRows(past, added) {
  if (past === null) return added;
  const all = new added.constructor(past.length + added.length);
  all.set(past);
  all.set(added, past.length);
  return all;
}

/** log of softmax of one row. */
function logSoftmax(logits, start, n) {
  let most = -Infinity;
  for (let i = start; i < start + n; i += 1) if (logits[i] > most) most = logits[i];
  let sum = 0;
  for (let i = start; i < start + n; i += 1) sum += Math.exp(logits[i] - most);
  const shift = most + Math.log(sum);
  const found = new Float64Array(n);
  for (let i = 0; i < n; i += 1) found[i] = logits[start + i] - shift;
  return found;
}

/** The indices of the n largest finite numbers, largest first. */
function topIndices(values, n) {
  const places = [];
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i];
    if (value === -Infinity || (places.length === n && !(value > values[places[n - 1]]))) continue;
    let at = places.length;
    while (at > 0 && value > values[places[at - 1]]) at -= 1;
    places.splice(at, 0, i);
    if (places.length > n) places.pop();
  }
  return places;
}

/** Whether the same few tokens are repeated in a loop. */
export function hasRepetition(ids) {
  if (ids.length - new Set(ids).size < 6) return false;
  for (let period = 1; period <= 12; period += 1) {
    let run = 0;
    for (let i = period; i < ids.length; i += 1) {
      run = ids[i] === ids[i - period] ? run + 1 : 0;
      if (run + period >= Math.max(4 * period, 8)) return true;
    }
  }
  return false;
}

/** The weights with the architecture, the vocabularies and the search settings. */
class PageModel {
  constructor(bytes) {
    const { header, about, start } = openTensors(bytes);
    if (!about["transduce.model"]) {
      throw new Error("this file holds no model weights; make the page with --with-model");
    }
    this.about = JSON.parse(about["transduce.model"]);
    this.config = this.about.model;
    this.weights = new Map(
      Object.entries(header).map(([name, entry]) => [name, readTensor(bytes, start, entry).data]),
    );
    this.source = new Pieces(this.about.source);
    this.target = this.about.target ? new Pieces(this.about.target) : this.source;
    this.isTranslator = this.config.kind === "encoder-decoder";
    this.sourceTable = this.isTranslator ? "source_embedding" : "embedding";
    this.targetTable = this.about.target ? "target_embedding" : this.sourceTable;
  }

  weight(name) {
    const found = this.weights.get(name);
    if (found === undefined) throw new Error(`the model has no weight ${name}`);
    return found;
  }

  /** The sizes of the stack that an attention or another part of the model belongs to. */
  stackOf(at) {
    return at.startsWith("enc") ? this.config : this.config.decoder;
  }

  /** The attentions by name, in the order of Figure 1. */
  places() {
    const layersOf = (stack) => [...Array(this.stackOf(stack).n_layers).keys()];
    if (!this.isTranslator) return layersOf("dec").map((i) => `dec.${i}.self`);
    return [
      ...layersOf("enc").map((i) => `enc.${i}.self`),
      ...layersOf("dec").flatMap((i) => [`dec.${i}.self`, `dec.${i}.cross`]),
    ];
  }

  // ---- Figure 1 ----

  /**
   * PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(...): section 3.5. Learned
   * positions or zeros, if the model or the edits say so.
   */
  positions(run, table, first, n) {
    const d = this.config.d_model;
    const found = new Float32Array(n * d);
    if (!run.hasPositions) return found;
    if (this.config.positions === "learned") {
      const learned = this.weight(`${table}.positions.weight`);
      if ((first + n) * d > learned.length)
        throw new Error(
          `a text of ${first + n} tokens, but this model has learned ${learned.length / d} ` +
            "positions",
        );
      found.set(learned.subarray(first * d, (first + n) * d));
      return found;
    }
    const step = Math.fround(-Math.log(10000) / d);
    for (let i = 0; i < d; i += 2) {
      const pace = Math.fround(Math.exp(Math.fround(i * step)));
      for (let row = 0; row < n; row += 1) {
        const angle = Math.fround((first + row) * pace);
        found[row * d + i] = Math.sin(angle);
        found[row * d + i + 1] = Math.cos(angle);
      }
    }
    return found;
  }

  /** The embeddings of tokens times sqrt(d_model), section 3.4, unless the model says otherwise. */
  vectors(table, ids) {
    const d = this.config.d_model;
    const weight = this.weight(`${table}.weight`);
    const scale = this.config.embedding_scale ? Math.sqrt(d) : 1;
    const found = new Float32Array(ids.length * d);
    ids.forEach((id, row) => {
      for (let i = 0; i < d; i += 1) found[row * d + i] = weight[id * d + i] * scale;
    });
    return found;
  }

  /** Token embeddings plus positional encodings. */
  embed(run, side, table, ids, first) {
    const shape = [ids.length, this.config.d_model];
    const emb = this.vectors(table, ids);
    const pos = this.positions(run, table, first, ids.length);
    const x = addRows(emb, pos);
    keepTensor(run, `${side}.emb`, shape, emb);
    keepTensor(run, `${side}.pos`, shape, pos);
    keepTensor(run, `${side}.x`, shape, x);
    return run.Numbers === Float32Array ? x : run.Numbers.from(x);
  }

  /**
   * A sub-layer with its residual connection, and LayerNorm after it as in the paper (section 3.1)
   * or before it (pre-norm).
   */
  addAndNorm(run, at, name, x, n, sublayer) {
    const shape = [n, this.config.d_model];
    const weight = this.weight(`${name}_norm.norm.weight`);
    const bias = this.weight(`${name}_norm.norm.bias`);
    const epsilon = this.config.norm_epsilon;
    const isPre = this.config.norm === "pre";
    const read = isPre ? normRows(x, n, weight, bias, epsilon) : x;
    const out = sublayer(read);
    const sum = addRows(x, out);
    const norm = isPre ? sum : normRows(sum, n, weight, bias, epsilon);
    keepTensor(run, `${at}.in`, shape, read);
    keepTensor(run, `${at}.out`, shape, out);
    keepTensor(run, `${at}.add`, shape, sum);
    keepTensor(run, `${at}.norm`, shape, norm);
    return norm;
  }

  /** FFN(x) = max(0, x W_1 + b_1) W_2 + b_2: Eq. 2; or another activation than max(0, x). */
  feedForward(run, at, name, x, n) {
    const d = this.config.d_model;
    const dFf = this.stackOf(at).d_ff;
    const hidden = multiplyRows(
      x,
      n,
      this.weight(`${name}.w_1.weight`),
      this.weight(`${name}.w_1.bias`),
      d,
      dFf,
    );
    const activate = ACTIVATIONS[this.config.activation];
    for (let i = 0; i < hidden.length; i += 1) hidden[i] = activate(hidden[i]);
    keepTensor(run, `${at}.hidden`, [n, dFf], hidden);
    return multiplyRows(
      hidden,
      n,
      this.weight(`${name}.w_2.weight`),
      this.weight(`${name}.w_2.bias`),
      dFf,
      d,
    );
  }

  /** Q W^Q, K W^K or V W^V, all heads side by side; `letter` is "q", "k" or "v". */
  project(name, letter, x, n) {
    const { n_heads: h, d_k: dK, d_v: dV } = this.stackOf(name);
    return multiplyRows(
      x,
      n,
      this.weight(`${name}.w_${letter}.weight`),
      this.attentionBias(`${name}.w_${letter}`),
      this.config.d_model,
      h * (letter === "v" ? dV : dK),
    );
  }

  /**
   * softmax(Q K^T / sqrt(d_k)) V: Eq. 1, with the edits of one attention. Returns the heads side by
   * side: Concat(head_1, ...).
   */
  attend(run, at, q, k, v, hidesAhead) {
    const { n_heads: h, d_k: dK, d_v: dV } = this.stackOf(at);
    const n = q.length / (h * dK);
    const m = k.length / (h * dK);
    const raw = new q.constructor(h * n * m);
    const weights = new q.constructor(h * n * m);
    const concat = new q.constructor(n * h * dV);
    const scale = run.isScaled ? Math.sqrt(dK) : 1;
    const hidden = hidesAhead ? -1 : run.hidden; // a position of the source
    const ownEdits = run.edits.filter((edit) => edit.at === at);
    for (let head = 0; head < h; head += 1) {
      for (let i = 0; i < n; i += 1) {
        const to = (head * n + i) * m;
        // The last query is at the position of the last key.
        const last = hidesAhead && run.isMasked ? m - n + i : m - 1;
        const ofQuery = (i * h + head) * dK;
        let most = -Infinity;
        for (let j = 0; j < m; j += 1) {
          const ofKey = (j * h + head) * dK;
          let sum = 0;
          for (let c = 0; c < dK; c += 1) sum += q[ofQuery + c] * k[ofKey + c];
          raw[to + j] = sum;
          if (j <= last && j !== hidden && sum / scale > most) most = sum / scale;
        }
        let total = 0;
        for (let j = 0; j <= last; j += 1) {
          const share = j === hidden ? 0 : Math.exp(raw[to + j] / scale - most);
          weights[to + j] = share;
          total += share;
        }
        for (let j = 0; j <= last; j += 1) weights[to + j] /= total;
      }
    }
    for (const edit of ownEdits) {
      if (edit.op !== "row" || edit.row >= n) continue; // during search not all rows exist yet
      for (let j = 0; j < m; j += 1)
        weights[(edit.head * n + edit.row) * m + j] = edit.values[j] ?? 0;
    }
    for (let head = 0; head < h; head += 1) {
      if (ownEdits.some((edit) => edit.op === "mute" && edit.head === head)) continue;
      for (let i = 0; i < n; i += 1) {
        const from = (head * n + i) * m;
        const to = (i * h + head) * dV;
        for (let c = 0; c < dV; c += 1) {
          let sum = 0;
          for (let j = 0; j < m; j += 1) sum += weights[from + j] * v[(j * h + head) * dV + c];
          concat[to + c] = sum;
        }
      }
    }
    if (run.record !== null) {
      keepTensor(run, `${at}.q`, [h, n, dK], splitHeads(q, n, h));
      keepTensor(run, `${at}.k`, [h, m, dK], splitHeads(k, m, h));
      keepTensor(run, `${at}.v`, [h, m, dV], splitHeads(v, m, h));
      keepTensor(run, `${at}.raw`, [h, n, m], raw);
      keepTensor(run, `${at}.weights`, [h, n, m], weights);
      keepTensor(run, `${at}.heads`, [h, n, dV], splitHeads(concat, n, h));
      keepTensor(run, `${at}.wrote`, [h, n], this.wrote(at, concat, n));
    }
    return concat;
  }

  /** Concat(head_1, ..., head_h) W^O, section 3.2.2. */
  projectHeads(name, concat, n) {
    const d = this.config.d_model;
    const { n_heads: h, d_v: dV } = this.stackOf(name);
    const weight = this.weight(`${name}.w_o.weight`);
    return multiplyRows(concat, n, weight, this.attentionBias(`${name}.w_o`), h * dV, d);
  }

  /** The bias of a linear map of attention; null if the model has none. */
  attentionBias(name) {
    return this.config.attention_bias ? this.weight(`${name}.bias`) : null;
  }

  /** The norm of what each head adds to each position. */
  wrote(at, concat, n) {
    const d = this.config.d_model;
    const { n_heads: h, d_v: dV } = this.stackOf(at);
    const [stack, layer, kind] = at.split(".");
    const weight = this.weight(
      `${stack === "enc" ? "encoder" : "decoder.layers"}.${layer}.${kind}_attention.w_o.weight`,
    );
    const found = new Float32Array(h * n);
    for (let head = 0; head < h; head += 1) {
      for (let row = 0; row < n; row += 1) {
        let square = 0;
        for (let o = 0; o < d; o += 1) {
          let sum = 0;
          for (let c = 0; c < dV; c += 1)
            sum += concat[(row * h + head) * dV + c] * weight[o * h * dV + head * dV + c];
          square += sum * sum;
        }
        found[head * n + row] = Math.sqrt(square);
      }
    }
    return found;
  }

  /** The LayerNorm after a pre-norm stack; post-norm needs none. */
  finalNorm(name, x, n) {
    if (this.config.norm !== "pre") return x;
    const [weight, bias] = ["weight", "bias"].map((part) => this.weight(`${name}.${part}`));
    return normRows(x, n, weight, bias, this.config.norm_epsilon);
  }

  /** The encoder, Figure 1 (left): one vector for each source token. */
  encode(run, ids) {
    const n = ids.length;
    const d = this.config.d_model;
    let x = this.embed(run, "src", this.sourceTable, ids, 0);
    if (run.stretched >= 0) for (let i = 0; i < d; i += 1) x[run.stretched * d + i] *= 1 + NUDGE;
    for (let layer = 0; layer < this.stackOf("enc").n_layers; layer += 1) {
      const name = `encoder.${layer}`;
      const at = `enc.${layer}`;
      x = this.addAndNorm(run, `${at}.self`, `${name}.self_attention`, x, n, (y) => {
        const [q, k, v] = ["q", "k", "v"].map(
          (letter) => this.project(`${name}.self_attention`, letter, y, n),
        );
        return this.projectHeads(
          `${name}.self_attention`,
          this.attend(run, `${at}.self`, q, k, v, false),
          n,
        );
      });
      x = this.addAndNorm(
        run,
        `${at}.ff`,
        `${name}.feed_forward`,
        x,
        n,
        (y) => this.feedForward(run, `${at}.ff`, `${name}.feed_forward`, y, n),
      );
    }
    const memory = this.finalNorm("encoder_norm", x, n);
    keepTensor(run, "enc.out", [n, d], memory);
    return memory;
  }

  /** Compute the cross-attention keys and values of every decoder layer, once per source. */
  start(run, sourceIds) {
    if (!this.isTranslator) return [];
    const memory = this.encode(run, sourceIds);
    return [...Array(this.stackOf("dec").n_layers).keys()].map((layer) => {
      const name = `decoder.layers.${layer}.cross_attention`;
      return {
        k: this.project(name, "k", memory, sourceIds.length),
        v: this.project(name, "v", memory, sourceIds.length),
      };
    });
  }

  /**
   * The decoder, Figure 1 (right): read the next tokens of several hypotheses; return the hidden
   * vectors and the new caches.
   */
  decode(run, memory, hypotheses, pasts) {
    const nNew = hypotheses[0].length;
    const n = hypotheses.length * nNew;
    const d = this.config.d_model;
    const { n_heads: h, d_k: dK, d_v: dV } = this.stackOf("dec");
    const first = pasts[0].length;
    const caches = hypotheses.map(() => ({ length: first + nNew, layers: [] }));
    let x = this.embedAll(run, hypotheses, first);
    const each = (concat, attendOne) => {
      for (let i = 0; i < hypotheses.length; i += 1) concat.set(attendOne(i), i * nNew * h * dV);
      return concat;
    };
    const rowsOf = (all, i, width) => all.subarray(i * nNew * width, (i + 1) * nNew * width);
    for (let layer = 0; layer < this.stackOf("dec").n_layers; layer += 1) {
      const name = `decoder.layers.${layer}`;
      const at = `dec.${layer}`;
      x = this.addAndNorm(run, `${at}.self`, `${name}.self_attention`, x, n, (y) => {
        const [q, k, v] = ["q", "k", "v"].map(
          (letter) => this.project(`${name}.self_attention`, letter, y, n),
        );
        const concat = each(new q.constructor(n * h * dV), (i) => {
          const past = pasts[i].layers[layer] ?? { k: null, v: null };
          const now = {
            k: joinRows(past.k, rowsOf(k, i, h * dK)),
            v: joinRows(past.v, rowsOf(v, i, h * dV)),
          };
          caches[i].layers.push(now);
          return this.attend(run, `${at}.self`, rowsOf(q, i, h * dK), now.k, now.v, true);
        });
        return this.projectHeads(`${name}.self_attention`, concat, n);
      });
      if (this.isTranslator) {
        x = this.addAndNorm(run, `${at}.cross`, `${name}.cross_attention`, x, n, (y) => {
          const q = this.project(`${name}.cross_attention`, "q", y, n);
          const { k, v } = memory[layer];
          const concat = each(
            new q.constructor(n * h * dV),
            (i) => this.attend(run, `${at}.cross`, rowsOf(q, i, h * dK), k, v, false),
          );
          return this.projectHeads(`${name}.cross_attention`, concat, n);
        });
      }
      x = this.addAndNorm(
        run,
        `${at}.ff`,
        `${name}.feed_forward`,
        x,
        n,
        (y) => this.feedForward(run, `${at}.ff`, `${name}.feed_forward`, y, n),
      );
      if (run.record !== null)
        keepTensor(
          run,
          `lens.${layer}`,
          [n, this.target.size],
          this.score(this.finalNorm("decoder.norm", x, n), n),
        );
    }
    const hidden = this.finalNorm("decoder.norm", x, n);
    keepTensor(run, "dec.out", [n, d], hidden);
    return { hidden, caches };
  }

  embedAll(run, hypotheses, first) {
    if (hypotheses.length === 1)
      return this.embed(run, "tgt", this.targetTable, hypotheses[0], first);
    const parts = hypotheses.map((ids) => this.embed(run, "tgt", this.targetTable, ids, first));
    return parts.reduce(joinRows);
  }

  /** The logit of each token: a dot product with its embedding (section 3.4). */
  score(hidden, n) {
    return this.promote(hidden, n, this.config.logit_bias ? this.weight("output.bias") : null);
  }

  /** What a vector adds to the logit of each token. */
  promote(vectors, n, bias = null) {
    const table = this.config.tied_output ? this.targetTable : "output";
    const weight = this.weight(`${table}.weight`);
    return multiplyRows(vectors, n, weight, bias, this.config.d_model, this.target.size);
  }

  /** One pass over all positions: the logits of every step. */
  read(run, sourceIds, targetIds) {
    const { hidden } = this.decode(
      run,
      this.start(run, sourceIds),
      [targetIds],
      [{ length: 0, layers: [] }],
    );
    const logits = {
      shape: [targetIds.length, this.target.size],
      data: this.score(hidden, targetIds.length),
    };
    keepTensor(run, "logits", logits.shape, logits.data);
    return logits;
  }

  // ---- Section 6.1: beam search ----

  /** The divisor of a score: length^alpha, or Wu et al. 2016, Eq. 14. */
  penalty(length) {
    const { alpha, length_penalty: kind } = this.about.decode;
    return (kind === "paper" ? (5 + length) / 6 : length) ** alpha;
  }

  /** The maximum number of tokens of a translation, [EOS] included. */
  limit(nSource, nPrefix) {
    const most = Math.max(
      (this.about.decode.max_length ?? nSource + EXTRA_LENGTH) + 1,
      nPrefix + 1,
    );
    return this.config.positions === "learned" ? Math.min(most, this.config.max_positions) : most;
  }

  /** The log-probabilities of the next token of each hypothesis, and the new caches. */
  step(run, memory, live) {
    const start = { length: 0, layers: [] };
    const again = run.readsAgain;
    const news = live.map((each) => (again ? each.ids : each.ids.slice(-1)));
    const { hidden, caches } = this.decode(
      run,
      memory,
      news,
      live.map((each) => (again ? start : each.past)),
    );
    const d = this.config.d_model;
    const last = new hidden.constructor(live.length * d);
    live.forEach(
      (_, i) =>
        last.set(
          hidden.subarray(((i + 1) * news[0].length - 1) * d, (i + 1) * news[0].length * d),
          i * d,
        ),
    );
    const logits = this.score(last, live.length);
    return {
      logProbs: live.map((_, i) => logSoftmax(logits, i * this.target.size, this.target.size)),
      caches,
    };
  }

  /**
   * Return the best target for one source, and the tree of all candidates of the search that found
   * it: beam search, or greedy search where that is uncertain and greedy search finds a better one.
   */
  search(run, source, width, prefix) {
    const found = this.searchOnce(run, source, width, prefix);
    const isCertain = found.best.logProb >= MIN_CERTAINTY * (found.best.ids.length + 1);
    if (width === 1 || isCertain) return { target: found.best.ids, tree: found.tree };
    const greedy = this.searchOnce(run, source, 1, prefix);
    const isOther = greedy.best.ids.join() !== found.best.ids.join();
    const { best, tree } = isOther && greedy.best.score > found.best.score ? greedy : found;
    return { target: best.ids, tree };
  }

  /** One search: the best hypothesis, and the tree. */
  searchOnce(run, source, width, prefix) {
    const nNeeded = width === 1 ? 1 : ENDS_PER_BEAM * width;
    const memory = this.start(run, [...source, EOS_ID]);
    const limit = this.limit(source.length, prefix.length);
    const tree = [];
    const ended = [];
    let live = [{ ids: [SOS_ID], score: 0, node: -1, past: { length: 0, layers: [] } }];
    for (let length = 1; live.length > 0 && ended.length < nNeeded; length += 1) {
      const { logProbs, caches } = this.step(run, memory, live);
      const candidates = logProbs.flatMap((row, beam) => {
        for (const id of BANNED_IDS) row[id] = -Infinity;
        if (length === 1) row[EOS_ID] = -Infinity; // nothing is written yet
        const only = length <= prefix.length ? prefix[length - 1] : length >= limit ? EOS_ID : null;
        const pieces = only === null
          ? topIndices(row, 2 * width)
          : row[only] > -Infinity
          ? [only]
          : [];
        return pieces.map((id) => ({ beam, id, score: live[beam].score + row[id] }));
      });
      candidates.sort((a, b) => b.score - a.score);
      const next = [];
      candidates.slice(0, 2 * width).forEach(({ beam, id, score }, place) => {
        const isKept = id !== EOS_ID && next.length < width;
        const hasEnded = id === EOS_ID && place < width;
        const { ids, score: before, node } = live[beam];
        tree.push({
          parent: node,
          step: length - 1,
          id,
          piece: this.target.piece(id),
          log_prob: score - before,
          score,
          normalised: score / this.penalty(length),
          state: isKept ? "kept" : hasEnded ? "ended" : "pruned",
        });
        if (isKept)
          next.push({ ids: [...ids, id], score, node: tree.length - 1, past: caches[beam] });
        if (hasEnded)
          ended.push({ ids: ids.slice(1), logProb: score, score: score / this.penalty(length) });
      });
      live = next;
    }
    if (ended.length === 0) {
      throw new Error("no translation can continue after these tokens; choose another token");
    }
    return {
      best: ended.reduce((best, each) => (each.score > best.score ? each : best)),
      tree,
    };
  }

  translate(text, beam) {
    if (isBlank(text)) return "";
    const source = this.source.encode(cleanText(text, this.about.normalization));
    this.checkLength(source, MAX_TOKENS, "the text", this.source);
    const { target } = this.search(makeRun([]), source, beam ?? this.about.decode.beam, []);
    return oneLine(this.target.decode(target));
  }

  // ---- The trace ----

  /** Throw for edits that this model does not support (inspection/edits.py). */
  checkEdits(edits) {
    const places = this.places();
    if (edits.length > MAX_EDITS) {
      throw new Error(`${edits.length} edits; combine at most ${MAX_EDITS}`);
    }
    for (const edit of edits) {
      const fields = Object.hasOwn(EDIT_FIELDS, edit.op) ? EDIT_FIELDS[edit.op] : null;
      if (fields === null) {
        const known = Object.keys(EDIT_FIELDS).join(", ");
        throw new Error(`unknown edit '${edit.op}'; known: ${known}`);
      }
      for (const [name, type] of Object.entries(fields)) {
        if (!IS_OF_TYPE[type](edit[name])) {
          throw new Error(`edit '${edit.op}': ${name} is ${edit[name]}, expected ${type}`);
        }
      }
      const isUnknown = (name) => name !== "op" && !Object.hasOwn(fields, name);
      const unknown = Object.keys(edit).sort().find(isUnknown);
      if (unknown !== undefined) {
        throw new Error(`edit '${edit.op}' has no field '${unknown}'; remove it`);
      }
      if ("at" in fields && !places.includes(edit.at)) {
        throw new Error(`no attention '${edit.at}' in this model; known: ${places.join(", ")}`);
      }
      const h = "at" in fields ? this.stackOf(edit.at).n_heads : 0;
      if ("at" in fields && !(edit.head >= 0 && edit.head < h)) {
        const known = `${edit.at} has heads 0 to ${h - 1}`;
        throw new Error(`edit '${edit.op}': no head ${edit.head}; ${known}`);
      }
      const isToken = edit.piece >= 0 && edit.piece < this.target.size;
      if (edit.op === "force" && !(edit.step >= 0 && isToken)) {
        throw new Error(
          `edit 'force': no step ${edit.step} or no token ${edit.piece}; expected ` +
            `a step from 0, and a token id from 0 to ${this.target.size - 1}`,
        );
      }
      if (edit.op === "row" && edit.values.length > MAX_KEYS) {
        const limit = `there are at most ${MAX_KEYS} keys`;
        throw new Error(`edit 'row': ${edit.values.length} values; ${limit}`);
      }
      if (edit.op === "row" && !edit.values.every(Number.isFinite)) {
        throw new Error("edit 'row': values must be finite numbers, one for each key");
      }
    }
  }

  /** Throw for "row" edits that do not fit the lengths of source and target. */
  checkRows(edits, nSource, nTarget) {
    for (const { at, row, values } of edits.filter((edit) => edit.op === "row")) {
      const nRows = at.startsWith("enc") ? nSource : nTarget;
      if (!(row >= 0 && row < nRows)) {
        throw new Error(`edit 'row': no row ${row}; ${at} has rows 0 to ${nRows - 1}`);
      }
      if (values.length !== nSource && !isCausal(at)) {
        throw new Error(
          `edit 'row': ${values.length} values, but ${at} has ${nSource} keys; ` +
            "give one value for each key",
        );
      }
    }
  }

  replaceWords(text, edits) {
    const replacements = edits.filter((edit) => edit.op === "replace");
    if (replacements.length === 0) return text;
    const words = splitWords(text);
    for (const edit of replacements) {
      if (!(edit.word >= 0 && edit.word < words.length)) {
        throw new Error(`edit 'replace': no word ${edit.word}; the text has ${words.length} words`);
      }
      words[edit.word] = edit.with;
    }
    return words.join(" ");
  }

  checkLength(ids, limit, what, pieces) {
    if (ids.length <= limit) return;
    const rest = pieces.decode(ids.slice(limit, limit + 12));
    throw new Error(
      `${what} has ${ids.length} tokens, at most ${limit} can be traced; shorten it, ` +
        `the excess begins at '${rest}'`,
    );
  }

  /** Search with edits: each "force" edit fixes a token, and the search continues after it. */
  searchEdited(run, source, beam) {
    let { target, tree } = this.search(run, source, beam, []);
    for (const edit of run.edits.filter((each) => each.op === "force")) {
      if (edit.step > target.length)
        throw new Error(`edit 'force': no step ${edit.step}; the last step is ${target.length}`);
      const begin = [...target.slice(0, edit.step), edit.piece];
      if (edit.piece === EOS_ID) return { target: begin.slice(0, -1), tree };
      ({ target, tree } = this.search(run, source, beam, begin));
    }
    return { target, tree };
  }

  /** Translate a text and record everything that is computed; a language model only reads it. */
  trace(given, edits, beam) {
    this.checkEdits(edits);
    const text = cleanText(given, "none"); // replaces lone surrogates
    const changed = this.replaceWords(text, edits);
    const cleaned = cleanText(changed, this.about.normalization);
    const run = makeRun(edits);
    let sourceIds = [];
    let target = [];
    let tree = [];
    if (this.isTranslator) {
      if (isBlank(cleaned))
        throw new Error("the text is blank; give a text with at least one word");
      const source = this.source.encode(cleaned);
      this.checkLength(source, MAX_TOKENS, "the text", this.source);
      ({ target, tree } = this.searchEdited(run, source, beam ?? this.about.decode.beam));
      this.checkLength(target, MAX_TOKENS, "its translation", this.target);
      sourceIds = [...source, EOS_ID];
    } else {
      if (beam !== null || edits.some((edit) => edit.op === "force")) {
        throw new Error(
          "a language model is traced without search; remove the beam and 'force' edits",
        );
      }
      target = this.target.encode(cleaned);
      this.checkLength(
        target,
        Math.min(MAX_TOKENS, this.config.window - 1),
        "the text",
        this.target,
      );
    }
    const targetIds = [SOS_ID, ...target];
    this.checkRows(edits, sourceIds.length, targetIds.length);
    const tensors = new Map();
    const logits = this.read({ ...run, record: tensors }, sourceIds, targetIds);
    const size = this.target.size;
    const rows = targetIds.map((_, t) => logSoftmax(logits.data, t * size, size));
    const chosen = [...target, this.isTranslator ? EOS_ID : topIndices(rows.at(-1), 1)[0]];
    if (this.isTranslator) this.align(run, tensors, sourceIds, targetIds, rows, chosen);
    const doubts = this.isTranslator
      ? { doubts: this.doubtsOf(cleaned, sourceIds.slice(0, -1), target) }
      : {};
    const meta = {
      format: 1,
      text,
      beam,
      edits,
      tree,
      ...doubts,
      ...this.describe(changed, sourceIds, targetIds, tensors, rows, chosen),
    };
    return makeTrace(meta, tensors);
  }

  /** Quality flags: unseen words, characters read as bytes, repetition (decode/quality.py). */
  doubtsOf(text, source, target) {
    const words = this.about.words ? new Set(this.about.words) : null;
    this.characters ??= new Set(
      this.source.names.flatMap(
        (_, id) => (this.source.byteOf.has(id) ? [] : [...this.source.surface(id)]),
      ),
    );
    const all = text.match(/[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s]/gu) ?? [];
    const unseen = words ? all.filter((word) => !words.has(word)) : [];
    const unknown = this.source.kind === "byte"
      ? []
      : [...text].filter((c) => !this.characters.has(c) && !isBlank(c));
    return {
      unseen: [...new Set(unseen)],
      unknown: [...new Set(unknown)],
      repeats: hasRepetition(target) && !hasRepetition(source),
    };
  }

  alignmentLayer() {
    const n = this.stackOf("dec").n_layers;
    return n > 3 ? n - 2 : n - 1;
  }

  /**
   * Three measures of how the target depends on the source: attention, occlusion, gradient x input.
   *
   * The gradient of f at x, times x, is the derivative of f((1 + e) x) at e = 0. Python computes it
   * by backpropagation; here it is a finite difference, in double precision.
   */
  align(run, tensors, sourceIds, targetIds, rows, chosen) {
    const [n, m, h] = [targetIds.length, sourceIds.length, this.stackOf("dec").n_heads];
    const weights = tensors.get(`dec.${this.alignmentLayer()}.cross.weights`).data;
    const [attention, occlusion, gradient] = [0, 0, 0].map(() => new Float32Array(n * m));
    for (let i = 0; i < weights.length; i += 1) attention[i % (n * m)] += weights[i] / h;
    const whole = rows.map((row, t) => row[chosen[t]]);
    const logProbs = (changes) => {
      const { data, shape } = this.read({ ...run, ...changes }, sourceIds, targetIds);
      return chosen.map((id, t) => logSoftmax(data, t * shape[1], shape[1])[id]);
    };
    const before = logProbs({ Numbers: Float64Array });
    for (let j = 0; j < m; j += 1) {
      const without = logProbs({ hidden: j });
      const longer = logProbs({ stretched: j, Numbers: Float64Array });
      for (let t = 0; t < n; t += 1) {
        const cost = whole[t] - without[t];
        occlusion[t * m + j] = cost < 0 ? 0 : cost;
        gradient[t * m + j] = (longer[t] - before[t]) / NUDGE;
      }
    }
    tensors.set("align.attention", { shape: [n, m], data: attention });
    tensors.set("align.occlusion", { shape: [n, m], data: occlusion });
    tensors.set("align.gradient", { shape: [n, m], data: gradient });
  }

  /**
   * The readable part of a trace: tokens, steps with candidates, similar tokens, neurons, model.
   */
  describe(text, sourceIds, targetIds, tensors, rows, chosen) {
    const config = this.config;
    const logits = tensors.get("logits").data;
    const size = this.target.size;
    const steps = rows.map((row, t) => {
      let entropy = 0;
      let rank = 0;
      for (let i = 0; i < size; i += 1) {
        entropy -= Math.exp(row[i]) * Math.max(row[i], Math.log(1e-12));
        if (row[i] > row[chosen[t]]) rank += 1;
      }
      const top = topIndices(row, N_LISTED).map(
        (id) => [id, this.target.piece(id), logits[t * size + id], Math.exp(row[id])],
      );
      return { chosen: chosen[t], top, entropy, rank };
    });
    const side = (ids, pieces) => {
      const isText = (id) => id !== SOS_ID && id !== EOS_ID;
      const words = pieces.wordNumbers(ids.filter(isText))[Symbol.iterator]();
      return {
        ids,
        pieces: ids.map((id) => pieces.piece(id)),
        words: ids.map((id) => (isText(id) ? words.next().value : null)),
      };
    };
    const found = {
      target: { ...side(targetIds, this.target), text: this.target.decode(targetIds) },
      model: {
        kind: config.kind,
        d_model: config.d_model,
        n_layers: config.n_layers,
        n_heads: config.n_heads,
        d_k: config.d_k,
        d_v: config.d_v,
        d_ff: config.d_ff,
        decoder: config.decoder,
        activation: config.activation,
        embedding_scale: config.embedding_scale,
        norm: config.norm,
        norm_epsilon: config.norm_epsilon,
        positions: config.positions,
        vocab_size: size,
        alignment_layer: this.alignmentLayer(),
        fingerprint: this.about.fingerprint,
        alpha: this.about.decode.alpha,
        length_penalty: this.about.decode.length_penalty,
      },
      steps,
      vocabulary: this.target.names.map((_, id) => this.target.piece(id)),
      neurons: this.neurons(tensors),
    };
    if (this.isTranslator)
      found.source = { ...side(sourceIds, this.source), text, near: this.near(sourceIds) };
    return found;
  }

  /** The most similar tokens of each token, by the cosine of their embeddings. */
  near(ids) {
    const d = this.config.d_model;
    const weight = this.weight(`${this.sourceTable}.weight`);
    this.lengths ??= Float64Array.from({ length: this.source.size }, (_, id) => {
      let square = 0;
      for (let i = 0; i < d; i += 1) square += weight[id * d + i] ** 2;
      return Math.max(Math.sqrt(square), 1e-12);
    });
    return ids.map((id) => {
      const cosines = multiplyRows(
        weight.subarray(id * d, (id + 1) * d),
        1,
        weight,
        null,
        d,
        this.source.size,
      );
      for (let i = 0; i < cosines.length; i += 1) cosines[i] /= this.lengths[id] * this.lengths[i];
      const places = topIndices(cosines, N_NEAREST + 1).filter((other) => other !== id);
      return places.slice(0, N_NEAREST).map((other) => [this.source.piece(other), cosines[other]]);
    });
  }

  /**
   * The strongest neurons of each decoder layer and step: index, activation, and the tokens they
   * promote most.
   */
  neurons(tensors) {
    const d = this.config.d_model;
    const dFf = this.stackOf("dec").d_ff;
    const found = {};
    for (let layer = 0; layer < this.stackOf("dec").n_layers; layer += 1) {
      const { shape, data } = tensors.get(`dec.${layer}.ff.hidden`);
      const weight = this.weight(`decoder.layers.${layer}.feed_forward.w_2.weight`);
      found[`dec.${layer}.ff`] = [...Array(shape[0]).keys()].map((t) => {
        const hidden = data.subarray(t * dFf, (t + 1) * dFf);
        return topIndices(hidden, 3).map((number) => {
          const column = Float32Array.from({ length: d }, (_, i) => weight[i * dFf + number]);
          return [
            number,
            hidden[number],
            topIndices(this.promote(column, 1), 3).map((id) => this.target.piece(id)),
          ];
        });
      });
    }
    return found;
  }
}
