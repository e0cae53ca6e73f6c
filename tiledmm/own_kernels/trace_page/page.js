// Steps through what the simulator recorded of one block: which elements and which words of shared memory the lanes of a
// warp access at each instruction. What is counted (wavefronts, sectors) is the simulator's, too. The data is RECORDED:
// `tiledmm trace` writes it into its page, and python -m docs.interactive.record into recorded.js.
"use strict";

const WARP = 32;
const BANKS = 32;
const SECTOR = 32;   // bytes
const BEAT = 700;   // ms between two steps while it plays
const COLORS = ["A", "B", "C", "D", "E"];   // classes, of arrays in their order

// ---- what was recorded ----

// One block of any kernel. Warps that do the same share a timeline of `steps`; each step knows its timeline (`warps`), the
// barriers before it (`phase`) and the shared arrays that are filled by then.
class Recording {
  constructor(raw) {
    for (const name of ["block", "file", "facts", "barriers", "sizes", "depth", "products", "layout", "tile"]) this[name] = raw[name];
    this.findings = raw.findings ?? [];
    this.notes = raw.notes ?? [];
    this.firstLine = raw.first ?? 0;
    this.choice = raw.choice ?? { variant: raw.variant, layout: raw.layout, tile: raw.tile };
    this.source = RECORDED.sources[raw.source];
    this.threads = raw.block.reduce((product, each) => product * each, 1);
    this.warps = Math.ceil(this.threads / WARP);
    this.globals = this.findGlobals(raw);
    this.shared = this.findShared(raw);
    this.cross = this.findCross();
    this.timelines = this.findTimelines(raw).map(({ warps, steps }) => this.timeline(raw, warps, steps));
    this.ofWarp = [];
    for (const steps of this.timelines) for (const warp of steps.warps) this.ofWarp[warp] = steps;
    const globals = Object.keys(this.globals), others = Object.keys(this.shared).filter((name) => !this.heldIn(name));
    this.colors = Object.fromEntries([...globals, ...others].map((name, i) => [name, COLORS[i % COLORS.length]]));
    for (const name of Object.keys(this.shared)) this.colors[name] ??= this.colors[this.heldIn(name)];
  }

  findGlobals(raw) { return raw.globals; }
  findTimelines(raw) { return raw.timelines; }

  // Words of a shared array, by row: begins and ends of what is used, and of what is not (padding).
  findShared(raw) {
    return Object.fromEntries(Object.entries(raw.shared).map(([name, { words, bank, pitch, unused }]) => {
      const rows = [], row = pitch || words, padding = [];
      for (let i = 0; i < unused.length; i += 2) padding.push([unused[i], unused[i + 1]]);
      for (let begin = 0; begin < words; begin += row) rows.push([begin, Math.min(begin + row, words)]);
      return [name, { words, bank, pitch, rows, padding }];
    }));
  }

  // Names of the matrices of a product, by A, B and C: those whose extents fit. Their row and column meet in an element of C.
  findCross() {
    const names = Object.keys(this.globals), find = (letter) => names.find((name) => name.toLowerCase().replace(/^d_|^g_/, "") === letter);
    const [A, B, C] = ["a", "b", "c"].map(find), shape = (name) => this.globals[name]?.shape ?? [];
    const [m, k] = shape(A), [k2, n] = shape(B), [m2, n2] = shape(C);
    const fits = [A, B, C].every((name) => shape(name).length === 2) && names.length === 3 && k === k2 && m === m2 && n === n2;
    return fits ? { A, B, C } : null;
  }

  timeline(raw, warps, rows) {
    const filled = new Set(), index = Object.fromEntries(warps.map((warp, i) => [warp, i]));
    let phase = 0;
    const steps = rows.map(([line, kind, number, base, pattern, units, ideal, width, begin, held, source, count]) => {
      const array = raw.arrays[number] ?? "";
      const step = {
        line: line - this.firstLine, kind, array, base, pattern: raw.patterns[pattern], units, ideal, width, index, phase,
        held: held === undefined ? null
          : { base: begin, pattern: raw.patterns[held], array: raw.arrays[source] ?? array[0], width: count ?? width },
      };
      if (kind === "barrier") ++phase;
      if (array in this.shared && kind !== "load") filled.add(array);
      return Object.assign(step, { filled: new Set(filled) });
    });
    return Object.assign(steps, { warps });
  }

  // The array in global memory whose elements a shared array holds, if any is known.
  heldIn(name) {
    for (const steps of this.timelines) for (const step of steps) if (step.array === name && step.held) return step.held.array;
    return null;
  }

  steps(warp) { return this.ofWarp[warp] ?? []; }
  isShared(step) { return step.array in this.shared; }
  hasConflict(step) { return this.isShared(step) && step.units > step.ideal; }

  // Number of the first element or word that a lane accesses; null if it accesses none.
  number({ base, pattern }, index, lane) {
    const distance = pattern?.lanes[lane] ?? null;
    return distance === null ? null : base + pattern.warps[index] + distance;
  }

  begin(step, warp, lane) { return this.number(step, step.index[warp], lane); }
  isActive(step, lane) { return step.pattern?.lanes[lane] != null; }
  active(step) { return Array.from({ length: WARP }, (_, lane) => lane).filter((lane) => this.isActive(step, lane)); }

  position(name, number) {
    const { columns } = this.globals[name];
    return [Math.floor(number / columns), number % columns];
  }

  // The elements that a lane accesses in global memory, or that the words hold that it accesses in shared memory: the name
  // of their array, and rows and columns of its picture.
  touched(step, warp, lane) {
    const from = this.isShared(step) ? step.held : step, array = from && (from.array ?? step.array);
    const first = from ? this.number(from, step.index[warp], lane) : null;
    if (first === null || !(array in this.globals)) return {};
    return { [array]: Array.from({ length: from.width }, (_, i) => this.position(array, first + i)) };
  }

  // What a lane has to do with at a step, by array.
  of(step, warp, lane) { return this.touched(step, warp, lane); }

  // The same of a warp's lanes together.
  lit(step, warp) {
    const found = {};
    for (let lane = 0; lane < WARP; ++lane)
      for (const [name, elements] of Object.entries(this.of(step, warp, lane))) (found[name] ??= []).push(...elements);
    return found;
  }

  // The elements that a thread accesses at any step, by array; and of those, the ones that it writes.
  own(warp, lane) {
    const key = warp * WARP + lane;
    this.owns ??= new Map();
    if (!this.owns.has(key)) {
      const all = {}, written = {};
      for (const step of this.steps(warp)) {
        if (this.isShared(step)) continue;
        for (const [name, elements] of Object.entries(this.touched(step, warp, lane))) {
          (all[name] ??= []).push(...elements);
          if (step.kind === "store") (written[name] ??= []).push(...elements);
        }
      }
      for (const found of [all, written]) for (const name of Object.keys(found)) found[name] = unique(found[name]);
      this.owns.set(key, { all, written });
    }
    return this.owns.get(key);
  }

  // Elements of C that a thread computes, where the kernel is a product.
  computed(warp, lane) { return this.cross ? this.own(warp, lane).written[this.cross.C] ?? [] : []; }

  // Areas to outline for a thread, by array, as [row, column, height, width].
  outlines(warp, lane) {
    const computed = this.computed(warp, lane);
    if (computed.length) {
      const { A, B, C } = this.cross, [, depth] = this.globals[A].shape;
      return {
        [A]: unique(computed.map(([row]) => [row, 0, 1, depth])), [B]: unique(computed.map(([, col]) => [0, col, depth, 1])),
        [C]: computed.map(([row, col]) => [row, col, 1, 1]),
      };
    }
    return Object.fromEntries(Object.entries(this.own(warp, lane).all).map(([name, all]) => [name, all.map(([row, col]) => [row, col, 1, 1])]));
  }

  // Elements of a thread to fill at a step.
  terms(step, warp, lane) { return this.of(step, warp, lane); }

  // The elements that the block accesses at any step, by array: rectangles, as boxes.
  areas() {
    if (this.whole) return this.whole;
    const found = {};
    for (const steps of this.timelines)
      for (const step of steps) {
        if (!(step.array in this.globals)) continue;
        const set = (found[step.array] ??= new Set());
        for (const warp of steps.warps)
          for (const lane of this.active(step)) {
            const first = this.begin(step, warp, lane);
            for (let i = 0; i < step.width; ++i) set.add(first + i);
          }
      }
    this.whole = Object.fromEntries(Object.entries(found).map(([name, set]) => [name, this.boxesOf(name, set)]));
    return this.whole;
  }

  // Stretches of rows, those of equal extent in successive rows joined to one box.
  boxesOf(name, numbers) {
    const { columns } = this.globals[name], boxes = [];
    for (const [begin, end] of runs([...numbers].sort((a, b) => a - b)))
      for (let at = begin; at < end;) {
        const left = at % columns, top = Math.floor(at / columns), width = Math.min(columns - left, end - at);
        const above = boxes.findLast((each) => each.left === left && each.width === width && each.top + each.height === top);
        if (above) ++above.height;
        else boxes.push({ top, left, height: 1, width });
        at += width;
      }
    return boxes;
  }

  boxes() { return this.areas(); }

  // Words asked of each bank: word -> lanes.
  banks(step, warp) {
    const found = new Map();
    if (!this.isShared(step)) return found;
    const { bank: begin } = this.shared[step.array];
    for (const lane of this.active(step)) {
      const first = this.begin(step, warp, lane);
      for (let word = first; word < first + step.width; ++word) {
        const bank = (begin + word) % BANKS;
        if (!found.has(bank)) found.set(bank, new Map());
        const words = found.get(bank);
        words.set(word, [...(words.get(word) ?? []), lane]);
      }
    }
    return found;
  }

  // Lanes by the sector of global memory that they access.
  sectors(step, warp) {
    const found = new Map();
    if (this.isShared(step) || !(step.array in this.globals)) return found;
    const { itemsize, phase } = this.globals[step.array];
    for (const lane of this.active(step)) {
      const begin = phase + this.begin(step, warp, lane) * itemsize, end = begin + step.width * itemsize;
      for (let sector = Math.floor(begin / SECTOR); sector * SECTOR < end; ++sector)
        found.set(sector, [...(found.get(sector) ?? []), lane]);
    }
    return new Map([...found].sort(([a], [b]) => a - b));
  }

  thread(warp, lane) {
    const number = warp * WARP + lane, [width, height] = this.block;
    return [number % width, Math.floor(number / width) % height, Math.floor(number / (width * height))];
  }

  // "thread 5", or "thread (5, 0)".
  name(warp, lane) {
    const at = this.thread(warp, lane), axes = this.block[2] > 1 ? 3 : this.block[1] > 1 ? 2 : 1;
    return axes === 1 ? `thread ${at[0]}` : `thread (${at.slice(0, axes).join(", ")})`;
  }

  element(name, [row, col]) {
    const { shape, columns } = this.globals[name], indices = [];
    let rest = row * columns + col;
    for (const extent of [...shape].reverse()) {
      indices.unshift(rest % extent);
      rest = Math.floor(rest / extent);
    }
    return `${name}[${indices.join(", ")}]`;
  }

  word(name, word) {
    const { pitch } = this.shared[name];
    return pitch ? `${name}[${Math.floor(word / pitch)}][${word % pitch}]` : `word ${word} of ${name}`;
  }

  // Where the loop, or the kernel, is at a step.
  place(step) {
    if (step.kind === "idle") return this.file;
    const line = step.line >= 0 ? `${this.file}, line ${step.line + this.firstLine}` : "A line of a header";
    if (step.kind === "barrier") return `${line} · barrier ${step.phase + 1} of ${this.barriers}`;
    if (!this.barriers) return line;
    const where = step.phase === 0 ? "before the first barrier"
      : step.phase === this.barriers ? "after the last barrier" : `between barriers ${step.phase} and ${step.phase + 1} of ${this.barriers}`;
    return `${line} · ${where}`;
  }

  // Steps where a part begins: those after barriers.
  starts(warp) {
    return this.steps(warp).flatMap((step, i, all) => (i === 0 || step.phase !== all[i - 1].phase ? [i] : []));
  }

  barrierSays(step) {
    const why = this.source[step.line]?.split("//")[1]?.trim();
    return `All ${this.threads} threads wait for each other${why ? `: ${why}` : ""}.`;
  }

  // What a warp accesses in global memory, in words.
  globalSays(step, warp) {
    const verb = { load: "reads", store: "writes", copy: "copies" }[step.kind], name = step.array;
    const numbers = [...new Set(this.active(step).flatMap((lane) => {
      const first = this.begin(step, warp, lane);
      return Array.from({ length: step.width }, (_, i) => first + i);
    }))].sort((a, b) => a - b);
    const { columns } = this.globals[name], at = (number) => this.element(name, [Math.floor(number / columns), number % columns]);
    const stretches = runs(numbers), lanes = this.active(step).length;
    let what;
    if (numbers.length === 1) what = lanes === 1 ? at(numbers[0]) : `the same element, ${at(numbers[0])}`;
    else if (stretches.length === 1) what = `${numbers.length} contiguous elements, ${at(numbers[0])} to ${at(numbers.at(-1))}`;
    else {
      const lengths = new Set(stretches.map(([begin, end]) => end - begin));
      const gaps = new Set(stretches.slice(1).map(([begin], i) => begin - stretches[i][0]));
      const [length] = lengths, [gap] = gaps;
      const apart = gaps.size === 1 ? `, each ${gap} after the one before` : "";
      what = lengths.size > 1 ? `${numbers.length} elements of ${name} in ${stretches.length} places`
        : length === 1 ? `${numbers.length} elements of ${name}${apart}`
          : `${numbers.length} elements of ${name}, ${length} contiguous in each of ${stretches.length} places`;
    }
    const who = lanes === WARP ? `Warp ${warp}` : `${lanesInWords(this.active(step))} of warp ${warp}`;
    const plain = lanes === WARP || lanes === 1 ? verb : verb.replace("copies", "copy").replace(/s$/, "");
    const how = step.kind === "copy" ? " to shared memory (cp.async: the warp does not wait)" : "";
    const size = step.width * this.globals[name].itemsize;
    const wide = step.width > 1 ? `, ${size} bytes per lane` : "";
    return `${who} ${plain} ${what}${how}${wide}: ${price(step, "sector of 32 bytes", "sectors of 32 bytes")}.`;
  }

  says(step, warp, lane) {
    if (step.kind === "barrier") return this.barrierSays(step);
    if (step.kind === "idle") return `Warp ${warp} accesses no memory.`;
    return this.isShared(step) ? this.sharedSays(step, warp) : this.globalSays(step, warp, lane);
  }

  sharedSays(step, warp) {
    const banks = this.banks(step, warp), lanes = this.active(step).length;
    const words = [...banks.values()].reduce((sum, each) => sum + each.size, 0) / step.width;
    const worst = Math.max(...[...banks.values()].map((each) => each.size));
    const cost = price(step, "wavefront");
    const what = step.width > 1 ? `different vectors of ${4 * step.width} bytes` : "different words";
    const verb = { load: "read", store: "write", copy: "copy" }[step.kind];
    const who = lanes === WARP ? "The lanes" : lanesInWords(this.active(step));
    if (words === 1 && lanes > 1) {
      const all = lanes === WARP ? "All lanes" : who;
      return `${all} ${verb} the same ${step.width > 1 ? `${4 * step.width} bytes` : "word"} of ${step.array}${step.kind === "load" ? ", a broadcast" : ""}: ${cost}.`;
    }
    if (words === 1) return `${who} ${verb}s ${this.word(step.array, this.begin(step, warp, this.active(step)[0]))}: ${cost}.`;
    const each = lanes / words, count = Number.isInteger(words) ? words : "several";
    const shared = words < lanes && Number.isInteger(each) ? ` (each for ${each} lanes at once)` : "";
    const where = step.width > 1 ? "" : ` in ${banksInWords(words, banks.size, worst)}`;
    return `${who} ${verb} ${count} ${what} of ${step.array}${shared}${where}: ${cost}.`;
  }

  // What a thread computes, or reads and writes.
  story(warp, lane) {
    const computed = this.computed(warp, lane), name = capital(this.name(warp, lane));
    const more = computed.length > 1 ? ` and ${computed.length - 1} others` : "";
    if (computed.length) {
      const { A, B, C } = this.cross, [row, col] = computed[0];
      return [name, ` computes ${this.element(C, computed[0])} = Σ ${A}[${row}, k] · ${B}[k, ${col}]${more}.`];
    }
    const { all, written } = this.own(warp, lane);
    const count = (found, array) => (found.length === 1 ? this.element(array, found[0]) : `${found.length} elements of ${array}`);
    const read = Object.entries(all).filter(([array]) => !(array in written)).map(([array, found]) => count(found, array));
    const parts = [read.length ? `reads ${list(read)}` : "", Object.keys(written).length ? `writes ${list(Object.entries(written).map(([array, found]) => count(found, array)))}` : ""];
    return [name, ` ${list(parts.filter(Boolean)) || "accesses no global memory"}.`];
  }
}

// A kernel of this package, whose warps all do the same: C = A @ B in tiles along K, with its multiply-adds.
class Product extends Recording {
  constructor(raw) {
    super(raw);
    this.tiles = raw.sizes[2] / raw.depth;
    this.owned = Array.from({ length: this.warps }, (_, warp) => Array.from({ length: WARP }, (__, lane) => this.own(warp, lane).written.C));
    this.result = box(this.owned.flat(2));
    const steps = this.timelines[0];
    let tile = 0;
    for (const step of steps) {
      tile = Math.floor((this.depths(step)?.[0] ?? tile * raw.depth) / raw.depth);
      step.tile = tile;
    }
    this.last = steps.findIndex((step) => step.array === "C");   // from here on sums are written
  }

  findGlobals({ sizes: [m, n, k], layout }) {
    const matrix = (rows, columns, order) => ({ shape: [rows, columns], columns, itemsize: 4, phase: 0, down: order === "T" });
    return { A: matrix(m, k, layout[0]), B: matrix(k, n, layout[1]), C: matrix(m, n, "N") };
  }

  findTimelines(raw) { return [{ warps: Array.from({ length: this.warps }, (_, warp) => warp), steps: raw.steps }]; }

  findShared(raw) {
    return Object.fromEntries(Object.entries(raw.shared).map(([name, { rows: count, width, pitch, along }]) => {
      const rows = [], padding = [];
      for (let begin = 0; begin < count * pitch; begin += pitch) {
        rows.push([begin, begin + width]);
        padding.push([begin + width, begin + pitch]);
      }
      return [name, { words: count * pitch, bank: 0, pitch, rows, padding, down: !along }];
    }));
  }

  // Contiguous elements are those of a row or of a column, as the matrix lies in memory.
  touched(step, warp, lane) {
    if (step.kind === "barrier" || step.kind === "arithmetic") return {};
    const from = step.held ?? step, matrix = step.array[0];
    const { down } = step.held ? this.shared[step.array] : this.globals[matrix];
    const [row, col] = this.position(matrix, this.number(from, step.index[warp], lane));
    return { [matrix]: Array.from({ length: step.width }, (_, i) => (down ? [row + i, col] : [row, col + i])) };
  }

  of(step, warp, lane) {
    if (step.kind !== "arithmetic") return this.touched(step, warp, lane);
    const own = this.owned[warp][lane], k = step.base;
    return { A: unique(own.map(([row]) => [row, k])), B: unique(own.map(([, col]) => [k, col])), C: own };
  }

  computed(warp, lane) { return this.owned[warp][lane]; }

  terms(step, warp, lane) { return this.k(step) !== null || step.array === "C" ? this.of(step, warp, lane) : {}; }

  // First and last step of k that a lane reads, copies or multiplies, if it does.
  depths(step) {
    if (step.kind === "barrier" || step.array === "C") return null;
    if (step.kind === "arithmetic") return [step.base, step.base];
    const matrix = step.array[0], all = this.touched(step, 0, 0)[matrix].map((element) => element[matrix === "A" ? 1 : 0]);
    return [Math.min(...all), Math.max(...all)];
  }

  // Those of k that are read or multiplied, not copied.
  k(step) { return step.kind === "arithmetic" || (this.isShared(step) && step.kind === "load") ? this.depths(step) : null; }

  // The tiles of A and B along K, and the block's of C.
  boxes(step) {
    const { top, left, height, width } = this.result, from = step.tile * this.depth;
    return {
      A: [{ top, left: from, height, width: this.depth }], B: [{ top: from, left, height: this.depth, width }], C: [this.result],
    };
  }

  sectors(step, warp) {
    const found = new Map();
    if (this.isShared(step) || !(step.array in this.globals)) return found;
    const { shape, down } = this.globals[step.array];
    for (const lane of this.active(step))
      for (const [row, col] of this.touched(step, warp, lane)[step.array]) {
        const sector = Math.floor((down ? col * shape[0] + row : row * shape[1] + col) * 4 / SECTOR);
        found.set(sector, [...new Set([...(found.get(sector) ?? []), lane])]);
      }
    return new Map([...found].sort(([a], [b]) => a - b));
  }

  name(warp, lane) { return `thread (${this.thread(warp, lane).slice(0, 2).join(", ")})`; }

  place(step) {
    if (this.timelines[0].indexOf(step) >= this.last) return "After the loop";
    const k = this.k(step), { depth } = this, from = step.tile * depth;
    const tile = `Tile ${step.tile + 1} of ${this.tiles} along K, k = ${from} to ${from + depth - 1}`;
    return k === null ? tile : `${tile} · now k = ${range(k)}`;
  }

  starts() {
    return Array.from({ length: this.tiles }, (_, tile) => this.timelines[0].findIndex((step) => step.tile === tile));
  }

  says(step, warp, lane) {
    if (step.kind !== "arithmetic") return super.says(step, warp, lane);
    const { A, B, C } = this.of(step, warp, lane), [row, col] = C[0];
    const first = `${this.name(warp, lane)} adds ${this.element("A", [row, step.base])} · ${this.element("B", [step.base, col])} to its ${this.element("C", C[0])}`;
    if (C.length === 1) return `Each thread multiplies and adds, in registers: ${first}.`;
    return `Each thread multiplies ${A.length} elements of A by ${B.length} of B, in registers: ${first}, and so on, ` +
      `${C.length} products of ${A.length + B.length} elements.`;
  }

  globalSays(step, warp) {
    const elements = this.lit(step, warp)[step.array], verb = { load: "reads", store: "writes", copy: "copies" }[step.kind];
    const how = step.kind === "copy" ? " to shared memory (cp.async: the warp does not wait)" : "";
    const wide = step.width > 1 ? `, ${4 * step.width} bytes per lane` : "";
    return `Warp ${warp} ${verb} ${elements.length} elements of ${step.array}${how}, ${shape(elements, this.globals[step.array].down)}${wide}: ` +
      `${price(step, "sector of 32 bytes", "sectors of 32 bytes")}.`;
  }

  // Wavefronts of one warp for one tile along K, and per multiply-add of all its lanes.
  wavefronts() {
    const sum = { stores: 0, loads: 0, conflicts: 0 };
    for (const step of this.timelines[0].filter((each) => each.tile === 0 && this.isShared(each))) {
      sum[step.kind === "load" ? "loads" : "stores"] += step.units;
      sum.conflicts += step.units - step.ideal;
    }
    return { ...sum, each: (sum.stores + sum.loads) / (this.depth * this.products) };
  }
}

const unique = (elements) => [...new Map(elements.map((each) => [String(each), each])).values()];

// Begins and ends of the stretches of successive numbers among sorted ones.
function runs(numbers) {
  const found = [];
  for (const number of numbers) {
    if (found.at(-1)?.[1] === number) ++found.at(-1)[1];
    else found.push([number, number + 1]);
  }
  return found;
}

function box(positions) {
  const rows = positions.map(([row]) => row), cols = positions.map(([, col]) => col);
  const [top, left] = [Math.min(...rows), Math.min(...cols)];
  return { top, left, height: Math.max(...rows) - top + 1, width: Math.max(...cols) - left + 1 };
}

// ---- in words ----

const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
const capital = (words) => words[0].toUpperCase() + words.slice(1);
const list = (parts) => (parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : parts[0] ?? "");
const range = ([from, to]) => (from === to ? `${from}` : `${from} to ${to}`);

// "Lane 3", "Lanes 0 to 15", or "16 lanes".
function lanesInWords(lanes) {
  if (lanes.length === 1) return `Lane ${lanes[0]}`;
  return runs(lanes).length === 1 ? `Lanes ${lanes[0]} to ${lanes.at(-1)}` : `${lanes.length} lanes`;
}

// "32 contiguous elements of a row" or "8 contiguous elements in each of 4 rows".
function shape(positions, byColumns) {
  const lines = new Set(positions.map(([row, col]) => (byColumns ? col : row))).size;
  const each = positions.length / lines;
  const name = byColumns ? "column" : "row";
  return lines === 1 ? `${each} contiguous elements of a ${name}` : `${each} contiguous elements in each of ${lines} ${name}s`;
}

const price = (step, one, many) => plural(step.units, one, many) + (step.units > step.ideal ? ` where ${step.ideal} would do` : "");

function banksInWords(words, banks, worst) {
  if (worst === 1) return plural(banks, "bank");
  if (banks === 1) return "one bank";
  return `${banks} banks, ${words === banks * worst ? `${worst} in each` : `up to ${worst} in one`}`;
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

const rectangle = ([row, col, height = 1, width = 1]) => `M${col} ${row}h${width}v${height}h${-width}z`;
const areas = (boxes) => boxes.map(({ top, left, height, width }) => rectangle([top, left, height, width])).join("");

// The arrays in global memory. Those of a product are laid out so that a row of A and a column of B meet in their element of
// C; others stand side by side.
class Matrices {
  static FINEST = 1024;   // elements in a picture whose elements have lines between them

  constructor(figure, choose) {
    this.svg = figure.querySelector("svg");
    this.svg.addEventListener("click", (event) => {
      for (const [name, { group }] of Object.entries(this.parts ?? {})) {
        if (!group.contains(event.target)) continue;
        const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(group.getScreenCTM().inverse());
        choose(name, [Math.floor(point.y), Math.floor(point.x)]);
      }
    });
  }

  build(recording) {
    this.recording = recording;
    this.parts = recording.cross ? this.crossed() : this.sideBySide();
    this.svg.replaceChildren(...Object.values(this.parts).flatMap(({ group, label }) => [group, label]));
  }

  // Rows and columns of an array's picture.
  extents(name) {
    const { shape, columns } = this.recording.globals[name], count = shape.reduce((product, each) => product * each, 1);
    return [Math.max(1, Math.ceil(count / columns)), Math.min(columns, count)];
  }

  matrix(name, x, y, scale, label) {
    const { recording } = this, [rows, cols] = this.extents(name), { depth, tile } = recording;
    const group = svg("g", { class: `matrix ${recording.colors[name]} ${scale < 0.7 ? "small" : ""}`, id: `matrix-${name}`, transform: `translate(${x} ${y}) scale(${scale})` },
      rect(0, 0, cols, rows, { class: "ground" }));
    const part = { group, label };
    for (const kind of ["tile", "lit", "own", "term"]) part[kind] = svg("path", { class: kind });
    if (tile ? tile < 32 : rows * cols <= Matrices.FINEST) group.append(svg("path", { class: "lines", d: lines(cols, rows, 1) }));
    group.append(part.tile, part.lit);
    if (tile)
      group.append(svg("path", { class: "lines tiles", d: lines(cols, rows, name === "A" ? depth : tile, name === "B" ? depth : tile) }));
    group.append(part.own, part.term);
    return part;
  }

  label(x, y, size, anchor, name, rest) {
    const made = text(x, y, size, "", { "text-anchor": anchor, class: this.recording.colors[name] });
    const letter = svg("tspan", { class: "letter", "font-size": 1.4 * size }, name);
    const quiet = svg("tspan", { class: "quiet" }, anchor === "end" ? `${rest}  ` : `  ${rest}`);
    made.append(...(anchor === "end" ? [quiet, letter] : [letter, quiet]));
    return made;
  }

  crossed() {
    const { recording } = this, { A, B, C } = recording.cross, [m, k] = recording.globals[A].shape, [, n] = recording.globals[B].shape;
    const tile = recording.tile ?? Math.min(m, n) / 4;
    const gap = Math.max(0.3 * tile, 0.075 * (k + n)), far = k + gap, size = 0.034 * (far + n), edge = 0.02 * tile;
    this.svg.setAttribute("viewBox", `${-edge} ${-edge} ${far + n + 2 * edge} ${far + m + 2 * size}`);
    const order = (name) => {
      const { down } = recording.globals[name];
      return down === undefined ? "" : `, ${down ? "columns" : "rows"} contiguous`;
    };
    const below = (rows) => rows + 1.4 * size;
    return {
      [A]: this.matrix(A, 0, far, 1, this.label(0, far + below(m), size, "start", A, `${m} × ${k}${order(A)}`)),
      [B]: this.matrix(B, far, 0, 1, this.label(far + n, below(k), size, "end", B, `${k} × ${n}${order(B)}`)),
      [C]: this.matrix(C, far, far, 1, this.label(far + n, far + below(m), size, "end", C, `${m} × ${n}`)),
    };
  }

  sideBySide() {
    const names = Object.keys(this.recording.globals), across = Math.ceil(Math.sqrt(names.length)), gap = 4, size = 3.6;
    const room = (100 - gap * (across - 1)) / across, parts = {};
    let y = 0;
    for (let at = 0; at < names.length; at += across) {
      let highest = 0;
      names.slice(at, at + across).forEach((name, i) => {
        const [rows, cols] = this.extents(name), scale = Math.min(room / cols, room / rows, 6), x = i * (room + gap);
        const { shape } = this.recording.globals[name];
        const label = this.label(x, y + rows * scale + 1.4 * size, size, "start", name, shape.join(" × "));
        parts[name] = this.matrix(name, x, y, scale, label);
        highest = Math.max(highest, rows * scale);
      });
      y += highest + 1.4 * size + gap;
    }
    this.svg.setAttribute("viewBox", `-0.5 -0.5 101 ${Math.max(10, y)}`);
    return parts;
  }

  show(step, warp, lane) {
    const { recording, parts } = this, boxes = recording.boxes(step);
    const lit = recording.lit(step, warp), outlines = recording.outlines(warp, lane), terms = recording.terms(step, warp, lane);
    for (const [name, part] of Object.entries(parts)) {
      part.tile.setAttribute("d", areas(boxes[name] ?? []));
      part.lit.setAttribute("d", [...new Set((lit[name] ?? []).map(([row, col]) => `M${col} ${row}h1v1h-1z`))].join(""));
      part.own.setAttribute("d", (outlines[name] ?? []).map(rectangle).join(""));
      part.term.setAttribute("d", (terms[name] ?? []).map(rectangle).join(""));
    }
    const [who, does] = recording.story(warp, lane);
    by("story").replaceChildren(strong(who), does);
    const span = (from, size) => `${from} to ${from + size - 1}`;
    const tiles = Object.entries(boxes).filter(([, all]) => all.length === 1)
      .map(([name, [b]]) => `${name} rows ${span(b.top, b.height)}, columns ${span(b.left, b.width)}`);
    this.svg.setAttribute("aria-label", `${tiles.length ? `Tiles: ${tiles.join("; ")}. ` : ""}${who}${does}`);
  }
}

function strong(words) {
  const made = document.createElement("b");
  made.textContent = words;
  return made;
}

// Lanes above, their banks below, and the words of shared arrays, each under its bank. Where the warp accesses global memory,
// sectors stand in place of banks.
class SharedMemory {
  static LANES = 1.2;   // y of the lanes
  static WIRES = 3.4;   // height of what connects them
  static CELL = 1.15;

  constructor(figure, choose) {
    this.figure = figure;
    this.svg = figure.querySelector("svg");
    this.svg.addEventListener("click", (event) => {
      const lane = event.target.closest("[data-lane]")?.dataset.lane;
      if (lane) choose(Number(lane));
    });
  }

  build(recording) {
    this.recording = recording;
    const { LANES, WIRES, CELL } = SharedMemory, arrays = Object.entries(recording.shared);
    const high = ({ words, bank }) => Math.ceil((bank + words) / BANKS);   // rows of 32 banks
    this.row = Math.min(1.3, 28 / Math.max(1, arrays.reduce((sum, [, each]) => sum + high(each), 0)));
    this.banksAt = LANES + CELL + WIRES;
    const label = (y, what, attributes = {}) => text(-0.5, y, 1.05, what, { "text-anchor": "end", ...attributes });
    const numbers = [0, 4, 8, 12, 16, 20, 24, 28, 31];
    this.lanes = Array.from({ length: WARP }, (_, i) => rect(i, LANES, 1, CELL, { class: "lane", "data-lane": i }));
    this.banks = Array.from({ length: BANKS }, (_, i) => rect(i, this.banksAt, 1, CELL, { class: "bank", "data-bank": i }));
    this.wires = svg("g", { id: "wires" });
    this.counts = svg("g");
    this.sectors = svg("g", { id: "sectors" });
    this.kind = label(this.banksAt + 0.9, "banks");
    this.arrays = {};
    let y = this.banksAt + CELL + 1.1;
    const longest = Math.max(5, ...arrays.map(([name]) => name.length));
    for (const [name, shared] of arrays) {
      const rows = svg("g", { class: "rows" });
      for (const [begin, end] of shared.rows) rows.append(svg("path", { d: this.stretch(shared.bank + begin, end - begin) }));
      const padding = shared.padding.map(([begin, end]) => this.stretch(shared.bank + begin, end - begin)).join("");
      const words = svg("g", { class: "words" });
      const group = svg("g", { class: `array ${recording.colors[name]}`, id: `array-${name}`, transform: `translate(0 ${y})` },
        label(0.95, name, { class: "letter" }), rows, svg("path", { class: "padding", d: padding }), words);
      this.arrays[name] = { group, words };
      y += high(shared) * this.row + 1.1;
    }
    const left = Math.max(3.6, 0.6 + 0.6 * longest);
    this.svg.setAttribute("viewBox", `${-left} -0.1 ${BANKS + left + 0.2} ${Math.max(y - 0.9, 8)}`);
    this.svg.replaceChildren(
      ...numbers.map((i) => text(i + 0.5, 0.85, 0.85, `${i}`, { "text-anchor": "middle", class: "quiet" })),
      label(LANES + 0.9, "lanes"), this.wires, svg("g", { class: "lanes" }, ...this.lanes),
      this.kind, ...this.banks, this.counts, this.sectors, ...Object.values(this.arrays).map((each) => each.group));
    this.figure.classList.toggle("no-shared", !arrays.length);
    this.figure.querySelector("figcaption").textContent = arrays.length
      ? "Shared memory: words below their banks, and the lanes that access them"
      : "Lanes, and the sectors of 32 bytes that they access in global memory";
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

  cell(at, attributes) {
    return rect(at % BANKS, Math.floor(at / BANKS) * this.row, 1, this.row, attributes);
  }

  wire(lane, x, kind) {
    const top = SharedMemory.LANES + SharedMemory.CELL, middle = (top + this.banksAt) / 2;
    return svg("path", { class: `wire ${kind}`, d: `M${lane + 0.5} ${top}C${lane + 0.5} ${middle} ${x} ${middle} ${x} ${this.banksAt}` });
  }

  show(step, warp, chosen) {
    const { recording } = this, banks = recording.banks(step, warp), sectors = recording.sectors(step, warp);
    const color = recording.colors[step.array] ?? "", costs = recording.hasConflict(step);
    for (const [name, { group, words }] of Object.entries(this.arrays)) {
      group.classList.toggle("filled", step.filled.has(name));
      words.replaceChildren();
    }
    this.lanes.forEach((each, lane) => {
      const active = step.kind === "arithmetic" || recording.isActive(step, lane);
      each.setAttribute("class", `lane ${color} ${active ? "active" : ""} ${lane === chosen ? "chosen" : ""}`);
    });
    const wires = [], counts = [];
    this.banks.forEach((each, bank) => {
      const asked = banks.get(bank) ?? new Map(), conflict = costs && asked.size > 1;
      each.setAttribute("class", `bank ${color} ${conflict ? "conflict" : asked.size ? "active" : ""}`);
      each.setAttribute("data-words", asked.size);
      if (conflict) counts.push(text(bank + 0.5, this.banksAt + 0.85, asked.size > 9 ? 0.72 : 0.85, `${asked.size}`, { class: "count" }));
      for (const [word, lanes] of asked) {
        for (const lane of lanes)
          wires.push([lane === chosen, this.wire(lane, bank + 0.5, `${color} ${conflict ? "conflict" : ""} ${lane === chosen ? "chosen" : ""}`)]);
        this.word(step, warp, word, lanes, conflict, chosen);
      }
    });
    this.svg.classList.toggle("of-global", sectors.size > 0);
    this.kind.textContent = sectors.size || this.figure.matches(".no-shared") ? "sectors" : "banks";
    this.sectors.replaceChildren(...this.sectorCells(sectors, color, chosen));
    this.wires.replaceChildren(...wires.sort(([a], [b]) => a - b).map(([, wire]) => wire));   // the chosen one on top
    this.counts.replaceChildren(...counts);
    this.svg.setAttribute("aria-label", !step.units ? "No access to memory." : recording.says(step, warp, chosen));
  }

  // The sectors that a warp accesses, in the order of their addresses, with a gap where they do not follow each other.
  sectorCells(sectors, color, chosen) {
    const all = [...sectors.keys()], gaps = runs(all).length - 1;
    const width = Math.min(4, BANKS / (all.length + 0.5 * gaps)), gap = 0.5 * width, cells = [], wires = [];
    let x = 0;
    all.forEach((sector, i) => {
      if (i && sector !== all[i - 1] + 1) x += gap;
      const lanes = sectors.get(sector), own = lanes.includes(chosen) ? "chosen" : "";
      cells.push(rect(x, this.banksAt, width, SharedMemory.CELL, { class: `sector ${color} ${own}` }));
      lanes.forEach((lane, j) => wires.push([lane === chosen, this.wire(lane, x + width * (j + 0.5) / lanes.length, `${color} ${lane === chosen ? "chosen" : ""}`)]));
      x += width;
    });
    return [...wires.sort(([a], [b]) => a - b).map(([, wire]) => wire), ...cells];
  }

  word(step, warp, word, lanes, conflict, chosen) {
    const { recording } = this, name = step.array, { bank } = recording.shared[name];
    const kind = `${conflict ? "conflict" : ""} ${lanes.length > 1 ? "broadcast" : ""} ${lanes.includes(chosen) ? "chosen" : ""}`;
    const cell = this.cell(bank + word, { class: `word ${kind}`, "data-word": word, "data-lanes": lanes.join(" ") });
    const [held] = Object.entries(recording.touched(step, warp, lanes[0]));
    const element = held?.[1][word - recording.begin(step, warp, lanes[0])];
    const who = lanes.length > 1 ? `lanes ${lanes.join(", ")}` : `lane ${lanes[0]}`;
    const holds = element ? ` holds ${recording.element(held[0], element)}` : "";
    cell.append(svg("title", {}, `${recording.word(name, word)}${holds}: bank ${(bank + word) % BANKS}, ${who}`));
    const { words } = this.arrays[name];
    if (lanes.includes(chosen)) words.append(cell);
    else words.prepend(cell);
    if (lanes.length > 1 && this.row >= 1)
      words.append(text(((bank + word) % BANKS) + 0.5, Math.floor((bank + word) / BANKS) * this.row + this.row / 2 + 0.3, 0.8, `${lanes.length}`, { class: "count", "pointer-events": "none" }));
  }
}

// ---- the kernel's text ----

const TOKEN = /(\/\/.*$)|(^\s*#\s*\w+(?:(?!\/\/).)*)|\b(const|constexpr|auto|bool|char|double|half|int|long|unsigned|size_t|float\d?|void|extern|else|for|if|return|static|struct|template|typename|while|__\w+__)\b/g;

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
  constructor(pre) {
    this.pre = pre;
    new ResizeObserver(() => this.reveal()).observe(pre);
  }

  build(recording) {
    if (this.source === recording.source) return;
    this.source = recording.source;
    this.lines = recording.source.map((line, i) => {
      const span = document.createElement("span");
      if (recording.firstLine) span.dataset.line = recording.firstLine + i;
      span.append(colored(line));
      return span;
    });
    this.pre.replaceChildren(...this.lines);
    this.pre.classList.toggle("numbered", recording.firstLine > 0);
    this.current = null;
  }

  show(step) {
    const line = this.lines[step.line] ?? null;
    if (line === this.current) return;
    this.current?.removeAttribute("aria-current");
    this.current = line;
    if (!line) return;
    line.setAttribute("aria-current", "step");
    this.reveal();
  }

  // Only the listing scrolls, never the page.
  reveal() {
    if (!this.current) return;
    const { offsetTop: top, offsetHeight: height } = this.current, above = top - this.pre.scrollTop;
    if (above < 30 || above + height > this.pre.clientHeight - 30) this.pre.scrollTop = top - this.pre.clientHeight / 2;
  }
}

// ---- the page ----

const SKELETON = `
<form class="controls" aria-label="What is shown">
  <div class="field"><label for="warp">Warp</label><select id="warp"></select></div>
  <div class="field"><label for="lane">Thread</label><select id="lane"></select></div>
  <button type="button" id="conflict">Show me a conflict</button>
</form>
<details id="findings" hidden><summary></summary><ul></ul></details>
<section class="now" aria-label="Now">
  <div class="saying">
    <p id="where"></p>
    <p id="says" role="status"></p>
    <p id="cost"></p>
  </div>
  <div class="transport" role="group" aria-label="Steps">
    <button type="button" id="previous-tile"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M2 3h2v10H2zM14 3v10L5 8z"/></svg></button>
    <button type="button" id="back" aria-label="Step back" title="Step back (←)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M11 3v10L4 8z"/></svg></button>
    <button type="button" id="play" aria-label="Play" title="Play or pause (space)"><svg viewBox="0 0 16 16" aria-hidden="true"><path class="when-paused" d="M4 2v12l10-6z"/><path class="when-playing" d="M3 2h4v12H3zM9 2h4v12H9z"/></svg></button>
    <button type="button" id="forward" aria-label="Step forward" title="Step forward (→)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M5 3v10l7-5z"/></svg></button>
    <button type="button" id="next-tile"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M12 3h2v10h-2zM2 3v10l9-5z"/></svg></button>
    <input type="range" id="step" min="0" value="0" aria-label="Step">
    <output id="count" for="step"></output>
  </div>
</section>
<main>
  <figure class="panel" id="matrices">
    <figcaption>Global memory: ${RECORDED.product ? "tiles, this warp’s accesses, and everything one thread needs" : "what the block, this warp and one thread access"}</figcaption>
    <svg role="img" preserveAspectRatio="xMidYMin"></svg>
    <p id="story"></p>
    <ul class="legend">
      <li><i class="swatch tile"></i>${RECORDED.product ? "tile of the block" : "accessed by the block"}</li>
      <li><i class="swatch lit"></i>accessed by the warp now</li>
      <li><i class="swatch own"></i>${RECORDED.product ? "row, column and element of the thread" : "accessed by the thread"}</li>
    </ul>
  </figure>
  <figure class="panel" id="shared">
    <figcaption></figcaption>
    <svg role="img" preserveAspectRatio="xMidYMin"></svg>
    <ul class="legend">
      <li><i class="swatch single"></i>one lane</li>
      <li><i class="swatch broadcast"></i>several lanes, one word: a broadcast</li>
      <li><i class="swatch conflict"></i>several words of one bank: a conflict</li>
      <li><i class="swatch padding"></i>${RECORDED.product ? "padding" : "not accessed"}</li>
    </ul>
  </figure>
  <section class="panel" id="listing" aria-labelledby="code-title">
    <h2 id="code-title">The kernel</h2>
    <pre id="code" tabindex="0" role="region" aria-labelledby="code-title"></pre>
  </section>
</main>`;

const FIGURES = `
<section class="panel" id="figures" aria-labelledby="totals-title">
  <h2 id="totals-title"></h2>
  <div class="table"><table id="totals"><thead><tr></tr></thead><tbody></tbody></table></div>
<p id="notes"></p>
</section>`;

const LEGENDS = { variant: "Kernel", kernel: "Kernel", layout: "Layout", tile: "Tile" };

document.getElementById("trace").innerHTML = SKELETON;
document.querySelector(".screen").insertAdjacentHTML("afterend", FIGURES);
const by = (id) => document.getElementById(id);
const recordings = RECORDED.recordings.map((raw) => (raw.depth ? new Product(raw) : new Recording(raw)));
const CHOICES = Object.keys(recordings[0].choice);
const state = { ...recordings[0].choice, ...RECORDED.shown, warp: 0, lane: 0, step: 0 };
let recording = null, timer = null;

const matrices = new Matrices(by("matrices"), (name, element) => {
  const isOwn = (own) => own.some((each) => String(each) === String(element));
  for (const of of ["written", "all"])
    for (let warp = 0; warp < recording.warps; ++warp)
      for (let lane = 0; lane < lanesOf(warp); ++lane)
        if (isOwn(recording.own(warp, lane)[of][name] ?? [])) return change({ warp, lane });
});
const shared = new SharedMemory(by("shared"), (lane) => { if (lane < lanesOf(state.warp)) change({ lane }); });
const code = new Code(by("code"));

const lanesOf = (warp) => Math.min(WARP, recording.threads - warp * WARP);
const tilesOf = (variant) => [...new Set(recordings.map((each) => each.choice).filter((each) => each.variant === variant).map((each) => each.tile))];

// Takes new values, each as far as there is such a thing, and shows them.
function change(values) {
  const before = recording, length = before && before.steps(state.warp).length, sameWarp = before?.steps(state.warp);
  const progress = before && state.step / Math.max(1, length - 1);
  const known = { ...values };
  for (const name of CHOICES) known[name] = recordings.find((each) => String(each.choice[name]) === String(values[name]))?.choice[name] ?? state[name];
  Object.assign(state, known);
  if ("tile" in state && !tilesOf(state.variant).includes(state.tile)) {
    // The kernel has other tiles; or, where a tile was asked for, another kernel has it.
    if (values.tile !== undefined && values.variant === undefined) state.variant = recordings.find((each) => each.choice.tile === state.tile).choice.variant;
    else state.tile = tilesOf(state.variant).reduce((best, each) => (Math.abs(each - state.tile) < Math.abs(best - state.tile) ? each : best));
  }
  recording = recordings.find((each) => CHOICES.every((name) => each.choice[name] === state[name]));
  const within = (value, count) => Math.max(0, Math.min(count - 1, Math.trunc(Number(value)) || 0));
  state.warp = within(state.warp, recording.warps);
  state.lane = within(state.lane, lanesOf(state.warp));
  const steps = recording.steps(state.warp);
  if (before && steps !== sameWarp && values.step === undefined)
    // The same place in the kernel, where there is one.
    state.step = steps.length === length ? state.step : Math.round(progress * (steps.length - 1));
  state.step = within(state.step, steps.length);
  if (recording !== before) {
    matrices.build(recording);
    shared.build(recording);
    code.build(recording);
    options(by("warp"), recording.warps, (warp) => `${warp}`);
    showFindings();
  }
  options(by("lane"), lanesOf(state.warp), (lane) => `${recording.name(state.warp, lane).replace("thread ", "")}, lane ${lane}`);
  show();
}

function options(select, count, name) {
  const names = Array.from({ length: count }, (_, i) => name(i));
  if ([...select.options].map((each) => each.text).join() === names.join()) return;
  select.replaceChildren(...names.map((each, i) => new Option(each, i)));
}

function show() {
  const { warp, lane } = state, steps = recording.steps(warp), step = steps[state.step], last = steps.length - 1;
  for (const name of CHOICES) document.querySelectorAll(`input[name=${name}]`).forEach((input) => { input.checked = input.value === String(state[name]); });
  by("warp").value = warp;
  by("lane").value = lane;
  by("step").max = last;
  by("step").value = state.step;
  by("step").setAttribute("aria-valuetext", `${state.step + 1} of ${last + 1}: ${recording.place(step)}`);
  by("count").value = `${state.step + 1} of ${last + 1}`;
  by("where").textContent = recording.place(step);
  by("says").textContent = recording.says(step, warp, lane);
  by("conflict").disabled = !anyConflict;
  by("conflict").textContent = anyConflict ? "Show me a conflict" : "No bank conflicts";
  by("back").disabled = by("previous-tile").disabled = state.step === 0;
  by("forward").disabled = by("next-tile").disabled = state.step === last;
  showCost(step);
  matrices.show(step, warp, lane);
  shared.show(step, warp, lane);
  code.show(step);
  showTotals(step);
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

// A square per wavefront or sector, red beyond what it would take without conflicts.
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
  count.textContent = plural(step.units, recording.isShared(step) ? "wavefront" : "sector");
  cost.append(count);
  if (!recording.hasConflict(step)) return;
  const conflicts = document.createElement("span");
  conflicts.className = "conflicts";
  conflicts.textContent = `· ${plural(step.units - step.ideal, "conflict")}`;
  cost.append(conflicts);
}

// What is wrong with a kernel, and what its trace assumes and leaves out.
function showFindings() {
  const { findings, notes, facts } = recording, place = by("findings");
  place.hidden = !findings.length;
  place.querySelector("summary").textContent = findings.length > 1 ? `${findings.length} findings. The first: ${findings[0]}` : findings[0] ?? "";
  place.classList.toggle("one", findings.length < 2);
  place.querySelector("ul").replaceChildren(...findings.slice(1).map((each) => {
    const item = document.createElement("li");
    item.textContent = each;
    return item;
  }));
  if (by("facts")) by("facts").textContent = facts;
  by("notes").textContent = notes.join(" ");
}

function showTotals(step) {
  if (recording.depth) showKernels();
  else showAccesses(step);
}

// Heads end with a colon if their columns are words.
function fill(title, heads, rows) {
  by("totals-title").textContent = title;
  const cells = (tag, values) => values.map((value, i) => {
    const cell = document.createElement(tag);
    cell.append(tag === "th" ? value.replace(":", "") : value);
    cell.classList.toggle("words", heads[i].endsWith(":"));
    if (tag === "th") cell.scope = "col";
    return cell;
  });
  document.querySelector("#totals thead tr").replaceChildren(...cells("th", heads));
  document.querySelector("#totals tbody").replaceChildren(...rows.map(({ values, red, data, current }) => {
    const row = document.createElement("tr");
    Object.assign(row.dataset, data);
    row.append(...cells("td", values));
    if (red !== null) row.cells[red].classList.add("conflicts");
    if (current) row.setAttribute("aria-current", "true");
    return row;
  }));
}

function linkTo(address, words) {
  const link = document.createElement("a");
  link.href = `#${new URLSearchParams(address)}`;
  link.textContent = words;
  return link;
}

// The kernels side by side, each at this tile or the nearest that it has.
function showKernels() {
  const near = (variant) => tilesOf(variant).reduce((best, each) => (Math.abs(each - state.tile) < Math.abs(best - state.tile) ? each : best));
  const rows = recordings.filter(({ choice }) => choice.tile === near(choice.variant)).map((each) => {
    const { variant, layout, tile } = each.choice, { stores, loads, conflicts, each: mean } = each.wavefronts();
    return {
      values: [linkTo({ variant, layout, tile }, variant), tile, layout, stores, loads, conflicts, mean.toPrecision(3)],
      red: conflicts ? 5 : null, data: { variant, layout }, current: variant === state.variant && layout === state.layout,
    };
  });
  fill("Wavefronts per warp for one tile along K", ["kernel:", "tile", "layout:", "stores", "loads", "conflicts", "per multiply-add"], rows);
}

// The accesses of the warp, by source line.
function showAccesses(step) {
  const steps = recording.steps(state.warp), found = new Map(), place = ({ line, kind, array }) => `${line} ${kind} ${array}`;
  steps.forEach((each, i) => {
    if (!each.array) return;
    const row = found.get(place(each)) ?? { step: i, each, count: 0, units: 0, ideal: 0 };
    found.set(place(each), { ...row, count: row.count + 1, units: row.units + each.units, ideal: row.ideal + each.ideal });
  });
  const rows = [...found.values()].sort((a, b) => a.each.line - b.each.line || a.step - b.step).map(({ step: at, each, count, units, ideal }) => ({
    values: [
      linkTo({ ...state, step: at }, each.line >= 0 ? each.line + recording.firstLine : "header"), `${each.kind} ${each.array}`, count,
      plural(units, recording.isShared(each) ? "wavefront" : "sector"), ideal, Math.max(0, units - ideal),
    ],
    red: recording.isShared(each) && units > ideal ? 5 : null, data: {}, current: place(each) === place(step),
  }));
  fill(`Accesses of warp ${state.warp}, by line`, ["line:", "access:", "instructions", "cost", "ideal", "excess"], rows);
}

const hasConflict = (each) => each.timelines.some((steps) => steps.some((step) => each.hasConflict(step)));
const anyConflict = recordings.some(hasConflict);

// The next step with a conflict, or the first if there is none after this one; null if the timeline has none.
function nextConflict(of, steps, after) {
  const found = steps.flatMap((step, i) => (of.hasConflict(step) ? [i] : []));
  return found.find((i) => i > after) ?? found[0] ?? null;
}

// To the next conflict of this warp, or of another one, or of another kernel.
function showConflict() {
  play(false);
  const here = nextConflict(recording, recording.steps(state.warp), state.step);
  if (here !== null) return change({ step: here });
  const preferred = Object.entries(RECORDED.conflict ?? {}), all = recordings.filter(hasConflict);
  const liked = all.filter(({ choice }) => preferred.every(([name, value]) => choice[name] === value));
  const usual = (each, tile) => each.choice.tile === tile;
  const found = hasConflict(recording) ? recording
    : liked.find((each) => usual(each, state.tile)) ?? liked.find((each) => usual(each, RECORDED.shown?.tile)) ?? liked[0] ?? all[0];
  const steps = found.timelines.find((each) => nextConflict(found, each, -1) !== null);
  change({ ...found.choice, warp: steps.warps.includes(state.warp) ? state.warp : steps.warps[0], step: nextConflict(found, steps, -1) });
}

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => (state.step < recording.steps(state.warp).length - 1 ? go(1) : play(false)), BEAT) : null;
  by("play").classList.toggle("playing", on);
  by("play").setAttribute("aria-label", on ? "Pause" : "Play");
  by("says").setAttribute("aria-live", on ? "off" : "polite");   // read aloud, it would never end
}

function toggle() {
  if (!timer && state.step === recording.steps(state.warp).length - 1) change({ step: 0 });
  play(!timer);
}

const go = (distance) => change({ step: state.step + distance });

// To where the next tile, or the part after the next barrier, begins; or to where this one did (from there, to the one before).
function goTile(direction) {
  const starts = [...recording.starts(state.warp), recording.steps(state.warp).length - 1];
  const found = direction > 0 ? starts.find((start) => start > state.step) : starts.findLast((start) => start < state.step);
  change({ step: found ?? state.step });
}

// A group of radio buttons for each choice between recordings.
function choices(name, values) {
  if (values.length < 2) return;
  const group = document.createElement("fieldset"), legend = document.createElement("legend");
  group.id = name;
  legend.textContent = LEGENDS[name];
  group.append(legend);
  for (const value of values) {
    const label = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { type: "radio", name, value });
    input.addEventListener("change", () => change({ [name]: value }));
    label.append(input, value);
    group.append(label);
  }
  document.querySelector(".controls .field").before(group);
}

function fromAddress() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  change(Object.fromEntries(Object.entries(given).filter(([name]) => name in state)));
}

const KEYS = {
  ArrowRight: (event) => (event.shiftKey ? goTile(1) : go(1)),
  ArrowLeft: (event) => (event.shiftKey ? goTile(-1) : go(-1)),
  Home: () => change({ step: 0 }),
  End: () => change({ step: recording.steps(state.warp).length - 1 }),
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
  if (target.matches("button, a, summary")) return key === " ";
  if (target.matches("pre")) return !key.startsWith("Arrow");
  return target.matches("input[type=range]") && key !== " " && !event.shiftKey;
}

for (const name of CHOICES) choices(name, [...new Set(recordings.map((each) => each.choice[name]))]);
by("warp").addEventListener("change", (event) => change({ warp: event.target.value }));
by("lane").addEventListener("change", (event) => change({ lane: event.target.value }));
by("conflict").addEventListener("click", showConflict);
by("step").addEventListener("input", (event) => change({ step: event.target.value }));
by("back").addEventListener("click", () => go(-1));
by("forward").addEventListener("click", () => go(1));
by("previous-tile").addEventListener("click", () => goTile(-1));
by("next-tile").addEventListener("click", () => goTile(1));
by("play").addEventListener("click", toggle);
const part = RECORDED.product ? "tile" : "barrier";
for (const [id, words, key] of [["previous-tile", `Previous ${part}`, "←"], ["next-tile", `Next ${part}`, "→"]]) {
  by(id).setAttribute("aria-label", words);
  by(id).title = `${words} (Shift + ${key})`;
}
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", fromAddress);
document.addEventListener("keydown", (event) => {
  const action = KEYS[event.key];
  if (!action || event.ctrlKey || event.altKey || event.metaKey || isTaken(event)) return;
  event.preventDefault();
  action(event);
});

// In a frame, the page around has its own heading, and makes the frame as high as this page (docs/interactive/frame.js).
if (window !== window.top) {
  document.documentElement.classList.add("framed");
  const tell = () => window.parent.postMessage({ tiledmm: "height", height: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
  new ResizeObserver(tell).observe(document.body);
  window.addEventListener("message", ({ data }) => { if (data?.tiledmm === "ask") tell(); });
}
play(false);
fromAddress();
