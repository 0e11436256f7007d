"use strict";
// The timeline: rows of events on a canvas. What is narrower than a pixel is drawn as one with its neighbours, so that a frame costs
// what its pixels cost, not what the step holds.
(() => {
  const { drawn, column, time, show, hide, colour } = hotlap;
  const scene = drawn.scene;
  const canvas = document.getElementById("lanes");
  const stage = canvas.parentElement;
  const hint = document.getElementById("hint");
  const pen = canvas.getContext("2d", { alpha: false });
  const unit = scene.unit_ns;
  const first = column(scene.first, "uint32"), start = column(scene.start, "int32"), end = column(scene.end, "int32");
  const name = column(scene.name, scene.index), paint = column(scene.paint, "uint8"), merged = column(scene.merged, "uint16");
  const length = column(scene.length_us, "float32"), call = column(scene.call, "int32");
  const operator = column(scene.operator, "uint16"), line = column(scene.line, "uint16");
  const PAINTS = ["--accent", "--s3", "--s1", "--s1", "--p-idle", "--s2", "--line", "--s4", "--p-idle", "--faint", "--bad", "--warn"];
  const CAUSES = ["--warn", "--bad", "--s5", "--s2", "--s1", "--s4", "--s3", "--faint"];
  const WORDS = ["kernel", "communication", "copy", "", "", "operator", "Python", "runtime call", "marker", "", "waits for the device", "waits for data"];
  const ROW = 17, GAP = 7, AXIS = 24, HEAD = 16;
  let view = { low: 0, high: scene.span }, top = 0, width = 0, height = 0, asked = false, marked = -1, hover = -1, dragged = null;
  const drawing = { frames: 0, ms: 0, worst: 0 };

  // Where each row stands; a lane has its title above it, or beside it where it is one row and there is room.
  const label = () => (width < 560 ? 0 : 118);
  const rows = first.length - 1;
  let lanes = [], rowTop = [], tall = AXIS;
  function lay() {
    let row = 0, group = "";
    lanes = [];
    rowTop = [];
    tall = AXIS;
    for (const one of scene.rows) {
      if (one.group !== group) { group = one.group; tall += GAP; lanes.push({ y: tall, title: group, head: true }); tall += HEAD; }
      const thin = one.levels < 2 && label() > 0;
      lanes.push({ y: tall, title: one.title, thin });
      if (!thin) tall += HEAD;
      for (let i = 0; i < one.levels; i++) { rowTop[row++] = tall; tall += ROW; }
      tall += label() ? GAP : 3;
    }
  }
  const across = (t) => label() + (t - view.low) / (view.high - view.low) * (width - label());
  const at = (x) => view.low + (x - label()) / (width - label()) * (view.high - view.low);

  // First event of a row that ends after t: events of a row lie one behind another.
  const from = (r, t) => {
    let low = first[r], high = first[r + 1];
    while (low < high) { const middle = (low + high) >> 1; if (end[middle] > t) high = middle; else low = middle + 1; }
    return low;
  };

  const fillOf = (i) => colour(paint[i] >= 16 ? CAUSES[paint[i] - 16] : PAINTS[paint[i]]);

  function drawRow(r, y) {
    const last = first[r + 1], scale = (width - label()) / (view.high - view.low), x0 = label() - view.low * scale;
    let style = "", run = -1, runEnd = -1, texts = [];
    for (let i = from(r, view.low); i < last && start[i] < view.high; i++) {
      const left = Math.max(start[i] * scale + x0, label()), right = Math.min(end[i] * scale + x0, width);
      if (right - left < 1) {
        if (left < runEnd) continue; // on the pixel that was drawn last
        const now = fillOf(i);
        if (now !== style) pen.fillStyle = style = now;
        run = Math.floor(left);
        pen.fillRect(run, y, 1, ROW - 1);
        runEnd = run + 1;
        continue;
      }
      const now = fillOf(i);
      if (now !== style) pen.fillStyle = style = now;
      const edge = right - left > 3 ? 0.6 : 0;
      if (merged[i] > 1) pen.globalAlpha = 0.55;
      pen.fillRect(left, y, right - left - edge, ROW - 1);
      if (merged[i] > 1) pen.globalAlpha = 1;
      runEnd = right;
      if (right - left > 26) texts.push(i, left, right);
    }
    for (let n = 0; n < texts.length; n += 3) {
      const i = texts[n], room = texts[n + 2] - texts[n + 1] - 7;
      const most = Math.floor(room / 6.1);
      const words = scene.short[name[i]] || scene.names[name[i]];
      const said = merged[i] > 1 ? `${merged[i]} events` : words;
      if (most < 3) continue;
      const pale = paint[i] === 4 || paint[i] === 6 || paint[i] === 8;
      pen.fillStyle = pale ? colour("--ink") : colour("--text-on");
      pen.fillText(said.length > most ? `${said.slice(0, most - 1)}…` : said, texts[n + 1] + 3.5, y + 12);
    }
  }

  // Lines behind the rows, numbers before them.
  function drawAxis(lines) {
    if (!lines) { pen.fillStyle = colour("--paper"); pen.fillRect(0, 0, width, AXIS); }
    pen.fillStyle = colour("--soft");
    pen.strokeStyle = colour("--line");
    pen.beginPath();
    const span = (view.high - view.low) * unit, raw = span / Math.max(2, (width - label()) / 110), scale = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * scale).find((one) => one >= raw);
    for (let t = Math.ceil(view.low * unit / step) * step; t < view.high * unit; t += step) {
      const x = Math.round(across(t / unit)) + 0.5;
      if (x < label()) continue;
      pen.moveTo(x, AXIS - 6);
      pen.lineTo(x, lines ? height : AXIS);
      if (!lines && x < width - 48) pen.fillText(t === 0 ? "0" : time(t), x + 4, 15);
    }
    pen.stroke();
  }

  function drawMarks() {
    if (marked < 0) return;
    pen.fillStyle = pen.strokeStyle = colour("--mark");
    for (const part of scene.marks[marked].parts) {
      const y = rowTop[part.rows[0]] - top, bottom = rowTop[part.rows[1] - 1] + ROW - top;
      let until = -1;
      for (let i = 0; i < part.start.length; i++) {
        const left = Math.max(across(part.start[i]), label()), right = Math.min(across(part.end[i]), width);
        if (right <= left || part.end[i] <= view.low || part.start[i] >= view.high || right < until) continue;
        const wide = Math.max(right - left, 2);
        pen.globalAlpha = 0.22;
        pen.fillRect(left, y, wide, bottom - y);
        pen.globalAlpha = 1;
        pen.fillRect(left, y - 3, wide, 2.5);
        if (wide > 4) pen.strokeRect(left + 0.5, y + 0.5, wide - 1, bottom - y - 1.5);
        until = left + wide;
      }
    }
  }

  function drawHover() {
    if (hover < 0) return;
    const box = (i) => { const r = rowOf(i); return [across(start[i]), rowTop[r] - top, across(end[i])]; };
    const [left, y, right] = box(hover);
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 1.5;
    pen.strokeRect(Math.max(left, label()), y - 0.5, Math.max(Math.min(right, width) - Math.max(left, label()), 2), ROW);
    if (call[hover] >= 0) {
      const [, fromY] = box(call[hover]), x = across(start[call[hover]]);
      pen.beginPath();
      pen.moveTo(x, fromY + ROW - 1);
      pen.bezierCurveTo(x, (fromY + y) / 2, left, (fromY + y) / 2, left, y);
      pen.stroke();
    }
    pen.lineWidth = 1;
  }

  function draw() {
    asked = false;
    const began = performance.now();
    pen.fillStyle = colour("--paper");
    pen.fillRect(0, 0, width, height);
    pen.font = "11px system-ui, sans-serif";
    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS, width, height - AXIS);
    pen.clip();
    drawAxis(true);
    for (let r = 0; r < rows; r++) {
      const y = rowTop[r] - top;
      if (y > -ROW && y < height) drawRow(r, y);
    }
    pen.save();
    pen.beginPath();
    pen.rect(label(), AXIS, width - label(), height - AXIS);
    pen.clip();
    drawMarks();
    drawHover();
    pen.restore();
    for (const one of lanes) {
      const y = one.y - top;
      if (y < -HEAD || y > height) continue;
      if (one.head) {
        pen.fillStyle = colour("--ink");
        pen.font = "600 12px system-ui, sans-serif";
        pen.fillText(one.title, 6, y + 12);
        pen.font = "11px system-ui, sans-serif";
      } else {
        if (one.thin) { pen.fillStyle = colour("--paper"); pen.fillRect(0, y, label(), ROW); }
        pen.fillStyle = colour("--soft");
        pen.fillText(one.thin && one.title.length > 17 ? `${one.title.slice(0, 16)}…` : one.title, 6, y + 12);
      }
    }
    pen.restore();
    drawAxis(false);
    if (tall > height) {
      pen.fillStyle = colour("--faint");
      pen.fillRect(width - 4, AXIS + (height - AXIS) * top / tall, 3, Math.max(18, (height - AXIS) * height / tall));
    }
    const took = performance.now() - began;
    drawing.frames++;
    drawing.ms += took;
    drawing.worst = Math.max(drawing.worst, took);
  }
  const ask = () => { if (!asked) { asked = true; requestAnimationFrame(draw); } };

  function rowOf(i) {
    let low = 0, high = rows;
    while (high - low > 1) { const middle = (low + high) >> 1; if (first[middle] <= i) low = middle; else high = middle; }
    return low;
  }

  function set(low, high) {
    const least = 200 / unit, most = scene.span * 1.04, margin = scene.span * 0.02;
    let span = Math.min(Math.max(high - low, least), most);
    const middle = (low + high) / 2;
    low = Math.min(Math.max(middle - span / 2, -margin), scene.span + margin - span);
    view = { low, high: low + span };
    ask();
  }
  const zoom = (factor, x) => { const t = at(x === undefined ? (width + label()) / 2 : x); set(t - (t - view.low) * factor, t + (view.high - t) * factor); };
  const move = (share) => { const by = share * (view.high - view.low); set(view.low + by, view.high + by); };
  const scroll = (by) => { top = Math.min(Math.max(top + by, 0), Math.max(0, tall - height + 8)); ask(); };

  function find(x, y) {
    if (x < label() || y < AXIS) return -1;
    const r = rowTop.findIndex((one) => y + top >= one && y + top < one + ROW);
    if (r < 0) return -1;
    const t = at(x), slack = 2 * (view.high - view.low) / width;
    const i = from(r, t - slack);
    return i < first[r + 1] && start[i] <= t + slack ? i : -1;
  }

  function point(event) {
    const box = canvas.getBoundingClientRect();
    const found = find(event.clientX - box.left, event.clientY - box.top);
    if (found !== hover) { hover = found; ask(); }
    if (found < 0) { hide(); return; }
    const asker = scene.operators[operator[found]], source = line[found] === 65535 ? "" : scene.lines[line[found]];
    const many = merged[found] > 1;
    show(event.clientX, event.clientY, many ? `${merged[found]} events, shorter than can be drawn` : scene.short[name[found]] || scene.names[name[found]], [
      `${time(length[found] * 1000)} at ${time(start[found] * unit)}`, many ? `the longest: ${scene.names[name[found]]}` : "",
      !many && scene.short[name[found]] ? scene.names[name[found]] : "", asker ? `operator: ${asker}` : "", source ? `source: ${source}` : ""]);
  }

  function fit() {
    width = stage.clientWidth;
    lay();
    height = Math.min(Math.max(tall + 6, 150), Math.round(innerHeight * 0.72), 760);
    canvas.style.height = `${height}px`;
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    scroll(0);
  }

  function mark(which) {
    marked = marked === which ? -1 : which;
    document.querySelectorAll("button.jump").forEach((one) => one.classList.toggle("on", Number(one.dataset.finding) === marked));
    const said = document.getElementById("found");
    said.hidden = marked < 0;
    if (marked < 0) { ask(); return; }
    const one = scene.marks[marked];
    said.textContent = one.here
      ? `Finding ${marked + 1} is marked: ${one.here.toLocaleString("en")} of its ${one.places.toLocaleString("en")} places lie in what is drawn.`
      : `None of the ${one.places.toLocaleString("en")} places of finding ${marked + 1} lies in what is drawn; the longest are named in its evidence.`;
    let best = null;
    for (const part of one.parts) {
      part.start.forEach((s, i) => { if (!best || part.end[i] - s > best.end - best.start) best = { start: s, end: part.end[i], row: part.rows[0] }; });
    }
    if (best) {
      const span = Math.max((best.end - best.start) * 8, scene.span / 200);
      const middle = (best.start + best.end) / 2;
      set(span > scene.span ? 0 : middle - span / 2, span > scene.span ? scene.span : middle + span / 2);
      top = 0;
      scroll(Math.max(0, rowTop[best.row] - height / 2));
    }
    document.getElementById("lanes").closest("section").scrollIntoView({ block: "start" });
    ask();
  }

  canvas.addEventListener("wheel", (event) => {
    const here = document.activeElement === canvas;
    if (event.shiftKey) { event.preventDefault(); scroll(event.deltaY || event.deltaX); return; }
    if (!here && !event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { move(event.deltaX / width); return; }
    zoom(Math.exp(Math.max(-0.6, Math.min(0.6, event.deltaY * 0.002))), event.clientX - canvas.getBoundingClientRect().left);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.focus({ preventScroll: true });
    dragged = { x: event.clientX, y: event.clientY, low: view.low, high: view.high, top };
    if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!dragged) { point(event); return; }
    const by = (dragged.x - event.clientX) / (width - label()) * (dragged.high - dragged.low);
    set(dragged.low + by, dragged.high + by);
    if (event.pointerType === "mouse") { top = dragged.top; scroll(dragged.y - event.clientY); }
    hide();
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(kind, (event) => {
      const still = dragged && Math.abs(dragged.x - event.clientX) < 3 && Math.abs(dragged.y - event.clientY) < 3;
      dragged = null;
      canvas.classList.remove("dragging");
      if (still) point(event);
    });
  }
  canvas.addEventListener("pointerleave", () => { hover = -1; hide(); ask(); });
  canvas.addEventListener("dblclick", (event) => {
    const box = canvas.getBoundingClientRect(), i = find(event.clientX - box.left, event.clientY - box.top);
    if (i >= 0) { const margin = Math.max((end[i] - start[i]) * 0.1, 1); set(start[i] - margin, end[i] + margin); }
  });
  canvas.addEventListener("keydown", (event) => {
    const acts = {
      w: () => zoom(0.7), "+": () => zoom(0.7), "=": () => zoom(0.7), s: () => zoom(1 / 0.7), "-": () => zoom(1 / 0.7), a: () => move(-0.2),
      ArrowLeft: () => move(-0.2), d: () => move(0.2), ArrowRight: () => move(0.2), ArrowUp: () => scroll(-ROW * 3), ArrowDown: () => scroll(ROW * 3),
      0: () => set(0, scene.span), Home: () => set(0, scene.span), Escape: () => canvas.blur(),
    };
    if (acts[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); acts[event.key](); }
  });
  const says = () => { hint.textContent = document.activeElement === canvas ? "The wheel zooms; Esc to leave." : "Click it, then the wheel zooms."; };
  canvas.addEventListener("focus", says);
  canvas.addEventListener("blur", says);
  const buttons = { in: () => zoom(0.5), out: () => zoom(2), all: () => set(0, scene.span) };
  document.querySelectorAll("[data-do]").forEach((one) => one.addEventListener("click", () => buttons[one.dataset.do]()));
  document.querySelectorAll("button.jump").forEach((one) => {
    one.hidden = false;
    one.addEventListener("click", () => mark(Number(one.dataset.finding)));
  });
  document.getElementById("shown").textContent = `Drawn: ${scene.words}.${scene.left_out ? ` Left out: ${scene.left_out}.` : ""}`;
  const seen = [...new Set(paint)].sort((a, b) => a - b).map((one) => (one >= 16 ? [scene.causes[one - 16], CAUSES[one - 16]] : [WORDS[one], PAINTS[one]]));
  document.getElementById("legend").append(...seen.filter(([words]) => words).map(([words, variable]) => {
    const one = document.createElement("span");
    one.className = "swatch";
    one.style.setProperty("--c", `var(${variable})`);
    one.textContent = words;
    return one;
  }));
  fit();
  new ResizeObserver(fit).observe(stage);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ask);
  new MutationObserver(ask).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  says();
  Object.assign(hotlap, { timeline: { set, zoom, move, mark, drawing, view: () => view, events: start.length } });
})();
