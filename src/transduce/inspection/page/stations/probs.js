// Stations 10 and 12: the probabilities of the vocabulary, and the prediction after each layer.
import { softmaxOf } from "../data.js";
import { barSvg, barTable, el, figure, bidiText, slider, svg, theme, widthOf } from "../draw.js";
import { termed } from "../glossary.js";
import { entropyOf, exact, argmax, percent, rowOf, shapeProbs, show, topIndices } from "../math.js";
import { decoderOf, writtenAt } from "../names.js";

const N_SHOWN = 20;

export const probsStation = {
  id: "probs",
  fits: (trace) => trace.has("logits"),
  build(box, page) {
    const size = page.trace.meta.model.vocab_size;
    const asked = { temperature: 1, topK: size, topP: 1 };
    const places = [];
    for (let k = 1; k < size; k = Math.max(k + 1, Math.round(k * 1.25))) places.push(k);
    places.push(size);
    const controls = el(
      "div",
      { class: "controls" },
      slider("temperature", {
        min: 0.1,
        max: 3,
        step: 0.1,
        value: 1,
        format: (x) => x.toFixed(1),
      }, (value) => {
        asked.temperature = value;
        update();
      }),
      slider(
        "top-k",
        {
          min: 0,
          max: places.length - 1,
          step: 1,
          value: places.length - 1,
          format: (at) => (places[at] === size ? `all ${size}` : String(places[at])),
        },
        (at) => {
          asked.topK = places[at];
          update();
        },
      ),
      slider(
        "top-p",
        { min: 0.01, max: 1, step: 0.01, value: 1, format: (x) => x.toFixed(2) },
        (value) => {
          asked.topP = value;
          update();
        },
      ),
    );
    const view = figure(box, "probabilities");
    view.body.append(controls);
    const bars = el("div", { id: "probabilities" });
    view.body.append(bars);
    let rows = [];
    let picked = null;
    view.tools({
      svg: () => barSvg(rows),
      rows: () =>
        [
          ["id", "token", "logit", "probability"],
          ...rows.map((row) => [row.id, row.name, row.logit, row.p]),
        ],
    });
    const update = () => {
      const { trace } = page;
      const { step } = page.state;
      const logits = rowOf(trace.get("logits"), step);
      const probs = shapeProbs(logits, asked.temperature, asked.topK, asked.topP);
      const before = page.parent?.has("logits") && step < page.parent.get("logits").shape[0]
        ? page.parent
        : null;
      const old = before ? softmaxOf(rowOf(before.get("logits"), step)) : null;
      const isPlain = asked.temperature === 1 && asked.topK >= size && asked.topP >= 1;
      const highest = Math.max(...logits);
      const whole = logits.reduce((total, x) => total + Math.exp(x - highest), 0);
      const chosen = trace.meta.steps[step].chosen;
      const shown = topIndices(logits, Math.min(N_SHOWN, size));
      if (!shown.includes(chosen)) shown[shown.length - 1] = chosen;
      rows = shown.map((id) => ({
        id,
        name: trace.meta.vocabulary[id],
        share: probs[id],
        p: probs[id],
        logit: logits[id],
        strong: id === chosen,
        off: probs[id] === 0,
        how: [
          `logits[${step}, ${id}] = ${show(logits[id])}`,
          isPlain
            ? `exp(${exact(logits[id])} \u2212 ${exact(highest)}) / the sum over ${size} tokens ` +
              `= ${exact(Math.exp(logits[id] - highest))} / ${exact(whole)} = ` +
              `${show(Math.exp(logits[id] - highest) / whole)}`
            : `with these settings ${percent(probs[id])}`,
        ],
        cells: [
          { text: show(logits[id]), value: logits[id] },
          { text: probs[id] === 0 ? "cut" : percent(probs[id]), value: probs[id] },
          ...(old ? [{ text: percent(old[id]), value: old[id] }] : []),
        ],
      }));
      view.title(`Step ${step + 1}: the ${rows.length} largest of ${size} logits`);
      barTable(bars, rows, {
        caption: "the most likely tokens",
        columns: ["token", "", "logit", "probability", ...(old ? ["before"] : [])],
        pick: (i) => {
          picked = rows[i].id;
          explain();
        },
      });
      const explain = () => {
        const id = picked !== null && shown.includes(picked) ? picked : chosen;
        const [most, sum] = [highest, whole];
        const left = Array.from(probs).filter((p) => p > 0).length;
        const rest = 1 - rows.reduce((total, row) => total + row.p, 0);
        const plain = Math.exp(logits[id] - most) / sum;
        const code = el(
          "code",
          {
            class: "number",
            "data-tensor": "probs",
            "data-index": `${step},${id}`,
            "data-value": String(plain),
          },
          `probs[${step}, ${id}] = ${show(plain)}`,
        );
        view.words.replaceChildren(
          code,
          el(
            "span",
            { class: "line" },
            bidiText(trace.meta.vocabulary[id]),
            `: exp(${exact(logits[id])} \u2212 ${exact(most)}) / \u03a3 over ${size} tokens = ` +
              `${exact(Math.exp(logits[id] - most))} / ${exact(sum)} = ${show(plain)}`,
          ),
          el(
            "span",
            { class: "line" },
            ...termed(isPlain
              ? `entropy ${entropyOf(probs).toFixed(2)} bits; all tokens that are not shown ` +
                `together have ${percent(Math.max(rest, 0))}`
              : `with these settings ${left} of ${size} tokens are left, entropy ` +
                `${entropyOf(probs).toFixed(2)} bits; ${trace.meta.vocabulary[id]} has ` +
                `${percent(probs[id])}`),
          ),
        );
      };
      explain();
    };
    return update;
  },
};

/** The table of layers and steps as SVG. */
function lensSvg(rows, trace) {
  const colors = theme();
  const layers = [...new Set(rows.map((row) => row.layer))].reverse();
  const wide = Math.max(...rows.map((row) => widthOf(row.said, 600)), 60) + 24;
  const n = trace.meta.steps.length;
  const root = svg("svg", { width: 120 + wide * n, height: 30 + 56 * layers.length });
  const style = { "font-size": 14, "font-family": "system-ui, sans-serif" };
  const text = (x, y, words, fill) => root.append(svg("text", { ...style, x, y, fill }, words));
  for (let t = 0; t < n; t += 1) text(124 + wide * t, 18, `step ${t + 1}`, colors.quiet);
  layers.forEach((layer, i) => text(8, 60 + 56 * i, `after layer ${layer + 1}`, colors.quiet));
  for (const row of rows) {
    const [x, y] = [120 + wide * row.step, 30 + 56 * layers.indexOf(row.layer)];
    const isRight = row.id === trace.meta.steps[row.step].chosen;
    root.append(
      svg(
        "rect",
        {
          x,
          y,
          width: wide - 6,
          height: 48,
          rx: 6,
          fill: "none",
          stroke: isRight ? colors.one : colors.line,
        },
      ),
    );
    text(x + 8, y + 20, row.said, colors.ink);
    text(x + 8, y + 39, percent(row.p), colors.quiet);
  }
  return root;
}

export const lensStation = {
  id: "lens",
  fits: (trace) => trace.has("lens.0"),
  build(box, page) {
    const view = figure(box, "The most likely token after each layer");
    const body = el("div", {});
    view.body.append(body);
    let rows = [];
    view.tools({
      svg: () => lensSvg(rows, page.trace),
      rows: () => [
        ["layer", "step", "token", "probability"],
        ...rows.map((row) => [row.layer + 1, row.step + 1, row.said, row.p]),
      ],
    });
    return () => {
      const { trace } = page;
      const n = decoderOf(trace).n_layers;
      const steps = trace.meta.steps.map((_, t) => t);
      rows = [];
      for (let layer = 0; layer < n; layer += 1) {
        if (!trace.has(`lens.${layer}`)) continue;
        for (const step of steps) {
          const probs = softmaxOf(rowOf(trace.get(`lens.${layer}`), step));
          const id = argmax(probs);
          rows.push({
            layer,
            step,
            id,
            said: trace.meta.vocabulary[id],
            name: `layer ${layer + 1}: ${trace.meta.vocabulary[id]}`,
            p: probs[id],
            share: probs[id],
            cells: [{ text: percent(probs[id]), value: probs[id] }],
            own: probs[trace.meta.steps[step].chosen],
          });
        }
      }
      const cell = (row) => {
        const isRight = row.id === trace.meta.steps[row.step].chosen;
        const isNow = row.step === page.state.step;
        const style = `said-piece${isRight ? " right" : ""}${isNow ? " now" : ""}`;
        return el(
          "td",
          {},
          el(
            "span",
            {
              class: style,
              "data-value": row.p,
              "data-how":
                `the largest of softmax(lens.${row.layer}[${row.step}]) = ` +
                `${show(row.p)}\n\u201c${writtenAt(trace, row.step)}\u201d, which was written ` +
                `in the end, has ${percent(row.own)} after layer ${row.layer + 1}`,
            },
            bidiText(row.said),
            el("small", {}, percent(row.p)),
          ),
        );
      };
      const lines = [...new Set(rows.map((row) => row.layer))]
        .reverse()
        .map((layer) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, `after layer ${layer + 1}`),
            ...rows.filter((row) => row.layer === layer).map(cell),
          ),
        );
      const head = el(
        "tr",
        {},
        el("td", {}),
        ...steps.map((t) => el("th", { scope: "col" }, `step ${t + 1}`)),
      );
      body.replaceChildren(
        el(
          "div",
          {
            class: "pan",
            tabindex: "0",
            role: "group",
            "aria-label": "the prediction after each layer",
          },
          el(
            "table",
            { class: "plain-table lens" },
            el(
              "caption",
              { class: "hidden" },
              "the most likely token after each layer at each step",
            ),
            el("thead", {}, head),
            el("tbody", {}, ...lines),
          ),
        ),
      );
      const mine = rows.filter((row) => row.step === page.state.step);
      const found = mine.find((row) => row.id === trace.meta.steps[page.state.step].chosen);
      const at = found ? found.layer : n - 1;
      const told = found
        ? `At step ${page.state.step + 1} \u201c${writtenAt(trace, page.state.step)}\u201d is ` +
          `on top from layer ${at + 1} on`
        : `At step ${page.state.step + 1} no layer has ` +
          `\u201c${writtenAt(trace, page.state.step)}\u201d on top`;
      view.words.replaceChildren(
        el("code", { class: "number" }, `softmax(lens.${at}[${page.state.step}])`),
        el(
          "span",
          { class: "line" },
          `${told}; its probability layer by layer: ` +
            `${mine.map((row) => percent(row.own)).join(" \u2192 ")}`,
        ),
      );
    };
  },
};
