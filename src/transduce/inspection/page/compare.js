// Two traces side by side: where a change enters, how far it gets, and where it dies out.
import { placesOf } from "./names.js";
import { splitWords } from "./pieces.js";

const SAME = 1e-6; // of a vector's length; less is rounding

/** The vectors between the parts of Figure 1, in its order: [{ name, title, side: "source" | "target" }]. */
export function stagesOf(trace) {
  const found = [];
  const stage = (name, title) => {
    const side = name.startsWith("src") || name.startsWith("enc") ? "source" : "target";
    if (trace.has(name)) found.push({ name, title, side });
  };
  stage("src.x", "embedding");
  for (const stack of ["enc", "dec"]) {
    if (stack === "dec") stage("tgt.x", "embedding");
    for (let layer = 0; layer < trace.meta.model.n_layers; layer += 1) {
      stage(`${stack}.${layer}.self.norm`, `${layer + 1} self-attention`);
      stage(`${stack}.${layer}.cross.norm`, `${layer + 1} to the source`);
      stage(`${stack}.${layer}.ff.norm`, `${layer + 1} feed-forward`);
    }
  }
  stage("logits", "logits");
  return found;
}

/** How much the vector of each position changed, as a share of its length: |b - a| / |a|; NaN where the parent has no such position. */
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

/** The largest difference of each tensor that both have, in the branch's order: [{ name, most }]; infinite where shapes differ. */
export function differencesOf(parent, branch) {
  return branch.names().filter((name) => parent.has(name)).map((name) => {
    const [a, b] = [parent.get(name), branch.get(name)];
    if (a.shape.join() !== b.shape.join()) return { name, most: Infinity };
    let most = 0;
    for (let i = 0; i < a.data.length; i += 1) most = Math.max(most, Math.abs(a.data[i] - b.data[i]) || 0);
    return { name, most };
  });
}

/** Where a change enters, where it is largest, and how much of it reaches the logits. Null: nothing changed at all. */
export function journeyOf(parent, branch) {
  const stages = stagesOf(branch).filter(({ name }) => parent.has(name)).map((stage) => {
    const changes = changeOf(parent, branch, stage.name);
    const known = changes.filter((x) => !Number.isNaN(x));
    const mean = known.length ? known.reduce((a, b) => a + b, 0) / known.length : 0;
    return { ...stage, changes, mean, isChanged: known.length < changes.length || known.some((x) => x > SAME) };
  });
  const changed = stages.filter((stage) => stage.isChanged);
  if (changed.length === 0) return { stages, enters: null, largest: null, last: null };
  const largest = changed.reduce((best, stage) => (stage.mean > best.mean ? stage : best));
  return { stages, enters: changed[0], largest, last: stages.at(-1) };
}

/** The words of a trace's text, with those that were exchanged. */
export function wordsOf(meta) {
  const words = splitWords(meta.text);
  for (const edit of meta.edits) if (edit.op === "replace") words[edit.word] = edit.with;
  return words;
}

/** An edit in a few words; `meta` is that of the trace it was made on. */
export function editWords(edit, meta) {
  if (edit.op === "mute") return `${edit.at} head ${edit.head + 1} mute`;
  if (edit.op === "row") return `${edit.at} head ${edit.head + 1} row ${edit.row + 1} by hand`;
  if (edit.op === "replace") return `${splitWords(meta.text)[edit.word] ?? "word"} \u2192 ${edit.with}`;
  if (edit.op === "force") return `step ${edit.step + 1}: ${meta.vocabulary[edit.piece] ?? edit.piece}`;
  return { no_positions: "no positions", no_scale: "no 1/\u221ad_k", no_mask: "no mask" }[edit.op] ?? edit.op;
}

/** What can be changed in a trace: [[op, words]]. */
export function editsFor(trace) {
  const all = [
    ["replace", "swap a word"],
    ["mute", "mute a head"],
    ["row", "set attention by hand"],
    ["force", "force a piece"],
    ["no_positions", "take the positions away (section 3.5)"],
    ["no_scale", "leave out 1/\u221ad_k (section 3.2.1)"],
    ["no_mask", "take the causal mask away (section 3.2.3)"],
  ];
  return all.filter(([op]) => (op !== "force" || trace.meta.source) && placesOf(trace).length > 0);
}
