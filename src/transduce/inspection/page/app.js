// The page: its state, the time bar, and the stations in the order of the paper.
import { bytesOf, parseTrace } from "./data.js";
import { announce, compareWith, el, listenForHow, bidiText, toggle } from "./draw.js";
import { editsWords } from "./compare.js";
import { show } from "./math.js";
import { decoderOf, hasSource, placesOf, runsLeft, writtenAt } from "./names.js";
import { glossary, termed } from "./glossary.js";
import { TEXTS } from "./texts.js";
import { openModel } from "./model.js";
import { tryIt } from "./tryit.js";
import { sentenceStation, tokensStation } from "./stations/sentence.js";
import { embeddingStation, qkvStation } from "./stations/vectors.js";
import { headsStation, scoresStation } from "./stations/attention.js";
import { concatStation, ffStation, normStation } from "./stations/parts.js";
import { decoderStation } from "./stations/decoder.js";
import { lensStation, probsStation } from "./stations/probs.js";
import { beamStation } from "./stations/search.js";
import { checkStation } from "./stations/check.js";
import { filmStation, openFilm } from "./stations/film.js";

const tryStation = {
  id: "try",
  stays: true,
  fits: () => true,
  build: (box, page) => tryIt(box, page) ?? null,
};
const STATIONS = [
  sentenceStation,
  tokensStation,
  embeddingStation,
  qkvStation,
  scoresStation,
  headsStation,
  concatStation,
  normStation,
  ffStation,
  decoderStation,
  probsStation,
  beamStation,
  lensStation,
  tryStation,
  filmStation,
  checkStation,
];
const DEEP = new Set(["concat", "norm", "ff"]); // stations that are folded at first
const PACE = 1600; // milliseconds per step while playing
const LEFT_OUT =
  "This branch was computed in advance. To keep the file small it does not hold the tensors that " +
  "this station shows. Make the page with --with-model or use transduce serve to see them; the " +
  "original has them.";

/**
 * State shared by all stations: the current trace, the selection in it, and methods to change both.
 */
class Page {
  constructor(trace, { branches, ask, film }) {
    this.film = film;
    this.branches = branches;
    this.ask = ask;
    this.updates = [];
    this.looks = 0;
    this.show(trace, null);
  }

  /** Show a trace; with a parent, stations can show the difference. */
  show(trace, parent = null) {
    const before = this.state;
    this.trace = trace;
    this.parent = parent;
    const places = placesOf(trace);
    const last = trace.meta.steps.length - 1;
    const middle = Math.min(2, last);
    const place = before && places.includes(before.place)
      ? before.place
      : defaultPlace(trace, places);
    const step = before ? Math.min(before.step, last) : middle;
    this.looks += 1;
    this.state = {
      step,
      place,
      head: before?.head ?? 0,
      query: 0,
      key: 0,
      isDiff: Boolean(parent) && (before?.isDiff ?? false),
      look: this.looks,
    };
    this.follow();
    render(this);
    if (trace.id) keepAddress(trace.meta);
  }

  /** Change the state; a decoder's query follows the step. */
  set(changes) {
    const before = { ...this.state };
    Object.assign(this.state, changes);
    if ("step" in changes || ("place" in changes && changes.place !== before.place)) this.follow();
    if ("query" in changes && this.state.place.startsWith("dec")) this.state.step = changes.query;
    for (const update of this.updates) update();
  }

  follow() {
    const { place, step } = this.state;
    const weights = this.trace.get(`${place}.weights`);
    const [h, n, m] = weights.shape;
    const head = Math.min(this.state.head, h - 1); // encoder and decoder may differ
    this.state.head = head;
    this.state.query = place.startsWith("dec") ? step : Math.min(this.state.query, n - 1);
    const row = weights.data.subarray(
      (head * n + this.state.query) * m,
      (head * n + this.state.query + 1) * m,
    );
    this.state.key = row.reduce((best, w, j) => (w > row[best] ? j : best), 0);
  }

  /** A tensor of the trace, or its difference from the parent if that is shown and possible. */
  tensor(name) {
    const mine = this.trace.get(name);
    if (!this.isDifferent(name)) return { ...mine, isDiff: false };
    const theirs = this.parent.get(name);
    const data = mine.data.map((x, i) => (x === theirs.data[i] ? 0 : x - theirs.data[i]));
    return { shape: mine.shape, data, isDiff: true };
  }

  isDifferent(name) {
    if (!this.state.isDiff || !this.parent?.has(name)) return false;
    return this.trace.get(name).shape.join() === this.parent.get(name).shape.join();
  }

  /** The value of a number in the original, as text, while differences are shown. */
  wasBefore(name, index) {
    if (!/^[\w.]+$/.test(name) || !this.trace.has(name) || !this.isDifferent(name)) return null;
    const read = ({ shape, data }) => data[index.reduce((at, i, axis) => at * shape[axis] + i, 0)];
    const [now, before] = [read(this.trace.get(name)), read(this.parent.get(name))];
    return `in the original ${show(before)}; difference ${show(now === before ? 0 : now - before)}`;
  }

  /** The suffix of a title while differences are shown. */
  diffNote(name) {
    if (!this.state.isDiff || !this.parent) return "";
    return this.isDifferent(name)
      ? " \u2014 difference from the original"
      : " \u2014 no difference can be shown: other tokens";
  }
}

function defaultPlace(trace, places) {
  const preferred = hasSource(trace)
    ? `dec.${trace.meta.model.alignment_layer}.cross`
    : `dec.${decoderOf(trace).n_layers - 1}.self`;
  return places.includes(preferred) ? preferred : places[places.length - 1];
}

const sections = new Map();
const updates = new Map(); // of the stations, by their id
let timer = null;

function render(page) {
  const { meta } = page.trace;
  document.title = `${meta.source?.text ?? meta.text} \u2014 a Transformer, thinking`;
  const main = document.getElementById("main");
  const nav = document.getElementById("stations");
  drawTop(page);
  drawFoot(page);
  page.updates = [drawTime(page)];
  nav.replaceChildren();
  const root = page.parent ?? page.trace; // a branch shows the stations of its original
  const shown = STATIONS.filter((station) => station.fits(root, page));
  const kept = new Set(shown.map(({ id }) => id));
  for (const [id, section] of sections) {
    if (kept.has(id)) continue;
    section.remove();
    sections.delete(id);
  }
  shown.forEach((station, i) => {
    const words = TEXTS[station.id];
    const open = () => {
      const details = sections.get(station.id)?.querySelector(":scope > details");
      if (details) details.open = true;
    };
    nav.append(
      el("a", { href: `#station-${station.id}`, click: open }, `${i} \u00b7 ${words.short}`),
    );
    const isKept = station.stays && sections.has(station.id);
    if (!isKept) {
      const fresh = el(
        "section",
        { id: `station-${station.id}`, "aria-labelledby": `title-${station.id}` },
      );
      const paper = words.paper
        ? el(
          "span",
          { class: "paper" },
          /section|Eq/.test(words.paper) ? `${words.paper} of the paper` : words.paper,
        )
        : null;
      fresh.append(
        el(
          "h2",
          { id: `title-${station.id}` },
          el("span", { class: "no" }, String(i)),
          words.title,
          paper,
        ),
      );
      const told = (!hasSource(page.trace) && words.lm) || words.text;
      const said = new Set();
      fresh.append(...told.map((text) => el("p", {}, ...termed(text, said))));
      if (sections.has(station.id)) sections.get(station.id).replaceWith(fresh);
      sections.set(station.id, fresh);
    }
    const section = sections.get(station.id);
    if (main.children[i] !== section) main.insertBefore(section, main.children[i] ?? null);
    if (!isKept && station.fits(page.trace, page))
      updates.set(station.id, station.build(folded(station.id, section), page));
    else if (!isKept) {
      updates.delete(station.id);
      section.append(el("p", { class: "note" }, LEFT_OUT));
    }
    if (updates.get(station.id)) page.updates.push(updates.get(station.id));
  });
  for (const update of page.updates) update();
  watchStations(nav);
}

const opened = new Set(); // deep stations that the reader has opened

/** The container of a station. A deep station is folded and drawn again when it is opened. */
function folded(id, section) {
  if (!DEEP.has(id)) return section;
  const turn = () => {
    if (!details.open) return opened.delete(id);
    opened.add(id);
    return updates.get(id)?.();
  };
  const details = el(
    "details",
    { class: "deep", open: opened.has(id), toggle: turn },
    el("summary", {}, "Look at its numbers"),
  );
  section.append(details);
  return details;
}

/** The form for another sentence, if there is a model. */
function sentenceForm(page) {
  const input = el(
    "input",
    { type: "text", id: "try-text", required: true, autocomplete: "off", dir: "auto" },
  );
  input.value = page.trace.meta.text;
  const said = el("p", { role: "alert", id: "text-said" });
  const button = el(
    "button",
    { type: "submit", id: "try-translate" },
    hasSource(page.trace) ? "translate" : "read",
  );
  const submit = async (event) => {
    event.preventDefault();
    said.textContent = "";
    button.disabled = true;
    await new Promise((done) => setTimeout(done, 0)); // let the browser draw the disabled button
    try {
      await page.translate(input.value);
    } catch (error) {
      said.textContent = error.message;
      button.disabled = false;
    }
  };
  return [
    el(
      "form",
      { class: "start", submit },
      el("label", { class: "hidden", for: "try-text" }, "another sentence"),
      input,
      button,
    ),
    said,
  ];
}

function drawTop(page) {
  const { meta } = page.trace;
  const { model } = meta;
  const title = hasSource(page.trace)
    ? [el("bdi", {}, meta.source.text), " \u2192 ", el("bdi", {}, meta.target.text)]
    : [el("bdi", {}, meta.target.text)];
  const kind = hasSource(page.trace) ? "Transformer" : "language model";
  const isTouch = window.matchMedia("(hover: none)").matches;
  const sizesOf = (stack) => `${stack.n_layers} layers, ${stack.n_heads} heads`;
  const [own, decoder] = [sizesOf(model), sizesOf(decoderOf(page.trace))];
  const sizes = own === decoder ? own : `encoder ${own}, decoder ${decoder}`;
  const shape =
    `A trained ${kind} at work: ${sizes}, d_model ${model.d_model}, vocabulary ${model.vocab_size}. Every number on this page is this ` +
    `model\u2019s own. ${isTouch ? "Tap" : "Point at"} a cell, a bar, a line or an underlined ` +
    `number${isTouch ? "" : ", or reach it with the Tab and arrow keys,"} to see how it was ` +
    "computed.";
  const parts = [
    el(
      "h1",
      {
        class: (meta.source?.text ?? "").length + meta.target.text.length > 90 ? "long" : null,
        dir: runsLeft(meta.source?.text ?? meta.target.text) ? "rtl" : "ltr",
      },
      ...title,
    ),
    el("p", { class: "lead" }, shape),
  ];
  if (page.ask) parts.push(...sentenceForm(page));
  const doubts = doubtsIn(page.trace);
  if (doubts.length)
    parts.push(
      el("div", { class: "note", id: "doubts" }, ...doubts.map((words) => el("p", {}, ...words))),
    );
  if (page.parent) {
    const note = el(
      "div",
      { class: "note" },
      el(
        "p",
        {},
        `This is a branch: ${editsWords(page.trace) || "another sentence"}. The original ` +
          `${hasSource(page.trace) ? "wrote" : "read"} ` +
          `\u201c${page.parent.meta.target.text}\u201d.`,
      ),
    );
    note.append(
      toggle(
        "show the difference from the original",
        page.state.isDiff,
        (isDiff) => page.set({ isDiff }),
      ),
      el(
        "button",
        { type: "button", click: () => page.show(page.parent, null) },
        "back to the original",
      ),
    );
    parts.push(note);
  }
  document.getElementById("top").replaceChildren(...parts);
}

/** The model, and on a server a link to save the trace. */
function drawFoot(page) {
  const { meta, id } = page.trace;
  const parts = [
    `Model ${String(meta.model.fingerprint ?? "").slice(0, 12)}, ${meta.model.positions} ` +
      `positions, ${meta.model.norm}-norm, ${meta.model.activation ?? "relu"}.`,
  ];
  if (id) {
    const address = { href: `/v1/inspect/${id}.html`, download: `${id}.html` };
    parts.push(" Download ", el("a", address, "this trace as one file"), "; it opens offline.");
  }
  const paper = "Symbols and sections are those of Vaswani et al. 2017, Attention Is All You Need.";
  document
    .getElementById("foot")
    .replaceChildren(glossary(), el("p", {}, ...parts), el("p", {}, paper));
}

/** The quality flags of a translation, as text. */
function doubtsIn({ meta }) {
  const { unseen = [], unknown = [], repeats = false } = meta.doubts ?? {};
  const listed = (all) =>
    all.slice(0, 8).flatMap((text, i) => [i ? ", " : "", bidiText(`\u201c${text}\u201d`)]);
  const dots = (all) => (all.length > 8 ? " \u2026" : "");
  const found = [];
  if (unseen.length)
    found.push([
      "The model has not seen ",
      ...listed(unseen),
      `${dots(unseen)} in training; the translation of ` +
        `${unseen.length > 1 ? "these words" : "this word"} may be wrong.`,
    ]);
  if (unknown.length)
    found.push([
      "Its vocabulary has no token for ",
      ...listed(unknown),
      `${dots(unknown)}: written as bytes, such as <0x33>.`,
    ]);
  if (repeats) found.push(["The translation repeats itself."]);
  return found;
}

function drawTime(page) {
  const { trace } = page;
  const n = trace.meta.steps.length;
  const go = (step) => page.set({ step: Math.min(Math.max(step, 0), n - 1) });
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "\u25b6 play";
    play.setAttribute("aria-pressed", "false");
  };
  const start = () => {
    if (page.state.step === n - 1) go(0);
    play.textContent = "\u23f8 pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      if (page.state.step >= n - 1) stop();
      else go(page.state.step + 1);
    }, PACE);
  };
  clearInterval(timer);
  timer = null;
  const back = el(
    "button",
    {
      type: "button",
      "aria-label": "step back",
      click: () => {
        stop();
        go(page.state.step - 1);
      },
    },
    "\u25c0",
  );
  const play = el(
    "button",
    {
      type: "button",
      id: "play",
      "aria-pressed": "false",
      click: () => (timer ? stop() : start()),
    },
    "\u25b6 play",
  );
  const next = el(
    "button",
    {
      type: "button",
      "aria-label": "step forward",
      click: () => {
        stop();
        go(page.state.step + 1);
      },
    },
    "\u25b6",
  );
  const count = el("output", { id: "count" });
  const bar = el("input", {
    type: "range",
    min: 1,
    max: n,
    step: 1,
    "aria-label": "time step",
    input: () => {
      stop();
      go(Number(bar.value) - 1);
    },
  });
  const chips = trace.meta.steps.map((_, t) =>
    el(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-label": `step ${t + 1}: ${writtenAt(trace, t)}`,
        click: () => {
          stop();
          go(t);
        },
      },
      el("bdi", {}, writtenAt(trace, t)),
    ),
  );
  const said = el(
    "div",
    { class: "said", dir: runsLeft(trace.meta.target.text) ? "rtl" : "ltr" },
    ...chips,
  );
  document
    .getElementById("time")
    .replaceChildren(
      el(
        "div",
        { class: "timebar" },
        el("div", { class: "moves" }, back, play, next, count),
        said,
        bar,
      ),
    );
  return () => {
    const { step } = page.state;
    bar.value = String(step + 1);
    count.textContent = `step ${step + 1} of ${n}`;
    chips.forEach((chip, t) => {
      chip.className = t === step ? "chip now" : t > step ? "chip later" : "chip";
      chip.setAttribute("aria-current", String(t === step));
    });
    const chip = chips[step];
    if (said.scrollWidth > said.clientWidth)
      said.scrollLeft += chip.getBoundingClientRect().left -
        said.getBoundingClientRect().left -
        said.clientWidth / 2;
    back.disabled = step === 0;
    next.disabled = step === n - 1;
  };
}

let watcher = null;

/** Mark the station in view in the list. */
function watchStations(nav) {
  watcher?.disconnect();
  watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of nav.children) {
          if (link.getAttribute("href") === `#${entry.target.id}`)
            link.setAttribute("aria-current", "true");
          else link.removeAttribute("aria-current");
        }
      }
    },
    { rootMargin: "-30% 0px -60% 0px" },
  );
  for (const section of sections.values()) watcher.observe(section);
}

function listen(page) {
  document.addEventListener("keydown", (event) => {
    const isFree = !event.target.closest("input, select, textarea, [role=grid], [contenteditable]");
    if (!isFree || event.altKey || event.ctrlKey || event.metaKey) return;
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    page.set({
      step: Math.min(Math.max(page.state.step + move, 0), page.trace.meta.steps.length - 1),
    });
  });
  const again = () => {
    page.state.look += 0.5;
    for (const update of page.updates) update();
  };
  let wide = window.innerWidth;
  let waiting = null;
  window.addEventListener("resize", () => {
    if (window.innerWidth === wide) return;
    wide = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(again, 120);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

/** Request a trace from the server of this page. */
async function askServer(text, edits = []) {
  const answer = await fetch("/v1/inspect", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text, edits }),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error ?? `the server answered ${answer.status}`);
  const tensors = await fetch(`/v1/inspect/${told.id}/tensors?names=*`);
  if (!tensors.ok) throw new Error(`the server answered ${tensors.status}`);
  const trace = parseTrace(new Uint8Array(await tensors.arrayBuffer()), told.meta);
  trace.id = told.id;
  return trace;
}

/** Put the request into the URL, so that it can be bookmarked and shared. */
function keepAddress({ text, edits }) {
  const asked = new URLSearchParams({
    text,
    ...(edits.length ? { edits: JSON.stringify(edits) } : {}),
  });
  history.replaceState(null, "", `?${asked}${location.hash}`);
}

/** Trace the request in the URL: a text and optional edits. */
async function openAddress(ask, begin) {
  const asked = new URLSearchParams(location.search);
  const edits = JSON.parse(asked.get("edits") ?? "[]");
  const original = await ask(asked.get("text"), []);
  const branch = edits.length ? await ask(asked.get("text"), edits) : null;
  begin(original);
  if (branch) globalThis.page.show(branch, original);
}

/** A page without a trace: show a form for a text. */
function drawStart(ask, begin) {
  const input = el(
    "input",
    { type: "text", "aria-label": "text", required: true, autocomplete: "off" },
  );
  input.value = "I love you very much";
  const said = el("p", { role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    said.textContent = "\u2026";
    try {
      begin(await ask(input.value, []));
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const form = el(
    "form",
    { class: "start", submit },
    input,
    el("button", { type: "submit" }, "look inside"),
  );
  document
    .getElementById("top")
    .replaceChildren(
      el("h1", {}, "Watch a Transformer think"),
      el(
        "p",
        { class: "lead" },
        "Type a sentence. The model translates it, and this page shows everything it computed.",
      ),
      form,
      said,
    );
  return said;
}

function start() {
  const home = JSON.parse(document.getElementById("home")?.textContent || '{"kind": "file"}');
  const read = (node) => parseTrace(bytesOf(node.textContent));
  const given = document.getElementById("trace");
  const first = given ? read(given) : null;
  const branches = [...document.querySelectorAll("script.branch")].map(
    (node) => read(node).completeFrom(first),
  );
  const weights = document.getElementById("weights");
  const model = weights ? openModel(bytesOf(weights.textContent)) : null;
  const ask = home.kind === "server"
    ? askServer
    : model
    ? async (text, edits = []) => model.trace(text, edits)
    : null;
  const filmed = document.getElementById("film");
  const film = filmed ? openFilm(bytesOf(filmed.textContent)) : null;
  const begin = (trace) => {
    const page = new Page(trace, { branches, ask, film });
    listen(page);
    listenForHow();
    compareWith((name, index) => page.wasBefore(name, index));
    announce("");
    page.model = model;
    globalThis.page = page;
  };
  if (first) begin(first);
  else {
    const said = drawStart(ask, begin);
    if (new URLSearchParams(location.search).has("text")) {
      said.textContent = "\u2026";
      openAddress(ask, begin).catch((error) => {
        said.textContent = error.message;
      });
    }
  }
}

start();
