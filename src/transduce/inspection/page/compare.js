// Compare two traces: where a change enters the model, and how far it spreads.
import { hasSource, headName, labelsOf, placesOf } from "./names.js";
import { splitWords } from "./pieces.js";

const SAME = 1e-6; // relative to a vector's length; smaller differences are rounding

/**
 * The vectors between the parts of Figure 1, in its order: [{ name, title, side: "source" |
 * "target" }].
 */
export function stagesOf(trace) {
  const found = [];
  const stage = (name, title) => {
    const side = name.startsWith("src") || name.startsWith("enc") ? "source" : "target";
    if (trace.has(name)) found.push({ name, title, side });
  };
  stage("src.x", "embedding");
  for (const stack of ["enc", "dec"]) {
    if (stack === "dec") stage("tgt.x", "embedding");
    for (let layer = 0; trace.has(`${stack}.${layer}.self.norm`); layer += 1) {
      stage(`${stack}.${layer}.self.norm`, `${layer + 1} self-attention`);
      stage(`${stack}.${layer}.cross.norm`, `${layer + 1} cross-attention`);
      stage(`${stack}.${layer}.ff.norm`, `${layer + 1} feed-forward`);
    }
  }
  stage("logits", "logits");
  return found;
}

/**
 * The relative change of the vector of each position, |b - a| / |a|; NaN if the parent has no such
 * position.
 */
export function changeOf(parent, branch, name) {
  const [a, b] = [parent.get(name), branch.get(name)];
  const width = b.shape.at(-1);
  return Float64Array.from({ length: b.shape[0] }, (_, row) => {
    if (row >= a.shape[0] || width !== a.shape[1]) return NaN;
    let apart = 0;
    let length = 0;
    for (let i = row * width; i < (row + 1) * width; i += 1) {
      apart += (b.data[i] - a.data[i]) ** 2;
      length += a.data[i] ** 2;
    }
    return apart === 0 ? 0 : Math.sqrt(apart / length);
  });
}

/**
 * The largest absolute difference of each tensor that both traces have, in the branch's order: [{
 * name, most }]. It is infinite if the shapes differ.
 */
export function differencesOf(parent, branch) {
  return branch.names().filter((name) => parent.has(name)).map((name) => {
    const [a, b] = [parent.get(name), branch.get(name)];
    if (a.shape.join() !== b.shape.join()) return { name, most: Infinity };
    let most = 0;
    for (let i = 0; i < a.data.length; i += 1)
      most = Math.max(most, Math.abs(a.data[i] - b.data[i]) || 0);
    return { name, most };
  });
}

/** The first step at which the decoder reads another token; the number of steps if none does. */
export function firstOtherInput(parent, branch) {
  const [a, b] = [parent, branch].map((trace) => trace.meta.target.ids);
  const first = b.findIndex((id, t) => id !== a[t]);
  return first < 0 ? b.length : first;
}

/**
 * Where a change enters the model (`enters`), where it is largest (`largest`), and how much of it
 * reaches the logits (`last`). `enters` and `largest` are null if nothing changed.
 *
 * A translator that wrote another token reads that token at the next step, `fed`. From there on
 * every vector of the decoder differs for that reason. These positions do not count as changed by
 * the edit itself.
 */
export function compareStages(parent, branch) {
  const fed = hasSource(branch) ? firstOtherInput(parent, branch) : Infinity;
  const stages = stagesOf(branch).filter(({ name }) => parent.has(name)).map((stage) => {
    const changes = changeOf(parent, branch, stage.name);
    const alike = stage.side === "target" ? changes.subarray(0, fed) : changes;
    const known = alike.filter((x) => !Number.isNaN(x));
    const mean = known.length ? known.reduce((a, b) => a + b, 0) / known.length : 0;
    return {
      ...stage,
      changes,
      mean,
      isChanged: known.length < alike.length || known.some((x) => x > SAME),
    };
  });
  const missing = stagesOf(parent).filter(({ name }) => !branch.has(name)).length;
  const changed = stages.filter((stage) => stage.isChanged);
  const largest = changed.length
    ? changed.reduce((best, stage) => (stage.mean > best.mean ? stage : best))
    : null;
  return { stages, fed, missing, enters: changed[0] ?? null, largest, last: stages.at(-1) };
}

/** The words of a trace's text after its "replace" edits. */
export function wordsOf(meta) {
  const words = splitWords(meta.text);
  for (const edit of meta.edits) if (edit.op === "replace") words[edit.word] = edit.with;
  return words;
}

/** An edit as text, the same everywhere on the page. */
export function editWords(edit, trace) {
  const { meta } = trace;
  if (edit.op === "mute") return `without ${headName(edit.at, edit.head)}`;
  if (edit.op === "row")
    return `${headName(edit.at, edit.head)}, row ` +
      `\u201c${labelsOf(trace, edit.at).rows[edit.row] ?? edit.row + 1}\u201d set by hand`;
  if (edit.op === "replace")
    return `\u201c${splitWords(meta.text)[edit.word] ?? edit.word + 1}\u201d \u2192 ` +
      `\u201c${edit.with}\u201d`;
  if (edit.op === "force")
    return `step ${edit.step + 1} forced to write ` +
      `\u201c${meta.vocabulary[edit.piece] ?? edit.piece}\u201d`;
  return {
    no_positions: "without positions",
    no_scale: "without 1/\u221ad_k",
    no_mask: "without the mask",
  }[edit.op] ?? edit.op;
}

/** All edits of a trace as text. */
export function editsWords(trace) {
  return trace.meta.edits.map((edit) => editWords(edit, trace)).join("; ");
}

/** The parts of the model that the edits change, as text. */
export function placeOfEdits(edits, trace) {
  const first = trace.meta.source ? "both embeddings" : "the embedding";
  const where = edits.map((edit) => {
    if (edit.at) return headName(edit.at, edit.head);
    if (edit.op === "replace")
      return trace.meta.source
        ? "the source, before the encoder\u2019s embedding"
        : "the text, before the embedding";
    if (edit.op === "force") return `what is written at step ${edit.step + 1}`;
    return {
      no_positions: first,
      no_scale: "all attentions, in every layer",
      no_mask: "every masked self-attention of the decoder",
    }[edit.op];
  });
  return [...new Set(where)].join("; ");
}

/** The edits that a trace supports: [[op, text]]. */
export function editsFor(trace) {
  const all = [
    ["replace", "swap a word"],
    ["mute", "mute a head"],
    ["row", "set attention by hand"],
    ["force", "force a token"],
    ["no_positions", "remove the positions (section 3.5)"],
    ["no_scale", "remove 1/\u221ad_k (section 3.2.1)"],
    ["no_mask", "remove the causal mask (section 3.2.3)"],
  ];
  return all.filter(([op]) => (op !== "force" || trace.meta.source) && placesOf(trace).length > 0);
}
