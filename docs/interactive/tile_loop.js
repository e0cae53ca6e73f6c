// Steps through what the simulator recorded of one block (recorded.js): which elements and which words of shared memory the
// lanes of a warp touch at each instruction. What is counted (wavefronts, sectors) is the simulator's, too.
"use strict";

const WARP = 32;
const BANKS = 32;
const BEAT = 700;   // ms between two steps while it plays

// ---- what was recorded ----

// One kernel's block. `steps` are its instructions; each knows its tile along K (`tile`) and the arrays that are filled by then.
class Recording {
  constructor(raw) {
    Object.assign(this, raw);
    this.source = RECORDED.sources[raw.source];
    this.threads = raw.block[0] * raw.block[1];
    this.warps = this.threads / WARP;
    const [m, n, k] = raw.sizes;
    this.shapes = { A: [m, k], B: [k, n], C: [m, n] };
    this.steps = raw.steps.map(([line, kind, array, base, pattern, units, ideal, width, begin, held]) => ({
      line, kind, array: raw.arrays[array] ?? "", base, pattern: raw.patterns[pattern], units, ideal, width,
      held: held === undefined ? null : { base: begin, pattern: raw.patterns[held] },
    }));
    this.tiles = k / raw.depth;
    this.owned = this.findOwned();
    this.result = box(this.owned.flat(2));
    const filled = new Set();
    let tile = 0;
    for (const step of this.steps) {
      if (Recording.isShared(step) && step.kind !== "load") filled.add(step.array);
      tile = Math.floor((this.depths(step)?.[0] ?? tile * raw.depth) / raw.depth);
      step.tile = tile;
      step.filled = new Set(filled);
    }
    this.last = this.steps.findIndex((step) => step.array === "C");   // from here on sums are written
  }

  static isShared(step) { return step.array.length > 1; }
  static hasConflict(step) { return Recording.isShared(step) && step.units > step.ideal; }

  // The matrix that a step touches, in shared memory or not.
  matrix(step) { return step.array[0]; }

  // Number of the first word that a lane touches in shared memory.
  number(step, warp, lane) { return step.base + step.pattern.warps[warp] + step.pattern.lanes[lane]; }
  numbers(step, warp) { return step.pattern.lanes.map((_, lane) => this.number(step, warp, lane)); }

  position(matrix, number) { return [Math.floor(number / this.shapes[matrix][1]), number % this.shapes[matrix][1]]; }

  // The elements that a lane touches, as [row, column]: contiguous ones, as the matrix lies in memory.
  touched(step, warp, lane) {
    const { base, pattern } = step.held ?? step, matrix = this.matrix(step);
    const [row, col] = this.position(matrix, base + pattern.warps[warp] + pattern.lanes[lane]);
    const along = step.held ? this.shared[step.array].along : this.layout["AB".indexOf(matrix)] !== "T";
    return Array.from({ length: step.width }, (_, i) => (along ? [row, col + i] : [row + i, col]));
  }

  // By warp and lane, the elements of C that it computes.
  findOwned() {
    const stores = this.steps.filter((step) => step.array === "C");
    return Array.from({ length: this.warps }, (_, warp) =>
      Array.from({ length: WARP }, (__, lane) => stores.flatMap((step) => this.touched(step, warp, lane))));
  }

  // What a lane has to do with at a step, by matrix.
  of(step, warp, lane) {
    if (step.kind === "barrier") return {};
    if (step.kind !== "arithmetic") return { [this.matrix(step)]: this.touched(step, warp, lane) };
    const own = this.owned[warp][lane], k = step.base;
    return { A: unique(own.map(([row]) => [row, k])), B: unique(own.map(([, col]) => [k, col])), C: own };
  }

  // The same of a warp's lanes together.
  lit(step, warp) {
    const found = {};
    for (let lane = 0; lane < WARP; ++lane)
      for (const [matrix, elements] of Object.entries(this.of(step, warp, lane))) (found[matrix] ??= []).push(...elements);
    return found;
  }

  // First and last step of k that a lane reads, copies or multiplies, if it does.
  depths(step) {
    if (step.kind === "barrier" || step.array === "C") return null;
    if (step.kind === "arithmetic") return [step.base, step.base];
    const all = this.touched(step, 0, 0).map((element) => element[this.matrix(step) === "A" ? 1 : 0]);
    return [Math.min(...all), Math.max(...all)];
  }

  // Those of k that are read or multiplied, not copied.
  k(step) { return step.kind === "arithmetic" || (Recording.isShared(step) && step.kind === "load") ? this.depths(step) : null; }

  // The tiles of A and B along K, and the block's of C.
  boxes(step) {
    const { top, left, height, width } = this.result, from = step.tile * this.depth;
    return {
      A: { top, left: from, height, width: this.depth },
      B: { top: from, left, height: this.depth, width },
      C: this.result,
    };
  }

  // Words asked of each bank: word -> lanes.
  banks(step, warp) {
    const found = new Map();
    if (!Recording.isShared(step)) return found;
    this.numbers(step, warp).forEach((first, lane) => {
      for (let word = first; word < first + step.width; ++word) {
        const bank = word % BANKS;
        if (!found.has(bank)) found.set(bank, new Map());
        const words = found.get(bank);
        words.set(word, [...(words.get(word) ?? []), lane]);
      }
    });
    return found;
  }

  thread(warp, lane) {
    const number = warp * WARP + lane;
    return [number % this.block[0], Math.floor(number / this.block[0])];
  }

  // Wavefronts of one warp for one tile along K, and for a multiply-add of each of its lanes.
  wavefronts() {
    const sum = { stores: 0, loads: 0, conflicts: 0 };
    for (const step of this.steps.filter((each) => each.tile === 0 && Recording.isShared(each))) {
      sum[step.kind === "load" ? "loads" : "stores"] += step.units;
      sum.conflicts += step.units - step.ideal;
    }
    return { ...sum, each: (sum.stores + sum.loads) / (this.depth * this.products) };
  }
}

const unique = (elements) => [...new Map(elements.map((each) => [String(each), each])).values()];

function box(positions) {
  const rows = positions.map(([row]) => row), cols = positions.map(([, col]) => col);
  const [top, left] = [Math.min(...rows), Math.min(...cols)];
  return { top, left, height: Math.max(...rows) - top + 1, width: Math.max(...cols) - left + 1 };
}

// ---- in words ----

const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
const at = (matrix, [row, col]) => `${matrix}[${row}, ${col}]`;

// "32 contiguous elements of a row" or "8 contiguous elements in each of 4 rows".
function shape(positions, byColumns) {
  const lines = new Set(positions.map(([row, col]) => (byColumns ? col : row))).size;
  const each = positions.length / lines;
  const name = byColumns ? "column" : "row";
  return lines === 1 ? `${each} contiguous elements of a ${name}` : `${each} contiguous elements in each of ${lines} ${name}s`;
}

const price = (step, one) => plural(step.units, one) + (step.units > step.ideal ? ` where ${step.ideal} would do` : "");

function banksInWords(words, banks, worst) {
  if (worst === 1) return plural(banks, "bank");
  if (banks === 1) return "one bank";
  return `${banks} banks, ${words === banks * worst ? `${worst} in each` : `up to ${worst} in one`}`;
}

function sentence(recording, step, warp, lane) {
  const [x, y] = recording.thread(warp, lane);
  if (step.kind === "barrier") {
    const why = recording.source[step.line].split("//")[1]?.trim();
    return `All ${recording.threads} threads wait for each other${why ? `: ${why}` : ""}.`;
  }
  if (step.kind === "arithmetic") {
    const { A, B, C } = recording.of(step, warp, lane), [row, col] = C[0];
    const first = `thread (${x}, ${y}) adds ${at("A", [row, step.base])} · ${at("B", [step.base, col])} to its ${at("C", C[0])}`;
    if (C.length === 1) return `Each thread multiplies and adds, in registers: ${first}.`;
    return `Each thread multiplies ${A.length} elements of A by ${B.length} of B, in registers: ${first}, and so on, ` +
      `${C.length} products of ${A.length + B.length} elements.`;
  }
  if (!Recording.isShared(step)) {
    const byColumns = recording.layout["AB".indexOf(step.array)] === "T", elements = recording.lit(step, warp)[step.array];
    const verb = { load: "reads", store: "writes", copy: "copies" }[step.kind];
    const how = step.kind === "copy" ? " to shared memory (cp.async: it does not wait)" : "";
    const wide = step.width > 1 ? `, ${4 * step.width} bytes a lane` : "";
    return `Warp ${warp} ${verb} ${elements.length} elements of ${step.array}${how}, ${shape(elements, byColumns)}${wide}: ` +
      `${price(step, "sector")} of 32 bytes.`;
  }
  const banks = recording.banks(step, warp);
  const words = [...banks.values()].reduce((sum, each) => sum + each.size, 0) / step.width;
  const worst = Math.max(...[...banks.values()].map((each) => each.size));
  const cost = price(step, "wavefront");
  const what = step.width > 1 ? `different vectors of ${4 * step.width} bytes` : "different words";
  const verb = { load: "read", store: "write", copy: "copy" }[step.kind];
  if (words === 1) return `All lanes read the same ${step.width > 1 ? `${4 * step.width} bytes` : "word"} of ${step.array}, a broadcast: ${cost}.`;
  const shared = words < WARP ? ` (each for ${WARP / words} lanes at once)` : "";
  const where = step.width > 1 ? "" : ` in ${banksInWords(words, banks.size, worst)}`;
  return `The lanes ${verb} ${words} ${what} of ${step.array}${shared}${where}: ${cost}.`;
}

const range = ([from, to]) => (from === to ? `${from}` : `${from} to ${to}`);

function place(recording, step) {
  if (recording.steps.indexOf(step) >= recording.last) return "After the loop";
  const k = recording.k(step), { depth } = recording, from = step.tile * depth;
  const tile = `Tile ${step.tile + 1} of ${recording.tiles} along K, k = ${from} to ${from + depth - 1}`;
  return k === null ? tile : `${tile} · now k = ${range(k)}`;
}

// ---- pictures ----

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const rect = (x, y, width, height, attributes) => svg("rect", { x, y, width, height, ...attributes });
const text = (x, y, size, what, attributes = {}) => svg("text", { x, y, "font-size": size, ...attributes }, what);

// Lines every `across` and `down` units inside a rectangle at the origin.
function lines(width, height, across, down = across) {
  let path = "";
  for (let x = 0; x <= width; x += across) path += `M${x} 0v${height}`;
  for (let y = 0; y <= height; y += down) path += `M0 ${y}h${width}`;
  return path;
}

// A, B and C, laid out so that a row of A and a column of B meet in their element of C.
class Matrices {
  constructor(figure, choose) {
    this.svg = figure.querySelector("svg");
    this.svg.addEventListener("click", (event) => {
      const matrix = this.parts?.C.group;
      if (!matrix || !matrix.contains(event.target)) return;
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.getScreenCTM().inverse());
      choose([Math.floor(point.y), Math.floor(point.x)]);
    });
  }

  build(recording) {
    this.recording = recording;
    const { tile, shapes: { A: [m, k], B: [, n] } } = recording;
    const gap = Math.max(0.3 * tile, 0.075 * (k + n)), far = k + gap, size = 0.034 * (far + n), edge = 0.02 * tile;
    this.svg.setAttribute("viewBox", `${-edge} ${-edge} ${far + n + 2 * edge} ${far + m + 2 * size}`);
    const matrix = (name, x, y, label) => {
      const [rows, cols] = recording.shapes[name];
      const group = svg("g", { class: `matrix ${name}`, id: `matrix-${name}`, transform: `translate(${x} ${y})` },
        rect(0, 0, cols, rows, { class: "ground" }));
      const part = { group, tile: rect(0, 0, 0, 0, { class: "tile" }) };
      for (const kind of ["lit", "own", "term"]) part[kind] = svg("path", { class: kind });
      if (tile < 32) group.append(svg("path", { class: "lines", d: lines(cols, rows, 1) }));
      const across = name === "A" ? recording.depth : tile, down = name === "B" ? recording.depth : tile;
      group.append(part.tile, part.lit, svg("path", { class: "lines tiles", d: lines(cols, rows, across, down) }), part.own, part.term, label);
      return part;
    };
    const order = (index) => (recording.layout[index] === "T" ? "columns" : "rows") + " contiguous";
    const label = (x, y, anchor, name, rest) => {
      const made = text(x, y, size, "", { "text-anchor": anchor });
      const letter = svg("tspan", { class: "letter", "font-size": 1.4 * size }, name);
      const quiet = svg("tspan", { fill: "var(--quiet)" }, anchor === "end" ? `${rest}  ` : `  ${rest}`);
      made.append(...(anchor === "end" ? [quiet, letter] : [letter, quiet]));
      return made;
    };
    const below = (rows) => rows + 1.4 * size;
    this.parts = {
      A: matrix("A", 0, far, label(0, below(m), "start", "A", `${m} × ${k}, ${order(0)}`)),
      B: matrix("B", far, 0, label(n, below(k), "end", "B", `${k} × ${n}, ${order(1)}`)),
      C: matrix("C", far, far, label(n, below(m), "end", "C", `${m} × ${n}`)),
    };
    this.svg.replaceChildren(...Object.values(this.parts).map((part) => part.group));
  }

  show(step, warp, lane) {
    const { recording, parts } = this, boxes = recording.boxes(step);
    const lit = recording.lit(step, warp), touched = recording.of(step, warp, lane);
    const own = recording.owned[warp][lane], first = own[0], k = recording.k(step);
    const [, depth] = recording.shapes.A;
    const owns = {
      A: unique(own.map(([row]) => [row, 0, 1, depth])), B: unique(own.map(([, col]) => [0, col, depth, 1])),
      C: own.map(([row, col]) => [row, col, 1, 1]),
    };
    const rectangle = ([row, col, height = 1, width = 1]) => `M${col} ${row}h${width}v${height}h${-width}z`;
    for (const [name, part] of Object.entries(parts)) {
      put(part.tile, boxes[name]);
      part.lit.setAttribute("d", [...new Set((lit[name] ?? []).map(([row, col]) => `M${col} ${row}h1v1h-1z`))].join(""));
      part.own.setAttribute("d", owns[name].map(rectangle).join(""));
      const now = k !== null || (name === "C" && step.array === "C") ? touched[name] ?? [] : [];
      part.term.setAttribute("d", now.map(rectangle).join(""));
    }
    const [x, y] = recording.thread(warp, lane), [row, col] = first;
    const more = own.length > 1 ? ` and ${own.length - 1} others` : "";
    const sum = `${at("C", first)} = Σ A[${row}, k] · B[k, ${col}]`;
    by("story").replaceChildren(strong(`Thread (${x}, ${y})`), ` computes ${sum}${more}.`);
    const span = (from, size) => `${from} to ${from + size - 1}`;
    const tiles = Object.entries(boxes).map(([name, b]) => `${name} rows ${span(b.top, b.height)}, columns ${span(b.left, b.width)}`);
    this.svg.setAttribute("aria-label", `Tiles: ${tiles.join("; ")}. Thread (${x}, ${y}) computes ${at("C", first)}${more}.`);
  }
}

function strong(words) {
  const made = document.createElement("b");
  made.textContent = words;
  return made;
}

// Moves a rectangle to a box, or hides it.
function put(rectangle, to) {
  rectangle.toggleAttribute("hidden", !to);
  rectangle.style.display = to ? "" : "none";
  if (!to) return;
  for (const [attribute, value] of Object.entries({ x: to.left, y: to.top, width: to.width, height: to.height }))
    rectangle.setAttribute(attribute, value);
}

// Lanes above, their banks below, and the words of As and Bs, each under its bank.
class SharedMemory {
  static LANES = 1.2;   // y of the lanes
  static WIRES = 3.4;   // height of what connects them
  static CELL = 1.15;

  constructor(figure, choose) {
    this.svg = figure.querySelector("svg");
    this.svg.addEventListener("click", (event) => {
      const lane = event.target.closest("[data-lane]")?.dataset.lane;
      if (lane) choose(Number(lane));
    });
  }

  build(recording) {
    this.recording = recording;
    const { LANES, WIRES, CELL } = SharedMemory, arrays = Object.entries(recording.shared);
    const high = ({ rows, pitch }) => Math.ceil((rows * pitch) / BANKS);   // rows of 32 banks
    this.row = Math.max(0.26, Math.min(1.3, 28 / arrays.reduce((sum, [, each]) => sum + high(each), 0)));
    this.banksAt = LANES + CELL + WIRES;
    const label = (y, what, attributes = {}) => text(-0.5, y, 1.05, what, { "text-anchor": "end", ...attributes });
    const numbers = [0, 4, 8, 12, 16, 20, 24, 28, 31];
    this.lanes = Array.from({ length: WARP }, (_, i) => rect(i, LANES, 1, CELL, { class: "lane", "data-lane": i }));
    this.banks = Array.from({ length: BANKS }, (_, i) => rect(i, this.banksAt, 1, CELL, { class: "bank", "data-bank": i }));
    this.wires = svg("g", { id: "wires" });
    this.counts = svg("g");
    this.arrays = {};
    let y = this.banksAt + CELL + 1.1;
    for (const [name, { rows: count, width, pitch }] of arrays) {
      const rows = svg("g", { class: "rows" });
      let padding = "";
      for (let r = 0; r < count; ++r) {
        rows.append(svg("path", { d: this.stretch(r * pitch, width) }));
        padding += this.stretch(r * pitch + width, pitch - width);
      }
      const words = svg("g", { class: "words" });
      const group = svg("g", { class: `array ${name[0]}`, id: `array-${name}`, transform: `translate(0 ${y})` },
        label(0.95, name, { class: "letter" }), rows, svg("path", { class: "padding", d: padding }), words);
      this.arrays[name] = { group, words };
      y += high({ rows: count, pitch }) * this.row + 1.1;
    }
    this.svg.setAttribute("viewBox", `-3.6 -0.1 ${BANKS + 3.8} ${y - 0.9}`);
    this.svg.replaceChildren(
      ...numbers.map((i) => text(i + 0.5, 0.85, 0.85, `${i}`, { "text-anchor": "middle", class: "quiet" })),
      label(LANES + 0.9, "lanes"), this.wires, svg("g", { class: "lanes" }, ...this.lanes),
      label(this.banksAt + 0.9, "banks"), ...this.banks, this.counts, ...Object.values(this.arrays).map((each) => each.group));
  }

  // Successive words, over as many rows of 32 banks as they need.
  stretch(from, count) {
    let path = "";
    for (let word = from; word < from + count;) {
      const col = word % BANKS, run = Math.min(BANKS - col, from + count - word);
      path += `M${col} ${Math.floor(word / BANKS) * this.row}h${run}v${this.row}h${-run}z`;
      word += run;
    }
    return path;
  }

  cell(word, attributes) {
    return rect(word % BANKS, Math.floor(word / BANKS) * this.row, 1, this.row, attributes);
  }

  show(step, warp, chosen) {
    const { recording } = this, banks = recording.banks(step, warp);
    const color = step.array && recording.matrix(step), costs = Recording.hasConflict(step);
    for (const [name, { group, words }] of Object.entries(this.arrays)) {
      group.classList.toggle("filled", step.filled.has(name));
      words.replaceChildren();
    }
    this.lanes.forEach((each, lane) => {
      each.setAttribute("class", `lane ${color} ${step.kind === "barrier" ? "" : "active"} ${lane === chosen ? "chosen" : ""}`);
    });
    const wires = [], counts = [], top = SharedMemory.LANES + SharedMemory.CELL, middle = (top + this.banksAt) / 2;
    this.banks.forEach((each, bank) => {
      const asked = banks.get(bank) ?? new Map(), conflict = costs && asked.size > 1;
      each.setAttribute("class", `bank ${color} ${conflict ? "conflict" : asked.size ? "active" : ""}`);
      each.setAttribute("data-words", asked.size);
      if (conflict) counts.push(text(bank + 0.5, this.banksAt + 0.85, asked.size > 9 ? 0.72 : 0.85, `${asked.size}`, { class: "count" }));
      for (const [word, lanes] of asked) {
        for (const lane of lanes)
          wires.push([lane === chosen, svg("path", {
            class: `wire ${color} ${conflict ? "conflict" : ""} ${lane === chosen ? "chosen" : ""}`,
            d: `M${lane + 0.5} ${top}C${lane + 0.5} ${middle} ${bank + 0.5} ${middle} ${bank + 0.5} ${this.banksAt}`,
          })]);
        this.word(step, warp, word, lanes, conflict, chosen);
      }
    });
    this.wires.replaceChildren(...wires.sort(([a], [b]) => a - b).map(([, wire]) => wire));   // the chosen one on top
    this.counts.replaceChildren(...counts);
    this.svg.setAttribute("aria-label", Recording.isShared(step) ? sentence(recording, step, warp, chosen) : "No access to shared memory.");
  }

  word(step, warp, word, lanes, conflict, chosen) {
    const { recording } = this, { pitch } = recording.shared[step.array];
    const kind = `${conflict ? "conflict" : ""} ${lanes.length > 1 ? "broadcast" : ""} ${lanes.includes(chosen) ? "chosen" : ""}`;
    const cell = this.cell(word, { class: `word ${kind}`, "data-word": word, "data-lanes": lanes.join(" ") });
    const element = recording.touched(step, warp, lanes[0])[word - recording.number(step, warp, lanes[0])];
    const who = lanes.length > 1 ? `lanes ${lanes.join(", ")}` : `lane ${lanes[0]}`;
    cell.append(svg("title", {}, `${step.array}[${Math.floor(word / pitch)}][${word % pitch}] holds ${at(recording.matrix(step), element)}: bank ${word % BANKS}, ${who}`));
    const { words } = this.arrays[step.array];
    if (lanes.includes(chosen)) words.append(cell);
    else words.prepend(cell);
    if (lanes.length > 1 && this.row >= 1)
      words.append(text((word % BANKS) + 0.5, Math.floor(word / BANKS) * this.row + this.row / 2 + 0.3, 0.8, `${lanes.length}`, { class: "count", "pointer-events": "none" }));
  }
}

// ---- the kernel's text ----

const TOKEN = /(\/\/.*$)|(^#\w+(?:(?!\/\/).)*)|\b(const|constexpr|auto|int|long|float|void|extern|for|if|return|__\w+__)\b/g;

function colored(line) {
  const parts = document.createDocumentFragment();
  let from = 0;
  for (const found of line.matchAll(TOKEN)) {
    const span = document.createElement("span");
    span.className = found[1] ? "comment" : found[2] ? "directive" : "word-of-c";
    span.textContent = found[0];
    parts.append(line.slice(from, found.index), span);
    from = found.index + found[0].length;
  }
  parts.append(line.slice(from));
  return parts;
}

class Code {
  constructor(pre) { this.pre = pre; }

  build(recording) {
    if (this.source === recording.source) return;
    this.source = recording.source;
    this.lines = recording.source.map((line) => {
      const span = document.createElement("span");
      span.append(colored(line));
      return span;
    });
    this.pre.replaceChildren(...this.lines);
    this.current = null;
  }

  show(step) {
    const line = this.lines[step.line];
    if (line === this.current) return;
    this.current?.removeAttribute("aria-current");
    line.setAttribute("aria-current", "step");
    this.current = line;
    const above = line.offsetTop - this.pre.scrollTop;   // only the listing scrolls, never the page
    if (above < 30 || above > this.pre.clientHeight - 60) this.pre.scrollTop = line.offsetTop - this.pre.clientHeight / 2;
  }
}

// ---- the page ----

const by = (id) => document.getElementById(id);
const CHOICES = ["variant", "layout", "tile"];
const recordings = RECORDED.recordings.map((raw) => new Recording(raw));
const state = { variant: "tiled", layout: "NN", tile: 16, warp: 0, lane: 0, step: 0 };
let recording = null, timer = null;

const matrices = new Matrices(by("matrices"), (element) => {
  for (let warp = 0; warp < recording.warps; ++warp) {
    const lane = recording.owned[warp].findIndex((own) => own.some((each) => String(each) === String(element)));
    if (lane >= 0) change({ warp, lane });
  }
});
const shared = new SharedMemory(by("shared"), (lane) => change({ lane }));
const code = new Code(by("code"));

const tilesOf = (variant) => [...new Set(recordings.filter((each) => each.variant === variant).map((each) => each.tile))];

// Takes new values, each as far as there is such a thing, and shows them.
function change(values) {
  const before = recording;
  const progress = before && state.step / (before.steps.length - 1);
  const known = { ...values };
  for (const name of CHOICES) known[name] = recordings.find((each) => String(each[name]) === String(values[name]))?.[name] ?? state[name];
  Object.assign(state, known);
  const tiles = tilesOf(state.variant);
  if (!tiles.includes(state.tile)) {
    // The kernel has other tiles; or, where a tile was asked for, another kernel has it.
    if (values.tile !== undefined && values.variant === undefined) state.variant = recordings.find((each) => each.tile === state.tile).variant;
    else state.tile = tiles.reduce((best, each) => (Math.abs(each - state.tile) < Math.abs(best - state.tile) ? each : best));
  }
  recording = recordings.find((each) => CHOICES.every((name) => each[name] === state[name]));
  if (before && recording !== before && values.step === undefined)
    // The same place in the loop, where there is one.
    state.step = recording.steps.length === before.steps.length ? state.step : Math.round(progress * (recording.steps.length - 1));
  const within = (value, count) => Math.max(0, Math.min(count - 1, Math.trunc(Number(value)) || 0));
  state.warp = within(state.warp, recording.warps);
  state.lane = within(state.lane, WARP);
  state.step = within(state.step, recording.steps.length);
  if (recording !== before) {
    matrices.build(recording);
    shared.build(recording);
    code.build(recording);
    options(by("warp"), recording.warps, (warp) => `${warp}`);
    showTotals();
  }
  options(by("lane"), WARP, (lane) => `(${recording.thread(state.warp, lane).join(", ")}) lane ${lane}`);
  show();
}

function options(select, count, name) {
  const names = Array.from({ length: count }, (_, i) => name(i));
  if ([...select.options].map((each) => each.text).join() === names.join()) return;
  select.replaceChildren(...names.map((each, i) => new Option(each, i)));
}

function show() {
  const { warp, lane } = state, step = recording.steps[state.step], last = recording.steps.length - 1;
  for (const name of CHOICES) document.querySelector(`input[name=${name}][value="${state[name]}"]`).checked = true;
  by("warp").value = warp;
  by("lane").value = lane;
  by("step").max = last;
  by("step").value = state.step;
  by("step").setAttribute("aria-valuetext", `${state.step + 1} of ${last + 1}: ${place(recording, step)}`);
  by("count").value = `${state.step + 1} of ${last + 1}`;
  by("where").textContent = place(recording, step);
  by("says").textContent = sentence(recording, step, warp, lane);
  by("conflict").textContent = nextConflict(recording, state.step) === null && !hasConflict(recording) ? "Show me a conflict (tiled, NT)" : "Show me a conflict";
  by("back").disabled = by("previous-tile").disabled = state.step === 0;
  by("forward").disabled = by("next-tile").disabled = state.step === last;
  showCost(step);
  matrices.show(step, warp, lane);
  shared.show(step, warp, lane);
  code.show(step);
  document.querySelectorAll("#totals tbody tr").forEach((row) => {
    const here = row.dataset.variant === state.variant && row.dataset.layout === state.layout;
    here ? row.setAttribute("aria-current", "true") : row.removeAttribute("aria-current");
  });
  showAddress();
}

// The address follows what is shown; where steps follow each other quickly, only after the last, since browsers limit how
// often an address may change.
const written = { times: [], timer: null };
function showAddress() {
  const now = Date.now();
  clearTimeout(written.timer);
  written.times = written.times.filter((time) => now - time < 10000);
  if (written.times.length >= 40) {
    written.timer = setTimeout(showAddress, 300);
    return;
  }
  written.times.push(now);
  try {
    history.replaceState(null, "", `#${new URLSearchParams(state)}`);
  } catch {
    // A browser may not let a local file change its address.
  }
}

// A square a wavefront or sector, red beyond what it would take without conflicts.
function showCost(step) {
  const cost = by("cost");
  cost.replaceChildren();
  if (!step.units) return;
  for (let i = 0; i < step.units; ++i) {
    const square = document.createElement("i");
    if (i >= step.ideal) square.className = "extra";
    cost.append(square);
  }
  const count = document.createElement("b");
  count.textContent = plural(step.units, Recording.isShared(step) ? "wavefront" : "sector");
  cost.append(count);
  if (!Recording.hasConflict(step)) return;
  const conflicts = document.createElement("span");
  conflicts.className = "conflicts";
  conflicts.textContent = `· ${plural(step.units - step.ideal, "conflict")}`;
  cost.append(conflicts);
}

// The kernels side by side, each at this tile or the nearest that it has.
function showTotals() {
  const near = (variant) => tilesOf(variant).reduce((best, each) => (Math.abs(each - state.tile) < Math.abs(best - state.tile) ? each : best));
  const rows = recordings.filter((each) => each.tile === near(each.variant)).map((each) => {
    const { stores, loads, conflicts, each: mean } = each.wavefronts();
    const row = document.createElement("tr");
    Object.assign(row.dataset, { variant: each.variant, layout: each.layout });
    const link = document.createElement("a");
    link.href = `#variant=${each.variant}&layout=${each.layout}&tile=${each.tile}`;
    link.textContent = each.variant;
    for (const what of [link, each.tile, each.layout, stores, loads, conflicts, mean.toPrecision(3)]) {
      const cell = document.createElement("td");
      cell.append(what);
      row.append(cell);
    }
    row.cells[5].className = conflicts ? "conflicts" : "";
    return row;
  });
  document.querySelector("#totals tbody").replaceChildren(...rows);
}

const hasConflict = (each) => each.steps.some(Recording.hasConflict);

// The next step with a conflict, or the first if there is none after this one; null if the kernel has none.
function nextConflict(of, after) {
  const found = of.steps.flatMap((step, i) => (Recording.hasConflict(step) ? [i] : []));
  return found.find((i) => i > after) ?? found[0] ?? null;
}

// To the next conflict of this kernel or, if it has none, to the first of the textbook's loop on NT.
function showConflict() {
  play(false);
  if (hasConflict(recording)) return change({ step: nextConflict(recording, state.step) });
  const tile = tilesOf("tiled").includes(state.tile) ? state.tile : 16;
  const found = recordings.find((each) => each.variant === "tiled" && each.layout === "NT" && each.tile === tile);
  change({ variant: "tiled", layout: "NT", tile, step: nextConflict(found, -1) });
}

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => (state.step < recording.steps.length - 1 ? go(1) : play(false)), BEAT) : null;
  by("play").classList.toggle("playing", on);
  by("play").setAttribute("aria-label", on ? "Pause" : "Play");
  by("says").setAttribute("aria-live", on ? "off" : "polite");   // read aloud, it would never end
}

function toggle() {
  if (!timer && state.step === recording.steps.length - 1) change({ step: 0 });
  play(!timer);
}

const go = (distance) => change({ step: state.step + distance });

// To where the next tile begins, or to where this one did (from there, to the one before).
function goTile(direction) {
  const starts = Array.from({ length: recording.tiles }, (_, tile) => recording.steps.findIndex((step) => step.tile === tile));
  starts.push(recording.steps.length - 1);
  const found = direction > 0 ? starts.find((start) => start > state.step) : starts.findLast((start) => start < state.step);
  change({ step: found ?? state.step });
}

function choices(name, values) {
  for (const value of values) {
    const label = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { type: "radio", name, value });
    input.addEventListener("change", () => change({ [name]: value }));
    label.append(input, value);
    by(name).append(label);
  }
}

function fromAddress() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  change(Object.fromEntries(Object.entries(given).filter(([name]) => name in state)));
}

const KEYS = {
  ArrowRight: (event) => (event.shiftKey ? goTile(1) : go(1)),
  ArrowLeft: (event) => (event.shiftKey ? goTile(-1) : go(-1)),
  Home: () => change({ step: 0 }),
  End: () => change({ step: recording.steps.length - 1 }),
  " ": toggle,
};

// A control that was operated with the mouse does not keep the focus: the arrow keys go on stepping.
let pointed = false;
document.addEventListener("pointerdown", () => { pointed = true; }, true);
document.addEventListener("keydown", () => { pointed = false; }, true);

// A list is closed when it changes; a choice is clicked, even one that is selected already.
for (const [event, controls] of [["change", "select"], ["click", "input[type=radio]"]]) {
  document.addEventListener(event, ({ target }) => {
    if (pointed && target.matches(controls)) target.blur();
  });
}

// Controls keep the keys that they have a use for.
function isTaken(event) {
  const { target, key } = event;
  if (target.matches("select, input[type=radio]")) return true;
  if (target.matches("button, a")) return key === " ";
  if (target.matches("pre")) return !key.startsWith("Arrow");
  return target.matches("input[type=range]") && key !== " " && !event.shiftKey;
}

for (const name of CHOICES) choices(name, [...new Set(recordings.map((each) => each[name]))]);
by("warp").addEventListener("change", (event) => change({ warp: event.target.value }));
by("lane").addEventListener("change", (event) => change({ lane: event.target.value }));
by("conflict").addEventListener("click", showConflict);
by("step").addEventListener("input", (event) => change({ step: event.target.value }));
by("back").addEventListener("click", () => go(-1));
by("forward").addEventListener("click", () => go(1));
by("previous-tile").addEventListener("click", () => goTile(-1));
by("next-tile").addEventListener("click", () => goTile(1));
by("play").addEventListener("click", toggle);
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", fromAddress);
document.addEventListener("keydown", (event) => {
  const action = KEYS[event.key];
  if (!action || event.ctrlKey || event.altKey || event.metaKey || isTaken(event)) return;
  event.preventDefault();
  action(event);
});
document.documentElement.classList.toggle("framed", window !== window.top);   // the page around it has its own way back
play(false);
fromAddress();
