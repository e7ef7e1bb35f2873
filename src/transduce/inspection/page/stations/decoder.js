// Station 9: what the decoder attends to, and three measures of its dependence on the source.
import { HeatMap, arcsOver, choice, curves, el, figure } from "../draw.js";
import { exact, argmax, meanOf, percent, result, rowOf, show, times, topIndices } from "../math.js";
import { decoderOf, hasSource, headName, placeName, runsLeft, writtenAt } from "../names.js";

/** The attention weights of one step: of one head, or the mean of all heads (head "all"). */
function weightsOf(trace, place, head, step) {
  const tensor = trace.get(`${place}.weights`);
  if (head !== "all") return rowOf(tensor, Number(head), step);
  const heads = Array.from({ length: tensor.shape[0] }, (_, h) => rowOf(tensor, h, step));
  return Float32Array.from(heads[0], (_, j) => meanOf(heads.map((row) => row[j])));
}

/** Agreement of two alignments: the share of steps at which both name the same source token. */
export function agreementOf(a, b) {
  const n = a.shape[0];
  return meanOf(
    Array.from({ length: n }, (_, i) => (argmax(rowOf(a, i)) === argmax(rowOf(b, i)) ? 1 : 0)),
  );
}

export const decoderStation = {
  id: "decoder",
  fits: () => true,
  build(box, page) {
    const { meta } = page.trace;
    const withSource = hasSource(page.trace) && page.trace.has("align.attention");
    let layer = String(withSource ? meta.model.alignment_layer : decoderOf(page.trace).n_layers - 1);
    let head = "all";
    const layers = Array.from(
      { length: decoderOf(page.trace).n_layers },
      (_, i) => [String(i), `layer ${i + 1}`],
    );
    const heads = [
      ["all", "mean of all heads"],
      ...Array.from({ length: decoderOf(page.trace).n_heads }, (_, i) => [String(i), `head ${i + 1}`]),
    ];
    box.append(
      el(
        "div",
        { class: "controls" },
        choice("decoder layer", layers, layer, (value) => {
          layer = value;
          update();
        }),
        choice("head", heads, head, (value) => {
          head = value;
          update();
        }),
      ),
    );
    let selfRoot = null;
    let crossRoot = null;
    const back = figure(box, "Masked self-attention: it looks back");
    const drawing = el("div", {});
    back.body.append(drawing);
    let backRow = [];
    back.tools({
      svg: () => selfRoot,
      rows: () =>
        [["token", "weight"], ...backRow.map((w, j) => [page.trace.meta.target.pieces[j], w])],
    });
    let across = null;
    let maps = [];
    const crossing = el("div", {});
    let crossRow = [];
    const verdict = el("p", {});
    if (withSource) {
      across = figure(box, "Attention to the source");
      across.body.append(crossing);
      across.tools({
        svg: () => crossRoot,
        rows: () =>
          [["token", "weight"], ...crossRow.map((w, j) => [page.trace.meta.source.pieces[j], w])],
      });
      const two = el("div", { class: meta.source.pieces.length > 9 ? "" : "pair" });
      const third = el(
        "details",
        { class: "deep", toggle: () => third.open && update() },
        el("summary", {}, "A third answer: gradient \u00d7 input"),
      );
      box.append(
        el("h3", {}, "Three answers to \u201cwhere did it look?\u201d"),
        two,
        verdict,
        third,
      );
      maps = [
        [
          "align.attention",
          `Attention: where it looked (layer ${meta.model.alignment_layer + 1}, mean of all heads)`,
          two,
        ],
        ["align.occlusion", "Occlusion: what it needs (log-probability lost when hidden)", two],
        ["align.gradient", "Gradient \u00d7 input: what it would follow", third],
      ]
        .filter(([name]) => page.trace.has(name))
        .map(([name, title, where]) => ({ name, title, map: new HeatMap(where, title) }));
    }
    const update = () => {
      const { trace } = page;
      const { step } = page.state;
      const read = trace.meta.target.pieces;
      const selfPlace = `dec.${layer}.self`;
      const written = trace.meta.steps.map((_, t) => writtenAt(trace, t));
      if (trace.has(`${selfPlace}.weights`)) {
        backRow = [...weightsOf(trace, selfPlace, head, step)];
        const isMasked = trace.isCausal(selfPlace);
        back.title(
          `${isMasked ? "Masked self-attention" : "Self-attention without its mask"}: at step ` +
            `${step + 1} \u201c${read[step]}\u201d looks back (layer ${Number(layer) + 1}, ` +
            `${head === "all" ? "mean of all heads" : `head ${Number(head) + 1}`})`,
        );
        selfRoot = arcsOver(drawing, {
          words: read,
          from: step,
          weights: backRow,
          rtl: runsLeft(trace.meta.target.text),
          explain: (j) =>
            howRow(
              trace,
              selfPlace,
              head,
              step,
              j,
              `\u201c${read[step]}\u201d looks ${percent(backRow[j])} at \u201c${read[j]}\u201d`,
            ),
          label: `${read[step]} looks back: ${backRow
            .map((w, j) => [w, j])
            .filter(([w]) => w >= 0.005)
            .map(([w, j]) => `${percent(w)} at ${read[j]}`)
            .join(", ")}`,
        });
        const at = argmax(backRow);
        const later = read.slice(step + 1, step + 9);
        if (read.length > step + 9) later.push("\u2026");
        sayRow(
          back.words,
          selfPlace,
          head,
          step,
          at,
          backRow,
          `\u201c${read[step]}\u201d looks ${percent(backRow[at])} at \u201c${read[at]}\u201d`,
          isMasked && step < read.length - 1
            ? `the mask hides what comes later: ${later.join(" ")}`
            : "",
        );
      }
      const crossPlace = `dec.${layer}.cross`;
      if (!withSource || !trace.has(`${crossPlace}.weights`)) return;
      const source = trace.meta.source.pieces;
      crossRow = [...weightsOf(trace, crossPlace, head, step)];
      const at = argmax(crossRow);
      across.title(
        `${placeName(crossPlace)}, step ${step + 1} ` +
          `(${head === "all" ? "mean of all heads" : `head ${Number(head) + 1}`})`,
      );
      crossRoot = curves(crossing, {
        above: source,
        below: written,
        ghost: step + 1,
        links: crossRow.map((w, i) => [i, step, w]),
        strong: { above: at, below: step },
        rtl: [runsLeft(trace.meta.source.text), runsLeft(trace.meta.target.text)],
        explain: (i) =>
          howRow(
            trace,
            crossPlace,
            head,
            step,
            i,
            `to write \u201c${written[step]}\u201d it looks ${percent(crossRow[i])} at ` +
              `\u201c${source[i]}\u201d`,
          ),
        label: `To write ${written[step]} it looks ${percent(crossRow[at])} at ${source[at]}`,
      });
      sayRow(
        across.words,
        crossPlace,
        head,
        step,
        at,
        crossRow,
        `to write \u201c${written[step]}\u201d it looks ${percent(crossRow[at])} at ` +
          `\u201c${source[at]}\u201d`,
        "",
      );
      for (const { name, title, map } of maps) {
        const tensor = page.tensor(name);
        const isSigned = tensor.isDiff || name === "align.gradient";
        map.draw({
          title: `${title}${page.diffNote(name)}`,
          rows: written,
          cols: source,
          data: tensor.data,
          ramp: isSigned ? "signed" : "weights",
          reach: name === "align.attention" && !tensor.isDiff ? 1 : undefined,
          most: 56,
          mark: { row: step, col: topIndices(rowOf(trace.get(name), step).map(Math.abs), 1)[0] },
          pick: (i) => page.set({ step: i }),
          explain: (i, j) => explainAlign(trace, name, written, source, i, j),
        });
      }
      if (maps.length === 3) {
        const [attention, occlusion, gradient] = maps.map(({ name }) => trace.get(name));
        const absolute = { shape: gradient.shape, data: gradient.data.map(Math.abs) };
        verdict.textContent =
          "Attention and occlusion name the same source token at " +
          `${percent(agreementOf(attention, occlusion))} of the steps, gradient and occlusion ` +
          `at ${percent(agreementOf(absolute, occlusion))}. Where they disagree, believe ` +
          "occlusion: it changed the input and looked.";
      }
    };
    return update;
  },
};

/** Explain one curve: the attention weight that it shows. */
function howRow(trace, place, head, step, j, words) {
  const weights = trace.get(`${place}.weights`);
  if (head !== "all")
    return [
      `${place}.weights[${head}, ${step}, ${j}] = ${show(rowOf(weights, Number(head), step)[j])}`,
      headName(place, Number(head)),
      words,
    ];
  const each = Array.from({ length: weights.shape[0] }, (_, h) => rowOf(weights, h, step)[j]);
  return [
    `mean over heads of ${place}.weights[:, ${step}, ${j}] = ${show(meanOf(each))}`,
    words,
    `(${each.map(exact).join(" + ")}) / ${each.length}`,
  ];
}

function sayRow(box, place, head, step, at, row, first, second) {
  const name = `${place}.weights`;
  const code =
    head === "all"
      ? `mean over heads of ${name}[:, ${step}, ${at}] = ${show(row[at])}`
      : `${name}[${head}, ${step}, ${at}] = ${show(row[at])}`;
  box.replaceChildren(
    el("code", { class: "number" }, code),
    el("span", { class: "line" }, first),
    second ? el("span", { class: "line" }, second) : "",
  );
}

function explainAlign(trace, name, written, source, i, j) {
  const value = rowOf(trace.get(name), i)[j];
  const found = { name, index: [i, j], value, lines: [] };
  if (name === "align.attention") {
    const place = `dec.${trace.meta.model.alignment_layer}.cross`;
    const heads = trace.get(`${place}.weights`).shape[0];
    const each = Array.from(
      { length: heads },
      (_, head) => rowOf(trace.get(`${place}.weights`), head, i)[j],
    );
    found.lines = [
      `the mean of ${heads} heads of ${place}.weights: (${each.map(exact).join(" + ")}) / ` +
        `${heads} = ${result(meanOf(each), value)}`,
      `to write \u201c${written[i]}\u201d it looks ${percent(value)} at \u201c${source[j]}\u201d`,
    ];
  } else if (name === "align.occlusion") {
    found.lines = [
      `log p(${written[i]} | all) \u2212 log p(${written[i]} | without ${source[j]}), not below 0`,
      value < 0.01
        ? `hiding \u201c${source[j]}\u201d does not make \u201c${written[i]}\u201d less likely`
        : `hiding \u201c${source[j]}\u201d makes \u201c${written[i]}\u201d ` +
          `${times(Math.exp(value))} times less likely: e^${exact(value)}`,
    ];
  } else {
    found.lines = [
      `\u2202 log p(${written[i]}) / \u2202 vector of ${source[j]}, times that vector, added up`,
      `more of \u201c${source[j]}\u201d would make \u201c${written[i]}\u201d ` +
        `${value < 0 ? "less" : "more"} likely`,
    ];
  }
  return { ...found, say: `${written[i]}, ${source[j]}: ${found.lines[1]}` };
}
