// Stations 0 and 1: the sentence with the reason for the next token, and the tokens with their ids.
import { softmaxOf } from "../data.js";
import {
  announce,
  barSvg,
  barTable,
  curves,
  el,
  figure,
  how,
  bidiText,
  sideBySide,
  svg,
  theme,
  widthOf,
} from "../draw.js";
import { exact, argmax, meanOf, percent, rowOf, show, times, topIndices } from "../math.js";
import { decoderOf, hasSource, joined, placeName, runsLeft, writtenAt } from "../names.js";

/** The most likely tokens of a step by the logits: [{ id, name, p }]. */
export function likeliest(trace, step, n) {
  const probs = softmaxOf(rowOf(trace.get("logits"), step));
  return topIndices(probs, n).map((id) => ({ id, name: trace.meta.vocabulary[id], p: probs[id] }));
}

/** Explain how a probability was computed. */
function howProb(trace, step, id) {
  const logits = rowOf(trace.get("logits"), step);
  const most = Math.max(...logits);
  const sum = logits.reduce((total, x) => total + Math.exp(x - most), 0);
  const e = Math.exp(logits[id] - most);
  return [
    `probs[${step}, ${id}] = ${show(e / sum)}`,
    `its logit is ${exact(logits[id])}, the largest is ${exact(most)}`,
    `softmax: exp(${exact(logits[id])} \u2212 ${exact(most)}) / the sum over all ` +
      `${logits.length} tokens = ${exact(e)} / ${exact(sum)}`,
  ];
}

/** Explain an attention to the source: the mean of the heads of the alignment layer. */
export function howAttention(trace, step, at) {
  const place = `dec.${trace.meta.model.alignment_layer}.cross`;
  const { data, shape } = trace.get(`${place}.weights`);
  const [h, n, m] = shape;
  const each = Array.from({ length: h }, (_, head) => data[(head * n + step) * m + at]);
  return [
    `align.attention[${step}, ${at}] = ${show(rowOf(trace.get("align.attention"), step)[at])}`,
    `to write \u201c${writtenAt(trace, step)}\u201d it looks there: ` +
      `\u201c${trace.meta.source.pieces[at]}\u201d`,
    `the mean of the ${h} heads of ${placeName(place)} (${place}.weights): ` +
      `(${each.map(exact).join(" + ")}) / ${h}`,
  ];
}

/** Explain how much less likely the token becomes when a source token is hidden. */
function howHidden(trace, step, at) {
  const id = trace.meta.steps[step].chosen;
  const harm = rowOf(trace.get("align.occlusion"), step)[at];
  const p = softmaxOf(rowOf(trace.get("logits"), step))[id];
  return [
    `align.occlusion[${step}, ${at}] = ${show(harm)}`,
    "the model reads the sentence once more, and no layer may look at " +
      `\u201c${trace.meta.source.pieces[at]}\u201d`,
    `log p(${writtenAt(trace, step)}) was ${show(Math.log(p))}, then ` +
      `${show(Math.log(p) - harm)}: ${show(harm)} less, and e^${exact(harm)} = ` +
      `${times(Math.exp(harm))}`,
  ];
}

/**
 * Explain why this token was written at this step. The parts are texts, tokens ({ piece }) and
 * numbers with an explanation ({ share, how }).
 */
export function whyParts(trace, step) {
  const { meta } = trace;
  const written = writtenAt(trace, step);
  const before = joined(meta.target.pieces.slice(0, step + 1));
  const probs = softmaxOf(rowOf(trace.get("logits"), step));
  const chosen = meta.steps[step].chosen;
  const other = topIndices(probs, 2).find((id) => id !== chosen);
  const isLanguageModel = !hasSource(trace);
  const verb = isLanguageModel ? "read" : "written";
  const parts = [
    `At step ${step + 1} the model had ${verb} `,
    before ? { piece: before } : "nothing yet",
    ". ",
  ];
  if (!isLanguageModel && trace.has("align.attention")) {
    const source = meta.source.pieces;
    const looked = rowOf(trace.get("align.attention"), step);
    const at = argmax(looked);
    const nLayers = decoderOf(trace).n_layers;
    const last = meta.model.alignment_layer === nLayers - 1;
    const layer = last
      ? "Its last decoder layer"
      : `Its decoder layer ${meta.model.alignment_layer + 1} of ${nLayers}`;
    parts.push(
      `${layer} looked `,
      { share: percent(looked[at]), how: howAttention(trace, step, at) },
      " at ",
      { piece: source[at] },
    );
    if (trace.has("align.occlusion")) {
      const harm = rowOf(trace.get("align.occlusion"), step);
      const most = argmax(harm);
      if (harm[most] < 0.05) parts.push("; hiding any one token of the source changes little. ");
      else {
        const less = [
          " makes ",
          { piece: written },
          " ",
          { share: `${times(Math.exp(harm[most]))} times`, how: howHidden(trace, step, most) },
          " less likely. ",
        ];
        if (most === at) parts.push("; hiding ", { piece: source[at] }, ...less);
        else parts.push(
          ", but the token it needs most is ",
          { piece: source[most] },
          ": hiding it",
          ...less,
        );
      }
    } else parts.push(". ");
  }
  parts.push(
    "It gave ",
    { piece: written },
    " ",
    { share: percent(probs[chosen]), how: howProb(trace, step, chosen) },
    probs[other] > probs[chosen] ? "; likelier was " : ", next ",
    { piece: trace.meta.vocabulary[other] },
    " ",
    { share: percent(probs[other]), how: howProb(trace, step, other) },
    ".",
  );
  if (written === "[EOS]") parts.push(" With [EOS] the sentence ends.");
  return parts;
}

/** Explain further: what hiding means, the effect of other tokens, where other layers looked. */
export function moreParts(trace, step) {
  const { meta } = trace;
  const parts = [];
  if (!trace.ran("mask"))
    parts.push(
      "This branch runs without the mask: at every step it also sees the later tokens of its " +
        "input, which it never did in training. So the probabilities of this page are not those " +
        "with which the sentence was found; the search writes token by token and has nothing " +
        "later to see. (A model trained like this would learn to copy the next token.) ",
    );
  if (!hasSource(trace) || !trace.has("align.occlusion")) return parts;
  const source = meta.source.pieces;
  const harm = rowOf(trace.get("align.occlusion"), step);
  const rest = topIndices(harm, harm.length).filter((j) => j !== argmax(harm));
  parts.push(
    "Hiding a token means that no layer may attend to it. The others count for less: hidden one " +
      "by one, ",
  );
  rest.slice(0, 6).forEach((j, rank) => {
    const less = Math.exp(harm[j]) < 1.05 ? "no change" : `${times(Math.exp(harm[j]))} times`;
    parts.push(
      rank ? ", " : "",
      { piece: source[j] },
      " ",
      { share: less, how: howHidden(trace, step, j) },
    );
  });
  parts.push(`${rest.length > 6 ? ", and less for the rest" : ""}. `);
  for (let layer = 0; layer < decoderOf(trace).n_layers; layer += 1) {
    const weights = layer === meta.model.alignment_layer
      ? null
      : trace.has(`dec.${layer}.cross.weights`) && trace.get(`dec.${layer}.cross.weights`);
    if (!weights) continue;
    const [h, n, m] = weights.shape;
    const mean = Array.from(
      { length: m },
      (_, j) =>
        meanOf(Array.from({ length: h }, (_, head) => weights.data[(head * n + step) * m + j])),
    );
    const at = argmax(mean);
    const lines = [
      `mean over heads of dec.${layer}.cross.weights[:, ${step}, ${at}]`,
      topIndices(mean, 4).map((j) => `${source[j]} ${percent(mean[j])}`).join(", "),
    ];
    parts.push(
      `Layer ${layer + 1} looked `,
      { share: percent(mean[at]), how: lines },
      " at ",
      { piece: source[at] },
      ". ",
    );
  }
  return parts;
}

/** The parts as nodes; numbers get their explanation. */
function nodesOf(parts) {
  return parts.map((part) =>
    part.piece
      ? el("bdi", {}, `\u201c${part.piece}\u201d`)
      : part.share
      ? how(part.share, part.how, "share")
      : part,
  );
}

/** The same as plain text. */
export function whyText(trace, step) {
  return whyParts(trace, step)
    .map((part) => (part.piece ? `\u201c${part.piece}\u201d` : (part.share ?? part)))
    .join("");
}

export const sentenceStation = {
  id: "sentence",
  fits: () => true,
  build(box, page) {
    const why = el("p", { class: "why", id: "why" });
    const more = el("p", { class: "more", id: "more" });
    box.append(why, more);
    const view = figure(
      box,
      hasSource(page.trace)
        ? "Where it looked (grey: at earlier steps), and its candidates (orange: written)"
        : "What it thought of (orange: what came)",
      { readout: false },
    );
    const drawing = el("div", { class: "arcs" });
    const bars = el("div", {});
    const thought = el("div", {}, el("h3", {}, "What comes next?"), bars);
    const isLong = page.trace.meta.source?.pieces.reduce(
      (sum, text) => sum + widthOf(text) + 26,
      0,
    ) >
      520;
    view.body.append(
      hasSource(page.trace)
        ? el("div", { class: isLong ? "hero stacked" : "hero" }, drawing, thought)
        : thought,
    );
    let root = null;
    let rows = [];
    let said = null;
    view.tools({
      svg: () => (root ? sideBySide(root, barSvg(rows)) : barSvg(rows)),
      rows: () =>
        [
          ["step", "token", "probability"],
          ...rows.map((row) => [page.state.step + 1, row.name, row.p]),
        ],
    });
    return () => {
      const { trace } = page;
      const { step } = page.state;
      const { meta } = trace;
      why.replaceChildren(...nodesOf(whyParts(trace, step)));
      more.replaceChildren(...nodesOf(moreParts(trace, step)));
      if (said !== null && said !== step) announce(whyText(trace, step));
      said = step;
      rows = likeliest(trace, step, 5).map(({ id, name, p }) => ({
        id,
        name,
        p,
        share: p,
        strong: id === meta.steps[step].chosen,
        cells: [{ text: percent(p), value: p }],
        how: howProb(trace, step, id),
      }));
      const rest = Math.max(1 - rows.reduce((sum, row) => sum + row.p, 0), 0);
      const n = (meta.model.vocab_size - rows.length).toLocaleString("en");
      rows.push({
        name: `other ${n}`,
        p: rest,
        share: rest,
        off: false,
        cells: [{ text: percent(rest), value: rest }],
        how: [
          `the other ${n} tokens of the vocabulary together: 1 \u2212 the ${rows.length} above`,
          "each of them has very little",
        ],
      });
      barTable(bars, rows, {
        caption: `The most likely tokens at step ${step + 1}`,
        columns: ["token", "", "probability"],
      });
      if (hasSource(trace) && trace.has("align.attention")) {
        const weights = rowOf(trace.get("align.attention"), step);
        const below = meta.steps.slice(0, step + 1).map((_, t) => writtenAt(trace, t));
        root = curves(drawing, {
          above: meta.source.pieces,
          below,
          links: below.flatMap((_, t) =>
            Array.from(rowOf(trace.get("align.attention"), t), (w, i) => [i, t, w, t < step]),
          ),
          strong: { above: argmax(weights), below: step },
          rtl: [runsLeft(meta.source.text), runsLeft(meta.target.text)],
          label: whyText(trace, step),
          explain: (i, t) => howAttention(trace, t, i),
        });
      }
    };
  },
};

/** Tokens with their ids below, in one line. */
function tokensSvg(pieces, ids) {
  const colors = theme();
  let x = 8;
  const root = svg("svg", { height: 56 });
  pieces.forEach((text, i) => {
    const wide = Math.max(widthOf(text), widthOf(String(ids[i]))) + 18;
    const style = {
      x: x + wide / 2,
      "text-anchor": "middle",
      "font-size": 14,
      "font-family": "system-ui, sans-serif",
    };
    root.append(
      svg("rect", { x, y: 6, width: wide, height: 44, rx: 7, fill: "none", stroke: colors.line }),
    );
    root.append(svg("text", { ...style, y: 24, fill: colors.ink }, text));
    root.append(svg("text", { ...style, y: 43, fill: colors.quiet }, String(ids[i])));
    x += wide + 6;
  });
  root.setAttribute("width", String(Math.ceil(x + 2)));
  return root;
}

export const tokensStation = {
  id: "tokens",
  fits: () => true,
  build(box, page) {
    const list = (side) => {
      const { pieces, ids, words } = side;
      const items = pieces.map((text, i) => {
        const isSpecial = text === "[SOS]" || text === "[EOS]";
        const isUnknown = text === "[UNK]" || text === "<unk>" || /^<0x..>$/.test(text);
        const isSame = i > 0 && words[i] !== null && words[i] === words[i - 1];
        const style = [
          "token",
          ...(isSpecial ? ["special"] : []),
          ...(isUnknown ? ["unknown"] : []),
          ...(isSame ? ["same"] : []),
        ].join(" ");
        const told = isUnknown ? el("span", { class: "hidden" }, " unknown") : null;
        return el(
          "li",
          { class: style, "data-id": ids[i] },
          bidiText(text),
          el("code", {}, String(ids[i])),
          told,
        );
      });
      const view = figure(box, "", { readout: false });
      view.body.append(
        el("ol", { class: "tokens", dir: runsLeft(side.text) ? "rtl" : "ltr" }, ...items),
      );
      view.tools({
        svg: () => tokensSvg(pieces, ids),
        rows: () => [
          ["position", "token", "id", "word"],
          ...pieces.map((text, i) => [i, text, ids[i], words[i] ?? ""]),
        ],
      });
      return { view, items };
    };
    const { meta } = page.trace;
    if (meta.source)
      list(meta.source).view.title(`Source: ${meta.source.ids.length} tokens, read all at once`);
    const read = list(meta.target);
    box.append(
      el(
        "p",
        { class: "quiet" },
        `The vocabulary has ${meta.model.vocab_size} tokens. A bar at the left of a token: it ` +
          "belongs to the word before it.",
      ),
    );
    return () => {
      const { step } = page.state;
      const n = meta.target.ids.length;
      const who = meta.source ? "What the decoder reads" : "Text";
      read.view.title(
        `${who} at step ${step + 1}: ${step + 1} of ${n} tokens; the dashed ones come later`,
      );
      read.items.forEach((item, i) => item.classList.toggle("later", i > step));
    };
  },
};
