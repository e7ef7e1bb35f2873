// A trace in the browser: tensors by name, read from a safetensors file. The counterpart of
// `transduce.inspection.trace.Trace` in Python.

import { isCausal } from "./names.js";

/** The bytes of a base64 text. */
export function bytesOf(text) {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Convert float16 numbers to float32: 1 sign bit, 5 bits of exponent, 10 of fraction. */
export function float16ToFloat32(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const numbers = new Float32Array(bytes.byteLength / 2);
  for (let i = 0; i < numbers.length; i += 1) {
    const bits = view.getUint16(2 * i, true);
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const sign = bits & 0x8000 ? -1 : 1;
    if (exponent === 0) numbers[i] = sign * fraction * 2 ** -24;
    else if (exponent === 31) numbers[i] = fraction ? NaN : sign * Infinity;
    else numbers[i] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return numbers;
}

/** Parse the header of a safetensors file; `start` is the offset of its data. */
export function openTensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const about = header.__metadata__ ?? {};
  delete header.__metadata__;
  return { header, about, start: 8 + length };
}

/** One tensor of a safetensors file. */
export function readTensor(bytes, start, entry) {
  const part = bytes.slice(start + entry.data_offsets[0], start + entry.data_offsets[1]);
  if (entry.dtype === "F16") return { shape: entry.shape, data: float16ToFloat32(part) };
  if (entry.dtype === "F32") return { shape: entry.shape, data: new Float32Array(part.buffer) };
  throw new Error(`tensor of unsupported type ${entry.dtype}; expected F16 or F32`);
}

/** Everything a model computed for one text: `meta`, and tensors that are parsed on first use. */
export class Trace {
  constructor(meta, names, read) {
    this.meta = meta;
    this.own = new Set(names);
    this.read = read;
    this.parent = null;
    this.kept = new Map();
  }

  names() {
    return [...this.own];
  }

  /**
   * Take the missing tensors of a branch from its original. A branch in a file holds only the
   * tensors that differ.
   */
  completeFrom(parent) {
    this.parent = parent;
    this.meta.vocabulary ??= parent.meta.vocabulary;
    for (const name of this.meta.same ?? []) this.own.add(name);
    return this;
  }

  has(name) {
    if (this.own.has(name)) return true;
    const [place, last] = splitName(name);
    if (name === "probs") return this.own.has("logits");
    return (last === "scaled" || last === "masked") &&
      this.own.has(`${place}.raw`) &&
      this.own.has(`${place}.q`);
  }

  get(name) {
    if (!this.kept.has(name))
      this.kept.set(name, this.own.has(name) ? this.find(name) : this.derive(name));
    return this.kept.get(name);
  }

  find(name) {
    return this.parent && this.meta.same?.includes(name) ? this.parent.get(name) : this.read(name);
  }

  /** Whether the model ran with `what`: "positions", "scale" or "mask". */
  ran(what) {
    return this.meta.edits.every((edit) => edit.op !== `no_${what}`);
  }

  isCausal(place) {
    return isCausal(place) && this.ran("mask");
  }

  /** Compute `scaled`, `masked` or `probs` from the stored tensors. */
  derive(name) {
    if (!this.has(name)) throw new Error(`no tensor ${name}`);
    const [place, last] = splitName(name);
    if (name === "probs") {
      const { shape, data } = this.get("logits");
      const probs = new Float32Array(data.length);
      for (let row = 0; row < shape[0]; row += 1) {
        probs.set(softmaxOf(data.subarray(row * shape[1], (row + 1) * shape[1])), row * shape[1]);
      }
      return { shape, data: probs };
    }
    const { shape, data } = this.get(`${place}.raw`);
    const scale = this.ran("scale") ? Math.sqrt(this.get(`${place}.q`).shape[2]) : 1;
    const hides = last === "masked" && this.isCausal(place);
    const [, n, m] = shape;
    const found = data.map(
      (value, at) => (hides && at % m > Math.floor(at / m) % n ? -Infinity : value / scale),
    );
    return { shape, data: found };
  }
}

function splitName(name) {
  const dot = name.lastIndexOf(".");
  return [name.slice(0, dot), name.slice(dot + 1)];
}

/** exp(x_i) / sum_j exp(x_j), in double precision. */
export function softmaxOf(numbers) {
  let most = -Infinity;
  for (const x of numbers) if (x > most) most = x;
  const found = Float64Array.from(numbers, (x) => Math.exp(x - most));
  let sum = 0;
  for (const x of found) sum += x;
  return found.map((x) => x / sum);
}

/** Parse the bytes of a trace file; `meta` is used if the file has none. */
export function parseTrace(bytes, meta) {
  const { header, about, start } = openTensors(bytes);
  const found = about["transduce.trace"] ? JSON.parse(about["transduce.trace"]) : meta;
  if (!found) throw new Error("this file is not a trace; make one with transduce inspect");
  return new Trace(found, Object.keys(header), (name) => readTensor(bytes, start, header[name]));
}

/** Make a trace from tensors in memory, a Map by name. */
export function makeTrace(meta, tensors) {
  return new Trace(meta, tensors.keys(), (name) => tensors.get(name));
}
