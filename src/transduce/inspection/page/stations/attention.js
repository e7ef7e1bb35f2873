// Stations 4 and 5: the score matrix in five stages, and all heads.
import { softmaxOf } from "../data.js";
import {
  HeatMap,
  choice,
  el,
  figure,
  offer,
  scaleOf,
  svg,
  theme,
  thumbnail,
  toggle,
} from "../draw.js";
import { termed } from "../glossary.js";
import {
  entropyOf,
  dotOf,
  exact,
  argmax,
  meanOf,
  percent,
  maxAbsOf,
  result,
  rowOf,
  show,
  sliceOf,
  topIndices,
} from "../math.js";
import {
  headName,
  headsOf,
  headTensor,
  isCausal,
  labelsOf,
  placeName,
  placesOf,
} from "../names.js";

/** Two menus: an attention and one of its heads. Every station that shows one head has them. */
export function headPicker(page) {
  const places = placesOf(page.trace);
  const box = el("div", { class: "controls" });
  const list = choice(
    "attention",
    places.map((place) => [place, placeName(place)]),
    page.state.place,
    (place) => page.set({ place }),
  );
  const heads = () =>
    Array.from(
      { length: headsOf(page.trace, page.state.place) },
      (_, head) => [String(head), `head ${head + 1}`],
    );
  const which = choice(
    "head",
    heads(),
    String(page.state.head),
    (head) => page.set({ head: Number(head) }),
  );
  box.append(list, which);
  return {
    box,
    update: () => {
      list.lastChild.value = page.state.place;
      offer(which, heads(), String(page.state.head));
    },
  };
}

/** A sentence such as "molto looks 71 % at very, 18 % at much". */
export function lookSentence(row, weights, cols) {
  const best = topIndices(weights, 2).filter((j, rank) => rank === 0 || weights[j] >= 0.005);
  return `${row} looks ${best.map((j) => `${percent(weights[j])} at ${cols[j]}`).join(", ")}`;
}

/** Explain how a number of an attention was computed. */
export function explainAttention(trace, place, stage, head, i, j) {
  const { rows, cols } = labelsOf(trace, place);
  const name = `${place}.${stage}`;
  const tensor = trace.get(name);
  const value = rowOf(tensor, head, i)[j];
  const found = { name, index: [head, i, j], value, lines: [] };
  if (!trace.has(`${place}.q`)) {
    found.lines = [`${rows[i]} looks ${percent(value)} at ${cols[j]}`];
    return { ...found, say: found.lines[0] };
  }
  const q = rowOf(trace.get(`${place}.q`), head, i);
  const d = q.length;
  if (stage === "raw") {
    const k = rowOf(trace.get(`${place}.k`), head, j);
    const products = Float32Array.from(q, (x, at) => x * k[at]);
    const most = topIndices(products.map(Math.abs), 3);
    const largestProducts = most.map(
      (at) => `${exact(q[at])} \u00d7 ${exact(k[at])} = ${show(products[at])}`,
    );
    found.lines = [
      `q of \u201c${rows[i]}\u201d times k of \u201c${cols[j]}\u201d: ${d} products that add up ` +
        `to ${result(dotOf(q, k), value)}`,
      `the largest: ${largestProducts.join(",  ")}`,
    ];
  } else if (stage === "scaled") {
    const raw = rowOf(trace.get(`${place}.raw`), head, i)[j];
    found.lines = [
      trace.ran("scale")
        ? `${exact(raw)} / \u221a${d} = ${exact(raw)} / ${exact(Math.sqrt(d))} = ${show(value)}`
        : `${show(raw)}, not divided: this branch runs without scaling`,
    ];
  } else if (stage === "masked") {
    found.lines = [
      value === -Infinity
        ? `\u201c${cols[j]}\u201d comes later than \u201c${trace.meta.target.pieces[i]}\u201d: ` +
          "hidden, its weight will be 0"
        : `${show(value)}: \u201c${cols[j]}\u201d may be seen`,
    ];
  } else if (stage === "weights") {
    const scores = rowOf(trace.get(`${place}.masked`), head, i);
    const most = Math.max(...scores);
    const sum = scores.reduce((total, x) => total + Math.exp(x - most), 0);
    const isEdited = trace.meta.edits.some(
      (edit) => edit.op === "row" && edit.at === place && edit.head === head && edit.row === i,
    );
    found.lines = [
      isEdited
        ? "this row was set by hand"
        : `exp(${exact(scores[j])} \u2212 ${exact(most)}) / \u03a3 = ` +
          `${exact(Math.exp(scores[j] - most))} / ${exact(sum)} = ` +
          `${result(Math.exp(scores[j] - most) / sum, value)}`,
      lookSentence(`\u201c${rows[i]}\u201d`, rowOf(tensor, head, i), cols),
    ];
    found.say = found.lines[1];
  }
  found.say ??= `${rows[i]}, ${cols[j]}: ${show(value)}`;
  return found;
}

const STAGES = [
  ["raw", "QK\u1d40", "raw scores"],
  ["scaled", "\u00f7 \u221ad_k", "scaled"],
  ["masked", "mask", "masked"],
  ["weights", "softmax", "weights"],
  ["heads", "\u00d7 V", "mixed values"],
];

export const scoresStation = {
  id: "scores",
  fits: (trace) => placesOf(trace).some((place) => trace.has(`${place}.raw`)),
  build(box, page) {
    const picker = headPicker(page);
    let stage = "weights";
    let isUnscaled = false;
    const buttons = STAGES.map(([key, symbol, text]) => {
      const canvas = el("canvas", { "aria-hidden": "true" });
      const button = el(
        "button",
        {
          type: "button",
          class: "stage-button",
          "data-stage": key,
          click: () => {
            stage = key;
            update();
          },
        },
        canvas,
        el("b", {}, symbol),
        el("span", {}, text),
      );
      return { key, canvas, button };
    });
    const unscaled = toggle("what if scores were not divided by \u221ad_k?", false, (value) => {
      isUnscaled = value;
      update();
    });
    picker.box.append(unscaled);
    box.append(
      picker.box,
      el(
        "div",
        { class: "stages", role: "group", "aria-label": "stages" },
        ...buttons.map(({ button }) => button),
      ),
    );
    const map = new HeatMap(box, "weights");
    const entropy = el("p", { class: "quiet" });
    box.append(entropy);
    const update = () => {
      const { trace } = page;
      const { place, head, query, key } = page.state;
      picker.update();
      if (!trace.has(`${place}.raw`)) return;
      const { rows, cols } = labelsOf(trace, place);
      const matrixOf = (name) => {
        const matrix = sliceOf(page.tensor(`${place}.${name}`), head);
        if (!isUnscaled || !["scaled", "masked", "weights"].includes(name) || page.state.isDiff)
          return matrix;
        return withoutScale(trace, place, head, name);
      };
      for (const { key: name, canvas, button } of buttons) {
        const matrix = matrixOf(name);
        thumbnail(
          canvas,
          matrix,
          name === "weights" && !page.isDifferent(`${place}.weights`) ? "weights" : "signed",
          name === "weights" && !page.isDifferent(`${place}.weights`)
            ? 1
            : maxAbsOf(matrix.data) || 1,
        );
        button.setAttribute("aria-pressed", String(name === stage));
      }
      const matrix = matrixOf(stage);
      const isWeights = stage === "weights" && !page.isDifferent(`${place}.weights`);
      const isValues = stage === "heads";
      const entry = STAGES.find(([name]) => name === stage);
      const isWithoutScale = isUnscaled && !isValues && stage !== "raw";
      const note = isWithoutScale ? ", without scaling" : "";
      map.draw({
        title:
          `${entry[1]}: ${entry[2]}, ${headName(place, head)}${note}` +
          page.diffNote(`${place}.${stage}`),
        rows,
        cols: isValues ? null : cols,
        data: matrix.data,
        most: isValues ? 34 : 84,
        ramp: isWeights ? "weights" : "signed",
        reach: isWeights ? 1 : undefined,
        mark: { row: query, col: isValues ? undefined : Math.min(key, cols.length - 1) },
        pick: (i, j) => page.set(isValues ? { query: i } : { query: i, key: j }),
        explain: (i, j) =>
          isUnscaled && !isValues && stage !== "raw"
            ? {
                name: `${place}.raw`,
                index: [head, i, j],
                value: rowOf(trace.get(`${place}.raw`), head, i)[j],
                lines: [`without scaling: ${show(matrix.data[i * cols.length + j])}`],
                say: show(matrix.data[i * cols.length + j]),
              }
            : isValues
              ? explainValue(trace, place, head, i, j)
              : explainAttention(trace, place, stage, head, i, j),
      });
      const weights = isUnscaled
        ? withoutScale(trace, place, head, "weights")
        : sliceOf(trace.get(`${place}.weights`), head);
      const bits = rows.map(
        (_, i) => entropyOf(weights.data.subarray(i * cols.length, (i + 1) * cols.length)),
      );
      const order = topIndices(bits, rows.length);
      const named = rows.length <= 12
        ? rows.map((_, i) => i)
        : [...order.slice(-3).reverse(), ...order.slice(0, 3)];
      const listed = named.map((i) => `${rows[i]} ${bits[i].toFixed(2)}`).join(" \u00b7 ");
      const scale = `in bits (0: all on one token; ${show(Math.log2(cols.length))}: spread evenly)`;
      entropy.replaceChildren(
        ...termed(`Entropy of the rows, ${scale}: ${listed}. Mean ${meanOf(bits).toFixed(2)}.`),
      );
    };
    return update;
  },
};

/** Scores and weights of a head as they would be without 1/sqrt(d_k). */
function withoutScale(trace, place, head, name) {
  const raw = sliceOf(trace.get(`${place}.raw`), head);
  const [n, m] = raw.shape;
  const isCausal = trace.isCausal(place) && name !== "scaled";
  const data = raw.data.map((x, at) => (isCausal && at % m > Math.floor(at / m) ? -Infinity : x));
  if (name === "weights")
    for (let i = 0; i < n; i += 1) data.set(softmaxOf(data.subarray(i * m, (i + 1) * m)), i * m);
  return { shape: raw.shape, data };
}

function explainValue(trace, place, head, i, c) {
  const { rows, cols } = labelsOf(trace, place);
  const value = rowOf(trace.get(`${place}.heads`), head, i)[c];
  const weights = rowOf(trace.get(`${place}.weights`), head, i);
  const product = (j) => weights[j] * rowOf(trace.get(`${place}.v`), head, j)[c];
  const order = topIndices(weights, cols.length);
  const terms = order.slice(0, 3).map((j) => {
    const v = rowOf(trace.get(`${place}.v`), head, j)[c];
    return `${exact(weights[j])} \u00d7 ${exact(v)} (${cols[j]})`;
  });
  const rest = order.slice(3).reduce((sum, j) => sum + product(j), 0);
  const all = order.reduce((sum, j) => sum + product(j), 0);
  const isMute = trace.meta.edits.some(
    (edit) => edit.op === "mute" && edit.at === place && edit.head === head,
  );
  const sum =
    `${terms.join(" + ")}${cols.length > 3 ? ` + ${exact(rest)} (the rest)` : ""} = ` +
    `${result(all, value)}`;
  const line = isMute ? "this head is mute: it gives zeros" : sum;
  return {
    name: `${place}.heads`,
    index: [head, i, c],
    value,
    lines: [
      `dimension ${c} of what head ${head + 1} gives to \u201c${rows[i]}\u201d: weights times ` +
        "values",
      line,
    ],
    say: `${rows[i]}, dimension ${c}: ${show(value)}`,
  };
}

/**
 * What a head mostly looks at: [role, share of its weight]. The shares are means over all rows;
 * causal self-attention leaves out the first row, which can only look at itself.
 */
export function roleOf(trace, place, head) {
  const matrix = sliceOf(trace.get(`${place}.weights`), head);
  const [n, m] = matrix.shape;
  const at = (i, j) => (j >= 0 && j < m ? matrix.data[i * m + j] : 0);
  const from = isCausal(place) && n > 1 ? 1 : 0;
  const mean = (pick) => meanOf(Array.from({ length: n - from }, (_, i) => pick(i + from)));
  const cols = labelsOf(trace, place).cols;
  const isSelf = place.endsWith(".self");
  const roles = [];
  if (isSelf)
    roles.push(
      ["itself", mean((i) => at(i, i))],
      ["the one before", mean((i) => at(i, i - 1))],
      ["two before", mean((i) => at(i, i - 2))],
    );
  if (place.startsWith("enc")) roles.push(["the next", mean((i) => at(i, i + 1))]);
  if (isCausal(place)) roles.push([cols[0], mean((i) => at(i, 0))]);
  const sums = Array.from({ length: m }, (_, j) => mean((i) => at(i, j)));
  if (place.startsWith("enc") || !isSelf) roles.push([cols[argmax(sums)], sums[argmax(sums)]]);
  if (!isSelf && trace.has("align.occlusion") && trace.get("align.occlusion").shape[0] === n) {
    const harm = trace.get("align.occlusion");
    roles.push(["needed", mean((i) => at(i, argmax(rowOf(harm, i))))]);
  }
  const best = roles.reduce((a, b) => (b[1] > a[1] + 0.02 ? b : a));
  return best[1] >= 0.35 ? best : ["spread out", 0];
}

/** All thumbnails in one SVG: a row for each layer and kind. */
function headsSvg(buttons) {
  const colors = theme();
  const lines = [...new Set(buttons.map((button) => button.dataset.place))];
  const most = Math.max(
    ...lines.map((place) => buttons.filter((button) => button.dataset.place === place).length),
  );
  const root = svg("svg", { width: 104 + 150 * most, height: 120 * lines.length + 8 });
  const style = { "font-size": 14, "font-family": "system-ui, sans-serif" };
  lines.forEach((place, y) => {
    const [stack, layer, kind] = place.split(".");
    const name = [stack === "enc" ? "encoder" : "decoder", `layer ${Number(layer) + 1}`, kind];
    name.forEach(
      (text, i) =>
        root.append(
          svg("text", { ...style, x: 6, y: 120 * y + 36 + 18 * i, fill: colors.ink }, text),
        ),
    );
    buttons
      .filter((button) => button.dataset.place === place)
      .forEach((button, x) => {
        const href = button.querySelector("canvas").toDataURL();
        root.append(
          svg("image", {
            href,
            x: 104 + 150 * x,
            y: 120 * y + 8,
            width: 84,
            height: 84,
            preserveAspectRatio: "none",
            "image-rendering": "pixelated",
          }),
        );
        root.append(
          svg(
            "text",
            { ...style, x: 104 + 150 * x, y: 120 * y + 108, fill: colors.quiet },
            `${Number(button.dataset.head) + 1}: ${button.querySelector(".role").textContent}`,
          ),
        );
      });
  });
  return root;
}

/** All weights of all heads, one line each. */
function headRows(trace) {
  const lines = [["attention", "head", "tensor", "query", "key", "weight"]];
  for (const place of placesOf(trace)) {
    const { rows, cols } = labelsOf(trace, place);
    const weights = trace.get(`${place}.weights`);
    for (let head = 0; head < weights.shape[0]; head += 1)
      rows.forEach((row, i) =>
        cols.forEach(
          (col, j) =>
            lines.push([
              placeName(place),
              head + 1,
              `${place}.weights[${head}]`,
              row,
              col,
              rowOf(weights, head, i)[j],
            ]),
        ),
      );
  }
  return lines;
}

export const headsStation = {
  id: "heads",
  fits: () => true,
  build(box, page) {
    let order = "model";
    const view = figure(box, "Every head of every layer", { readout: false });
    const grid = el("div", {});
    const pick = choice(
      "order of the heads",
      [
        ["model", "as in the model"],
        ["sharp", "sharpest first"],
        ["wrote", "largest output first"],
      ],
      order,
      (value) => {
        order = value;
        build();
      },
    );
    const legend = el("p", { class: "quiet legend" });
    const goOn = el("p", { id: "chosen-head", role: "status" });
    view.body.append(el("div", { class: "controls" }, pick), legend, grid, goOn);
    view.tools({ svg: () => headsSvg(buttons), rows: () => headRows(page.trace) });
    let buttons = [];
    let drawn = null;
    const build = () => {
      const { trace } = page;
      buttons = [];
      const kinds = [
        ["enc", "self", "Encoder: the source looks at itself"],
        ["dec", "self", "Decoder: what was written looks back"],
        ["dec", "cross", "Decoder: cross-attention, to the source"],
      ];
      grid.replaceChildren();
      const isDiff = placesOf(trace).some((place) => page.isDifferent(`${place}.weights`));
      legend.replaceChildren(
        isDiff ? "difference of the weights: " : "weight: ",
        scaleOf(isDiff ? "signed" : "weights", 1),
      );
      for (const [stack, kind, title] of kinds) {
        const places = placesOf(trace).filter(
          (place) => place.startsWith(stack) && place.endsWith(kind),
        );
        if (!places.length) continue;
        const rows = el("div", { class: "heads" });
        for (const place of places) {
          const tensor = page.tensor(`${place}.weights`);
          const heads = Array.from({ length: tensor.shape[0] }, (_, head) => head);
          const sharpness = (head) =>
            meanOf(
              Array.from(
                { length: tensor.shape[1] },
                (_, i) => entropyOf(rowOf(trace.get(`${place}.weights`), head, i)),
              ),
            );
          const wrote = (head) =>
            (trace.has(`${place}.wrote`) ? meanOf(rowOf(trace.get(`${place}.wrote`), head)) : 0);
          if (order === "sharp") heads.sort((a, b) => sharpness(a) - sharpness(b));
          if (order === "wrote") heads.sort((a, b) => wrote(b) - wrote(a));
          const line = el("div", { class: "row" });
          for (const head of heads) {
            const canvas = el("canvas", { "aria-hidden": "true" });
            const matrix = sliceOf(tensor, head);
            thumbnail(canvas, matrix, tensor.isDiff ? "signed" : "weights", 1);
            const [role, share] = roleOf(trace, place, head);
            const label = share ? `${role} ${percent(share)}` : role;
            const button = el(
              "button",
              {
                type: "button",
                class: "head",
                "data-place": place,
                "data-head": head,
                title: headTensor(place, head),
                click: () => {
                  page.set({ place, head });
                  goOn.replaceChildren(
                    `You chose ${headName(place, head)}. See it in `,
                    el("a", { href: "#station-scores" }, "scores in five stages"),
                    " or in ",
                    el("a", { href: "#station-qkv" }, "query, key, value"),
                    ".",
                  );
                },
              },
              canvas,
              el("span", {}, `head ${head + 1}`),
              el("bdi", { class: "role" }, label),
            );
            button.setAttribute("aria-label", `${headName(place, head)}: ${label}`);
            line.append(button);
            buttons.push(button);
          }
          rows.append(
            el("span", { class: "quiet" }, `layer ${Number(place.split(".")[1]) + 1}`),
            line,
          );
        }
        grid.append(el("h3", {}, title), rows);
      }
      mark();
    };
    const mark = () => {
      for (const button of buttons)
        button.setAttribute(
          "aria-pressed",
          String(
            button.dataset.place === page.state.place &&
              Number(button.dataset.head) === page.state.head,
          ),
        );
    };
    return () => {
      const key = `${page.state.isDiff} ${page.state.look}`;
      if (drawn !== key) build();
      else mark();
      drawn = key;
    };
  },
};
