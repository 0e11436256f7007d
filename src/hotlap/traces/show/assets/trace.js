"use strict";
// What the parts of a trace's page share: the drawn data, how times are written, the tip; and the table that sorts.
const hotlap = (() => {
  const TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, int32: Int32Array, float32: Float32Array };
  const drawn = JSON.parse(document.getElementById("drawn").textContent);

  const column = (text, type) => {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new TYPES[type](bytes.buffer);
  };

  const time = (ns) => {
    const size = Math.abs(ns);
    for (const [scale, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
      if (size >= scale * 0.9995) return `${Number((ns / scale).toPrecision(size >= scale * 999.5 ? 4 : 3))} ${unit}`;
    }
    return `${Math.round(ns)} ns`;
  };

  const tip = document.getElementById("tip");
  const show = (x, y, head, lines) => {
    tip.replaceChildren();
    const bold = document.createElement("b");
    bold.textContent = head;
    tip.append(bold, ...lines.filter(Boolean).map((text) => {
      const line = document.createElement("span");
      line.textContent = text;
      return line;
    }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18}px`;
  };
  const hide = () => { tip.hidden = true; };

  const colour = (() => {
    let known = {};
    const look = () => { known = {}; };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
    new MutationObserver(look).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return (name) => known[name] || (known[name] = getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  })();

  const table = document.getElementById("kernel-table");
  if (table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => head.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending" || (head.getAttribute("aria-sort") === "none" && !head.classList.contains("n"));
      heads.forEach((one) => one.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const value = (row) => row.cells[place].dataset.v;
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const order = value(a) === undefined ? a.cells[place].textContent.localeCompare(b.cells[place].textContent) : value(a) - value(b);
        return down ? order : -order;
      });
      table.tBodies[0].append(...rows);
    }));
  }
  return { drawn, column, time, show, hide, colour };
})();
