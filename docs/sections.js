/* Pages with folded sections: the one that the address names is opened. Where there is room, so are wide tables (details.wide), and in the
   glossary, which has columns there, all. */
"use strict";

(() => {
  function open() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const section = target && target.closest("details.section");
    if (!section) return;
    section.open = true;
    target.scrollIntoView();
  }

  const columns = matchMedia("(min-width: 60em)");
  const roomy = document.querySelectorAll(".glossary > details.section, details.wide");
  const unfold = () => { for (const section of roomy) section.open = columns.matches; };
  unfold();
  columns.addEventListener("change", unfold);
  window.addEventListener("hashchange", open);
  document.addEventListener("click", (event) => {   // a link to the place that the address names already
    const link = event.target.closest("a[href]");
    if (link && link.hash && link.hash === location.hash) open();
  });
  open();
})();
