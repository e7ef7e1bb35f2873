// Encode and decode text in the browser with the pieces of a SentencePiece model (unigram, bpe,
// char, byte). The counterpart of `transduce.text.vocabulary` in Python.

export const PAD_ID = 0;
export const SOS_ID = 1;
export const EOS_ID = 2;
export const UNKNOWN_ID = 3;
const N_SPECIAL_PIECES = 4;
// SentencePiece: the score of a character without a piece is this much below that of any piece.
const UNKNOWN_PENALTY = 10;
const VISIBLE_SPACE = "\u2581"; // how SentencePiece writes a space inside a piece
const TRUE_U2581 = "\0\0"; // replaces that character in a text that contains it; in no piece
// Whitespace as defined by Python's str.split and str.isspace.
const BLANK = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const BLANKS = new RegExp(`${BLANK.source}+`);
const ONLY_BLANK = new RegExp(`^${BLANK.source}*$`);
const LINE_BREAK = /[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+/g;
const CONTROL_CHARACTER = /[\x00-\x08\x0e-\x1f\x7f]/g;
const LONE_SURROGATE = /[\ud800-\udfff]/gu;

/**
 * A text as the model reads it: Unicode's normal form, no control characters, no lone surrogates
 * (text/normalize.py).
 */
export function cleanText(text, form) {
  const normal = form === "none"
    ? text
    : text.replace(CONTROL_CHARACTER, "").normalize(form.toUpperCase());
  return normal.replace(LONE_SURROGATE, "\ufffd");
}

/** Split a text into words, as Python's `split` does. */
export function splitWords(text) {
  return text.split(BLANKS).filter((word) => word !== "");
}

/** Replace line breaks of any kind by spaces. */
export function oneLine(text) {
  return text.replace(LINE_BREAK, " ");
}

export function isBlank(text) {
  return ONLY_BLANK.test(text);
}

/**
 * A vocabulary as packed by inspection/page_model.py: `{kind, dummy_prefix, pieces: [[piece, score,
 * type?], ...]}`.
 */
export class Pieces {
  constructor({ kind, dummy_prefix: hasDummyPrefix, pieces }) {
    this.kind = kind;
    this.hasDummyPrefix = hasDummyPrefix;
    this.names = pieces.map(([name]) => name);
    this.scores = Float32Array.from(pieces, ([, score]) => score);
    this.byteOf = new Map(); // id -> byte
    this.idOfByte = new Array(256).fill(UNKNOWN_ID);
    this.idOf = new Map(); // of ordinary pieces
    this.longest = 1; // characters of a piece
    let worst = Infinity;
    pieces.forEach(([name, , type], id) => {
      if (id < N_SPECIAL_PIECES) return;
      if (type === "byte") {
        const byte = parseInt(name.slice(3, 5), 16);
        this.byteOf.set(id, byte);
        this.idOfByte[byte] = id;
        return;
      }
      this.idOf.set(name, id);
      this.longest = Math.max(this.longest, [...name].length);
      worst = Math.min(worst, this.scores[id]);
    });
    this.unknownScore = Math.fround(worst - UNKNOWN_PENALTY);
  }

  get size() {
    return this.names.length;
  }

  /** The ids of a text, without [SOS] and [EOS]. */
  encode(text) {
    if (text === "") return [];
    const characters = Array.from(
      text,
      (c) => (c === " " ? VISIBLE_SPACE : c === VISIBLE_SPACE ? TRUE_U2581 : c),
    );
    if (this.hasDummyPrefix) characters.unshift(VISIBLE_SPACE);
    if (this.kind === "unigram") return this.likeliest(characters);
    if (this.kind === "bpe") return this.mergeAll(characters);
    return characters.flatMap((c) => this.idsOf(c));
  }

  /** A piece's id; a character without one is written as its bytes in UTF-8. */
  idsOf(piece) {
    const id = this.idOf.get(piece);
    if (id !== undefined) return [id];
    const bytes = new TextEncoder().encode(piece === TRUE_U2581 ? VISIBLE_SPACE : piece);
    return Array.from(bytes, (byte) => this.idOfByte[byte]);
  }

  /**
   * The segmentation whose scores have the largest sum (Kudo 2018), by Viterbi; rounded as
   * SentencePiece rounds.
   */
  likeliest(characters) {
    const n = characters.length;
    const best = new Float32Array(n + 1);
    const from = new Int32Array(n + 1).fill(-1);
    for (let start = 0; start < n; start += 1) {
      let piece = "";
      let isKnown = false;
      for (let end = start + 1; end <= Math.min(n, start + this.longest); end += 1) {
        piece += characters[end - 1];
        const id = this.idOf.get(piece);
        if (id === undefined) continue;
        isKnown ||= end === start + 1;
        const score = this.scores[id] + best[start];
        if (from[end] < 0 || score > best[end]) {
          best[end] = score;
          from[end] = start;
        }
      }
      if (isKnown) continue;
      const score = Math.fround(this.unknownScore + best[start]);
      if (from[start + 1] < 0 || score > best[start + 1]) {
        best[start + 1] = score;
        from[start + 1] = start;
      }
    }
    const found = [];
    for (let end = n; end > 0; end = from[end])
      found.push(this.idsOf(characters.slice(from[end], end).join("")));
    return found.reverse().flat();
  }

  /**
   * Byte-pair encoding (Sennrich et al. 2016): repeatedly merge the neighbours whose piece has the
   * highest score, the leftmost of equal ones first.
   */
  mergeAll(characters) {
    const found = [];
    let start = 0;
    for (let end = 1; end <= characters.length; end += 1) {
      // No piece continues beyond a space.
      if (end < characters.length && characters[end] !== VISIBLE_SPACE) continue;
      found.push(...this.mergeWord(characters.slice(start, end)));
      start = end;
    }
    return found;
  }

  mergeWord(parts) {
    const scoreOf = (i) => {
      const id = i + 1 < parts.length ? this.idOf.get(parts[i] + parts[i + 1]) : undefined;
      return id === undefined ? -Infinity : this.scores[id];
    };
    const scores = parts.map((_, i) => scoreOf(i));
    for (;;) {
      let best = -1;
      for (let i = 0; i < scores.length; i += 1) {
        if (scores[i] > (best < 0 ? -Infinity : scores[best])) best = i;
      }
      if (best < 0) return parts.flatMap((part) => this.idsOf(part));
      parts.splice(best, 2, parts[best] + parts[best + 1]);
      scores.splice(best, 1);
      scores[best] = scoreOf(best);
      if (best > 0) scores[best - 1] = scoreOf(best - 1);
    }
  }

  /**
   * The text of ids. Special tokens add nothing; a byte that is not part of a valid character
   * becomes U+FFFD.
   */
  decode(ids) {
    let text = "";
    let bytes = [];
    let mayDrop = this.hasDummyPrefix; // the space that was put before the text
    let hasDropped = false;
    for (const id of ids) {
      if (id < N_SPECIAL_PIECES) continue;
      if (this.byteOf.has(id)) {
        bytes.push(this.byteOf.get(id));
        continue;
      }
      text += decodeBytes(bytes);
      bytes = [];
      if (hasDropped || text !== "") mayDrop = false;
      hasDropped = mayDrop && this.names[id].startsWith(VISIBLE_SPACE);
      text += this.names[id].slice(hasDropped ? 1 : 0).replaceAll(VISIBLE_SPACE, " ");
    }
    return text + decodeBytes(bytes);
  }

  /** A token for display: `Ti`, `[EOS]`, and `##t` for one that continues a word. */
  piece(id) {
    const name = this.names[id].replaceAll("\n", "\\n");
    if (id < N_SPECIAL_PIECES || name === VISIBLE_SPACE || this.byteOf.has(id)) return name;
    return name.startsWith(VISIBLE_SPACE) ? name.slice(1) : `##${name}`;
  }

  /** The text that a token adds. */
  surface(id) {
    if (id < N_SPECIAL_PIECES) return "";
    const byte = this.byteOf.get(id);
    if (byte !== undefined) return byte < 128 ? String.fromCharCode(byte) : "\ufffd";
    return this.names[id].replaceAll(VISIBLE_SPACE, " ");
  }

  /** The index of the word that each token belongs to (decode/alignment.py). */
  wordNumbers(ids) {
    let number = -1;
    let isBetween = true;
    return ids.map((id) => {
      const surface = this.surface(id);
      const begins = surface !== "" && BLANK.test(surface[0]);
      if ((isBetween || begins) && !isBlank(surface)) number += 1;
      isBetween = (surface !== "" && BLANK.test(surface.at(-1))) || (isBetween && isBlank(surface));
      return Math.max(number, 0);
    });
  }
}

/** Decode UTF-8; each byte that is not part of a valid character becomes U+FFFD. */
function decodeBytes(bytes) {
  const reader = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at];
    const length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    try {
      text += reader.decode(Uint8Array.from(bytes.slice(at, at + length)));
      at += length;
    } catch {
      text += "\ufffd";
      at += 1;
    }
  }
  return text;
}
