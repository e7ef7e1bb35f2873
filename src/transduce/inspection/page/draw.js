// Building blocks of views: elements, heat maps on canvas, curves and bars in SVG, export to SVG,
// PNG or CSV. Text is inserted only as text nodes, never as HTML.
import { brief, maxAbsOf, show } from "./math.js";

const SVG_SPACE = "http://www.w3.org/2000/svg";
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const SIZE = 14; // font size of all drawn text, in pixels

/** An element: attributes, listeners (functions), and children, of which strings become text. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== false && value !== null && value !== undefined)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** A text in its own writing direction, which may be right to left. */
export function bidiText(text, style = "piece") {
  return el("bdi", { class: style, dir: "auto" }, text);
}

/** Announce a text to screen readers. */
export function announce(text) {
  const live = document.getElementById("live");
  if (live && live.textContent !== text) live.textContent = text;
}

/** The colors of the current scheme, light or dark. */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    paper: read("--card"),
    ink: read("--ink"),
    quiet: read("--quiet"),
    line: read("--line"),
    one: read("--one"),
    two: read("--two"),
    weights: read("--ramp").split(" ").map(rgbOf),
    signed: read("--ramp-signed").split(" ").map(rgbOf),
  };
}

function rgbOf(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mix(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const at = Math.min(Math.floor(place), stops.length - 2);
  return stops[at].map((from, i) => Math.round(from + (stops[at + 1][i] - from) * (place - at)));
}

function colorOf(colors, ramp, value, reach) {
  if (!Number.isFinite(value)) return null;
  const share = reach ? value / reach : 0;
  return ramp === "signed" ? mix(colors.signed, (share + 1) / 2) : mix(colors.weights, share);
}

function inkOn([r, g, b]) {
  const light = [r, g, b].map(
    (x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4),
  );
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.19 ? "#101317" : "#ffffff";
}

let ruler = null;

/** The width of a drawn text in pixels. */
export function widthOf(text, weight = 400) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = `${weight} ${SIZE}px ${FONT}`;
  return ruler.measureText(text).width;
}

/** Truncate a text that is too long, with an ellipsis. */
export function clip(text, width) {
  if (widthOf(text) <= width) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && widthOf(`${letters.join("")}\u2026`) > width) letters.pop();
  return `${letters.join("")}\u2026`;
}

// Two drawing backends with the same methods: canvas and SVG.
function canvasPen(context) {
  return {
    rect(x, y, w, h, color) {
      context.fillStyle = color;
      context.fillRect(x, y, w, h);
    },
    text(x, y, text, color, anchor = "start", turn = 0) {
      context.save();
      context.translate(x, y);
      context.rotate((turn * Math.PI) / 180);
      context.font = `${SIZE}px ${FONT}`;
      context.fillStyle = color;
      context.textAlign = { start: "left", middle: "center", end: "right" }[anchor];
      context.textBaseline = "middle";
      context.fillText(text, 0, 0);
      context.restore();
    },
  };
}

function svgPen(root) {
  return {
    rect(x, y, width, height, color) {
      root.append(svg("rect", { x, y, width, height, fill: color }));
    },
    text(x, y, text, color, anchor = "start", turn = 0) {
      const place = turn ? { transform: `translate(${x} ${y}) rotate(${turn})` } : { x, y };
      const style = {
        fill: color,
        "text-anchor": anchor,
        "dominant-baseline": "central",
        "font-size": SIZE,
        "font-family": FONT,
      };
      root.append(svg("text", { ...place, ...style }, text));
    },
  };
}

/** A figure: title, export buttons, body, and a line that explains the selected number. */
export function figure(box, title, { readout = true } = {}) {
  const name = el("span", { class: "figure-title" }, title);
  const toolbar = el("span", { class: "tools" });
  const body = el("div", { class: "figure-body" });
  const words = readout ? el("div", { class: "readout" }) : null;
  const whole = el("figure", {}, el("figcaption", {}, name, toolbar), body, words);
  box.append(whole);
  const made = {
    whole,
    body,
    words,
    title: (text) => {
      name.textContent = text;
      made.name = text;
    },
    name: title,
  };
  made.tools = (take) => {
    const button = (label, long, act) =>
      el(
        "button",
        { type: "button", class: "tool", "aria-label": `${long}: ${made.name}`, click: act },
        label,
      );
    toolbar.replaceChildren(
      button("save SVG", "save as SVG", () => saveSvg(made.name, take.svg())),
      button("save PNG", "save as PNG", () => savePng(made.name, take.svg())),
      button("copy CSV", "copy as CSV", (event) => copyCsv(take.rows(), event.currentTarget)),
    );
  };
  return made;
}

function fileName(title, end) {
  return `${
    title
      .replace(/[^\p{L}\p{N}]+/gu, "-")
      .replace(/^-|-$/g, "")
      .toLowerCase() || "view"
  }.${end}`;
}

function saveBlob(name, blob) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A picture for export, with its title above. */
function svgText(title, root) {
  const colors = theme();
  const width = Math.max(Number(root.getAttribute("width")), Math.ceil(widthOf(title, 600)) + 24);
  const height = Number(root.getAttribute("height")) + 36;
  const whole = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, xmlns: SVG_SPACE });
  const style = {
    x: 8,
    y: 22,
    fill: colors.ink,
    "font-size": SIZE,
    "font-family": FONT,
    "font-weight": 600,
  };
  whole.append(
    svg("rect", { width, height, fill: colors.paper }),
    svg("text", style, title),
    svg("g", { transform: "translate(0 36)" }, ...root.cloneNode(true).childNodes),
  );
  return { text: new XMLSerializer().serializeToString(whole), width, height };
}

/** Two drawings in one, side by side. */
export function sideBySide(first, second) {
  const [a, b] = [first, second].map((root) => ({
    width: Number(root.getAttribute("width")),
    height: Number(root.getAttribute("height")),
  }));
  const root = svg("svg", { width: a.width + b.width + 20, height: Math.max(a.height, b.height) });
  root.append(svg("g", {}, ...first.cloneNode(true).childNodes));
  root.append(
    svg("g", { transform: `translate(${a.width + 20} 0)` }, ...second.cloneNode(true).childNodes),
  );
  return root;
}

export function saveSvg(title, root) {
  saveBlob(
    fileName(title, "svg"),
    new Blob([svgText(title, root).text], { type: "image/svg+xml" }),
  );
}

export function savePng(title, root) {
  const { text, width, height } = svgText(title, root);
  const image = new Image();
  image.onload = () => {
    const canvas = el("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    canvas.toBlob((blob) => saveBlob(fileName(title, "png"), blob));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}

/** Rows as CSV. A cell that a spreadsheet would take for a formula gets a leading quote. */
export function csvOf(rows) {
  const cell = (value) => {
    const text = typeof value === "number"
      ? String(value)
      : /^[=+@\t\r]/.test(value)
      ? `'${value}`
      : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n");
}

async function copyCsv(rows, button) {
  const text = csvOf(rows);
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { "aria-hidden": "true", class: "hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "copied";
  announce(`copied ${rows.length} lines`);
  setTimeout(() => {
    button.textContent = before;
  }, 1200);
}

/** A text with an explanation on hover, tap or focus, one line for each element of `lines`. */
export function how(text, lines, style = "") {
  return el(
    "button",
    { type: "button", class: `how ${style}`, "data-how": lines.join("\n") },
    text,
  );
}

/** Show a tooltip near a position; without lines, hide it. */
export function tip(lines, x = 0, y = 0) {
  const sheet = document.getElementById("tip");
  if (!sheet) return;
  sheet.hidden = !lines?.length;
  if (sheet.hidden) return;
  sheet.replaceChildren(...lines.map((line) => el("div", {}, line)));
  const { width, height } = sheet.getBoundingClientRect();
  sheet.style.left =
    `${Math.max(4, Math.min(x + 14, document.documentElement.clientWidth - width - 6))}px`;
  sheet.style.top =
    `${y + 18 + height < window.innerHeight ? y + 18 : Math.max(4, y - height - 12)}px`;
}

/** Show the tooltips of `data-how` elements on hover, tap and focus. */
export function listenForHow() {
  const linesOf = (event) => event.target.closest?.("[data-how]")?.dataset.how.split("\n");
  const point = (event) => {
    const lines = linesOf(event);
    if (lines) tip(lines, event.clientX, event.clientY);
    else if (!event.target.closest?.("canvas")) tip(null);
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("click", point);
  document.addEventListener("focusin", (event) => {
    const lines = linesOf(event);
    if (!lines || !event.target.matches(":focus-visible")) return;
    const { left, bottom } = event.target.getBoundingClientRect();
    tip(lines, left, bottom - 8);
    announce(lines.join("; "));
  });
  document.addEventListener("focusout", () => tip(null));
  document.addEventListener("scroll", () => tip(null), { passive: true, capture: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && tip(null));
}

let compare = () => null;

/** Set the function that describes the original of a number: (name, index) -> text or null. */
export function compareWith(describeOriginal) {
  compare = describeOriginal;
}

/** The name of a number, then how it was computed. */
function linesOf({ name, index, value, lines }) {
  const before = compare(name, index);
  return [`${name}[${index.join(", ")}] = ${show(value)}`, ...lines, ...(before ? [before] : [])];
}

/** Show below a figure how a number was computed. */
export function explainIn(box, found) {
  if (!found) {
    box.replaceChildren();
    return;
  }
  const { name, index, value } = found;
  const [code, ...lines] = linesOf(found);
  box.replaceChildren(
    el(
      "code",
      {
        class: "number",
        "data-tensor": name,
        "data-index": index.join(","),
        "data-value": String(value),
      },
      code,
    ),
    ...lines.map((line) => el("span", { class: "line" }, line)),
  );
}

/** The width of the widest of the first 600 numbers of a matrix, in pixels. */
function widestNumber(data, reach) {
  let most = 0;
  for (const text of new Set(Array.from(data.subarray(0, 600), (x) => brief(x, reach))))
    most = Math.max(most, widthOf(text));
  return most;
}

const SCALE = 96; // width of a colour scale, in pixels

/** The color scale with its numbers. */
function drawScale(pen, x, y, ramp, reach) {
  const colors = theme();
  const [low, high] = Array.isArray(reach)
    ? ["\u2212", "+  each row by itself"]
    : ramp === "signed"
      ? [show(-reach), `+${show(reach)}`]
      : ["0", show(reach)];
  const from = x + widthOf(low) + 6;
  pen.text(x, y + 6, low, colors.quiet);
  for (let i = 0; i < SCALE; i += 2) {
    const share = i / (SCALE - 2);
    const color = colorOf(colors, ramp, ramp === "signed" ? 2 * share - 1 : share, 1);
    pen.rect(from + i, y, 2, 12, `rgb(${color.join(" ")})`);
  }
  pen.text(from + SCALE + 6, y + 6, high, colors.quiet);
  return from + SCALE + 6 + widthOf(high) - x;
}

/** The colour scale as an SVG of its own. */
export function scaleOf(ramp, reach = 1) {
  const root = svg(
    "svg",
    {
      height: 16,
      role: "img",
      "aria-label": `colours from ${ramp === "signed" ? show(-reach) : 0} to ${show(reach)}`,
    },
  );
  root.setAttribute("width", String(Math.ceil(drawScale(svgPen(root), 0, 2, ramp, reach)) + 2));
  return root;
}

/**
 * A matrix on canvas. The fields of `draw(spec)`:
 *
 * - rows, cols: labels; cols may be null
 * - data: the numbers, row by row
 * - ramp: "weights" (from 0 up) or "signed"
 * - reach: the number at the end of the color scale, or one for each row
 * - title: the title of the figure
 * - explain(i, j): { name, index, value, lines, say } of a cell
 * - mark: { row, col } to highlight; start: [row, col] of the focus
 * - pick(i, j): called when a cell is chosen
 * - most, least: limits of a cell's width in pixels; tall: its height
 *
 * One cell can be reached by Tab and moves with the arrow keys. Screen readers announce it.
 */
export class HeatMap {
  constructor(box, title, options = {}) {
    this.figure = figure(box, title, options);
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.cell = el("div", { class: "cell", role: "gridcell", tabindex: "0" });
    this.line = el("div", { role: "row" }, this.cell);
    this.grid = el("div", { class: "grid", role: "grid" }, this.line);
    this.stage = el("div", { class: "stage" }, this.canvas, this.grid);
    this.figure.body.append(el("div", { class: "pan" }, this.stage));
    this.at = [0, 0];
    this.figure.tools({ svg: () => this.toSvg(), rows: () => this.toRows() });
    this.cell.addEventListener("keydown", (event) => this.onKey(event));
    this.cell.addEventListener("focus", () => this.look(...this.at, true));
    this.canvas.addEventListener("pointermove", (event) => this.onPointer(event));
    this.canvas.addEventListener("pointerleave", () => {
      tip(null);
      this.look(...this.at, false);
    });
    this.canvas.addEventListener("click", (event) => this.onPointer(event, true));
  }

  draw(spec) {
    this.spec = spec;
    const n = spec.rows.length;
    const m = spec.cols ? spec.cols.length : spec.data.length / n;
    this.size = [n, m];
    if (spec.title) this.figure.title(spec.title);
    this.layout = this.measure();
    const { width, height } = this.layout;
    const sharp = Math.min(window.devicePixelRatio || 1, 2, Math.sqrt(8e6 / (width * height)));
    this.canvas.width = Math.round(width * sharp);
    this.canvas.height = Math.round(height * sharp);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.scale(sharp, sharp);
    this.paint(canvasPen(context));
    this.grid.setAttribute(
      "aria-label",
      `${this.figure.name}: ${n} rows, ${m} columns; arrow keys move`,
    );
    this.grid.setAttribute("aria-rowcount", n);
    this.grid.setAttribute("aria-colcount", m);
    const mark = spec.mark ?? {};
    const [first, second] = spec.start ?? this.at;
    this.at = [Math.min(mark.row ?? first, n - 1), Math.min(mark.col ?? second, m - 1)];
    this.place();
    const pan = this.stage.parentElement;
    if (width > pan.clientWidth && document.activeElement !== this.cell)
      showPlace(pan, this.layout.left + this.at[1] * this.layout.cell);
    this.look(...this.at, document.activeElement === this.cell);
  }

  measure() {
    const { rows, cols, most = 52, tall, least } = this.spec;
    const [n, m] = this.size;
    const room = Math.max(this.figure.body.clientWidth || 640, 200);
    const left = Math.min(
      Math.max(...rows.map((label) => widthOf(label))) + 12,
      Math.max(132, room * 0.34),
    );
    const smallest = least ?? (cols ? 20 : 0.8);
    const cell = Math.min(Math.max((room - left - 2) / m, smallest), most);
    const widest = cols ? Math.max(...cols.map((label) => Math.min(widthOf(label), 110))) : 0;
    const turned = Boolean(cols) && widest > Math.floor(cell) - 4;
    const slack = turned ? Math.ceil(Math.max(0, widest * 0.7071 + 12 - cell / 2)) : 0;
    const fitting = turned
      ? Math.min(Math.max((room - left - 2 - slack) / m, smallest), most)
      : cell;
    const step = cols ? Math.floor(fitting) : fitting;
    const high = tall ?? Math.min(Math.max(step, 24), 36);
    const top = cols ? (turned ? Math.ceil(widest * 0.7071) + 16 : 24) : 4;
    return {
      left,
      top,
      cell: step,
      high,
      turned,
      width: Math.ceil(Math.max(left + m * step + slack + 2, 260)),
      height: top + n * high + 30,
    };
  }

  paint(pen) {
    const { rows, cols, data, ramp = "weights", mark = {} } = this.spec;
    const { left, top, cell, high, turned } = this.layout;
    const [n, m] = this.size;
    const colors = theme();
    const whole = this.spec.reach ?? (maxAbsOf(data) || 1);
    const gap = cell >= 10 ? 1 : 0;
    const small = Array.isArray(whole) ? 1 : whole;
    const numbers = cell >= 26 && high >= 24 && cell >= widestNumber(data, small) + 6;
    for (let i = 0; i < n; i += 1) {
      const y = top + i * high;
      const color = mark.row === undefined || mark.row === i ? colors.ink : colors.quiet;
      const reach = Array.isArray(whole) ? whole[i] || 1 : whole;
      pen.text(left - 8, y + high / 2, clip(rows[i], left - 10), color, "end");
      for (let j = 0; j < m; j += 1) {
        const value = data[i * m + j];
        const fillColor = colorOf(colors, ramp, value, reach);
        const x = left + j * cell;
        if (fillColor)
          pen.rect(
            x,
            y,
            cell - gap + (gap ? 0 : 0.6),
            high - (gap ? 1 : 0),
            `rgb(${fillColor.join(" ")})`,
          );
        else pen.rect(x + cell / 2 - 1, y + high / 2 - 1, 2, 2, colors.quiet);
        if (numbers) {
          const ink = fillColor ? inkOn(fillColor) : colors.quiet;
          pen.text(x + (cell - gap) / 2, y + high / 2, brief(value, small), ink, "middle");
        }
      }
    }
    if (cols) {
      for (let j = 0; j < m; j += 1) {
        const x = left + j * cell + cell / 2;
        const color = mark.col === undefined || mark.col === j ? colors.ink : colors.quiet;
        if (turned) pen.text(x, top - 8, clip(cols[j], 110), color, "start", -45);
        else pen.text(x, top - 12, cols[j], color, "middle");
      }
    }
    drawScale(
      pen,
      Math.max(2, Math.min(left, this.layout.width - 250)),
      top + n * high + 10,
      ramp,
      whole,
    );
    if (mark.row !== undefined) {
      pen.rect(left, top + mark.row * high - 1.5, m * cell - gap, 1.5, colors.two);
      pen.rect(left, top + (mark.row + 1) * high - 1, m * cell - gap, 1.5, colors.two);
    }
  }

  /** Move the focusable cell to the current row and column. */
  place() {
    const { left, top, cell, high } = this.layout;
    const [i, j] = this.at;
    this.cell.style.left = `${left + j * cell}px`;
    this.cell.style.top = `${top + i * high}px`;
    this.cell.style.width = `${Math.max(cell, 4)}px`;
    this.cell.style.height = `${high}px`;
    this.line.setAttribute("aria-rowindex", i + 1);
    this.cell.setAttribute("aria-colindex", j + 1);
  }

  look(i, j, aloud, place = null) {
    if (!this.spec) return;
    const found = this.spec.explain ? this.spec.explain(i, j) : null;
    if (found && this.figure.words) explainIn(this.figure.words, found);
    if (found && place) tip(found.name ? linesOf(found) : [found.say], ...place);
    const label = this.spec.cols
      ? `${this.spec.rows[i]}, ${this.spec.cols[j]}`
      : `${this.spec.rows[i]}, dimension ${j}`;
    const said = found?.say ?? `${label}: ${show(this.spec.data[i * this.size[1] + j])}`;
    this.cell.setAttribute("aria-label", said);
    if (aloud) announce(said);
  }

  onKey(event) {
    const [n, m] = this.size;
    let [i, j] = this.at;
    if (event.key === "ArrowUp") i -= 1;
    else if (event.key === "ArrowDown") i += 1;
    else if (event.key === "ArrowLeft") j -= 1;
    else if (event.key === "ArrowRight") j += 1;
    else if (event.key === "Home") [i, j] = event.ctrlKey ? [0, 0] : [i, 0];
    else if (event.key === "End") [i, j] = event.ctrlKey ? [n - 1, m - 1] : [i, m - 1];
    else if ((event.key === "Enter" || event.key === " ") && this.spec.pick) this.spec.pick(i, j);
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.at = [Math.min(Math.max(i, 0), n - 1), Math.min(Math.max(j, 0), m - 1)];
    this.place();
    this.cell.scrollIntoView({ block: "nearest", inline: "nearest" });
    const { left, bottom } = this.cell.getBoundingClientRect();
    this.look(...this.at, true, [left, bottom - 8]);
  }

  onPointer(event, isClick = false) {
    const { left, top, cell, high } = this.layout;
    const i = Math.floor((event.offsetY - top) / high);
    const j = Math.floor((event.offsetX - left) / cell);
    if (i < 0 || j < 0 || i >= this.size[0] || j >= this.size[1]) return;
    if (isClick) {
      this.at = [i, j];
      this.place();
      if (this.spec.pick) this.spec.pick(i, j);
    }
    this.look(i, j, isClick, [event.clientX, event.clientY]);
  }

  toSvg() {
    const root = svg("svg", { width: this.layout.width, height: this.layout.height });
    this.paint(svgPen(root));
    return root;
  }

  toRows() {
    const [n, m] = this.size;
    const { rows, cols, data } = this.spec;
    const head = ["", ...Array.from({ length: m }, (_, j) => (cols ? cols[j] : String(j)))];
    return [
      head,
      ...Array.from({ length: n }, (_, i) => [rows[i], ...data.subarray(i * m, (i + 1) * m)]),
    ];
  }
}

/** Draw a matrix without labels, one pixel per cell; CSS enlarges it without smoothing. */
export function thumbnail(canvas, matrix, ramp = "weights", reach = 1) {
  const [n, m] = matrix.shape;
  const colors = theme();
  canvas.width = m;
  canvas.height = n;
  const context = canvas.getContext("2d");
  const image = context.createImageData(m, n);
  const empty = rgbOf(colors.paper);
  for (let i = 0; i < n * m; i += 1) {
    const color = colorOf(colors, ramp, matrix.data[i], reach) ?? empty;
    image.data.set([...color, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

/**
 * Two lines of words and curves between them; a curve is as thick as its weight is large.
 *
 * - above, below: the words
 * - links: [[index above, index below, weight, whether it is of an earlier step]]
 * - strong: { above, below }, the indices of the highlighted words
 * - rtl: [above, below], whether a line runs from right to left
 * - ghost: index of the first word below that is not written yet
 * - explain(above, below): the lines of a tooltip
 */
export function curves(
  box,
  {
    above,
    below,
    links,
    strong = {},
    rtl = [false, false],
    ghost = Infinity,
    label,
    room,
    explain,
  },
) {
  const colors = theme();
  const wide = Math.max(room ?? box.clientWidth ?? 600, 260);
  const fitted = (words, extra, least) => {
    const widths = words.map((word) => Math.max(widthOf(word, 600) + extra, least));
    return { widths, total: widths.reduce((a, b) => a + b, 0) };
  };
  const linesOf = (words) =>
    (fitted(words, 22, 40).total + 8 > wide ? fitted(words, 13, 24) : fitted(words, 22, 40));
  const tops = linesOf(above);
  const bottoms = linesOf(below);
  const width = Math.max(wide, tops.total + 8, bottoms.total + 8);
  const tight = [above, below].some((words) => fitted(words, 22, 40).total + 8 > wide);
  const place = ({ widths, total }, flip) => {
    const gap = Math.min(Math.max((width - total - 8) / Math.max(widths.length, 1), 0), 46);
    let x = (width - total - gap * (widths.length - 1)) / 2;
    return widths.map((w) => {
      const middle = x + w / 2;
      x += w + gap;
      return flip ? width - middle : middle;
    });
  };
  const xs = place(tops, rtl[0]);
  const isWide = width > wide + 1;
  const ys = isWide
    ? placeBelow(bottoms.widths, rtl[1], width, xs[strong.above ?? 0], strong.below ?? 0)
    : place(bottoms, rtl[1]);
  const height = 190;
  const root = svg("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label ?? "curves",
  });
  const order = [...links].sort(
    (a, b) => Number(Boolean(b[3])) - Number(Boolean(a[3])) || a[2] - b[2],
  );
  for (const [i, j, weight, isFaint] of order) {
    if (weight < (isFaint ? 0.05 : 0.005)) continue;
    const path =
      `M ${ys[j]} ${height - 40} C ${ys[j]} ${height / 2 + 6}, ${xs[i]} ${height / 2 - 6}, ` +
      `${xs[i]} 40`;
    const line = {
      d: path,
      fill: "none",
      stroke: isFaint ? colors.quiet : colors.one,
      "stroke-width": (1 + (isFaint ? 6 : 11) * weight).toFixed(2),
      "stroke-linecap": "round",
      "data-how": explain?.(i, j).join("\n"),
    };
    root.append(
      svg(
        "path",
        { ...line, "stroke-opacity": isFaint ? 0.35 : (0.16 + 0.74 * weight).toFixed(2) },
      ),
    );
    if (weight >= 0.05 && !isFaint) {
      const middle = { x: (xs[i] * 0.62 + ys[j] * 0.38).toFixed(1), y: height * 0.4 };
      const style = {
        "text-anchor": "middle",
        "font-size": SIZE,
        "font-family": FONT,
        "dominant-baseline": "central",
        "font-weight": 600,
      };
      const halo = {
        stroke: colors.paper,
        "stroke-width": 5,
        "paint-order": "stroke",
        fill: colors.ink,
      };
      root.append(svg("text", { ...middle, ...style, ...halo }, `${Math.round(100 * weight)} %`));
    }
  }
  const word = (text, x, y, isStrong, isGhost) => {
    const w = tight ? Math.max(widthOf(text, 600) + 10, 22) : Math.max(widthOf(text, 600) + 18, 34);
    const frame = {
      x: x - w / 2,
      y: y - 16,
      width: w,
      height: 32,
      rx: 7,
      stroke: isStrong ? colors.two : colors.line,
    };
    root.append(
      svg("rect", {
        ...frame,
        fill: colors.paper,
        "stroke-width": isStrong ? 2 : 1,
        "stroke-dasharray": isGhost ? "3 3" : "none",
      }),
    );
    const style = {
      "text-anchor": "middle",
      "dominant-baseline": "central",
      "font-size": SIZE,
      "font-family": FONT,
      "font-weight": isStrong ? 600 : 400,
    };
    root.append(svg("text", { x, y, ...style, fill: isGhost ? colors.quiet : colors.ink }, text));
  };
  above.forEach((text, i) => word(text, xs[i], 22, strong.above === i, false));
  below.forEach((text, j) => word(text, ys[j], height - 22, strong.below === j, j >= ghost));
  panTo(box, root, isWide, label ?? "curves", xs[strong.above ?? 0]);
  return root;
}

/**
 * The centers of words in a line that is too long for its box. Word `at` is placed at `x`, below
 * the word it attends to, as far as there is room.
 */
function placeBelow(widths, flip, width, x, at) {
  const total = widths.reduce((a, b) => a + b, 0);
  const middles = [];
  widths.reduce((sum, w, i) => {
    middles[i] = flip ? total - sum - w / 2 : sum + w / 2;
    return sum + w;
  }, 0);
  const shift = Math.min(Math.max(x - middles[at], 4), Math.max(width - total - 4, 4));
  return middles.map((middle) => middle + shift);
}

/**
 * Put a drawing into its box. One that is too wide can be panned, also by keyboard, and is scrolled
 * to x.
 */
function panTo(box, root, isWide, label, x) {
  const pan = el(
    "div",
    isWide ? { class: "pan", tabindex: "0", role: "group", "aria-label": label } : { class: "pan" },
    root,
  );
  box.replaceChildren(pan);
  if (isWide) showPlace(pan, x);
}

/** Scroll to x unless it is visible without scrolling, so that the labels at the left stay. */
function showPlace(pan, x) {
  pan.scrollLeft = x < pan.clientWidth - 40 ? 0 : x - pan.clientWidth / 2;
}

/** Arcs over one line of words, from a word to those it attends to. */
export function arcsOver(box, { words, from, weights, label, rtl = false, explain }) {
  const colors = theme();
  const wide = Math.max(box.clientWidth || 600, 260);
  const tight = words.map((word) => Math.max(widthOf(word, 600) + 20, 48));
  const spare = Math.min(
    Math.max((wide - 8 - tight.reduce((a, b) => a + b, 0)) / words.length, 0),
    56,
  );
  const widths = tight.map((w) => w + spare);
  const total = widths.reduce((a, b) => a + b, 0);
  const width = Math.max(wide, total + 8);
  let at = (width - total) / 2;
  const xs = widths.map((w) => {
    at += w;
    return rtl ? width - (at - w / 2) : at - w / 2;
  });
  const far = Math.max(...xs.map((x, i) => (weights[i] >= 0.005 ? Math.abs(x - xs[from]) : 0)), 1);
  const height = Math.min(30 + 0.32 * far, 130) + 74;
  const base = height - 40;
  const root = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
  );
  words.forEach((text, i) => {
    const weight = weights[i] ?? 0;
    if (weight < 0.005) return;
    const lift = 26 + Math.min(0.32 * Math.abs(xs[i] - xs[from]), 104);
    const path =
      i === from
        ? `M ${xs[i] - 9} ${base} C ${xs[i] - 26} ${base - 44}, ${xs[i] + 26} ${base - 44}, ` +
          `${xs[i] + 9} ${base}`
        : `M ${xs[from]} ${base} C ${xs[from]} ${base - lift}, ${xs[i]} ${base - lift}, ` +
          `${xs[i]} ${base}`;
    const line = {
      d: path,
      fill: "none",
      stroke: colors.one,
      "stroke-width": (1 + 9 * weight).toFixed(2),
      "stroke-linecap": "round",
      "data-how": explain?.(i).join("\n"),
    };
    root.append(svg("path", { ...line, "stroke-opacity": (0.16 + 0.74 * weight).toFixed(2) }));
  });
  words.forEach((text, i) => {
    const style = {
      x: xs[i],
      "text-anchor": "middle",
      "dominant-baseline": "central",
      "font-size": SIZE,
      "font-family": FONT,
    };
    root.append(
      svg(
        "text",
        {
          ...style,
          y: base + 14,
          fill: i === from ? colors.two : colors.ink,
          "font-weight": i === from ? 600 : 400,
        },
        text,
      ),
    );
    const weight = weights[i];
    if (weight >= 0.005)
      root.append(
        svg(
          "text",
          { ...style, y: base + 31, fill: colors.quiet },
          `${Math.round(100 * weight)} %`,
        ),
      );
  });
  panTo(box, root, width > wide + 1, label, xs[from]);
  return root;
}

/**
 * Vertical bars above and below zero. With `running` the running total is a line, labelled with the
 * sum.
 *
 * - values: the heights of the bars
 * - label: the accessible name
 * - explain(i): the text of a tooltip
 * - names: [x axis, y axis]
 */
export function columns(box, { values, label, running = false, explain, names = ["", ""] }) {
  const colors = theme();
  const width = Math.max(box.clientWidth || 600, 260);
  const height = 216;
  const totals = [];
  values.reduce((sum, x, i) => (totals[i] = sum + x), 0);
  const all = running ? [...values, ...totals, 0] : [...values, 0];
  const high = Math.max(...all);
  const low = Math.min(...all);
  const end = running ? `sum ${show(totals[totals.length - 1])}` : "";
  const left = Math.max(...[high, low, 0].map((x) => widthOf(show(x)))) + 12;
  const right = end ? widthOf(end) + 10 : 4;
  const y = (x) => 26 + ((high - x) / (high - low || 1)) * (height - 70);
  const step = Math.min((width - left - right) / values.length, 64);
  const root = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
  );
  const pen = svgPen(root);
  pen.text(2, 9, names[1], colors.quiet);
  for (const x of new Set([high, 0, low]))
    if (x === 0 || Math.abs(y(x) - y(0)) > 16)
      pen.text(left - 6, y(x), show(x), colors.quiet, "end");
  values.forEach((x, i) => {
    const bar = {
      x: left + i * step,
      y: Math.min(y(x), y(0)),
      width: Math.max(step - 2, 1),
      height: Math.max(Math.abs(y(x) - y(0)), 0.6),
      rx: 1.5,
    };
    const told = explain ? { "data-how": explain(i) } : {};
    root.append(svg("rect", { ...bar, fill: x < 0 ? colors.two : colors.one }));
    // a thin bar is hard to hit
    root.append(svg("rect", { ...bar, y: 20, height: height - 58, fill: "transparent", ...told }));
  });
  const across = left + values.length * step;
  root.append(
    svg(
      "line",
      { x1: left, x2: across, y1: y(0), y2: y(0), stroke: colors.quiet, "stroke-width": 1 },
    ),
  );
  const every = Math.max(1, Math.ceil(34 / step));
  values.forEach((_, i) => {
    if (i % every === 0)
      pen.text(left + (i + 0.5) * step, height - 30, String(i), colors.quiet, "middle");
  });
  pen.text((left + across) / 2, height - 9, names[0], colors.quiet, "middle");
  if (running) {
    const points = totals
      .map((x, i) => `${(left + (i + 0.5) * step).toFixed(1)},${y(x).toFixed(1)}`)
      .join(" ");
    root.append(
      svg(
        "polyline",
        {
          points,
          fill: "none",
          stroke: colors.ink,
          "stroke-width": 1.5,
          "stroke-dasharray": "4 3",
        },
      ),
    );
    pen.text(across + 6, Math.max(y(totals[totals.length - 1]), 10), end, colors.ink);
  }
  box.replaceChildren(root);
  return root;
}

/**
 * Horizontal bars in a table, for screen readers too. `rows`: [{ name, share, cells, strong, off,
 * how }].
 */
export function barTable(box, rows, { caption, columns: heads, pick }) {
  const body = rows.map((row, i) => {
    const bar = el("span", { class: "bar" });
    bar.style.width = `${Math.max(100 * row.share, row.share > 0 ? 0.4 : 0)}%`;
    const told = row.how?.join("\n");
    const name =
      pick || told
        ? el(
          "button",
          { type: "button", class: "plain", "data-how": told, click: () => pick?.(i) },
          bidiText(row.name),
        )
        : bidiText(row.name);
    return el(
      "tr",
      { class: row.strong ? "strong" : row.off ? "off" : null, "data-how": told },
      el("th", { scope: "row" }, name),
      el("td", { class: "track" }, bar),
      ...row.cells.map((cell) =>
        el(
          "td",
          { class: cell.value === undefined ? "words" : "figures", "data-value": cell.value },
          cell.text,
        ),
      ),
    );
  });
  const isWords = (i) => i > 1 && rows[0]?.cells[i - 2]?.value === undefined;
  const head = el(
    "tr",
    {},
    ...heads.map(
      (text, i) =>
        el(
          text ? "th" : "td",
          text ? { scope: "col", class: isWords(i) ? "words" : null } : {},
          text,
        ),
    ),
  );
  box.replaceChildren(
    el(
      "table",
      { class: "bars" },
      el("caption", { class: "hidden" }, caption),
      el("thead", {}, head),
      el("tbody", {}, ...body),
    ),
  );
}

/** The same bars as SVG, for export. */
export function barSvg(rows) {
  const colors = theme();
  const left = Math.min(Math.max(...rows.map((row) => widthOf(row.name)), 40) + 12, 200);
  const root = svg("svg", { width: 640, height: 26 * rows.length + 8 });
  const pen = svgPen(root);
  rows.forEach((row, i) => {
    pen.text(left - 8, 17 + 26 * i, clip(row.name, left - 10), colors.ink, "end");
    pen.rect(
      left,
      8 + 26 * i,
      Math.max(row.share * (500 - left), 1),
      18,
      row.strong ? colors.two : colors.one,
    );
    pen.text(510, 17 + 26 * i, row.cells.map((cell) => cell.text).join("   "), colors.quiet);
  });
  return root;
}

/** A labelled choice. `options`: [[value, text]]. */
export function choice(label, options, value, act) {
  const list = el(
    "select",
    { change: () => act(list.value) },
    ...options.map(([key, text]) => el("option", { value: key }, text)),
  );
  list.value = value;
  return el("label", { class: "control" }, el("span", {}, label), list);
}

/** Offer other options in a `choice`, with `value` chosen. */
export function offer(label, options, value) {
  const list = label.lastChild;
  if (list.options.length !== options.length)
    list.replaceChildren(...options.map(([key, text]) => el("option", { value: key }, text)));
  list.value = value;
}

/** A labelled slider that shows its number. */
export function slider(label, { min, max, step, value, format = show }, act) {
  const number = el("output", {}, format(value));
  const input = el("input", {
    type: "range",
    min,
    max,
    step,
    value,
    input: () => {
      number.textContent = format(Number(input.value));
      act(Number(input.value));
    },
  });
  return el("label", { class: "control slider" }, el("span", {}, label, " ", number), input);
}

/** A labelled switch. */
export function toggle(label, value, act) {
  const input = el("input", { type: "checkbox", change: () => act(input.checked) });
  input.checked = value;
  return el("label", { class: "control switch" }, input, el("span", {}, label));
}

/** A plain table. */
export function table(caption, heads, rows) {
  const cell = (content, tag = "td", scope = null) =>
    el(tag, { scope }, content instanceof Node ? content : String(content));
  return el(
    "div",
    { class: "pan", tabindex: "0", role: "group", "aria-label": caption },
    el(
      "table",
      { class: "plain-table" },
      el("caption", { class: "hidden" }, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ...heads.map((head) => (head === "" ? el("td", {}) : cell(head, "th", "col"))),
        ),
      ),
      el(
        "tbody",
        {},
        ...rows.map(
          (row) =>
            el("tr", {}, cell(row[0], "th", "row"), ...row.slice(1).map((value) => cell(value))),
        ),
      ),
    ),
  );
}
