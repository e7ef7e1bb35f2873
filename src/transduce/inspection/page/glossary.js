// Terms with a definition that is shown on hover, tap or focus.
import { el, how } from "./draw.js";

export const GLOSSARY = {
  logit:
    "the number that the model gives each token before softmax; only differences between logits " +
    "matter",
  logits:
    "the numbers that the model gives the tokens before softmax; only differences between them " +
    "matter",
  entropy:
    "how uncertain a choice is: 0 bits if one token has all the probability, 1 bit if two are " +
    "equally likely",
  cosine: "similarity of direction of two vectors: 1 the same, 0 orthogonal, \u22121 opposite",
  residual: "the input of a sub-layer, which is added unchanged to its output",
  "gradient \u00d7 input":
    "how the log-probability would change if a source vector were made a little longer",
  occlusion:
    "hide one source token from every layer and measure how much less likely the written token " +
    "becomes",
  hidden: "no layer may attend to that token, as if it were not there",
  branch: "the same sentence computed again with one thing changed",
  float16: "a number in 16 bits, about three digits: how this file stores all tensors",
  "post-norm":
    "LayerNorm comes after the residual is added, as in the paper; pre-norm: before the sub-layer",
};
const LONGEST_FIRST = Object.keys(GLOSSARY).sort((a, b) => b.length - a.length);
const TERM = new RegExp(`(?<![\\p{L}-])(${LONGEST_FIRST.join("|")})(?![\\p{L}-])`, "iu");

/**
 * A text as nodes. The first occurrence of each glossary term shows its definition; `said` collects
 * the terms that occurred.
 */
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

/** The whole glossary as a list. */
export function glossary() {
  const terms = Object.entries(GLOSSARY).filter(([word]) => word !== "logits" && word !== "hidden");
  return el(
    "details",
    { class: "deep", id: "glossary" },
    el("summary", {}, "Words"),
    el("dl", {}, ...terms.flatMap(([word, text]) => [el("dt", {}, word), el("dd", {}, text)])),
  );
}
