// Station 13, "try it": change a word, a head, a row of attention or a token, or remove a part of
// the model, and see the effect.
import {
  differencesOf,
  editsFor,
  editsWords,
  compareStages,
  placeOfEdits,
  wordsOf,
} from "./compare.js";
import { announce, choice, el, HeatMap, bidiText, offer, table, toggle } from "./draw.js";
import { percent, maxAbsOf, show, topIndices } from "./math.js";
import {
  hasSource,
  headsOf,
  headTensor,
  isCausal,
  labelsOf,
  placeName,
  placesOf,
  writtenAt,
} from "./names.js";

/**
 * Build the station. `page`: { trace, parent, branches, ask, show(trace, parent) }. Returns a
 * function to call when another trace is shown.
 */
export function tryIt(box, page) {
  const original = { label: "the original", trace: page.parent ?? page.trace, root: null };
  const entries = [
    original,
    ...page.branches.map((trace) => ({ label: editsWords(trace), trace, root: original })),
  ];
  const list = el("ol", { class: "tokens", "aria-label": "branches" });
  const result = el("div", { id: "try-result" });
  const said = el("p", { role: "alert", id: "try-said" });
  let current = entries.find((entry) => entry.trace === page.trace) ?? original;

  /** Show an entry in all stations, and keep this station in view. */
  const view = (entry, stays = true) => {
    current = entry;
    page.show(entry.trace, entry.root?.trace ?? null);
    drawEntries();
    if (stays) heading.scrollIntoView({ block: "start", behavior: "instant" });
  };
  const heading = el("h3", {}, "Branches");

  /** The name of an entry; with its sentence if there are several. */
  const nameOf = ({ label, trace, root }) => {
    const isAlone = entries.every(
      (each) => (each.root ?? each).trace.meta.text === original.trace.meta.text,
    );
    return isAlone
      ? label
      : root
      ? `\u201c${root.trace.meta.text}\u201d ${label}`
      : `\u201c${trace.meta.text}\u201d`;
  };

  const drawEntries = () => {
    list.replaceChildren(...entries.map((entry) => {
      const isNow = entry === current;
      return el(
        "li",
        {},
        el(
          "button",
          {
            type: "button",
            class: "chip",
            "aria-current": isNow ? "true" : null,
            title: tensorsOf(entry.trace),
            click: () => view(entry),
          },
          bidiText(nameOf(entry)),
          ": ",
          bidiText(entry.trace.meta.target.text),
        ),
      );
    }));
    drawResult(result, current);
    editor?.fill(current.trace);
  };

  /** Request a trace and show errors. */
  const attempt = async (button, work) => {
    said.textContent = "";
    button.disabled = true;
    announce("computing");
    await new Promise((done) => setTimeout(done, 0)); // let the browser draw the disabled button
    try {
      await work();
      announce(`${current.label}: ${current.trace.meta.target.text}`);
    } catch (error) {
      said.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  };

  /**
   * Compute the original again by the same program as the branch, so that unchanged numbers are
   * exactly equal.
   */
  const refresh = async (root) => {
    if (root.isFresh) return;
    root.trace = await page.ask(root.trace.meta.text, []);
    root.isFresh = true;
  };

  const change = async (edit, isOnTop) => {
    const base = current;
    const root = base.root ?? base;
    const edits = [...(isOnTop ? base.trace.meta.edits : []), edit];
    await refresh(root);
    const trace = await page.ask(root.trace.meta.text, edits);
    const entry = { label: editsWords(trace), trace, root };
    entries.push(entry);
    view(entry);
  };

  page.translate = async (text) => {
    const entry = { label: text, trace: await page.ask(text, []), root: null, isFresh: true };
    entries.push(entry);
    view(entry, false);
    announce(entry.trace.meta.target.text);
  };

  let editor = null;
  if (page.ask) {
    editor = makeEditor(attempt, change);
    box.append(editor.form);
  } else {
    const here = page.branches.length
      ? "The branches below were computed when it was made."
      : "It holds no branches either.";
    box.append(
      el(
        "p",
        { class: "note" },
        `This file holds no model, so nothing new can be computed in it. ${here} Make it with `,
        el("code", {}, "--with-model"),
        " to change things yourself, or look at it with ",
        el("code", {}, "transduce serve"),
        ".",
      ),
    );
  }
  box.append(said, heading, list, result);
  drawEntries();
  return () => {
    if (page.parent && !entries.some((entry) => entry.trace === page.trace)) {
      const root = entries.find((entry) => entry.trace === page.parent) ?? original;
      // made elsewhere on the page
      entries.push({ label: editsWords(page.trace), trace: page.trace, root });
    }
    const now = entries.find((entry) => entry.trace === page.trace);
    if (now && now !== current) {
      current = now;
      drawEntries();
    }
  };
}

/** The form for a change. `fill(trace)` adapts it to a trace. */
function makeEditor(attempt, change) {
  const fields = el("div", { class: "controls" });
  const more = el("div", {});
  const top = el("div", { class: "controls" });
  const button = el("button", { type: "submit", id: "try-change" }, "see what follows");
  let trace = null;
  let op = "replace";
  let isOnTop = false;
  let read = () => null; // returns the edit that the fields describe
  const pickKind = el("div", { class: "controls" });
  const redraw = () => {
    fields.replaceChildren();
    more.replaceChildren();
    read = (EDITORS[op] ?? plainEditor)(trace, fields, more, op);
  };
  const submit = (event) => {
    event.preventDefault();
    attempt(button, () => change(read(), isOnTop));
  };
  const form = el(
    "form",
    { id: "try-form", "aria-label": "what to change", submit },
    pickKind,
    fields,
    more,
    el("div", { class: "controls" }, top, button),
  );
  const fill = (next) => {
    trace = next;
    const kinds = editsFor(trace);
    if (!kinds.some(([kind]) => kind === op)) op = kinds[0][0];
    const kind = choice("change", kinds, op, (value) => { op = value; redraw(); });
    kind.lastChild.id = "try-op";
    pickKind.replaceChildren(kind);
    isOnTop = false;
    top.replaceChildren(
      ...(trace.meta.edits.length
        ? [
          toggle(
            `keep the change in view too: ${editsWords(trace)}`,
            isOnTop,
            (value) => { isOnTop = value; },
          ),
        ]
        : []),
    );
    redraw();
  };
  return { form, fill };
}

/** Round weights to thousandths that still add up to `sum`: the largest remainders round up. */
export function roundTo(sum, weights) {
  const total = weights.reduce((a, b) => a + b, 0);
  // set by hand before
  if (Math.abs(total - sum) > 0.01) return Array.from(weights, (w) => Math.round(1000 * w) / 1000);
  const cut = Array.from(weights, (w) => Math.floor(1000 * w));
  const left = Math.round(1000 * sum) - cut.reduce((a, b) => a + b, 0);
  const order = topIndices(cut.map((n, i) => 1000 * weights[i] - n), Math.max(left, 0));
  return cut.map((n, i) => (n + (order.includes(i) ? 1 : 0)) / 1000);
}

function numbered(names) {
  return names.map((name, i) => [String(i), name]);
}

function numberIn(input) {
  return input.value.trim() === "" ? 0 : Number(input.value.replace(",", "."));
}

function plainEditor(trace, fields, more, op) {
  return () => ({ op });
}

/** Pick an attention and one of its heads; `act` is called when the choice changes. */
function pickHead(trace, fields, act) {
  const layer = trace.meta.model.alignment_layer;
  const places = placesOf(trace);
  const preferred = hasSource(trace) ? `dec.${layer}.cross` : places.at(-1);
  const chosen = { at: places.includes(preferred) ? preferred : places.at(-1), head: 0 };
  const heads = () =>
    numbered(Array.from({ length: headsOf(trace, chosen.at) }, (_, head) => `head ${head + 1}`));
  const which = choice("head", heads(), "0", (head) => { chosen.head = Number(head); act?.(); });
  fields.append(
    choice(
      "attention",
      places.map((place) => [place, placeName(place)]),
      chosen.at,
      (at) => {
        chosen.at = at;
        chosen.head = Math.min(chosen.head, headsOf(trace, at) - 1);
        offer(which, heads(), String(chosen.head));
        act?.();
      },
    ),
    which,
  );
  return chosen;
}

const EDITORS = {
  replace(trace, fields) {
    const words = wordsOf(trace.meta);
    const chosen = { word: 0 };
    const input = el(
      "input",
      { type: "text", id: "try-with", required: true, autocomplete: "off", dir: "auto" },
    );
    fields.append(
      choice("word", numbered(words), "0", (word) => { chosen.word = Number(word); }),
      el("label", { class: "control" }, el("span", {}, "becomes"), input),
    );
    return () => ({ op: "replace", word: chosen.word, with: input.value });
  },

  mute(trace, fields) {
    const chosen = pickHead(trace, fields);
    return () => ({ op: "mute", ...chosen });
  },

  row(trace, fields, more) {
    let row = 0;
    let inputs = [];
    const sum = el("output", {});
    const rowBox = el("div", {});
    const told = () => {
      sum.textContent = `sum ${show(inputs.reduce((total, input) => total + numberIn(input), 0))}`;
    };
    const drawKeys = () => {
      const { data, shape } = trace.get(`${chosen.at}.weights`);
      const { cols } = labelsOf(trace, chosen.at);
      const hidesAhead = isCausal(chosen.at) && trace.ran("mask");
      const n = hidesAhead ? row + 1 : shape[2];
      const from = (chosen.head * shape[1] + row) * shape[2];
      const rounded = roundTo(1, data.subarray(from, from + n));
      inputs = cols.slice(0, n).map((_, key) => {
        const input = el("input", { type: "text", inputmode: "decimal", input: told });
        input.style.width = "5.5rem";
        input.value = String(rounded[key]);
        return input;
      });
      const keys = [["", "\u2013"], ...numbered(cols.slice(0, n))];
      const alone = choice("put all on", keys, "", (key) => {
        if (key !== "")
          inputs.forEach((input, i) => { input.value = i === Number(key) ? "1" : "0"; });
        told();
      });
      more.replaceChildren(
        el(
          "p",
          { class: "quiet" },
          "The weights of this row, one for each token it can attend to; the model uses them " +
            "unchanged.",
        ),
        el(
          "div",
          { class: "controls" },
          alone,
          ...inputs.map(
            (input, key) =>
              el("label", { class: "control" }, el("span", {}, bidiText(cols[key])), input),
          ),
          sum,
        ),
      );
      told();
    };
    const drawRows = () => {
      const { rows } = labelsOf(trace, chosen.at);
      row = Math.min(row, rows.length - 1);
      rowBox.replaceChildren(
        choice("row", numbered(rows), String(row), (value) => { row = Number(value); drawKeys(); }),
      );
      drawKeys();
    };
    const chosen = pickHead(trace, fields, drawRows);
    fields.append(rowBox);
    drawRows();
    return () => ({ op: "row", ...chosen, row, values: inputs.map(numberIn) });
  },

  force(trace, fields) {
    const { steps } = trace.meta;
    const chosen = { step: 0, piece: -1 };
    const pieceBox = el("div", {});
    const drawPieces = () => {
      const { top, chosen: written } = steps[chosen.step];
      const others = top.filter(([id]) => id !== written && (id === 2 || id > 3));
      chosen.piece = others[0][0];
      pieceBox.replaceChildren(
        choice(
          "writes",
          others.map(([id, name, , p]) => [String(id), `${name}  ${percent(p)}`]),
          String(chosen.piece),
          (id) => { chosen.piece = Number(id); },
        ),
      );
    };
    fields.append(
      choice(
        "step",
        numbered(steps.map((_, t) => `${t + 1}: ${writtenAt(trace, t)}`)),
        "0",
        (step) => { chosen.step = Number(step); drawPieces(); },
      ),
      pieceBox,
    );
    drawPieces();
    return () => ({ op: "force", ...chosen });
  },
};

/** The original and a branch, side by side. */
function drawResult(box, { label, trace, root }) {
  box.replaceChildren();
  if (!root) return;
  const parent = root.trace;
  const verb = hasSource(trace) ? "wrote" : "read";
  const side = (name, which, id) =>
    el(
      "div",
      {},
      el("h3", {}, name),
      el("p", { id, dir: "auto" }, bidiText(which.meta.target.text)),
    );
  const comparison = compareStages(parent, trace);
  box.append(
    el(
      "div",
      { class: "pair" },
      side(`The original ${verb}`, parent, "try-parent"),
      side(`With \u201c${label}\u201d it ${verb}`, trace, "try-branch"),
    ),
    stepTable(parent, trace),
    ...(trace.ran("mask")
      ? []
      : [
        el(
          "p",
          { class: "note" },
          "Without the mask every step sees the later tokens of its input. The probabilities " +
            "here are those of that single pass, not those of the search, which writes token by " +
            "token and has nothing later to see.",
        ),
      ]),
    el("h3", {}, "Where the change enters, and how far it gets"),
    el("p", { id: "try-journey" }, changeText(comparison, parent, trace)),
  );
  for (const name of ["source", "target"]) drawChanges(box, comparison, name, trace);
  box.append(tensorTable(parent, trace));
}

/** A table of the token that each trace wrote at each step, and its probability. */
function stepTable(parent, trace) {
  const cell = (which, t) => {
    const step = which.meta.steps[t];
    if (!step) return ["", ""];
    const found = step.top.find(([id]) => id === step.chosen);
    return [
      bidiText(writtenAt(which, t)),
      percent(
        found ? found[3] : which.get("probs").data[t * which.meta.model.vocab_size + step.chosen],
      ),
    ];
  };
  const n = Math.max(parent.meta.steps.length, trace.meta.steps.length);
  const rows = Array.from(
    { length: n },
    (_, t) =>
      [
        String(t + 1),
        ...cell(parent, t),
        ...cell(trace, t),
        sameAt(parent, trace, t) ? "" : "another token",
      ],
  );
  return table(
    "what both wrote at each step, and how likely it was",
    ["step", "original", "probability", "branch", "probability", ""],
    rows,
  );
}

function sameAt(parent, trace, t) {
  const [a, b] = [parent, trace].map((which) => which.meta.steps[t]);
  return Boolean(a && b) && parent.meta.vocabulary[a.chosen] === trace.meta.vocabulary[b.chosen];
}

function shareText(x) {
  return x > 0.995 ? `${Math.round(100 * x)} %` : percent(x);
}

/** The heads that were changed, as tensors call them: shown on hover over a branch. */
function tensorsOf({ meta }) {
  return meta.edits
    .filter((edit) => edit.at)
    .map((edit) => headTensor(edit.at, edit.head))
    .join("; ") || null;
}

function stageName({ side, title, name }) {
  return name === "logits"
    ? "the logits"
    : `the ${side === "source" ? "encoder" : "decoder"}\u2019s ` +
      `${title.replace(/^(\d+) (.*)$/, "$2 of layer $1")}`;
}

function changeText({ enters, largest, last, fed, missing }, parent, trace) {
  const isSameText = parent.meta.target.ids.join() === trace.meta.target.ids.join();
  if (!enters && isSameText) return "Nothing changed: every vector is the same to the last digit.";
  const edits = trace.meta.edits.filter((edit) => !parent.meta.edits.includes(edit));
  const lines = [`The change is made at ${placeOfEdits(edits, trace)}.`];
  if (enters) {
    const end = last.isChanged
      ? `changes the logits by ${shareText(last.mean)}`
      : "disappears before the logits";
    lines.push(
      `It is first seen at ${stageName(enters)}, is largest at ${stageName(largest)} ` +
        `(${shareText(largest.mean)} of the length of a vector, on average), and ${end}.`,
    );
  }
  if (!hasSource(trace)) lines.push(`In the end ${guessWords(parent, trace)}.`);
  else if (isSameText) lines.push("The same tokens are written.");
  else if (fed < trace.meta.target.ids.length) {
    const instead = parent.meta.steps[fed - 1]
      ? ` instead of \u201c${writtenAt(parent, fed - 1)}\u201d`
      : "";
    lines.push(
      `Then another token was written at step ${fed} ` +
        `(\u201c${writtenAt(trace, fed - 1)}\u201d${instead}) and fed back: from step ` +
        `${fed + 1} on every vector of the decoder differs for that reason too, from its ` +
        "embedding on.",
    );
  }
  else lines.push(`Then it ended at step ${fed}, where the original went on.`);
  if (missing)
    lines.push(
      `${missing} of the vectors between are not in this file, so the change may enter earlier ` +
        "than is shown.",
    );
  return lines.join(" ");
}

/** For a language model: what changes in its predictions. */
function guessWords(parent, trace) {
  const [a, b] = [parent, trace].map(({ meta }) => meta.steps.map(({ top }) => top[0][0]));
  const n = b.filter((id, t) => id !== a[t]).length;
  return `another next token is most likely after ${n} of ${b.length} tokens`;
}

/** A heat map of the relative change of each vector, stage by position. */
function drawChanges(box, comparison, side, trace) {
  const stages = comparison.stages.filter((stage) => stage.side === side);
  if (stages.length === 0) return;
  const cols = trace.meta[side].pieces;
  const n = cols.length;
  const data = Float64Array.from(stages.flatMap((stage) => [...stage.changes]));
  if (maxAbsOf(data) === 0 && !data.some(Number.isNaN)) {
    box.append(el("p", { class: "quiet" }, `On the ${side} side nothing changed.`));
    return;
  }
  const words = el("p", { class: "quiet" });
  const map = new HeatMap(
    box,
    side === "source"
      ? "Change on the source side, stage by stage"
      : "Change on the target side, stage by stage",
    { readout: false },
  );
  map.figure.whole.append(words);
  map.draw({
    rows: stages.map(({ title }) => title),
    cols,
    data,
    ramp: "weights",
    reach: Math.max(maxAbsOf(data), 1e-9),
    explain: (i, j) => {
      const change = data[i * n + j];
      const shown = Number.isNaN(change)
        ? "the original has no such position"
        : shareText(change);
      const say =
        `${stages[i].title}, \u201c${cols[j]}\u201d: |branch \u2212 original| / |original| = ` +
        shown;
      words.textContent = `${say} (${stages[i].name})`;
      return { say };
    },
  });
}

/** All tensors with their largest difference; rows are made on demand. */
function tensorTable(parent, trace) {
  const found = differencesOf(parent, trace);
  const n = found.filter(({ most }) => most > 0).length;
  const body = el("div", {});
  const details = el("details", { id: "try-tensors", toggle: () => {
    if (!details.open || body.childNodes.length) return;
    const rows = found.map(
      ({ name, most }) =>
        [
          el("code", {}, name),
          most === 0 ? "the same" : most === Infinity ? "another shape" : show(most),
        ],
    );
    body.append(
      table("tensors and their largest difference", ["tensor", "largest difference"], rows),
    );
  } }, el("summary", {}, `${n} of ${found.length} tensors changed`), body);
  return details;
}
