// Stations 2 and 3: embedding and position; query, key and value.
import { HeatMap, choice, columns, el, figure, bidiText } from "../draw.js";
import { termed } from "../glossary.js";
import { dotOf, exact, meanOf, maxAbsOf, result, rowOf, show } from "../math.js";
import { labelsOf, placesOf } from "../names.js";
import { headPicker } from "./attention.js";

/** Stack vectors of equal length as the rows of a matrix. */
function stacked(rows) {
  const data = new Float32Array(rows.length * rows[0].length);
  rows.forEach((row, i) => data.set(row, i * row.length));
  return data;
}

export const embeddingStation = {
  id: "embedding",
  fits: (trace) => trace.has("tgt.emb"),
  build(box, page) {
    const sides = page.trace.has("src.emb")
      ? [
          ["src", "source"],
          ["tgt", "target"],
        ]
      : [["tgt", "text"]];
    let side = sides[0][0];
    let token = 0;
    const piecesOf = () =>
      (side === "src" ? page.trace.meta.source : page.trace.meta.target).pieces;
    const controls = el("div", { class: "controls" });
    const near = el("p", {});
    box.append(controls);
    const strips = new HeatMap(box, "vectors");
    box.append(near);
    const all = new HeatMap(box, "positions");
    const curve = figure(box, "How alike two positions are, by their distance");
    const drawing = el("div", {});
    curve.body.append(drawing);
    let root = null;
    let likeness = [];
    curve.tools({
      svg: () => root,
      rows: () => [["distance", "mean dot product"], ...likeness.map((x, i) => [i, x])],
    });
    const update = () => {
      const { trace } = page;
      const pieces = piecesOf();
      token = Math.min(token, pieces.length - 1);
      const which = choice(
        "token",
        pieces.map((text, i) => [String(i), `${i}: ${text}`]),
        String(token),
        (value) => {
          token = Number(value);
          update();
        },
      );
      const of =
        sides.length > 1
          ? choice("side", sides, side, (value) => {
              side = value;
              token = 0;
              update();
            })
          : null;
      controls.replaceChildren(...[of, which].filter(Boolean));
      const names = ["emb", "pos", "x"].map((last) => `${side}.${last}`);
      const tensors = names.map((name) => page.tensor(name));
      const labels = ["embedding", "+ position", "= sum"];
      const hasPositions = trace.ran("positions");
      const { d_model: d, embedding_scale: isScaled = true } = trace.meta.model;
      strips.draw({
        title:
          `\u201c${pieces[token]}\u201d at position ${token}: its embedding` +
          `${isScaled ? " times \u221ad_model" : ""}, ${trace.meta.model.d_model} numbers${page.diffNote(names[0])}`,
        rows: labels,
        cols: null,
        ramp: "signed",
        tall: 34,
        data: stacked(tensors.map((tensor) => rowOf(tensor, token))),
        explain: (i, j) => {
          const [e, p, x] = names.map((name) => rowOf(trace.get(name), token)[j]);
          const lines = [
            isScaled
              ? `the table holds ${exact(e / Math.sqrt(d))} for this token; ` +
                `times \u221a${d} = ${exact(Math.sqrt(d))} that is ${show(e)}`
              : `the table holds ${exact(e)} for this token`,
            trace.meta.model.positions === "sinusoidal" && hasPositions
              ? `${j % 2 ? "cos" : "sin"}(${token} / ` +
                `10000^(${j - (j % 2)}/${trace.meta.model.d_model})) = ${show(p)}`
              : hasPositions
                ? `learned for position ${token}: ${show(p)}`
                : "without positions",
            `${exact(e)} + ${exact(p)} = ${result(e + p, x)}`,
          ];
          return {
            name: names[i],
            index: [token, j],
            value: [e, p, x][i],
            lines: [lines[i]],
            say: `dimension ${j}, ${labels[i]}: ${show([e, p, x][i])}`,
          };
        },
      });
      const neighbours = side === "src" ? trace.meta.source.near?.[token] : null;
      near.replaceChildren(
        ...(neighbours
          ? [
              ...termed("Its nearest neighbours in the table, by cosine: "),
              ...neighbours.flatMap(
                ([text, cosine], i) => [i ? ", " : "", bidiText(text), ` ${cosine.toFixed(2)}`],
              ),
              ".",
            ]
          : []),
      );
      const position = page.tensor(`${side}.pos`);
      all.draw({
        title:
          `Positions 0 to ${pieces.length - 1}: the same for every ` +
          `sentence${page.diffNote(`${side}.pos`)}`,
        rows: pieces.map((text, i) => `${i}: ${text}`),
        cols: null,
        ramp: "signed",
        data: position.data,
        tall: 24,
        mark: { row: token },
        pick: (i) => {
          token = i;
          update();
        },
        explain: (i, j) => {
          const value = rowOf(trace.get(`${side}.pos`), i)[j];
          const line =
            trace.meta.model.positions === "sinusoidal" && hasPositions
              ? `${j % 2 ? "cos" : "sin"}(${i} / ` +
                `10000^(${j - (j % 2)}/${trace.meta.model.d_model}))`
              : hasPositions
                ? "learned"
                : "this branch runs without positions";
          return {
            name: `${side}.pos`,
            index: [i, j],
            value,
            lines: [line],
            say: `position ${i}, dimension ${j}: ${show(value)}`,
          };
        },
      });
      const pos = trace.get(`${side}.pos`);
      const n = pos.shape[0];
      likeness = Array.from({ length: n }, (_, far) =>
        meanOf(
          Array.from({ length: n - far }, (_, i) => dotOf(rowOf(pos, i), rowOf(pos, i + far))),
        ),
      );
      root = columns(drawing, {
        values: likeness,
        label: `dot products by distance: ${likeness.map(show).join(", ")}`,
        explain: (i) =>
          `distance ${i}: ${show(likeness[i])}\nthe mean of the dot products of all pairs of ` +
          `positions that are ${i} apart`,
        names: ["distance", "mean dot product"],
      });
      curve.words.replaceChildren(
        el("code", { class: "number" }, `mean of ${side}.pos[i] \u00b7 ${side}.pos[i + distance]`),
        el(
          "span",
          { class: "line" },
          likeness
            .slice(0, 8)
            .map((x, i) => `${i}: ${show(x)}`)
            .join(" \u00b7 "),
        ),
        el(
          "span",
          { class: "line" },
          trace.meta.model.positions === "sinusoidal"
            ? "With sines it depends on the distance alone, so a head can learn \u201cthe one " +
              "before\u201d."
            : "These positions were learned.",
        ),
      );
    };
    return update;
  },
};

export const qkvStation = {
  id: "qkv",
  fits: (trace) => placesOf(trace).some((place) => trace.has(`${place}.q`)),
  build(box, page) {
    const picker = headPicker(page);
    const pair = el("div", { class: "controls" });
    box.append(picker.box, pair);
    const strips = new HeatMap(box, "q, k and their products");
    const view = figure(box, "The products add up to the score");
    const drawing = el("div", {});
    view.body.append(drawing);
    const values = new HeatMap(box, "value");
    let root = null;
    let products = new Float32Array(0);
    view.tools({
      svg: () => root,
      rows: () => [["dimension", "q times k"], ...Array.from(products, (x, i) => [i, x])],
    });
    return () => {
      const { trace } = page;
      const { place, head, query, key } = page.state;
      picker.update();
      if (!trace.has(`${place}.q`)) return;
      const { rows, cols } = labelsOf(trace, place);
      pair.replaceChildren(
        choice(
          "query: who looks",
          rows.map((text, i) => [String(i), text]),
          String(query),
          (value) => page.set({ query: Number(value) }),
        ),
        choice(
          "key: who is looked at",
          cols.map((text, j) => [String(j), text]),
          String(key),
          (value) => page.set({ key: Number(value) }),
        ),
      );
      const q = rowOf(trace.get(`${place}.q`), head, query);
      const k = rowOf(trace.get(`${place}.k`), head, key);
      const v = rowOf(trace.get(`${place}.v`), head, key);
      products = Float32Array.from(q, (x, i) => x * k[i]);
      const reach = Math.max(maxAbsOf(q), maxAbsOf(k));
      strips.draw({
        title:
          `Query of \u201c${rows[query]}\u201d, key of \u201c${cols[key]}\u201d, and their ` +
          `products: ${q.length} numbers each`,
        rows: ["q", "k", "q \u00d7 k"],
        cols: null,
        ramp: "signed",
        tall: 34,
        most: 40,
        data: stacked([q, k, products]),
        reach: [reach, reach, maxAbsOf(products)],
        explain: (i, c) => ({
          name: `${place}.${i === 1 ? "k" : "q"}`,
          index: [head, i === 1 ? key : query, c],
          value: (i === 1 ? k : q)[c],
          lines: [
            `q \u00d7 k at dimension ${c}: ${exact(q[c])} \u00d7 ${exact(k[c])} = ` +
              `${show(products[c])}`,
          ],
          say: `dimension ${c}: ${show(q[c])} times ${show(k[c])} is ${show(products[c])}`,
        }),
      });
      const raw = rowOf(trace.get(`${place}.raw`), head, query)[key];
      root = columns(drawing, {
        values: [...products],
        running: true,
        label: `${products.length} products with the sum ${show(raw)}`,
        explain: (i) =>
          `dimension ${i}: ${exact(q[i])} \u00d7 ${exact(k[i])} = ${show(products[i])}`,
        names: ["dimension", "product (blue: above 0, orange: below)"],
      });
      const d = Math.sqrt(q.length);
      view.words.replaceChildren(
        el(
          "code",
          {
            class: "number",
            "data-tensor": `${place}.raw`,
            "data-index": `${head},${query},${key}`,
            "data-value": String(raw),
          },
          `${place}.raw[${head}, ${query}, ${key}] = ${show(raw)}`,
        ),
        el(
          "span",
          { class: "line" },
          `${q.length} products add up to ${result(dotOf(q, k), raw)}; the dashed line is the ` +
            "running total.",
        ),
        el(
          "span",
          { class: "line" },
          `${exact(raw)} / \u221a${q.length} = ${exact(raw)} / ${exact(d)} = ${show(raw / d)}. ` +
            "The next station makes a weight of it.",
        ),
      );
      values.draw({
        title: `Value of \u201c${cols[key]}\u201d: what it gives to whoever looks at it`,
        rows: ["v"],
        cols: null,
        ramp: "signed",
        tall: 34,
        most: 40,
        data: v,
        explain: (_, c) => ({
          name: `${place}.v`,
          index: [head, key, c],
          value: v[c],
          lines: [
            `\u201c${rows[query]}\u201d takes ` +
              `${show(rowOf(trace.get(`${place}.weights`), head, query)[key])} of it`,
          ],
          say: `dimension ${c}: ${show(v[c])}`,
        }),
      });
    };
  },
};
