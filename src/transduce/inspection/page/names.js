// Names of the parts of a model, and of the tokens of a trace.

const KINDS = ["self", "cross", "ff"];

/**
 * The parts of a model, such as "dec.0.cross", that have a tensor named `last`, in the order of
 * Figure 1.
 */
export function partsOf(trace, last) {
  const found = trace
    .names()
    .map((name) => /^(enc|dec)\.(\d+)\.(self|cross|ff)\.(\w+)$/.exec(name))
    .filter((parts) => parts && parts[4] === last);
  const order = ([, stack, layer, kind]) =>
    (stack === "enc" ? 0 : 1e6) + 10 * Number(layer) + KINDS.indexOf(kind);
  return found.sort((a, b) => order(a) - order(b)).map((parts) => parts.slice(1, 4).join("."));
}

/** The names of the attentions of a trace, such as "dec.0.cross". */
export function placesOf(trace) {
  return partsOf(trace, "weights");
}

/** Whether an attention is the masked self-attention of the decoder. */
export function isCausal(place) {
  return place.startsWith("dec") && place.endsWith(".self");
}

/**
 * The name for people: "decoder layer 2, cross-attention". Text counts layers and heads from 1,
 * tensor names count them from 0.
 */
export function placeName(place) {
  const [stack, layer, kind] = place.split(".");
  const part = {
    self: stack === "enc" ? "self-attention" : "masked self-attention",
    cross: "cross-attention",
    ff: "feed-forward",
  }[kind];
  return `${stack === "enc" ? "encoder" : "decoder"} layer ${Number(layer) + 1}, ${part}`;
}

/** The name for people: "decoder layer 2, cross-attention, head 3". */
export function headName(place, head) {
  return `${placeName(place)}, head ${head + 1}`;
}

/** The same head in the terms of the tensor names. */
export function headTensor(place, head) {
  return `${place}, head index ${head}`;
}

function activationOf(trace) {
  return trace.meta.model.activation ?? "relu"; // older traces do not name it
}

/** Whether neurons can be exactly zero. */
export function hasRelu(trace) {
  return activationOf(trace) === "relu";
}

/** The activation of the feed-forward network, applied to a text: "max(0, x)" as in Eq. 2. */
export function activated(trace, text) {
  const all = { relu: `max(0, ${text})`, gelu: `GELU(${text})`, swish: `Swish(${text})` };
  return all[activationOf(trace)];
}

/** The sizes of the decoder; those of the model in older traces, whose stacks are equal. */
export function decoderOf(trace) {
  return trace.meta.model.decoder ?? trace.meta.model;
}

/** The number of heads of an attention. */
export function headsOf(trace, place) {
  return trace.get(`${place}.weights`).shape[0];
}

export function hasSource(trace) {
  return Boolean(trace.meta.source);
}

/** The token that a step wrote. */
export function writtenAt(trace, step) {
  return trace.meta.vocabulary[trace.meta.steps[step].chosen];
}

/** Join displayed tokens to a text; ## continues a word. */
export function joined(tokens) {
  return tokens
    .filter((text) => text !== "[SOS]" && text !== "[EOS]")
    .reduce(
      (text, next) =>
        (next.startsWith("##") ? text + next.slice(2) : text ? `${text} ${next}` : next),
      "",
    );
}

/**
 * Labels of queries and keys. A decoder row reads a token and writes the next: "amo \u2192 molto".
 */
export function labelsOf(trace, place) {
  const [stack, , kind] = place.split(".");
  const read = trace.meta.target.pieces;
  const source = trace.meta.source?.pieces;
  if (stack === "enc") return { rows: source, cols: source };
  return {
    rows: read.map((text, t) => `${text} \u2192 ${writtenAt(trace, t)}`),
    cols: kind === "cross" ? source : read,
  };
}

/** Whether the first letter of a text is of a right-to-left script. */
export function runsLeft(text) {
  const found = /[\p{L}]/u.exec(text);
  return Boolean(found) && /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u.test(found[0]);
}
