// Stations 0 and 1: the sentence and why the next piece was written, and the pieces with their numbers.
import { softmaxOf } from "../data.js";
import { announce, barSvg, barTable, curves, el, figure, piece, svg, theme, widthOf } from "../draw.js";
import { largestAt, percent, rowOf, times, topOf } from "../math.js";
import { hasSource, joined, runsLeft, writtenAt } from "../names.js";

/** The likeliest pieces of a step by the logits: [{ id, name, p }]. */
export function likeliest(trace, step, n) {
  const probs = softmaxOf(rowOf(trace.get("logits"), step));
  return topOf(probs, n).map((id) => ({ id, name: trace.meta.vocabulary[id], p: probs[id] }));
}

/** Why this piece at this step, in words made of the numbers: parts that are text, pieces ({ piece }) or shares ({ share }). */
export function whyParts(trace, step) {
  const { meta } = trace;
  const written = writtenAt(trace, step);
  const before = joined(meta.target.pieces.slice(0, step + 1));
  const probs = softmaxOf(rowOf(trace.get("logits"), step));
  const chosen = meta.steps[step].chosen;
  const other = topOf(probs, 2).find((id) => id !== chosen);
  const isLanguageModel = !hasSource(trace);
  const verb = isLanguageModel ? "read" : "written";
  const parts = [`At step ${step + 1} the model had ${verb} `, before ? { piece: before } : "nothing yet", ". "];
  if (!isLanguageModel && trace.has("align.attention")) {
    const source = meta.source.pieces;
    const looked = rowOf(trace.get("align.attention"), step);
    const at = largestAt(looked);
    const last = meta.model.alignment_layer === meta.model.n_layers - 1;
    const layer = last
      ? "Its last decoder layer"
      : `Its decoder layer ${meta.model.alignment_layer + 1} of ${meta.model.n_layers}`;
    parts.push(`${layer} looked `, { share: percent(looked[at]) }, " at ", { piece: source[at] });
    if (trace.has("align.occlusion")) {
      const harm = rowOf(trace.get("align.occlusion"), step);
      const most = largestAt(harm);
      if (harm[most] < 0.05) parts.push("; hiding any one piece of the source changes little. ");
      else {
        const less = [
          " makes ",
          { piece: written },
          " ",
          { share: `${times(Math.exp(harm[most]))} times` },
          " less likely. ",
        ];
        if (most === at) parts.push("; hiding ", { piece: source[at] }, ...less);
        else parts.push(", but the piece it needs most is ", { piece: source[most] }, ": hiding it", ...less);
      }
    } else parts.push(". ");
  }
  parts.push(
    "It gave ",
    { piece: written },
    " ",
    { share: percent(probs[chosen]) },
    probs[other] > probs[chosen] ? "; likelier was " : ", next ",
    { piece: trace.meta.vocabulary[other] },
    " ",
    { share: percent(probs[other]) },
    ".",
  );
  if (written === "[EOS]") parts.push(" With [EOS] the sentence ends.");
  return parts;
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
    box.append(why);
    const view = figure(box, "Where it looked, and what it thought of writing", { readout: false });
    const drawing = el("div", { class: "arcs" });
    const bars = el("div", {});
    const thought = el("div", {}, el("h3", {}, "What comes next?"), bars);
    const isLong = page.trace.meta.source?.pieces.reduce((sum, text) => sum + widthOf(text) + 26, 0) > 520;
    view.body.append(
      hasSource(page.trace) ? el("div", { class: isLong ? "hero stacked" : "hero" }, drawing, thought) : thought,
    );
    let root = null;
    let rows = [];
    let said = null;
    view.tools({
      svg: () => root ?? barSvg(rows),
      rows: () => [["step", "piece", "probability"], ...rows.map((row) => [page.state.step + 1, row.name, row.p])],
    });
    return () => {
      const { trace } = page;
      const { step } = page.state;
      const { meta } = trace;
      const spoken = whyParts(trace, step).map((part) =>
        part.piece
          ? el("bdi", {}, `\u201c${part.piece}\u201d`)
          : part.share
            ? el("span", { class: "share" }, part.share)
            : part,
      );
      why.replaceChildren(...spoken);
      if (said !== null && said !== step) announce(whyText(trace, step));
      said = step;
      rows = likeliest(trace, step, 5).map(({ id, name, p }) => ({
        id,
        name,
        p,
        share: p,
        strong: id === meta.steps[step].chosen,
        cells: [{ text: percent(p), value: p }],
      }));
      barTable(bars, rows, {
        caption: `The likeliest pieces at step ${step + 1}`,
        columns: ["piece", "", "probability"],
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
          strong: { above: largestAt(weights), below: step },
          rtl: [runsLeft(meta.source.text), runsLeft(meta.target.text)],
          label: whyText(trace, step),
        });
      }
    };
  },
};

/** Pieces with their numbers below, in one line. */
function tokensSvg(pieces, ids) {
  const colors = theme();
  let x = 8;
  const root = svg("svg", { height: 56 });
  pieces.forEach((text, i) => {
    const wide = Math.max(widthOf(text), widthOf(String(ids[i]))) + 18;
    const style = { x: x + wide / 2, "text-anchor": "middle", "font-size": 14, "font-family": "system-ui, sans-serif" };
    root.append(svg("rect", { x, y: 6, width: wide, height: 44, rx: 7, fill: "none", stroke: colors.line }));
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
    const list = (side, title) => {
      const { pieces, ids, words } = side;
      const items = pieces.map((text, i) => {
        const isSpecial = text === "[SOS]" || text === "[EOS]";
        const isUnknown = text === "[UNK]" || text === "<unk>";
        const isSame = i > 0 && words[i] !== null && words[i] === words[i - 1];
        const style = `token${isSpecial ? " special" : ""}${isUnknown ? " unknown" : ""}${isSame ? " same" : ""}`;
        const told = isUnknown ? el("span", { class: "hidden" }, " unknown") : null;
        return el("li", { class: style, "data-id": ids[i] }, piece(text), el("code", {}, String(ids[i])), told);
      });
      const view = figure(box, title, { readout: false });
      view.body.append(el("ol", { class: "tokens", dir: runsLeft(side.text) ? "rtl" : "ltr" }, ...items));
      view.tools({
        svg: () => tokensSvg(pieces, ids),
        rows: () => [
          ["position", "piece", "id", "word"],
          ...pieces.map((text, i) => [i, text, ids[i], words[i] ?? ""]),
        ],
      });
    };
    const { meta } = page.trace;
    if (meta.source) list(meta.source, `Source: ${meta.source.ids.length} pieces`);
    list(meta.target, `${meta.source ? "What the decoder reads" : "Text"}: ${meta.target.ids.length} pieces`);
    box.append(
      el(
        "p",
        { class: "quiet" },
        `The vocabulary has ${meta.model.vocab_size} pieces. A bar at the left of a piece: it belongs to the word before it.`,
      ),
    );
    return () => {};
  },
};
