/* The page of charts: draws the lines of a table's checked rows in the place of the picture, six at most. Both scales are
   logarithmic; a line's name stands beside its end. The unit is the table's first heading, or what the box says (data-unit). */
"use strict";

(() => {
  const MOST = 6;
  const SVG = "http://www.w3.org/2000/svg";
  const DASHED = "cupy.matmul";
  const AUTO = "auto";   // has the first colour, as in the pictures that benchmarks.charts draws; no other line has it

  function element(name, attributes, parent, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  function numberOf(cell) {
    const value = Number(cell.textContent.replaceAll(",", ""));
    return value > 0 ? value : null;
  }

  /* Powers of ten between two values, and 2 and 5 times these where there are few. */
  function ticks(low, high) {
    const found = [];
    const factors = high / low > 300 ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power) {
      for (const factor of factors) {
        const value = factor * 10 ** power;
        if (value >= low && value <= high) found.push(value);
      }
    }
    return found;
  }

  /* px that the longest name takes, in the font that it is drawn with. */
  function longest(names, svg) {
    return Math.max(0, ...names.map((name) => {
      const text = element("text", { class: "name" }, svg, name);
      const length = text.getComputedTextLength();
      text.remove();
      return length;
    }));
  }

  /* Places from the top down, moved until none is too near another. */
  function apart(places, distance, bottom) {
    const moved = [];
    for (const place of places) moved.push(moved.length ? Math.max(place, moved.at(-1) + distance) : place);
    for (let i = moved.length - 1, limit = bottom; i >= 0; --i, limit = moved[i + 1] - distance) {
      moved[i] = Math.min(moved[i], limit);
    }
    return moved;
  }

  function draw(chart) {
    const { svg, rows, sizes, unit } = chart;
    const shown = rows.filter((row) => row.box.checked);
    const width = svg.parentElement.clientWidth;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} 370`);
    const names = 25 + longest(shown.map((row) => row.name), svg);
    const area = { left: 44, right: width - names, top: 24, bottom: 330 };
    svg.setAttribute("aria-label", `${unit} by size: ${shown.map((row) => row.name).join(", ")}`);
    element("text", { x: 0, y: 12 }, svg, unit);
    element("text", { x: area.right, y: 365, "text-anchor": "end" }, svg, "size of square matrices");
    const values = shown.flatMap((row) => row.values.filter((value) => value));
    if (!values.length) return;
    const low = Math.min(...values) / 1.3;
    const high = Math.max(...values) * 1.3;
    const x = (i) => area.left + (area.right - area.left) * (i / Math.max(1, sizes.length - 1));
    const y = (value) => area.bottom - (area.bottom - area.top) * (Math.log(value / low) / Math.log(high / low));
    for (const value of ticks(low, high)) {
      element("line", { x1: area.left, x2: area.right, y1: y(value), y2: y(value), class: "grid" }, svg);
      element("text", { x: area.left - 6, y: y(value) + 4, "text-anchor": "end" }, svg, `${Number(value.toPrecision(1))}`);
    }
    const every = width < 500 ? 2 : 1;
    sizes.forEach((size, i) => {
      if (i % every === 0) element("text", { x: x(i), y: area.bottom + 17, "text-anchor": "middle" }, svg, size);
    });
    const ends = [];
    shown.forEach((row) => {
      const points = row.values.flatMap((value, i) => (value ? [[x(i), y(value)]] : []));
      const colour = `line-${row.colour}`;
      const line = element("polyline", { points: points.map((point) => point.join()).join(" "), class: colour }, svg);
      if (row.name === DASHED) line.setAttribute("stroke-dasharray", "6 4");
      points.forEach(([cx, cy], i) => {
        const dot = element("circle", { cx, cy, r: 3, class: colour }, svg);
        element("title", {}, dot, `${row.name}, ${sizes[i]}: ${row.values[i]}`);
      });
      if (points.length) ends.push([...points.at(-1), row.name, colour]);
    });
    ends.sort((one, other) => one[1] - other[1]);
    apart(ends.map((end) => end[1]), 15, area.bottom).forEach((place, i) => {
      const [endX, endY, name, colour] = ends[i];
      element("line", { x1: endX + 4, y1: endY, x2: area.right + 10, y2: place, class: `leader ${colour}` }, svg);
      element("circle", { cx: area.right + 12, cy: place, r: 4, class: colour }, svg);
      element("text", { x: area.right + 19, y: place + 4, class: "name" }, svg, name);
    });
  }

  /* A line keeps its colour as long as it is drawn. */
  function colour(chart) {
    for (const row of chart.rows) if (!row.box.checked) row.colour = null;
    for (const row of chart.rows) {
      if (!row.box.checked || row.colour !== null) continue;
      const taken = new Set(chart.rows.map((other) => other.colour));
      row.colour = row.name === AUTO ? 0 : [...Array(MOST).keys()].map((i) => i + 1).find((i) => !taken.has(i));
    }
    const full = chart.rows.filter((row) => row.box.checked).length >= MOST;
    for (const row of chart.rows) row.box.disabled = full && !row.box.checked;
  }

  function start(box) {
    const table = box.querySelector("table");
    const picture = box.querySelector("picture");
    const [head, ...body] = table.rows;
    const [heading, ...sizes] = [...head.cells].map((cell) => cell.textContent);
    const unit = box.dataset.unit || heading;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("role", "img");
    const chart = { svg, unit, sizes };
    chart.rows = body.map((line) => {
      const [first, ...cells] = line.cells;
      const label = document.createElement("label");
      const input = document.createElement("input");
      input.type = "checkbox";
      input.checked = Boolean(first.querySelector("strong"));
      label.append(input, " ", first.textContent);
      const name = first.textContent;
      first.replaceChildren(label);
      return { name, box: input, colour: null, values: cells.map(numberOf) };
    });
    picture.replaceWith(svg);
    const update = () => { colour(chart); draw(chart); };
    table.addEventListener("change", update);
    new ResizeObserver(() => draw(chart)).observe(box);
    update();
  }

  document.querySelectorAll(".chart.choose").forEach(start);
})();
