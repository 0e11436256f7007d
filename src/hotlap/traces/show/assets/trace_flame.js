"use strict";
// The icicle: who asked for the time, from the outside in.
(() => {
  const { drawn, time, show, hide } = hotlap;
  const flame = drawn.flame;
  const place = document.getElementById("flame");
  const said = document.getElementById("flame-said");
  const LINE = 20, LEAST = 1.5;
  const children = flame.name.map(() => []);
  flame.parent.forEach((up, i) => { if (up >= 0) children[up].push(i); });
  let measure = "time", root = 0;
  const value = (i) => flame[`${measure}_us`][i];

  function box(i, left, wide, level) {
    const one = document.createElement("div");
    one.className = i === 0 || i === root && level ? "top" : `k${flame.kind[i]}`;
    one.style.cssText = `left:${left.toFixed(1)}px;width:${wide.toFixed(1)}px;top:${level * LINE}px`;
    if (wide > 24) one.textContent = flame.name[i] || "all";
    one.dataset.node = i;
    return one;
  }

  function draw() {
    const width = place.clientWidth, boxes = [];
    let deepest = 0;
    const above = [];
    for (let i = root; i >= 0; i = flame.parent[i]) above.unshift(i);
    above.forEach((i, level) => boxes.push(box(i, 0, width, level)));
    const whole = value(root) || 1;
    const lay = (i, left, level) => {
      deepest = Math.max(deepest, level);
      let x = left;
      for (const child of [...children[i]].sort((a, b) => value(b) - value(a))) {
        const wide = value(child) / whole * width;
        if (wide < LEAST) break;
        boxes.push(box(child, x, wide, level + 1));
        lay(child, x, level + 1);
        x += wide;
      }
    };
    lay(root, 0, above.length - 1);
    place.replaceChildren(...boxes);
    place.style.height = `${(Math.max(deepest, above.length - 1) + 1) * LINE + 2}px`;
    const total = value(0);
    said.textContent = total ? `${time(value(root) * 1000)}${root ? ` of ${time(total * 1000)}` : ""}` : "none";
  }

  place.addEventListener("click", (event) => {
    const node = event.target.dataset.node;
    if (node === undefined) return;
    root = Number(node);
    hide();
    draw();
  });
  place.addEventListener("pointermove", (event) => {
    const node = event.target.dataset.node;
    if (node === undefined) { hide(); return; }
    const i = Number(node), share = value(0) ? ` (${(100 * value(i) / value(0)).toFixed(1)} %)` : "";
    const busy = flame.of === "device" ? "on the device" : "of its own and within";
    show(event.clientX, event.clientY, flame.name[i] || "all", [
      `${time(flame.time_us[i] * 1000)} ${busy}${measure === "time" ? share : ""}`,
      flame.of === "device" ? `${time(flame.idle_us[i] * 1000)} idle before it${measure === "idle" ? share : ""}` : "",
      `${flame.calls[i].toLocaleString("en")} ${flame.of === "device" ? "pieces of work" : "calls"}`]);
  });
  place.addEventListener("pointerleave", hide);
  document.querySelectorAll("[data-flame]").forEach((one) => one.addEventListener("click", () => {
    measure = one.dataset.flame;
    root = 0;
    document.querySelectorAll("[data-flame]").forEach((other) => other.setAttribute("aria-pressed", String(other === one)));
    draw();
  }));
  draw();
  new ResizeObserver(draw).observe(place.parentElement);
})();
