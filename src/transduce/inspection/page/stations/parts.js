// Stations 6, 7 and 8: the output of the heads, add & norm, feed-forward.
import { HeatMap, barSvg, barTable, choice, el, figure, how, table } from "../draw.js";
import { termed } from "../glossary.js";
import {
  dotOf,
  exact,
  normOf,
  meanOf,
  percent,
  maxAbsOf,
  rowOf,
  show,
  deviationOf,
  times,
  topIndices,
} from "../math.js";
import {
  activated,
  hasRelu,
  labelsOf,
  partsOf,
  placeName,
  placesOf,
  writtenAt,
} from "../names.js";

function joinedRows(rows) {
  const data = new Float32Array(rows.reduce((n, row) => n + row.length, 0));
  let at = 0;
  for (const row of rows) {
    data.set(row, at);
    at += row.length;
  }
  return data;
}

/** The labels of the positions of a stack. */
function positionsOf(trace, place) {
  if (place.startsWith("enc")) return trace.meta.source.pieces;
  return trace.meta.target.pieces.map((text, t) => `${text} \u2192 ${writtenAt(trace, t)}`);
}

export const concatStation = {
  id: "concat",
  fits: (trace) => placesOf(trace).some((place) => trace.has(`${place}.wrote`)),
  build(box, page) {
    const places = placesOf(page.trace).filter((place) => page.trace.has(`${place}.wrote`));
    const pick = choice(
      "attention",
      places.map((place) => [place, placeName(place)]),
      page.state.place,
      (place) => page.set({ place }),
    );
    box.append(el("div", { class: "controls" }, pick));
    const map = new HeatMap(box, "wrote");
    const strips = new HeatMap(box, "concat");
    return () => {
      const { trace } = page;
      const { place, query } = page.state;
      pick.lastChild.value = place;
      if (!trace.has(`${place}.wrote`)) return;
      const wrote = page.tensor(`${place}.wrote`);
      const cols = positionsOf(trace, place);
      const heads = Array.from({ length: wrote.shape[0] }, (_, head) => `head ${head + 1}`);
      map.draw({
        title:
          "How much each head wrote into each position, " +
          `${placeName(place)}${page.diffNote(`${place}.wrote`)}`,
        rows: heads,
        cols,
        data: wrote.data,
        ramp: wrote.isDiff ? "signed" : "weights",
        mark: { col: query },
        most: 124,
        pick: (head, i) => page.set({ head, query: i }),
        explain: (head, i) => {
          const all = heads.map((_, h) => rowOf(trace.get(`${place}.wrote`), h)[i]);
          const total = all.reduce((a, b) => a + b, 0);
          const lines = [
            `the length of W\u1d3c applied to this head alone, for \u201c${cols[i]}\u201d`,
            `${exact(all[head])} of ${exact(total)}, which is ` +
              `${percent(total ? all[head] / total : 0)} of what the ${heads.length} heads ` +
              `wrote there: ${all.map(show).join(" \u00b7 ")}`,
          ];
          return {
            name: `${place}.wrote`,
            index: [head, i],
            value: all[head],
            lines,
            say: `${heads[head]}, ${cols[i]}: ${lines[1]}`,
          };
        },
      });
      const parts = heads.map((_, head) => rowOf(trace.get(`${place}.heads`), head, query));
      const concat = joinedRows(parts);
      const out = rowOf(trace.get(`${place}.out`), query);
      const width = parts[0].length;
      const wide = Math.max(concat.length, out.length);
      const data = new Float32Array(2 * wide).fill(NaN);
      data.set(concat, 0);
      data.set(out, wide);
      strips.draw({
        title:
          `\u201c${cols[query]}\u201d: ${heads.length} heads side by side, and after W\u1d3c ` +
          "(each by its own scale)",
        rows: ["concat", "\u00d7 W\u1d3c"],
        cols: null,
        ramp: "signed",
        reach: [maxAbsOf(concat), maxAbsOf(out)],
        tall: 34,
        data,
        explain: (i, c) => {
          if (i === 0 && c < concat.length)
            return {
              name: `${place}.heads`,
              index: [Math.floor(c / width), query, c % width],
              value: concat[c],
              lines: [
                `number ${c % width} of head ${Math.floor(c / width) + 1}; place ${c} of the ` +
                  "concat",
              ],
              say: `head ${Math.floor(c / width) + 1}, ${c % width}: ${show(concat[c])}`,
            };
          if (i === 1 && c < out.length)
            return {
              name: `${place}.out`,
              index: [query, c],
              value: out[c],
              lines: [`row ${c} of W\u1d3c times the whole concat: ${concat.length} products`],
              say: `dimension ${c}: ${show(out[c])}`,
            };
          return null;
        },
      });
    };
  },
};

export const normStation = {
  id: "norm",
  fits: (trace) => partsOf(trace, "add").length > 0,
  build(box, page) {
    const subs = partsOf(page.trace, "add");
    const isPre = page.trace.meta.model.norm === "pre";
    let sub = subs[subs.length - 1];
    const pick = choice(
      "sub-layer",
      subs.map((name) => [name, placeName(name)]),
      sub,
      (value) => {
        sub = value;
        update();
      },
    );
    box.append(el("div", { class: "controls" }, pick));
    const strips = new HeatMap(box, "add and norm");
    const numbers = el("div", {});
    box.append(numbers);
    if (isPre)
      box.append(
        el(
          "p",
          { class: "note" },
          "This model normalizes before each sub-layer (pre-norm): the input of a sub-layer is " +
            "normalized, and the sum is passed on unchanged.",
        ),
      );
    const update = () => {
      const { trace } = page;
      const labels = positionsOf(trace, sub);
      const at = Math.min(
        sub.startsWith("dec")
          ? page.state.step
          : page.state.place.startsWith("enc")
          ? page.state.query
          : 0,
        labels.length - 1,
      );
      const row = (last) => rowOf(trace.get(`${sub}.${last}`), at);
      const add = row("add");
      const out = row("out");
      const before = add.map((x, i) => x - out[i]);
      const after = row("norm");
      const names = ["x", "+ sub-layer", "= sum", isPre ? "goes on" : "LayerNorm"];
      const all = [before, out, add, after];
      strips.draw({
        title: `${placeName(sub)}, position \u201c${labels[at]}\u201d`,
        rows: names,
        cols: null,
        ramp: "signed",
        tall: 30,
        data: joinedRows(all),
        mark: undefined,
        start: [3, topIndices(after.map(Math.abs), 1)[0]],
        explain: (i, c) => {
          const mean = meanOf(add);
          const lines = [
            "what came in: the residual, carried past the sub-layer",
            "the output of the sub-layer",
            `${exact(before[c])} + ${exact(out[c])} = ${show(add[c])}`,
            isPre
              ? "the sum, unchanged"
              : `(${exact(add[c])} \u2212 ${exact(mean)}) / ${exact(deviationOf(add))} = ` +
                `${show((add[c] - mean) / deviationOf(add))}, then a learned gain and bias`,
          ];
          const name = `${sub}.${["add", "out", "add", "norm"][i]}`;
          return {
            name: i === 0 ? `${sub}.add \u2212 ${sub}.out` : name,
            index: [at, c],
            value: all[i][c],
            lines: [lines[i]],
            say: `${names[i]}, dimension ${c}: ${show(all[i][c])}`,
          };
        },
      });
      const ratio = normOf(out) / (normOf(before) || 1);
      const cosine = dotOf(before, out) / (normOf(before) * normOf(out) || 1);
      const n = add.length;
      const rows = names.map((name, i) => [
        name,
        how(
          show(meanOf(all[i])),
          [`the ${n} numbers of \u201c${name}\u201d added up, divided by ${n}`],
        ),
        how(
          show(deviationOf(all[i])),
          ["the square root of the mean of (number \u2212 mean)\u00b2"],
        ),
        how(show(normOf(all[i])), [`the square root of the sum of the squares of ${n} numbers`]),
      ]);
      numbers.replaceChildren(
        table("mean, deviation and length", ["", "mean", "deviation", "length"], rows),
        el(
          "p",
          { id: "norm-said" },
          ...termed(
            `What the sub-layer adds is ${times(ratio)} times as long as the residual it is ` +
              `added to${sizeNote(ratio)}. It ${directionNote(cosine)} (cosine ${show(cosine)}).`,
          ),
        ),
      );
    };
    return update;
  },
};

/** Interpret the length of a sub-layer's output relative to the residual. */
function sizeNote(ratio) {
  if (ratio > 1) return ": more than it read";
  return ratio < 0.5 ? ": a correction" : "";
}

/** Interpret the cosine of a sub-layer's output and the residual. */
function directionNote(cosine) {
  if (cosine < -0.2) return "removes part of the residual";
  return cosine > 0.2 ? "strengthens the residual" : "adds a new direction";
}

export const ffStation = {
  id: "ff",
  fits: (trace) => partsOf(trace, "hidden").length > 0,
  build(box, page) {
    const subs = partsOf(page.trace, "hidden");
    let sub = subs[subs.length - 1];
    const pick = choice(
      "layer",
      subs.map((name) => [name, placeName(name)]),
      sub,
      (value) => {
        sub = value;
        update();
      },
    );
    box.append(el("div", { class: "controls" }, pick));
    const map = new HeatMap(box, "neurons");
    const view = figure(box, "strongest", { readout: false });
    const bars = el("div", {});
    view.body.append(bars);
    let rows = [];
    view.tools({
      svg: () => barSvg(rows),
      rows: () => [["neuron", "activation"], ...rows.map((row) => [row.name, row.value])],
    });
    const update = () => {
      const { trace } = page;
      const hidden = page.tensor(`${sub}.hidden`);
      const labels = positionsOf(trace, sub);
      const at = Math.min(
        sub.startsWith("dec")
          ? page.state.step
          : page.state.place.startsWith("enc")
          ? page.state.query
          : 0,
        labels.length - 1,
      );
      const all = trace.get(`${sub}.hidden`).data;
      const share = all.reduce((n, x) => n + (x > 0 ? 1 : 0), 0) / all.length;
      const isRelu = hasRelu(trace);
      const nActive = rowOf(trace.get(`${sub}.hidden`), at).filter((x) => x > 0).length;
      const known = trace.meta.neurons?.[sub];
      map.draw({
        title:
          `${hidden.shape[1]} neurons: at \u201c${labels[at]}\u201d ${nActive} of them are ` +
          `active (${percent(nActive / hidden.shape[1])}), over all positions ` +
          `${percent(share)}${page.diffNote(`${sub}.hidden`)}`,
        rows: labels,
        cols: null,
        data: hidden.data,
        ramp: hidden.isDiff || !isRelu ? "signed" : "weights",
        tall: 24,
        mark: { row: at, col: topIndices(rowOf(hidden, at), 1)[0] },
        pick: (i) => {
          if (sub.startsWith("dec")) page.set({ step: i });
        },
        explain: (i, n) => {
          const value = rowOf(trace.get(`${sub}.hidden`), i)[n];
          const told = known?.[i]?.find(([number]) => number === n);
          return {
            name: `${sub}.hidden`,
            index: [i, n],
            value,
            lines: [
              value <= 0
                ? `${activated(trace, "\u2026")}: it found nothing and stays ` +
                  (isRelu ? "at 0" : "near 0")
                : `one of ${rowOf(trace.get(`${sub}.hidden`), i).filter((x) => x > 0).length} ` +
                  `of ${hidden.shape[1]} neurons that are active at \u201c${labels[i]}\u201d`,
              told ? `it promotes ${told[2].join(", ")}` : "",
            ].filter(Boolean),
            say: `neuron ${n} at ${labels[i]}: ${show(value)}`,
          };
        },
      });
      const row = rowOf(trace.get(`${sub}.hidden`), at);
      const top = topIndices(row, 6);
      const most = row[top[0]] || 1;
      rows = top.map((n) => {
        const told = known?.[at]?.find(([number]) => number === n);
        return {
          name: `neuron ${n}`,
          value: row[n],
          share: row[n] / most,
          cells: [{ text: show(row[n]), value: row[n] }, { text: told ? told[2].join(", ") : "" }],
          how: [
            `${sub}.hidden[${at}, ${n}] = ${show(row[n])}`,
            activated(trace, `row ${n} of W\u2081 times what the sub-layer reads + bias`),
          ],
        };
      });
      view.title(
        `The strongest at \u201c${labels[at]}\u201d${known ? ", and the tokens they promote" : ""}`,
      );
      barTable(bars, rows, {
        caption: "the strongest neurons",
        columns: known
          ? ["neuron", "", "activation", "promotes"]
          : ["neuron", "", "activation", ""],
      });
    };
    return update;
  },
};
