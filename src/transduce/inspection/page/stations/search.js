// Station 11: the beam tree, and the ranking under another length penalty.
import { announce, clip, el, figure, bidiText, slider, svg, theme, widthOf } from "../draw.js";
import { exact, lengthPenalty, percent, show } from "../math.js";
import { joined } from "../names.js";

/** The indices of the nodes from the root to this one. */
function pathOf(tree, at) {
  const path = [];
  for (let i = at; i >= 0; i = tree[i].parent) path.unshift(i);
  return path;
}

/** The finished hypotheses, best first under this length penalty. */
export function rankEnded(tree, kind, alpha) {
  const ended = tree.map((node, at) => ({ node, at })).filter(({ node }) => node.state === "ended");
  const found = ended.map(({ node, at }) => {
    const path = pathOf(tree, at);
    return {
      at,
      path,
      text: joined(path.map((i) => tree[i].piece)),
      score: node.score,
      length: path.length,
      normalised: node.score / lengthPenalty(kind, path.length, alpha),
    };
  });
  return found.sort((a, b) => b.normalised - a.normalised);
}

export const beamStation = {
  id: "beam",
  fits: (trace) => Boolean(trace.meta.tree?.length),
  build(box, page) {
    const { meta } = page.trace;
    const kind = meta.model.length_penalty;
    let alpha = meta.model.alpha;
    let picked = null;
    const formula = kind === "paper" ? "((5 + length) / 6)^\u03b1" : "length^\u03b1";
    box.append(
      el(
        "div",
        { class: "controls" },
        slider(
          `length penalty ${formula}, \u03b1 =`,
          { min: 0, max: 2, step: 0.05, value: alpha, format: (x) => x.toFixed(2) },
          (value) => {
            alpha = value;
            update();
          },
        ),
      ),
    );
    const view = figure(box, "Beam tree");
    const drawing = el("div", {});
    view.body.append(drawing);
    const legend = el("p", { class: "quiet legend" });
    const kinds = [
      ["winner", "the winner"],
      ["kept", "kept, or ended"],
      ["pruned", "pruned: not among the best, given up"],
    ];
    legend.append(
      ...kinds.map(([style, words]) => el("span", { class: `line-kind ${style}` }, words)),
      el("span", {}, `The number beside a token: sum of log p \u00f7 ${formula}.`),
    );
    view.body.append(legend);
    const ranking = el("div", {});
    const instead = el("div", { class: "controls" });
    const verdict = el("p", {});
    box.append(instead, verdict, ranking);
    let root = null;
    view.tools({
      svg: () => root,
      rows: () => [
        ["node", "parent", "step", "token", "log_prob", "score", "normalised", "state"],
        ...page.trace.meta.tree.map((n, i) => [
          i,
          n.parent,
          n.step + 1,
          n.piece,
          n.log_prob,
          n.score,
          n.score / lengthPenalty(kind, n.step + 1, alpha),
          n.state,
        ]),
      ],
    });
    const update = () => {
      const { tree } = page.trace.meta;
      const ranked = rankEnded(tree, kind, alpha);
      const winner = new Set(ranked[0]?.path ?? []);
      root = drawTree(
        drawing,
        tree,
        winner,
        picked,
        (at) => {
          picked = at;
          update();
        },
        page.state.step,
        (node) => node.score / lengthPenalty(kind, node.step + 1, alpha),
      );
      view.title(
        `Beam tree: ${tree.length} candidates, ` +
          `${tree.filter((node) => node.state === "kept").length} kept, ${ranked.length} ended`,
      );
      const at = picked ?? ranked[0]?.at ?? 0;
      const node = tree[at];
      const path = pathOf(tree, at);
      const before = node.parent >= 0 ? tree[node.parent].score : 0;
      view.words.replaceChildren(
        el(
          "code",
          {
            class: "number",
            "data-tensor": "tree",
            "data-index": String(at),
            "data-value": String(node.score),
          },
          `tree[${at}].score = ${show(node.score)}`,
        ),
        el(
          "span",
          { class: "line" },
          bidiText(path.map((i) => tree[i].piece).join(" ")),
          ` (${node.state})`,
        ),
        el(
          "span",
          { class: "line" },
          `${exact(before)} + log p(${node.piece}) ${exact(node.log_prob)} ` +
            `(${percent(Math.exp(node.log_prob))}) = ${show(node.score)}; ${exact(node.score)} ` +
            `/ ${formula} = ${exact(node.score)} / ` +
            `${exact(lengthPenalty(kind, path.length, alpha))} = ` +
            `${show(node.score / lengthPenalty(kind, path.length, alpha))}`,
        ),
      );
      instead.replaceChildren(...forceButton(page, tree, picked));
      const first = rankEnded(tree, kind, meta.model.alpha)[0];
      const wins = ranked[0];
      const lengths = new Set(ranked.map(({ length }) => length));
      const equalLengths =
        lengths.size === 1 && ranked.length > 1
          ? ` All ${ranked.length} have the same length, ${wins.length}, so no \u03b1 can change ` +
            "their order."
          : "";
      verdict.replaceChildren(
        ...(wins
          ? [
              "With \u03b1 = ",
              alpha.toFixed(2),
              " wins ",
              bidiText(`\u201c${wins.text}\u201d`),
              wins.at === first.at
                ? ", the same as with the model\u2019s own \u03b1 = " +
                  `${meta.model.alpha.toFixed(2)}.` +
                  equalLengths
                : `; with the model\u2019s own \u03b1 = ${meta.model.alpha.toFixed(2)} another ` +
                  "wins.",
            ]
          : ["No hypothesis ended."]),
      );
      const lines = ranked
        .slice(0, 8)
        .map((found, rank) =>
          el(
            "tr",
            { class: rank === 0 ? "strong" : null },
            el("td", {}, `${rank + 1}.`),
            el("td", { class: "sentence" }, bidiText(found.text || "(nothing)")),
            el("td", { "data-value": found.score }, show(found.score)),
            el("td", {}, String(found.length)),
            el("td", { "data-value": found.normalised }, show(found.normalised)),
          ),
        );
      const head = el(
        "tr",
        {},
        ...["rank", "sentence", "sum of log p", "length", "normalised"].map(
          (text) => el("th", { scope: "col" }, text),
        ),
      );
      ranking.replaceChildren(
        el(
          "div",
          { class: "pan", tabindex: "0", role: "group", "aria-label": "ranking" },
          el(
            "table",
            { class: "plain-table", id: "ranking" },
            el("caption", { class: "hidden" }, "the sentences that ended, best first"),
            el("thead", {}, head),
            el("tbody", {}, ...lines),
          ),
        ),
      );
    };
    return update;
  },
};

/**
 * A button that forces the chosen candidate, if the page can compute new traces. Only for a
 * candidate that continues the written sentence.
 */
function forceButton(page, tree, picked) {
  if (!page.ask || picked === null || tree[picked].piece === "[EOS]") return [];
  const { meta } = page.trace;
  const { step, id } = tree[picked];
  const isOnPath = pathOf(tree, tree[picked].parent).every(
    (at, t) => tree[at].id === meta.steps[t].chosen,
  );
  if (!isOnPath || meta.steps[step]?.chosen === id) return [];
  const act = async () => {
    try {
      const branch = await page.ask(meta.text, [...meta.edits, { op: "force", step, piece: id }]);
      page.show(branch, page.parent ?? page.trace);
    } catch (error) {
      announce(error.message);
    }
  };
  const words = [
    "What if it had written ",
    bidiText(`\u201c${tree[picked].piece}\u201d`),
    ` at step ${step + 1}?`,
  ];
  return [el("button", { type: "button", click: act }, ...words)];
}

function drawTree(box, tree, winner, picked, act, step, scoreOf) {
  const colors = theme();
  const columnsOf = new Map();
  tree.forEach((node, at) => {
    if (!columnsOf.has(node.step)) columnsOf.set(node.step, []);
    columnsOf.get(node.step).push(at);
  });
  const places = new Map();
  const groups = [...columnsOf].sort((a, b) => a[0] - b[0]).map(([, members]) => members);
  const widthsOf = groups.map(
    (members) => Math.min(Math.max(...members.map((at) => widthOf(tree[at].piece, 600))), 150) + 70,
  );
  const spare = ((box.clientWidth || 600) - 74 - widthsOf.reduce((a, b) => a + b, 0)) /
    groups.length;
  const gap = Math.min(Math.max(spare, 26), 110);
  let x = 74;
  let rows = 0;
  groups.forEach((members, i) => {
    members.forEach((at, row) => places.set(at, [x, 24 + 27 * row]));
    rows = Math.max(rows, members.length);
    x += widthsOf[i] + gap;
  });
  const width = Math.max(x - gap, 300);
  const height = 27 * rows + 26;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const text = {
    "font-size": 14,
    "font-family": "system-ui, sans-serif",
    "dominant-baseline": "central",
  };
  root.append(svg("text", { ...text, x: 6, y: 24, fill: colors.quiet }, "[SOS]"));
  const wide = (at) => Math.min(widthOf(tree[at].piece, winner.has(at) ? 600 : 400), 150);
  tree.forEach((node, at) => {
    const [x1, y1] = places.get(at);
    const parent = places.get(node.parent);
    const [x0, y0] = parent ? [parent[0] + wide(node.parent) + 62, parent[1]] : [52, 24];
    const middle = (x0 + x1 - 8) / 2;
    const isWinner = winner.has(at);
    const style = {
      fill: "none",
      stroke: isWinner ? colors.two : node.state === "pruned" ? colors.quiet : colors.one,
      "stroke-width": isWinner ? 3 : 1.2,
      "stroke-dasharray": node.state === "pruned" ? "3 3" : "none",
    };
    root.append(
      svg(
        "path",
        { d: `M ${x0} ${y0} C ${middle} ${y0}, ${middle} ${y1}, ${x1 - 8} ${y1}`, ...style },
      ),
    );
  });
  tree.forEach((node, at) => {
    const [px, py] = places.get(at);
    const isWinner = winner.has(at);
    const color = isWinner ? colors.two : node.state === "pruned" ? colors.quiet : colors.ink;
    const before = tree[node.parent]?.score ?? 0;
    const told = [
      `step ${node.step + 1}: ${node.piece}, ${percent(Math.exp(node.log_prob))}, ${node.state}`,
      `${exact(before)} + log p ${exact(node.log_prob)} = ${show(node.score)}; after the length ` +
        `penalty ${show(scoreOf(node))}`,
    ];
    const group = svg(
      "g",
      { class: "node", "data-node": at, "data-how": told.join("\n"), click: () => act(at) },
    );
    const w = wide(at) + 60;
    group.append(
      svg("rect", {
        x: px - 6,
        y: py - 12,
        width: w,
        height: 24,
        rx: 5,
        fill: picked === at || node.step === step ? colors.paper : "transparent",
        stroke: picked === at ? colors.two : "none",
      }),
    );
    group.append(
      svg(
        "text",
        { ...text, x: px, y: py, fill: color, "font-weight": isWinner ? 600 : 400 },
        clip(node.piece, 150),
      ),
    );
    group.append(
      svg(
        "text",
        { ...text, x: px + wide(at) + 6, y: py, fill: colors.quiet },
        scoreOf(node).toFixed(2).replace("-", "\u2212"),
      ),
    );
    root.append(group);
  });
  // The tree is one tab stop: the arrow keys move from candidate to candidate.
  const frame = el(
    "div",
    {
      class: "pan tree",
      tabindex: "0",
      role: "group",
      "aria-label": "beam tree; arrow keys move between the candidates",
    },
    root,
  );
  frame.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    act(Math.min(Math.max((picked ?? 0) + move, 0), tree.length - 1));
    box.querySelector(".tree")?.focus();
  });
  const before = box.firstChild?.scrollLeft ?? 0;
  box.replaceChildren(frame);
  const here = tree.findIndex((node) => node.step === step);
  frame.scrollLeft =
    box.dataset.step === undefined || box.dataset.step === String(step) || here < 0
      ? before
      : places.get(here)[0] - frame.clientWidth / 2;
  box.dataset.step = step;
  return root;
}
