// Station 14: the same sentence at every validation during training.
import { openTensors, readTensor } from "../data.js";
import { HeatMap, barSvg, barTable, choice, el, figure, slider, svg, theme } from "../draw.js";
import { meanOf, percent, rowOf, show } from "../math.js";

/** Open a film: its frames, the names of its tensors, and a function that reads one. */
export function openFilm(bytes) {
  const { header, about, start } = openTensors(bytes);
  const frames = JSON.parse(about["transduce.film"] ?? "[]");
  return {
    frames,
    names: Object.keys(header),
    get: (name) => readTensor(bytes, start, header[name]),
  };
}

export const filmStation = {
  id: "film",
  fits: (_, page) => Boolean(page.film?.frames.length),
  build(box, page) {
    const { frames, names, get } = page.film;
    let at = frames.length - 1;
    const kind = names.some((name) => name.includes(".cross.")) ? "cross" : "self";
    const n = Math.max(...names.map((name) => Number(name.split(".")[2]))) + 1;
    let layer = String(n - 1);
    const text = el("p", { class: "why", id: "film-text" });
    const layers = Array.from({ length: n }, (_, i) => [String(i), `layer ${i + 1}`]);
    box.append(
      el(
        "div",
        { class: "controls" },
        slider(
          "training step",
          {
            min: 0,
            max: frames.length - 1,
            step: 1,
            value: at,
            format: (i) => String(frames[i].step),
          },
          (i) => {
            at = i;
            update();
          },
        ),
        choice("decoder layer", layers, layer, (value) => {
          layer = value;
          update();
        }),
      ),
      text,
    );
    const loss = figure(box, "Loss on held-out text", { readout: false });
    const map = new HeatMap(box, "where it looked");
    const view = figure(box, "What comes next?", { readout: false });
    const bars = el("div", {});
    view.body.append(bars);
    let root = null;
    loss.tools({
      svg: () => root,
      rows: () => [
        ["step", "valid_loss", "text"],
        ...frames.map((frame) => [frame.step, frame.valid_loss, frame.text]),
      ],
    });
    const update = () => {
      const frame = frames[at];
      const last = frame.steps.length - 1;
      const step = Math.min(page.state.step, last);
      text.replaceChildren(
        `After ${frame.step} training steps it wrote `,
        el("bdi", {}, `\u201c${frame.text}\u201d`),
        ` (loss ${show(frame.valid_loss)}).`,
      );
      root = drawLoss(loss.body, frames, at);
      const tensor = get(`${frame.step}.dec.${layer}.${kind}.weights`);
      const [h, rows, cols] = tensor.shape;
      const data = Float32Array.from({ length: rows * cols }, (_, i) =>
        meanOf(Array.from({ length: h }, (_, head) => tensor.data[head * rows * cols + i])),
      );
      const written = frame.target.map(
        (_, t) => frame.target[t + 1] ?? frame.steps[t]?.top[0]?.[1] ?? "",
      );
      map.draw({
        title: `Where it looked after ${frame.step} training steps, mean of ${h} heads`,
        rows: written.slice(0, rows),
        cols: (kind === "cross" ? frame.source : frame.target).slice(0, cols),
        data,
        reach: 1,
        mark: { row: Math.min(step, rows - 1) },
        explain: (i, j) => {
          const weights = Array.from({ length: h }, (_, head) => show(rowOf(tensor, head, i)[j]));
          return {
            name: `mean of ${frame.step}.dec.${layer}.${kind}.weights`,
            index: [":", i, j],
            value: data[i * cols + j],
            lines: [`heads: ${weights.join(" \u00b7 ")}`],
            say: `${written[i]}: ${percent(data[i * cols + j])}`,
          };
        },
      });
      const top = frame.steps[step].top.map(([id, name, , p]) => ({
        id,
        name,
        share: p,
        strong: id === frame.steps[step].chosen,
        cells: [{ text: percent(p), value: p }],
      }));
      view.title(`What comes next at step ${step + 1}, after ${frame.step} training steps`);
      barTable(
        bars,
        top,
        { caption: "the most likely tokens", columns: ["token", "", "probability"] },
      );
      view.tools({
        svg: () => barSvg(top),
        rows: () => [["token", "probability"], ...top.map((row) => [row.name, row.share])],
      });
    };
    return update;
  },
};

function drawLoss(box, frames, at) {
  const colors = theme();
  const width = Math.max(box.clientWidth || 600, 260);
  const height = 140;
  const losses = frames.map((frame) => frame.valid_loss);
  const [high, low] = [Math.max(...losses), Math.min(...losses, 0)];
  const x = (i) => 8 + (frames.length > 1 ? i / (frames.length - 1) : 0.5) * (width - 16);
  const y = (loss) => 10 + ((high - loss) / (high - low || 1)) * (height - 20);
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `loss from ${show(losses[0])} to ${show(losses[losses.length - 1])}`,
  });
  root.append(
    svg("polyline", {
      points: losses.map((loss, i) => `${x(i).toFixed(1)},${y(loss).toFixed(1)}`).join(" "),
      fill: "none",
      stroke: colors.one,
      "stroke-width": 2,
    }),
  );
  root.append(svg("circle", { cx: x(at), cy: y(losses[at]), r: 6, fill: colors.two }));
  box.replaceChildren(root);
  return root;
}
