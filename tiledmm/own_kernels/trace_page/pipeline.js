// Steps through what the simulator recorded of one block's pipeline: mbarriers, copies in flight, wgmma, and who waits. The data is
// RECORDED, as pipeline_recording.py describes it: `tiledmm trace` writes it into its page, and python -m docs.interactive.pipeline
// into pipeline_recorded.js.
"use strict";

const BEAT = 800;   // ms between two steps while it plays
const COLORS = ["A", "B", "C", "D", "E"];   // classes, of stages in their order

// ---- what was recorded ----

class Recording {
  constructor(raw) {
    Object.assign(this, raw);
    // Tiles are numbered by array, in the order in which their copies are issued.
    const tiles = {};
    this.copies = [];
    for (const [at, step] of this.steps.entries()) {
      if (step.kind === "issue") this.copies[step.copy] = { ...step, at, until: this.steps.length, tile: (tiles[step.to] = (tiles[step.to] ?? -1) + 1) };
      if (step.kind === "land") this.copies[step.copy].until = at;
    }
    this.arrays = Object.keys(tiles);
    // Barriers that copies complete on say that a stage is full; others of a stage, that it has been read.
    const counted = new Set(this.copies.map(({ barrier }) => barrier));
    this.barriers.forEach((each, number) => Object.assign(each, { number, counts: counted.has(number), array: each.name.split("[")[0] }));
    this.states = [this.begin()];
    for (const step of this.steps) this.states.push(this.after(this.states.at(-1), step));
  }

  begin() {
    return {
      barriers: this.barriers.map(({ arrivals }) => ({ phase: 0, pending: arrivals, missing: 0, by: [] })),
      actors: this.actors.map(() => ({ step: null, wait: null, groups: [], passed: {} })),
      flying: [], tiles: {}, before: null,
    };
  }

  after(state, step) {
    const next = structuredClone(state), actor = next.actors[step.actor], barrier = next.barriers[step.barrier];
    if (actor) Object.assign(actor, { step, wait: null });
    switch (step.kind) {
      case "wait": actor.wait = { barrier: step.barrier, phase: step.phase }; break;
      case "wait for wgmma": actor.wait = { group: step.group }; break;
      case "pass":
        actor.again = actor.passed[step.barrier] === step.phase;
        actor.waited = Boolean(state.actors[step.actor].wait);
        actor.passed[step.barrier] = step.phase;
        break;
      case "expect": barrier.missing += step.bytes; break;
      case "arrive":
        barrier.pending = Math.max(0, barrier.pending - step.count);
        barrier.missing += step.bytes ?? 0;
        barrier.by.push(step.actor);
        break;
      case "complete":
        Object.assign(barrier, { phase: step.phase + 1, pending: this.barriers[step.barrier].arrivals, by: [] });
        if (!this.barriers[step.barrier].counts)
          for (const tile of Object.values(next.tiles[this.barriers[step.barrier].stage] ?? {})) tile.state = "read";
        break;
      case "issue":
        next.flying.push(step.copy);
        (next.tiles[step.stage] ??= {})[step.to] = { state: "flying", tile: this.copies[step.copy].tile };
        break;
      case "land":
        next.flying = next.flying.filter((each) => each !== step.copy);
        if (barrier) barrier.missing -= step.bytes;
        next.tiles[step.stage][step.to].state = "full";
        break;
      case "wgmma": actor.groups.push({ group: step.group, stage: step.stage }); break;
      case "pass wgmma": actor.groups = actor.groups.filter(({ group }) => group >= step.group); break;
    }
    return next;
  }

  waiting(state, barrier) { return this.actors.flatMap((_, i) => (state.actors[i].wait?.barrier === barrier ? [i] : [])); }

  // "Producer", "Consumers 0 and 1".
  names(actors) {
    const all = actors.map((i) => this.actors[i].name), [first] = all, kind = first?.replace(/ \d+$/, "");
    return all.length > 1 && all.every((each) => each.replace(/ \d+$/, "") === kind) ? `${kind}s ${inWords(all.map((each) => each.slice(kind.length + 1)))}` : inWords(all);
  }

  // Who arrives at a barrier, or at others of its array.
  arriving(barrier) {
    const { array } = this.barriers[barrier];
    return [...new Set(this.steps.filter((each) => each.kind === "arrive" && this.barriers[each.barrier]?.array === array).map((each) => each.actor))];
  }

  missing(state, number) {
    const { pending, missing } = state.barriers[number], { arrivals } = this.barriers[number], parts = [];
    if (pending) parts.push(arrivals > 1 ? `${pending} of ${arrivals} arrivals` : "the arrival");
    if (missing) parts.push(`${thousands(missing)} bytes`);
    return parts.length ? `${inWords(parts)} ${pending + (missing ? 2 : 0) > 1 && !(arrivals === 1 && !missing) ? "are" : "is"} missing` : "nothing is missing";
  }

  says(at) {
    const step = this.steps[at - 1], state = this.states[at], who = this.actors[step?.actor]?.name;
    if (!step) return `The barriers are initialised: ${inWords(this.arrivalsInWords())}. No thread waits yet.`;
    const name = this.barriers[step.barrier]?.name, stage = `stage ${step.stage}`;
    switch (step.kind) {
      case "wait": return `${who} waits for phase ${step.phase} of ${name}: ${this.missing(state, step.barrier)}.`;
      case "pass": {
        if (step.phase < 0) return `${who} waits for the phase before the first of ${name}. It counts as complete, so the wait ends at once.`;
        if (state.actors[step.actor].again) return `${who} waits for phase ${step.phase} of ${name} again, by its parity. That phase is long over, so the wait ends at once.`;
        return state.actors[step.actor].waited ? `${who} goes on: phase ${step.phase} of ${name} has completed.` : `${who} need not wait: phase ${step.phase} of ${name} has completed already.`;
      }
      case "expect": return `${who} expects ${thousands(step.bytes)} bytes more at ${name}.`;
      case "arrive": {
        if (step.bytes) return `${who} arrives at ${name} and expects ${thousands(step.bytes)} bytes: the phase completes when they have arrived, too.`;
        const times = step.count > 1 ? `, ${step.count} times` : "";
        const read = this.barriers[step.barrier]?.counts || !this.copies.length ? "" : `: it has read stage ${this.barriers[step.barrier]?.stage}`;
        const { pending } = state.barriers[step.barrier], { arrivals } = this.barriers[step.barrier];
        return `${who} arrives at ${name}${times}${read}. ${pending ? `${pending} of ${arrivals} arrivals ${pending > 1 ? "are" : "is"} missing` : "No arrival is missing"}.`;
      }
      case "issue": return `${who} issues a load of ${thousands(step.bytes)} bytes to ${step.to} in ${stage} (tile ${this.copies[step.copy].tile}), and does not wait for it.`;
      case "land": return `A load arrives: ${thousands(step.bytes)} bytes of ${step.to} in ${stage}. At ${name}, ${this.missing(state, step.barrier)}.`;
      case "complete": {
        const waiting = this.waiting(state, step.barrier), { counts, stage: of } = this.barriers[step.barrier];
        const what = !this.copies.length ? "" : counts ? `: stage ${of} is full` : `: stage ${of} has been read`;
        return `Phase ${step.phase} of ${name} completes${what}. ${waiting.length ? `${this.names(waiting)} can go on` : "Nobody waits for it yet"}.`;
      }
      case "wgmma": {
        const issues = `${who} issues ${step.count} wgmma on ${step.stage < 0 ? "shared memory" : stage} and commits them as group ${step.group}`;
        return step.finding === undefined ? `${issues}. They run beside the warps.`
          : `${issues}, while ${this.flyingTo(state, step.stage)} to this stage ${this.flyingTo(state, step.stage).startsWith("a ") ? "is" : "are"} in flight: they multiply wrong elements.`;
      }
      case "wait for wgmma": return `${who} waits for its wgmma up to group ${step.group - 1}.`;
      case "pass wgmma": return step.group ? `${who}: wgmma up to group ${step.group - 1} have completed, and have read their stages.`
        : `${who} waits for all groups but the last. There is only one, so it goes on.`;
      case "deadlock": return this.deadlockSays(state);
    }
    return `${who}: ${step.kind}.`;
  }

  flyingTo(state, stage) {
    const count = state.flying.filter((copy) => this.copies[copy].stage === stage).length;
    return count === 1 ? "a load" : `${count} loads`;
  }

  arrivalsInWords() {
    const arrays = new Map(this.barriers.map(({ array, arrivals }) => [array, arrivals]));
    return [...arrays].reverse().map(([array, arrivals]) => `${array} for ${arrivals} arrival${arrivals > 1 ? "s" : ""} per phase`);
  }

  deadlockSays(state) {
    const parts = this.barriers.flatMap(({ number, name }) => {
      const waiting = this.waiting(state, number);
      if (!waiting.length) return [];
      const absent = this.arriving(number).filter((actor) => !state.barriers[number].by.includes(actor));
      const from = state.barriers[number].pending === 0 ? "" : absent.length ? `, which ${this.names(absent)} should make` : ", and no thread is left to make it";
      return [`${this.names(waiting)} wait${waiting.length > 1 ? "" : "s"} for ${name}, where ${this.missing(state, number)}${from}`];
    });
    return `Deadlock: ${parts.join("; ")}. No copy is in flight.`;
  }

  // What someone does now, in a few words: of a step of theirs.
  brief({ step, wait }) {
    if (!step) return "has not begun";
    const name = this.barriers[step.barrier]?.name;
    if (wait) return name ? `waits for ${name}, phase ${step.phase}` : `waits for wgmma up to group ${step.group - 1}`;
    switch (step.kind) {
      case "pass": return `passes ${name}`;
      case "expect": case "arrive": return step.bytes ? `expects ${thousands(step.bytes)} bytes at ${name}` : this.barriers[step.barrier]?.counts || !this.copies.length ? `arrives at ${name}` : `releases stage ${this.barriers[step.barrier]?.stage} (${name})`;
      case "issue": return `issues a load to ${step.to}, stage ${step.stage}`;
      case "wgmma": return `issues wgmma on stage ${step.stage}`;
      case "pass wgmma": return step.group ? `wgmma up to group ${step.group - 1} are done` : "lets wgmma run on";
    }
    return step.kind;
  }

  // The stage that a step is about; -1 for none.
  stageOf(step) { return step.stage ?? this.barriers[step.barrier]?.stage ?? -1; }

  // Bars of a row of the timeline: begin, end, stage, class and row.
  bars(actor) {
    const found = [], last = this.steps.length;
    let waits = null;
    const groups = [];
    for (const [at, step] of this.steps.entries()) {
      if (step.actor !== actor) continue;
      if (waits !== null) found.push({ from: waits, to: at, kind: "waits" });
      waits = step.kind.startsWith("wait") ? at : null;
      if (waits === null) found.push({ from: at, to: at + 1, kind: "does", stage: this.stageOf(step), at });
      if (step.kind === "wgmma") groups.push({ from: at, to: last, kind: "runs", stage: step.stage, group: step.group });
      if (step.kind === "pass wgmma") for (const each of groups) if (each.group < step.group && each.to === last) each.to = at;
    }
    if (waits !== null) found.push({ from: waits, to: last, kind: "waits" });
    return [...found, ...groups];
  }

  // Copies of one stage that are in flight together are one bar.
  flights(stage) {
    const found = [];
    for (const { at, until, stage: of } of this.copies) {
      if (of !== stage) continue;
      const before = found.at(-1);
      if (before && at <= before.to) before.to = Math.max(before.to, until);
      else found.push({ from: at, to: until, kind: "runs", stage });
    }
    return found;
  }

  // Steps at which a phase has completed.
  stops() { return this.steps.flatMap((step, i) => (["complete", "deadlock"].includes(step.kind) || step.finding !== undefined ? [i + 1] : [])); }
}

function thousands(number) { return number.toLocaleString("en-US"); }
function inWords(parts) { return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`; }

// ---- the page ----

const TOKEN = /(\/\/.*$)|(^\s*#\s*\w+(?:(?!\/\/).)*)|\b(const|constexpr|auto|bool|char|double|half|int|long|short|unsigned|size_t|float\d?|void|extern|else|for|if|do|asm|volatile|return|static|struct|template|typename|while|__\w+__)\b/g;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function colored(line) {
  const parts = document.createDocumentFragment();
  let from = 0;
  for (const found of line.matchAll(TOKEN)) {
    parts.append(line.slice(from, found.index), make("span", { class: found[1] ? "comment" : found[2] ? "directive" : "word-of-c" }, found[0]));
    from = found.index + found[0].length;
  }
  parts.append(line.slice(from));
  return parts;
}

const recordings = RECORDED.map((raw) => new Recording(raw));
const shown = { variant: 0, step: 0 };
let timer = null, listed = -1, drawn = -1;
const by = (id) => document.getElementById(id);

document.getElementById("trace").innerHTML = `
<form class="controls" ${recordings.length > 1 || recordings[0].note ? "" : "hidden"}>
  <fieldset id="variants" ${recordings.length > 1 ? "" : "hidden"}><legend>Kernel</legend></fieldset>
  <p id="note"></p>
</form>
<section class="now" aria-label="This step">
  <div class="saying" aria-live="polite">
    <p id="where"></p>
    <p id="says"></p>
  </div>
  <div class="transport" role="group" aria-label="Steps">
    <button type="button" id="previous" aria-label="Previous phase" title="Previous completed phase (Shift ←)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M2 3h2v10H2zM14 3v10L5 8z"/></svg></button>
    <button type="button" id="back" aria-label="Step back" title="Step back (←)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M11 3v10L4 8z"/></svg></button>
    <button type="button" id="play" aria-label="Play" title="Play or pause (space)"><svg viewBox="0 0 16 16" aria-hidden="true"><path class="when-paused" d="M4 2v12l10-6z"/><path class="when-playing" d="M3 2h4v12H3zM9 2h4v12H9z"/></svg></button>
    <button type="button" id="forward" aria-label="Step forward" title="Step forward (→)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M5 3v10l7-5z"/></svg></button>
    <button type="button" id="next" aria-label="Next phase" title="Next completed phase (Shift →)"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M12 3h2v10h-2zM2 3v10l9-5z"/></svg></button>
    <input type="range" id="step" min="0" value="0" aria-label="Step">
    <output id="count" for="step"></output>
  </div>
</section>
<main class="pipeline">
  <figure class="panel" id="stages"><figcaption>Shared memory: what each stage holds, and its barriers</figcaption><div class="stages"></div></figure>
  <figure class="panel" id="lanes"><figcaption>What everyone does now, and over all steps</figcaption><div class="lanes-of"></div>
    <ul class="legend"><li><i class="swatch does"></i>does something with a stage, in its color</li><li><i class="swatch runs"></i>in flight</li><li><i class="swatch waits"></i>waits</li></ul>
  </figure>
  <figure class="panel" id="listing"><figcaption></figcaption><pre class="numbered" id="code" tabindex="0"></pre></figure>
</main>`;

const current = () => recordings[shown.variant];

// ---- the stages ----

function barrierCard(recording, state, barrier, step) {
  const { number, name, arrivals, counts } = barrier, now = state.barriers[number], waiting = recording.waiting(state, number);
  const full = Math.max(now.missing, 0), whole = recording.wholes[number] || 1;
  const card = make("div", { class: `barrier ${counts ? "counts" : ""} ${step?.barrier === number ? "touched" : ""} ${step?.kind === "complete" && step.barrier === number ? "completes" : ""} ${waiting.length ? "awaited" : ""}`, "data-barrier": name });
  card.append(make("p", { class: "head" }, make("b", {}, name), make("span", { class: "phase" }, `phase ${now.phase} · parity ${now.phase % 2}`)));
  const dots = make("span", { class: "dots", role: "img", "aria-label": `${now.pending} of ${arrivals} arrivals are missing` });
  for (let i = 0; i < Math.min(arrivals, 32); ++i) dots.append(make("i", { class: i < arrivals - now.pending ? "arrived" : "" }));
  card.append(make("p", { class: "count" }, dots, make("span", {}, `${arrivals - now.pending} of ${arrivals} arrived`)));
  if (counts)
    card.append(make("p", { class: "count bytes" }, make("span", { class: "meter" }, make("i", { style: `width:${now.missing ? Math.max(4, (full / whole) * 100) : 0}%` })), make("span", {}, `${thousands(now.missing)} bytes missing`)));
  const chips = make("p", { class: "chips" });
  if (waiting.length) chips.append(make("span", { class: "chip" }, `${recording.names(waiting)} wait${waiting.length > 1 ? "" : "s"}`));
  card.append(chips);
  return card;
}

const TILE_SAYS = { flying: "load in flight", full: "loaded", read: "read, may be overwritten" };

function drawStages(recording, state, step) {
  const cards = [];
  for (let stage = 0; stage < recording.stages; ++stage) {
    const card = make("section", { class: `stage ${COLORS[stage % COLORS.length]}`, "aria-label": `Stage ${stage}` }, make("h3", {}, `Stage ${stage}`));
    const readers = recording.actors.flatMap((each, i) => (state.actors[i].groups.some((group) => group.stage === stage) ? [i] : []));
    const tiles = make("div", { class: "tiles" });
    for (const array of recording.arrays) {
      const tile = state.tiles[stage]?.[array], kind = tile ? (tile.state === "full" && readers.length ? "reads" : tile.state) : "none";
      const wrong = step?.finding !== undefined && step.stage === stage && tile?.state === "flying";
      tiles.append(make("div", { class: `box ${kind} ${wrong ? "wrong" : ""}`, title: tile ? TILE_SAYS[tile.state] : "nothing yet" },
        make("b", {}, array), make("span", {}, tile ? `tile ${tile.tile}` : "–")));
    }
    const states = Object.values(state.tiles[stage] ?? {}).map((each) => each.state);
    const says = readers.length ? `wgmma of ${recording.names(readers)}` : !states.length ? "nothing yet" : states.includes("flying") ? "loads in flight" : states.includes("full") ? "loaded" : "read: may be overwritten";
    if (recording.copies.length) card.append(tiles, make("p", { class: "holds" }, says));
    for (const barrier of [...recording.barriers].filter((each) => each.stage === stage).sort((a, b) => b.counts - a.counts)) card.append(barrierCard(recording, state, barrier, step));
    cards.push(card);
  }
  const parent = document.querySelector("#stages .stages");
  parent.style.setProperty("--stages", recording.stages);
  parent.style.setProperty("--rows", Math.max(...cards.map((each) => each.children.length)));
  parent.replaceChildren(...cards);
}

// ---- the timeline ----

function bar({ from, to, kind, stage }, total, more = "") {
  const color = stage >= 0 ? COLORS[stage % COLORS.length] : "";
  return make("i", { class: `bar ${kind} ${color}`, style: `left:${(from / total) * 100}%;width:${((to - from) / total) * 100}%;${more}` });
}

function drawRows(recording) {
  const total = recording.steps.length, rows = [];
  const row = (name, detail, bars, kind) => {
    const strip = make("div", { class: "strip" }, ...bars, make("i", { class: "future" }), make("i", { class: "head" }));
    strip.addEventListener("click", (event) => change({ step: Math.ceil(((event.clientX - strip.getBoundingClientRect().left) / strip.clientWidth) * total) }));
    rows.push(make("div", { class: `lane-of ${kind}` }, make("p", { class: "who" }, make("b", {}, name), " ", make("small", {}, detail)), make("p", { class: "does-now" }), strip));
  };
  const actor = (i) => row(recording.actors[i].name, recording.actors[i].warps, recording.bars(i).map((each) => bar(each, total)), "actor");
  const copies = () => row("Copies", "in flight", Array.from({ length: recording.stages }, (_, stage) =>
    recording.flights(stage).map((each) => bar(each, total, `top:${(stage / recording.stages) * 100}%;height:${92 / recording.stages}%;`))).flat(), "copies");
  const issuing = recording.actors.findIndex((_, i) => recording.steps.some((each) => each.actor === i && each.kind === "issue"));
  recording.actors.forEach((_, i) => {
    actor(i);
    if (i === issuing && recording.copies.length) copies();
  });
  document.querySelector("#lanes .lanes-of").replaceChildren(...rows);
}

function drawLanes(recording, state, step) {
  const rows = [...document.querySelectorAll("#lanes .lane-of")], actors = rows.filter((each) => each.classList.contains("actor"));
  const share = shown.step / recording.steps.length, dead = step?.kind === "deadlock";
  for (const each of rows) {
    each.querySelector(".head").style.left = `${share * 100}%`;
    each.querySelector(".future").style.left = `${share * 100}%`;
  }
  recording.actors.forEach((_, i) => {
    const now = state.actors[i], line = actors[i];
    line.classList.toggle("waiting", Boolean(now.wait));
    line.classList.toggle("acts", step?.actor === i);
    line.classList.toggle("dead", dead && Boolean(now.wait));
    line.classList.toggle("wrong", step?.actor === i && step.finding !== undefined);
    const running = now.groups.length ? ` · ${now.groups.length} wgmma group${now.groups.length > 1 ? "s" : ""} in flight` : "";
    line.querySelector(".does-now").textContent = recording.brief(now) + (now.wait?.group === undefined ? running : "");
  });
  const copies = rows.find((each) => each.classList.contains("copies"));
  if (copies) {
    const flying = state.flying.map((copy) => recording.copies[copy]), bytes = flying.reduce((sum, each) => sum + each.bytes, 0);
    copies.querySelector(".does-now").textContent = flying.length ? `${flying.length} load${flying.length > 1 ? "s" : ""}, ${thousands(bytes)} bytes` : "none";
    copies.classList.toggle("acts", step?.kind === "land");
  }
}

// ---- the kernel ----

function drawCode(recording, state, step) {
  const pre = by("code");
  if (listed !== shown.variant) {
    listed = shown.variant;
    pre.replaceChildren(...recording.source.map((line, i) => make("span", { "data-line": recording.first + i, class: recording.changed?.includes(recording.first + i) ? "changed" : null }, colored(line))));
    document.querySelector("#listing figcaption").textContent = `${recording.file}: the line of this step, and the lines where others wait`;
  }
  const lines = [...pre.children], line = step?.line ? lines[step.line - recording.first] : null;
  for (const each of lines) {
    each.removeAttribute("aria-current");
    each.classList.remove("awaits");
  }
  state.actors.forEach(({ wait, step: own }) => { if (wait) lines[own.line - recording.first]?.classList.add("awaits"); });
  if (!line) return;
  line.setAttribute("aria-current", "step");
  const top = line.offsetTop, bottom = top + line.offsetHeight;
  if (top < pre.scrollTop || bottom > pre.scrollTop + pre.clientHeight) pre.scrollTop = top - pre.clientHeight / 2;
}

// ---- steps ----

function draw() {
  const recording = current(), at = shown.step, state = recording.states[at], step = recording.steps[at - 1];
  if (drawn !== shown.variant) {
    drawn = shown.variant;
    recording.wholes = recording.barriers.map((each) => Math.max(0, ...recording.states.map((state) => state.barriers[each.number].missing)));
    drawRows(recording);
    by("step").max = recording.steps.length;
    by("note").textContent = recording.note ?? "";
    if (by("facts")) by("facts").textContent = recording.facts;
  }
  drawStages(recording, state, step);
  drawLanes(recording, state, step);
  drawCode(recording, state, step);
  const bad = step?.kind === "deadlock" || step?.finding !== undefined;
  document.querySelector(".now").classList.toggle("bad", bad);
  document.querySelector(".now").classList.toggle("dead", step?.kind === "deadlock");
  const who = step ? recording.actors[step.actor]?.name ?? (step.kind === "land" ? "TMA" : step.kind === "complete" ? "Barrier" : "Simulator") : "Begin";
  // "kernel, file:line: kind: sentence"
  const kind = step?.finding === undefined ? "" : ` · finding: ${recording.findings[step.finding].split(": ")[1]}`;
  by("where").textContent = `${who}${step?.line && step.actor >= 0 ? ` · ${recording.file}, line ${step.line}` : ""}${kind}`;
  by("says").textContent = recording.says(at);
  by("says").title = step?.finding === undefined ? "" : recording.findings[step.finding];
  by("count").value = `${at} of ${recording.steps.length}`;
  by("step").value = at;
  by("step").setAttribute("aria-valuetext", `Step ${at} of ${recording.steps.length}`);
  by("back").disabled = by("previous").disabled = at === 0;
  by("forward").disabled = by("next").disabled = at === recording.steps.length;
  for (const input of document.querySelectorAll("#variants input")) input.checked = Number(input.value) === shown.variant;
}

function change(to) {
  if (to.variant !== undefined && to.variant !== shown.variant) Object.assign(shown, { variant: to.variant, step: to.step ?? 0 });
  if (to.step !== undefined) shown.step = Math.max(0, Math.min(Number(to.step) || 0, current().steps.length));
  draw();
  history.replaceState(null, "", `#variant=${encodeURIComponent(current().name)}&step=${shown.step}`);
}

function go(by) { change({ step: shown.step + by }); }

function goStop(direction) {
  const stops = [0, ...current().stops(), current().steps.length];
  change({ step: direction > 0 ? stops.find((each) => each > shown.step) ?? shown.step : stops.findLast((each) => each < shown.step) ?? 0 });
}

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => {
    go(1);
    if (shown.step === current().steps.length) play(false);
  }, BEAT) : null;
  by("play").classList.toggle("playing", on);
  by("play").setAttribute("aria-label", on ? "Pause" : "Play");
}

function toggle() {
  if (!timer && shown.step === current().steps.length) change({ step: 0 });
  play(!timer);
}

function fromAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const variant = recordings.findIndex((each) => each.name === asked.get("variant"));
  change({ variant: Math.max(0, variant), step: asked.get("step") ?? 0 });
}

recordings.forEach(({ name }, i) => {
  const input = make("input", { type: "radio", name: "variant", value: i });
  input.addEventListener("change", () => {
    play(false);
    change({ variant: i, step: 0 });
  });
  by("variants").append(make("label", {}, input, name));
});
by("step").addEventListener("input", (event) => change({ step: event.target.value }));
for (const [id, action] of Object.entries({ back: () => go(-1), forward: () => go(1), previous: () => goStop(-1), next: () => goStop(1) }))
  by(id).addEventListener("click", () => {
    play(false);
    action();
  });
by("play").addEventListener("click", toggle);
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", fromAddress);
const KEYS = {
  ArrowLeft: ({ shiftKey }) => (shiftKey ? goStop(-1) : go(-1)), ArrowRight: ({ shiftKey }) => (shiftKey ? goStop(1) : go(1)),
  Home: () => change({ step: 0 }), End: () => change({ step: current().steps.length }), " ": toggle,
};
document.addEventListener("keydown", (event) => {
  const { target, key } = event, action = KEYS[key];
  if (!action || event.ctrlKey || event.metaKey || event.altKey || (key === " " && target.closest("button")) || target.type === "radio") return;
  event.preventDefault();
  if (key !== " ") play(false);
  action(event);
});

// In a frame, the page around has its own heading, and makes the frame as high as this page (docs/interactive/frame.js).
if (window !== window.top) {
  document.documentElement.classList.add("framed");
  const tell = () => window.parent.postMessage({ tiledmm: "height", height: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
  new ResizeObserver(tell).observe(document.body);
  window.addEventListener("message", ({ data }) => { if (data?.tiledmm === "ask") tell(); });
}
fromAddress();
