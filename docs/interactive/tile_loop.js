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
    this.steps = raw.steps.map(([line, kind, array, base, pattern, units, ideal]) => ({
      line, kind, array: raw.arrays[array] ?? "", base, pattern: raw.patterns[pattern], units, ideal,
    }));
    this.holds = {};   // which matrix each shared array has a tile of
    this.tiles = [];   // along K: for each matrix the rows and columns it is of, for each shared array its words' elements
    this.follow();
  }

  static isShared(step) { return step.array.length > 1; }
  static isCopy(step) { return step.kind === "load" && step.array !== "" && !Recording.isShared(step); }

  // Number of the element, or word, that a lane touches.
  number(step, warp, lane) { return step.base + step.pattern.warps[warp] + step.pattern.lanes[lane]; }
  numbers(step, warp) { return step.pattern.lanes.map((_, lane) => this.number(step, warp, lane)); }
  everyones(step) { return step.pattern.warps.flatMap((_, warp) => this.numbers(step, warp)); }

  position(matrix, number) { return [Math.floor(number / this.shapes[matrix][1]), number % this.shapes[matrix][1]]; }

  // Follows the elements of A and B to shared memory, and from there to the registers that are multiplied.
  follow() {
    const filled = new Set();
    const fetched = {};   // the last load from each shared array
    let copied = null, multiplied = true;
    for (const step of this.steps) {
      if (Recording.isCopy(step)) {
        if (multiplied) this.tiles.push({ boxes: {}, contents: {} });
        multiplied = false;
        copied = step;
        this.tiles.at(-1).boxes[step.array] = box(this.everyones(step).map((x) => this.position(step.array, x)));
      } else if (Recording.isShared(step) && step.kind === "store") {
        this.holds[step.array] = copied.array;
        const elements = this.everyones(copied);
        this.tiles.at(-1).contents[step.array] = new Map(this.everyones(step).map((word, i) => [word, elements[i]]));
        filled.add(step.array);
      } else if (Recording.isShared(step)) {
        fetched[this.holds[step.array]] = step;
      } else if (step.kind === "arithmetic") {
        step.factors = { ...fetched };
        multiplied = true;
      }
      step.tile = this.tiles.length - 1;
      step.filled = new Set(filled);
    }
    this.written = this.steps.findLast((step) => step.array === "C");
    this.result = box(this.everyones(this.written).map((x) => this.position("C", x)));
  }

  // The elements of A, B and C that lanes of a warp have to do with at a step, as [row, column], in order of lanes.
  lit(step, warp) {
    if (step.kind === "barrier") return {};
    if (step.kind === "arithmetic") {
      const { A, B } = step.factors;
      return { ...this.lit(A, warp), ...this.lit(B, warp), C: this.owned(warp) };
    }
    if (!Recording.isShared(step))
      return { [step.array]: this.numbers(step, warp).map((x) => this.position(step.array, x)) };
    const matrix = this.holds[step.array];
    const contents = this.tiles[step.tile].contents[step.array];
    return { [matrix]: this.numbers(step, warp).map((word) => this.position(matrix, contents.get(word))) };
  }

  // The elements of C that a warp's lanes compute.
  owned(warp) { return this.numbers(this.written, warp).map((x) => this.position("C", x)); }

  // The step of k that is read or multiplied, if one is.
  k(step) {
    if (step.kind === "arithmetic") return this.k(step.factors.A);
    if (!Recording.isShared(step) || step.kind !== "load") return null;
    const matrix = this.holds[step.array];
    return this.lit(step, 0)[matrix][0][matrix === "A" ? 1 : 0];
  }

  // Words asked of each bank: word -> lanes.
  banks(step, warp) {
    const found = new Map();
    if (!Recording.isShared(step)) return found;
    this.numbers(step, warp).forEach((word, lane) => {
      const bank = word % BANKS;
      if (!found.has(bank)) found.set(bank, new Map());
      const words = found.get(bank);
      words.set(word, [...(words.get(word) ?? []), lane]);
    });
    return found;
  }

  thread(warp, lane) {
    const number = warp * WARP + lane;
    return [number % this.block[0], Math.floor(number / this.block[0])];
  }

  // Wavefronts of one warp for the first tile along K.
  wavefronts() {
    const sum = { store: 0, load: 0, conflicts: 0 };
    for (const step of this.steps.filter((each) => each.tile === 0 && Recording.isShared(each))) {
      sum[step.kind] += step.units;
      sum.conflicts += step.units - step.ideal;
    }
    return sum;
  }
}

function box(positions) {
  const rows = positions.map(([row]) => row), cols = positions.map(([, col]) => col);
  const [top, left] = [Math.min(...rows), Math.min(...cols)];
  return { top, left, height: Math.max(...rows) - top + 1, width: Math.max(...cols) - left + 1 };
}

// ---- in words ----

const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
const at = (matrix, [row, col]) => `${matrix}[${row}, ${col}]`;

// "4 rows of 8" or "32 in a row".
function shape(positions, byColumns) {
  const lines = new Set(positions.map(([row, col]) => (byColumns ? col : row))).size;
  const each = positions.length / lines;
  const name = byColumns ? "column" : "row";
  return lines === 1 ? `${each} neighbours in a ${name}` : `${each} neighbours in each of ${lines} ${name}s`;
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
  const lit = recording.lit(step, warp);
  if (step.kind === "arithmetic")
    return `Each thread multiplies and adds, in registers: thread (${x}, ${y}) adds ` +
      `${at("A", lit.A[lane])} · ${at("B", lit.B[lane])} to its ${at("C", lit.C[lane])}.`;
  if (!Recording.isShared(step)) {
    const byColumns = recording.layout["AB".indexOf(step.array)] === "T";
    const verb = step.kind === "load" ? "reads" : "writes";
    return `Warp ${warp} ${verb} 32 elements of ${step.array}, ${shape(lit[step.array], byColumns)}: ` +
      `${price(step, "sector")} of 32 bytes.`;
  }
  const banks = recording.banks(step, warp);
  const words = [...banks.values()].reduce((sum, each) => sum + each.size, 0);
  const worst = Math.max(...[...banks.values()].map((each) => each.size));
  const cost = price(step, "wavefront");
  const verb = step.kind === "load" ? "read" : "write";
  if (words === 1) return `All lanes read the same word of ${step.array}, a broadcast: ${cost}.`;
  const shared = words < WARP ? ` (each for ${WARP / words} lanes at once)` : "";
  return `The lanes ${verb} ${words} different words of ${step.array}${shared} in ${banksInWords(words, banks.size, worst)}: ${cost}.`;
}

function place(recording, step) {
  const k = recording.k(step), depth = recording.tile, from = step.tile * depth;
  const tile = `Tile ${step.tile + 1} of ${recording.tiles.length} along K, k = ${from} to ${from + depth - 1}`;
  return step === recording.written ? "After the loop" : k === null ? tile : `${tile} · now k = ${k}`;
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

// Lines every `step` units inside a rectangle at the origin.
function lines(width, height, step) {
  let path = "";
  for (let x = 0; x <= width; x += step) path += `M${x} 0v${height}`;
  for (let y = 0; y <= height; y += step) path += `M0 ${y}h${width}`;
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
    const gap = 0.3 * tile, size = 0.18 * tile, edge = 0.02 * tile, far = k + gap;
    this.svg.setAttribute("viewBox", `${-edge} ${-edge} ${far + n + 2 * edge} ${far + m + 0.42 * tile}`);
    const matrix = (name, x, y, label) => {
      const [rows, cols] = recording.shapes[name];
      const group = svg("g", { class: `matrix ${name}`, id: `matrix-${name}`, transform: `translate(${x} ${y})` },
        rect(0, 0, cols, rows, { class: "ground" }));
      const part = {
        group, tile: rect(0, 0, 0, 0, { class: "tile" }), lit: svg("path", { class: "lit" }),
        own: rect(0, 0, 0, 0, { class: "own" }), term: rect(0, 0, 0, 0, { class: "term" }),
      };
      if (tile < 32) group.append(svg("path", { class: "lines", d: lines(cols, rows, 1) }));
      group.append(part.tile, part.lit, svg("path", { class: "lines tiles", d: lines(cols, rows, tile) }), part.own, part.term, label);
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
    this.story = svg("g", { class: "story" });
    this.parts = {
      A: matrix("A", 0, far, label(0, -0.1 * tile, "start", "A", `${m} × ${k}, ${order(0)}`)),
      B: matrix("B", far, 0, label(-0.12 * tile, 0.22 * tile, "end", "B", `${k} × ${n}, ${order(1)}`)),
      C: matrix("C", far, far, label(n, m + 0.3 * tile, "end", "C", `${m} × ${n}`)),
    };
    this.svg.replaceChildren(this.story, ...Object.values(this.parts).map((part) => part.group));
  }

  show(step, warp, lane) {
    const { recording, parts } = this, { tile } = recording;
    const boxes = { ...recording.tiles[step.tile].boxes, C: recording.result };
    const lit = recording.lit(step, warp);
    for (const [name, part] of Object.entries(parts)) {
      put(part.tile, boxes[name]);
      part.lit.setAttribute("d", [...new Set((lit[name] ?? []).map(([row, col]) => `M${col} ${row}h1v1h-1z`))].join(""));
    }
    const [row, col] = recording.owned(warp)[lane], k = recording.k(step);
    put(parts.A.own, { left: 0, top: row, width: recording.shapes.A[1], height: 1 });
    put(parts.B.own, { left: col, top: 0, width: 1, height: recording.shapes.B[0] });
    put(parts.C.own, { left: col, top: row, width: 1, height: 1 });
    const reads = (name) => k !== null && lit[name];
    put(parts.A.term, reads("A") ? { left: k, top: row, width: 1, height: 1 } : null);
    put(parts.B.term, reads("B") ? { left: col, top: k, width: 1, height: 1 } : null);
    put(parts.C.term, step.kind === "arithmetic" || step.array === "C" ? { left: col, top: row, width: 1, height: 1 } : null);
    const [x, y] = recording.thread(warp, lane);
    const told = [
      [`thread (${x}, ${y})`, "own"], [`${at("C", [row, col])} = Σ A[${row}, k] · B[k, ${col}]`, ""],
      [k === null ? "" : `k = ${k}: ${at("A", [row, k])} · ${at("B", [k, col])}`, "quiet"],
    ];
    this.story.replaceChildren(...told.map(([what, kind], i) => text(0, (1.1 + 0.3 * i) * tile, 0.18 * tile, what, { class: kind })));
    const range = (from, size) => `${from} to ${from + size - 1}`;
    const tiles = Object.entries(boxes).map(([name, b]) => `${name} rows ${range(b.top, b.height)}, columns ${range(b.left, b.width)}`);
    this.svg.setAttribute("aria-label", `Tiles: ${tiles.join("; ")}. Thread (${x}, ${y}) computes ${at("C", [row, col])}.`);
  }
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
    const { LANES, WIRES, CELL } = SharedMemory, { tile, pitch } = recording;
    this.row = { 8: 1.3, 16: 1, 32: 0.44 }[tile];
    this.banksAt = LANES + CELL + WIRES;
    const label = (y, what, attributes = {}) => text(-0.5, y, 1.05, what, { "text-anchor": "end", ...attributes });
    const numbers = [0, 4, 8, 12, 16, 20, 24, 28, 31];
    this.lanes = Array.from({ length: WARP }, (_, i) => rect(i, LANES, 1, CELL, { class: "lane", "data-lane": i }));
    this.banks = Array.from({ length: BANKS }, (_, i) => rect(i, this.banksAt, 1, CELL, { class: "bank", "data-bank": i }));
    this.wires = svg("g", { id: "wires" });
    this.counts = svg("g");
    this.arrays = {};
    let y = this.banksAt + CELL + 1.1;
    for (const name of Object.keys(recording.holds)) {
      const rows = svg("g", { class: "rows" });
      for (let r = 0; r < tile; ++r) rows.append(svg("path", { d: this.stretch(r * pitch, tile) }));
      const group = svg("g", { class: `array ${recording.holds[name]}`, id: `array-${name}`, transform: `translate(0 ${y})` },
        label(0.95, name, { class: "letter" }), rows);
      for (let r = 0; r < tile; ++r)
        for (let word = r * pitch + tile; word < (r + 1) * pitch; ++word) group.append(this.cell(word, { class: "padding" }));
      const words = svg("g", { class: "words" });
      group.append(words);
      this.arrays[name] = { group, words };
      y += Math.ceil((tile * pitch) / BANKS) * this.row + 1.1;
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
    const color = Recording.isShared(step) ? recording.holds[step.array] : step.array;
    for (const [name, { group, words }] of Object.entries(this.arrays)) {
      group.classList.toggle("filled", step.filled.has(name));
      words.replaceChildren();
    }
    this.lanes.forEach((each, lane) => {
      each.setAttribute("class", `lane ${color} ${step.kind === "barrier" ? "" : "active"} ${lane === chosen ? "chosen" : ""}`);
    });
    const wires = [], counts = [], top = SharedMemory.LANES + SharedMemory.CELL, middle = (top + this.banksAt) / 2;
    this.banks.forEach((each, bank) => {
      const asked = banks.get(bank) ?? new Map(), conflict = asked.size > 1;
      each.setAttribute("class", `bank ${color} ${conflict ? "conflict" : asked.size ? "active" : ""}`);
      each.setAttribute("data-words", asked.size);
      if (conflict) counts.push(text(bank + 0.5, this.banksAt + 0.85, asked.size > 9 ? 0.72 : 0.85, `${asked.size}`, { class: "count" }));
      for (const [word, lanes] of asked) {
        for (const lane of lanes)
          wires.push([lane === chosen, svg("path", {
            class: `wire ${color} ${conflict ? "conflict" : ""} ${lane === chosen ? "chosen" : ""}`,
            d: `M${lane + 0.5} ${top}C${lane + 0.5} ${middle} ${bank + 0.5} ${middle} ${bank + 0.5} ${this.banksAt}`,
          })]);
        this.word(step, word, lanes, conflict, chosen);
      }
    });
    this.wires.replaceChildren(...wires.sort(([a], [b]) => a - b).map(([, wire]) => wire));   // the chosen one on top
    this.counts.replaceChildren(...counts);
    this.svg.setAttribute("aria-label", Recording.isShared(step) ? sentence(recording, step, warp, chosen) : "No access to shared memory.");
  }

  word(step, word, lanes, conflict, chosen) {
    const { recording } = this, matrix = recording.holds[step.array], { pitch } = recording;
    const kind = `${conflict ? "conflict" : ""} ${lanes.length > 1 ? "broadcast" : ""} ${lanes.includes(chosen) ? "chosen" : ""}`;
    const cell = this.cell(word, { class: `word ${kind}`, "data-word": word, "data-lanes": lanes.join(" ") });
    const element = recording.position(matrix, recording.tiles[step.tile].contents[step.array].get(word));
    const who = lanes.length > 1 ? `lanes ${lanes.join(", ")}` : `lane ${lanes[0]}`;
    cell.append(svg("title", {}, `${step.array}[${Math.floor(word / pitch)}][${word % pitch}] holds ${at(matrix, element)}: bank ${word % BANKS}, ${who}`));
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
    const lane = recording.owned(warp).findIndex((each) => String(each) === String(element));
    if (lane >= 0) change({ warp, lane });
  }
});
const shared = new SharedMemory(by("shared"), (lane) => change({ lane }));
const code = new Code(by("code"));

// Takes new values, each as far as there is such a thing, and shows them.
function change(values) {
  const before = recording;
  const progress = before && state.step / (before.steps.length - 1);
  const known = { ...values };
  for (const name of CHOICES) known[name] = recordings.find((each) => String(each[name]) === String(values[name]))?.[name] ?? state[name];
  Object.assign(state, known);
  recording = recordings.find((each) => CHOICES.every((name) => each[name] === state[name]));
  if (before && recording !== before && values.step === undefined)
    // The same place in the loop, where there is one.
    state.step = recording.tile === before.tile ? state.step : Math.round(progress * (recording.steps.length - 1));
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
  try {
    history.replaceState(null, "", `#${new URLSearchParams(state)}`);
  } catch {
    // A browser may not let a local file change its address, or not so often.
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
  if (!Recording.isShared(step) || step.units === step.ideal) return;
  const conflicts = document.createElement("span");
  conflicts.className = "conflicts";
  conflicts.textContent = `· ${plural(step.units - step.ideal, "conflict")}`;
  cost.append(conflicts);
}

// The kernels side by side, at this tile.
function showTotals() {
  const rows = recordings.filter((each) => each.tile === state.tile).map((each) => {
    const { store, load, conflicts } = each.wavefronts();
    const row = document.createElement("tr");
    Object.assign(row.dataset, { variant: each.variant, layout: each.layout });
    const link = document.createElement("a");
    link.href = `#variant=${each.variant}&layout=${each.layout}`;
    link.textContent = each.variant;
    for (const what of [link, each.layout, store, load, conflicts]) {
      const cell = document.createElement("td");
      cell.append(what);
      row.append(cell);
    }
    row.lastChild.className = conflicts ? "conflicts" : "";
    return row;
  });
  document.querySelector("#totals tbody").replaceChildren(...rows);
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
  const starts = recording.tiles.map((_, tile) => recording.steps.findIndex((step) => step.tile === tile));
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
play(false);
fromAddress();
