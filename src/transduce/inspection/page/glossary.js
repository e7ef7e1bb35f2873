// Words that need a word: each says what it means where it stands, when it is pointed at, tapped or in focus.
import { el, how } from "./draw.js";

export const GLOSSARY = {
  logit: "the number that the model gives each piece before softmax; only differences between logits matter",
  logits: "the numbers that the model gives the pieces before softmax; only differences between them matter",
  entropy: "how unsure: 0 bits where all is on one piece, 1 bit where two are equally likely, and so on",
  cosine: "whether two vectors point the same way: 1 the same, 0 across, \u22121 opposite",
  residual: "what goes past a sub-layer unchanged, and is added to what the sub-layer says",
  "gradient \u00d7 input": "how the log-probability would change if a source vector were made a little longer",
  occlusion: "hide one source piece, so that no layer may look at it, and see how much less likely the written piece gets",
  hidden: "no layer may look at that piece, as if it were not there",
  branch: "the same sentence computed once more with one thing changed",
  float16: "a number in 16 bits, about three digits: how this file stores all tensors",
  "post-norm": "LayerNorm comes after the residual is added, as in the paper; pre-norm: before the sub-layer",
};
const TERM = new RegExp(`(?<![\\p{L}-])(${Object.keys(GLOSSARY).sort((a, b) => b.length - a.length).join("|")})(?![\\p{L}-])`, "iu");

/** A text as nodes, in which the first of each word that the glossary has says what it means. */
export function termed(text, said = new Set()) {
  const found = TERM.exec(text);
  if (!found) return [text];
  const [word] = found;
  const key = word.toLowerCase();
  const before = text.slice(0, found.index);
  const node = said.has(key) ? word : how(word, [word, GLOSSARY[key]], "term");
  said.add(key);
  return [before, node, ...termed(text.slice(found.index + word.length), said)];
}

/** All of them, in a list. */
export function glossary() {
  const terms = Object.entries(GLOSSARY).filter(([word]) => word !== "logits" && word !== "hidden");
  return el("details", { class: "deep", id: "glossary" }, el("summary", {}, "Words"), el("dl", {}, ...terms.flatMap(([word, text]) => [el("dt", {}, word), el("dd", {}, text)])));
}
