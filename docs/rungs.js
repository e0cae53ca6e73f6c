/* The pages of the rungs: three selectors, for tile, layout and type, choose the kernel that is shown. Its lines come from
   kernels/VARIANT.js, which is loaded when something is selected for the first time. The box opens at the kernel: its
   parameters and device functions are above. */
"use strict";

(() => {
  const box = document.querySelector(".kernel[data-kernels]");
  const choice = box && box.querySelector(".kernel-choice");
  if (!choice) return;
  const selects = [...choice.querySelectorAll("select")];
  const status = choice.querySelector("[role=status]");
  const [page, headers] = box.querySelectorAll("pre > code");
  let kernels = null;
  let lines = [];
  let usual = new Set();
  let shown = labelOf(selects);

  function labelOf(from) {
    return from.map((select) => select.value).join(" ");
  }

  function numbersOf(runs) {
    const numbers = [];
    for (let i = 0; i < runs.length; i += 2) {
      for (let n = 0; n < runs[i + 1]; ++n) numbers.push(runs[i] + n);
    }
    return numbers;
  }

  /* Lines that the usual kernel does not have are marked. */
  function fill(code, runs) {
    code.innerHTML = numbersOf(runs)
      .map((i) => (usual.has(i) ? `${lines[i]}\n` : `<span class="hll">${lines[i]}\n</span>`))
      .join("");
  }

  /* Scrolls the box, not the page, to `extern "C"`. */
  function openAtKernel() {
    const first = [...page.querySelectorAll("span")].find((span) => span.textContent === "extern");
    if (first) page.scrollTop += first.getBoundingClientRect().top - page.getBoundingClientRect().top - 8;
  }

  function show() {
    const label = labelOf(selects);
    if (!(label in kernels)) {
      status.textContent = `No such kernel: ${label}. Shown: ${shown}.`;
      shown.split(" ").forEach((value, i) => { selects[i].value = value; });
      return;
    }
    status.textContent = "";
    shown = label;
    const [own, before] = kernels[label];
    fill(page, own);
    fill(headers, before);
    openAtKernel();
    const count = numbersOf(before).length;
    const summary = headers.closest("details").querySelector("summary");
    summary.textContent = summary.textContent.replace(/\d+/, count);
  }

  window.tiledmmKernels = (_variant, data) => {
    ({ lines, kernels } = data);
    usual = new Set(Object.values(kernels)[0].flatMap(numbersOf));
    show();
  };

  choice.addEventListener("change", () => {
    if (kernels) {
      show();
    } else if (!box.querySelector("script")) {
      const script = document.createElement("script");
      script.src = box.dataset.kernels;
      script.onerror = () => {
        status.textContent = "The other kernels could not be loaded.";
        script.remove();
      };
      box.append(script);
    }
  });
  choice.hidden = false;
  openAtKernel();
})();
