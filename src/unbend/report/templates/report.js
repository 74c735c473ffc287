"use strict";
(() => {
  const D = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const FAR = 65535;

  // ------------------------------------------------------------------ data
  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }
  const u16 = (text) => (text === null ? null : new Uint16Array(bytes(text).buffer));
  const S = {};
  for (const key of ["cluster", "probability", "outlier", "thumbnail", "truth", "x", "y"]) S[key] = u16(D[key]);
  const percent = (v) => (v >= 0.995 && v < 1 ? Math.min(99.9, 100 * v).toFixed(1) : (100 * v).toFixed(v > 0 && v < 0.01 ? 1 : 0)) + "%";

  function el(tag, cls, text) {
    const node = document.createElement(tag);
    if (cls) node.className = cls;
    if (text !== undefined) node.textContent = text;
    return node;
  }
  const tag = (q) => D.clusters[q].tag;  // the number that people see
  function about(slot) {
    const parts = [`cluster ${tag(S.cluster[slot])}`];
    if (S.probability) parts.push(percent(S.probability[slot] / 1e4));
    if (S.truth) parts.push(`true: ${D.classes[S.truth[slot]]}`);
    return parts.join(" · ");
  }

  // ------------------------------------------------------------------ thumbnails out of sprites
  const PER_SHEET = 1024;
  const style = document.createElement("style");
  D.sheets.forEach((s, i) => {
    const url = URL.createObjectURL(new Blob([bytes(s.data)], { type: "image/webp" }));
    style.textContent += `.s${i}{background-image:url("${url}");background-size:${s.columns * 100}% ${s.rows * 100}%}`;
    s.data = null;
  });
  document.head.append(style);
  if (D.tile) {
    document.documentElement.style.setProperty("--ratio", D.tile[0] / D.tile[1]);
  }
  function thumb(slot, labelled = true) {
    const number = S.thumbnail[slot];
    if (number === FAR) return null;
    const sheet = Math.floor(number / PER_SHEET), at = number % PER_SHEET;
    const { columns, rows } = D.sheets[sheet];
    const share = (i, n) => (n > 1 ? (100 * i) / (n - 1) : 0);
    const node = el("span", `t s${sheet}`);
    node.style.backgroundPosition = `${share(at % columns, columns)}% ${share(Math.floor(at / columns), rows)}%`;
    node.dataset.slot = slot;
    if (labelled) {
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", D.names[slot]);
    } else node.setAttribute("aria-hidden", "true");
    return node;
  }
  const thumbs = (slots, labelled) => slots.map((s) => thumb(s, labelled)).filter(Boolean);
  for (const box of document.querySelectorAll("[data-slots]")) {
    box.append(...thumbs(box.dataset.slots.split(",").filter(Boolean).map(Number), false));
  }
  for (const list of document.querySelectorAll("[data-list]")) {
    const key = list.dataset.show;
    for (const slot of list.dataset.list.split(",").map(Number)) {
      const item = el("li"), picture = thumb(slot), value = S[key][slot] / 1e4;
      item.append(picture || el("span", "nm", D.names[slot]));
      const note = el("span"), chip = el("i", "chip");
      chip.style.setProperty("--c", D.colours[S.cluster[slot]]);
      note.append(chip, `${tag(S.cluster[slot])} · ${key === "probability" ? percent(value) : value.toFixed(2)}`);
      item.append(note);
      list.append(item);
    }
  }

  // ------------------------------------------------------------------ tip
  const tip = $("tip");
  function showTip(slot, x, y) {
    tip.textContent = "";
    const picture = S.thumbnail[slot] === FAR ? null : thumb(slot, false);
    if (picture) tip.append(picture);
    tip.append(el("b", "", D.names[slot]), el("span", "", about(slot)));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 18 + width > innerWidth ? x - width - 14 : x + 18;
    const top = Math.min(Math.max(8, y - height / 2), innerHeight - height - 8);
    tip.style.transform = `translate(${Math.max(6, left)}px, ${top}px)`;
  }
  const hideTip = () => { tip.hidden = true; };
  document.addEventListener("pointerover", (event) => {
    const node = event.target.closest?.(".t[data-slot]");
    if (node && event.pointerType === "mouse") {
      (node.closest("dialog") || document.body).append(tip);
      showTip(Number(node.dataset.slot), event.clientX, event.clientY);
    } else if (event.target.id !== "atlas") hideTip();
  });
  addEventListener("scroll", hideTip, { passive: true });

  // ------------------------------------------------------------------ theme
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  try { const kept = localStorage.getItem("unbend-theme"); if (kept) root.dataset.theme = kept; } catch { /* storage is off */ }
  let printing = false;
  const repaint = () => { drawHeat(); if (atlas) atlas.draw(); };
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("unbend-theme", root.dataset.theme); } catch { /* storage is off */ }
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint());
  addEventListener("beforeprint", () => { printing = true; repaint(); });
  addEventListener("afterprint", () => { printing = false; repaint(); });
  const dark = () => !printing && isDark();

  // ------------------------------------------------------------------ heat map
  const STOPS = { light: [[250, 250, 248], [198, 219, 229], [94, 154, 186], [20, 96, 127], [7, 44, 66]], dark: [[23, 26, 31], [22, 58, 80], [26, 108, 145], [96, 180, 218], [232, 246, 252]] };
  function ramp(v, stops) {
    const at = Math.min(v * (stops.length - 1), stops.length - 1.0001), i = Math.floor(at), f = at - i;
    return stops[i].map((c, j) => Math.round(c + f * (stops[i + 1][j] - c)));
  }
  const heat = $("heat"), H = D.similarity && { ...D.similarity, matrix: bytes(D.similarity.matrix) };
  function drawHeat() {
    if (!heat) return;
    const m = heat.width, g = heat.getContext("2d"), image = g.createImageData(m, m);
    const stops = STOPS[dark() ? "dark" : "light"], pixels = new Uint32Array(image.data.buffer);
    const table = Uint32Array.from({ length: 256 }, (_, v) => { const [r, g, b] = ramp((v / 255) ** 0.8, stops); return (255 << 24) | (b << 16) | (g << 8) | r; });
    for (let i = 0; i < m * m; i++) pixels[i] = table[H.matrix[i]];
    g.putImageData(image, 0, 0);
    if (H.clusters.length < 60) {
      g.strokeStyle = dark() ? "#ffffff26" : "#0000001f";
      g.lineWidth = 1;
      g.beginPath();
      for (const b of H.bounds.slice(1, -1)) { g.moveTo(b, 0); g.lineTo(b, m); g.moveTo(0, b); g.lineTo(m, b); }
      g.stroke();
    }
    const bar = document.querySelector(".ramp i");
    bar.style.background = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map((v) => `rgb(${ramp(v ** 0.8, stops)})`).join()})`;
  }
  if (heat) heat.addEventListener("pointermove", (event) => {
    const box = heat.getBoundingClientRect();
    const block = (v) => { const at = v * heat.width; return Math.max(0, H.bounds.findIndex((b) => b > at) - 1); };
    const a = block((event.clientY - box.top) / box.height), b = block((event.clientX - box.left) / box.width);
    $("heat-read").textContent = a === b ? `Within cluster ${tag(H.clusters[a])}: mean |cos| ${H.blocks[a][a].toFixed(2)}` : `Clusters ${tag(H.clusters[a])} and ${tag(H.clusters[b])}: mean |cos| ${H.blocks[a][b].toFixed(2)}`;
  });

  // ------------------------------------------------------------------ cluster detail
  const dialog = $("detail");
  let current = 0;
  function openCluster(q) {
    current = (q + D.k) % D.k;
    const c = D.clusters[current], body = $("detail-body");
    dialog.style.setProperty("--c", D.colours[current]);
    $("detail-title").textContent = D.clusters[current].name;
    body.textContent = "";
    const facts = [`${c.size.toLocaleString("en")} samples`, percent(c.share)];
    if (c.confidence !== null) facts.push(`${percent(c.confidence)} confident`);
    if (c.rank !== null) facts.push(`rank ${c.rank}`);
    if (c.n_outliers) facts.push(`${c.n_outliers} outlier${c.n_outliers === 1 ? "" : "s"}`);
    if (c.classes.length) facts.push("true: " + c.classes.map((t) => `${t.name} ${percent(t.share)}`).join(", "));
    body.append(el("p", "small", facts.join(" · ")));
    if (c.principal.length) D.sheets.length ? principalImages(body, c) : energies(body, c);
    const pictures = thumbs(c.examples, true);
    body.append(el("h3", "", "Typical members"));
    if (pictures.length) {
      const sheet = el("div", "sheet big");
      sheet.append(...pictures);
      body.append(sheet);
    } else if (c.passages.length) {
      for (const [name, text] of c.passages) {
        const box = el("blockquote", "passage", text);
        box.append(el("cite", "", name));
        body.append(box);
      }
    } else {
      const list = el("ul", "doubts plain");
      for (const slot of c.examples) {
        const item = el("li");
        item.append(el("span", "nm", D.names[slot]), el("span", "", S.probability ? percent(S.probability[slot] / 1e4) : ""));
        list.append(item);
      }
      body.append(list);
    }
    if (atlas) {
      const go = el("div", "detail-go"), button = el("button", "", "Show on the map");
      button.type = "button";
      button.addEventListener("click", () => { dialog.close(); atlas.pick(current, true); $("map").scrollIntoView(); $("atlas").focus({ preventScroll: true }); });
      go.append(button);
      body.append(go);
    }
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    $("detail-title").focus();
  }
  function principalImages(body, c) {
    body.append(el("h3", "", "Principal images"), el("p", "small", "Each row is a direction of the cluster's subspace with its share of the energy, and the members closest to it."));
    const rows = el("div", "rows");
    c.principal.forEach(([energy, slots], i) => {
      const row = el("div"), label = el("span", "lab");
      label.append(el("b", "", String(i + 1)), percent(energy));
      row.append(label, ...thumbs(slots, true));
      rows.append(row);
    });
    body.append(rows);
  }
  function energies(body, c) {
    body.append(el("h3", "", "Directions"), el("p", "small", "Share of the energy along each principal component of the cluster."));
    const box = el("div", "energy");
    c.principal.forEach(([energy], i) => {
      const row = el("div"), track = el("span"), fill = el("i");
      fill.style.width = `${100 * energy}%`;
      track.append(fill);
      row.append(el("span", "", String(i + 1)), track, el("span", "", percent(energy)));
      box.append(row);
    });
    body.append(box);
  }
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) openCluster(Number(opener.dataset.open));
    else if (event.target === dialog) dialog.close();
  });
  $("detail-close").addEventListener("click", () => dialog.close());
  $("detail-prev").addEventListener("click", () => openCluster(current - 1));
  $("detail-next").addEventListener("click", () => openCluster(current + 1));
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") openCluster(current - 1);
    if (event.key === "ArrowRight") openCluster(current + 1);
  });
  dialog.addEventListener("close", () => { document.body.append(tip); hideTip(); });
  $("all-cards")?.addEventListener("click", (event) => {
    const hidden = [...document.querySelectorAll(".card[hidden]")];
    for (const card of hidden) card.hidden = false;
    event.target.remove();
    hidden[0]?.querySelector("button").focus();
  });

  // ------------------------------------------------------------------ the map
  function makeAtlas(canvas) {
    const g = canvas.getContext("2d"), read = $("atlas-read"), hidden = new Set();
    const points = [];
    for (let i = 0; i < S.x.length; i++) if (S.x[i] !== FAR) points.push(i);
    const X = Float32Array.from(points, (i) => S.x[i] / 32500 - 1), Y = Float32Array.from(points, (i) => 1 - S.y[i] / 32500);
    const size = points.length > 8000 ? 2 : points.length > 2500 ? 2.6 : 3.4;
    const centres = middles();
    let view = { x: 0, y: 0, z: 1 }, picked = null, hover = -1, width = 0, height = 0, ratio = 1, waiting = false, keyed = false;

    function middles() {  // the member closest to the median of a cluster carries its number
      const found = new Map();
      for (let q = 0; q < D.k; q++) {
        const own = [];
        for (let i = 0; i < points.length; i++) if (S.cluster[points[i]] === q) own.push(i);
        if (!own.length) continue;
        const mid = (A) => own.map((i) => A[i]).sort((a, b) => a - b)[own.length >> 1];
        const mx = mid(X), my = mid(Y), far = (i) => (X[i] - mx) ** 2 + (Y[i] - my) ** 2;
        const best = own.reduce((a, b) => (far(b) < far(a) ? b : a));
        found.set(q, [X[best], Y[best]]);
      }
      return found;
    }
    const unit = () => Math.min(width, height) * 0.46;
    const wide = () => Math.max(1, Math.min(1.3, width / height));  // a little stretch fills the frame
    const px = (x) => width / 2 + (x - view.x) * unit() * wide() * view.z, py = (y) => height / 2 + (y - view.y) * unit() * view.z;
    function fit() {
      const box = canvas.getBoundingClientRect();
      ratio = devicePixelRatio || 1;
      width = box.width; height = box.height;
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
      draw();
    }
    function marker(q, alpha) {  // shape changes with the number, so that colour is not alone
      const r = size * Math.min(2.2, Math.sqrt(view.z) ** 0.8), side = Math.ceil(2 * r * ratio) + 4, m = document.createElement("canvas");
      m.width = m.height = side;
      const c = m.getContext("2d"), h = side / 2, R = r * ratio;
      c.globalAlpha = alpha;
      c.fillStyle = D.colours[q];
      c.beginPath();
      const shape = D.k > 8 ? Math.floor(q / 8) % 4 : 0;
      if (shape === 0) c.arc(h, h, R, 0, 7);
      else if (shape === 1) c.rect(h - R * 0.88, h - R * 0.88, R * 1.76, R * 1.76);
      else if (shape === 2) { c.moveTo(h, h - R * 1.15); c.lineTo(h + R, h + R * 0.8); c.lineTo(h - R, h + R * 0.8); }
      else { c.moveTo(h, h - R * 1.25); c.lineTo(h + R * 1.1, h); c.lineTo(h, h + R * 1.25); c.lineTo(h - R * 1.1, h); }
      c.fill();
      return m;
    }
    let started = false;  // the page first, then the map
    setTimeout(() => { started = true; draw(); }, 30);
    let kept = "", stamps = [];
    function markers() {  // drawn once for each size and choice
      const key = [view.z.toFixed(2), ratio, picked].join();
      if (key !== kept) { kept = key; stamps = Array.from({ length: D.k }, (_, q) => marker(q, picked === null || picked === q ? 0.85 : 0.1)); }
      return stamps;
    }
    function draw() {
      if (printing) paint();
      else if (started && !waiting) { waiting = true; requestAnimationFrame(paint); }
    }
    function paint() {
      waiting = false;
      const night = dark(), marks = markers();
      g.setTransform(1, 0, 0, 1, 0, 0);
      g.clearRect(0, 0, canvas.width, canvas.height);
      const u = unit() * view.z * ratio, w = u * wide(), ox = (canvas.width / 2) - view.x * w, oy = (canvas.height / 2) - view.y * u;
      for (let i = 0; i < X.length; i++) {
        const q = S.cluster[points[i]];
        if (hidden.has(q)) continue;
        const x = ox + X[i] * w, y = oy + Y[i] * u;
        if (x < -9 || y < -9 || x > canvas.width + 9 || y > canvas.height + 9) continue;
        const m = marks[q];
        g.drawImage(m, x - m.width / 2, y - m.height / 2);
      }
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      numbers(night);
      if (hover >= 0) {
        g.beginPath(); g.arc(px(X[hover]), py(Y[hover]), size + 5, 0, 7);
        g.lineWidth = 2; g.strokeStyle = night ? "#fff" : "#111"; g.stroke();
      }
      canvas.dataset.view = [view.x, view.y, view.z].map((v) => v.toFixed(4)).join(" ");
    }
    function numbers(night) {
      g.font = "650 15px system-ui, sans-serif"; g.textAlign = "center"; g.textBaseline = "middle"; g.lineJoin = "round";
      const taken = [];
      for (const [q, [x, y]] of centres) {
        if (hidden.has(q) || (picked !== null && picked !== q)) continue;
        const a = px(x), b = py(y);
        if (taken.some(([c, d]) => Math.abs(a - c) < 22 && Math.abs(b - d) < 15)) continue;
        taken.push([a, b]);
        g.lineWidth = 5; g.strokeStyle = night ? "#1c1f25e6" : "#ffffffe6"; g.strokeText(tag(q), a, b);
        g.fillStyle = night ? "#fff" : "#15191d"; g.fillText(tag(q), a, b);
      }
    }
    function nearest(x, y, reach) {
      let best = -1, least = reach * reach;
      for (let i = 0; i < X.length; i++) {
        if (hidden.has(S.cluster[points[i]])) continue;
        const d = (px(X[i]) - x) ** 2 + (py(Y[i]) - y) ** 2 + (picked !== null && picked !== S.cluster[points[i]] ? 1e6 : 0);
        if (d < least) { least = d; best = i; }
      }
      return best;
    }
    function zoom(factor, x = width / 2, y = height / 2) {
      const z = Math.min(60, Math.max(0.8, view.z * factor)), u = unit();
      view.x += (x - width / 2) / (u * wide()) * (1 / view.z - 1 / z); view.y += (y - height / 2) / u * (1 / view.z - 1 / z);
      view.z = z; draw();
    }
    function move(dx, dy) { const u = unit() * view.z; view.x -= dx / (u * wide()); view.y -= dy / u; draw(); }
    function say(text, q) {
      read.textContent = text;
      if (q === undefined) return;
      const open = el("button", "", `open cluster ${tag(q)}`);
      open.type = "button"; open.dataset.open = q;
      read.append(open);
    }
    function setHover(i, x, y) {
      hover = i; draw();
      canvas.classList.toggle("hit", i >= 0);
      if (i < 0) { hideTip(); return; }
      document.body.append(tip);
      showTip(points[i], x, y);
      say(`${D.names[points[i]]} · ${about(points[i])}`, picked ?? undefined);
    }
    function pick(q, show) {
      picked = q; hover = -1;
      if (q !== null) { hidden.delete(q); say(`Cluster ${tag(q)}: ${D.clusters[q].size.toLocaleString("en")} samples`, q); } else say("All clusters");
      for (const b of document.querySelectorAll("[data-legend]")) { b.classList.toggle("on", Number(b.dataset.legend) === q); sync(b); }
      if (show && centres.has(q)) { [view.x, view.y] = centres.get(q); view.z = Math.max(view.z, 1.8); }
      canvas.dataset.picked = q ?? "";
      draw();
    }
    const sync = (b) => b.setAttribute("aria-pressed", String(!hidden.has(Number(b.dataset.legend))));
    function home() { view = { x: 0, y: 0, z: 1 }; draw(); }
    function atCentre() {  // the keyboard's way of pointing
      const i = nearest(width / 2, height / 2, Math.min(width, height) / 3), box = canvas.getBoundingClientRect();
      if (i >= 0) setHover(i, box.left + px(X[i]), box.top + py(Y[i]));
    }

    // pointers: one drags or points, two pinch
    const down = new Map();
    let moved = 0;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => { down.set(event.pointerId, at(event)); moved = 0; try { canvas.setPointerCapture(event.pointerId); } catch { /* a made-up pointer */ } });
    canvas.addEventListener("pointermove", (event) => {
      const now = at(event), before = down.get(event.pointerId);
      if (!before) { setHover(nearest(now[0], now[1], 14), event.clientX, event.clientY); return; }
      const dx = now[0] - before[0], dy = now[1] - before[1];
      moved += Math.abs(dx) + Math.abs(dy);
      if (down.size === 2) {
        const other = [...down].find(([id]) => id !== event.pointerId)[1];
        const span = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
        zoom(span(now) / span(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
        move(dx / 2, dy / 2);
      } else if (moved > 4) { canvas.classList.add("drag"); hideTip(); hover = -1; move(dx, dy); }
      down.set(event.pointerId, now);
    });
    function release(event) {
      const single = down.size === 1 && moved <= 4;
      down.delete(event.pointerId); canvas.classList.remove("drag");
      if (!single || event.type !== "pointerup") return;
      const [x, y] = at(event), i = nearest(x, y, event.pointerType === "touch" ? 26 : 14);
      pick(i < 0 ? null : S.cluster[points[i]], false);
      if (i >= 0) setHover(i, event.clientX, event.clientY);
    }
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => { if (!down.size) setHover(-1); });
    let scrolled = 0;  // a page that is being scrolled past keeps scrolling
    addEventListener("scroll", () => { scrolled = performance.now(); }, { passive: true });
    canvas.addEventListener("wheel", (event) => {
      if (performance.now() - scrolled < 250 || (event.deltaY > 0 && view.z <= 0.8)) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...at(event));
    }, { passive: false });
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const key = event.key;
      if (steps[key]) { move(...steps[key]); atCentre(); }
      else if (key === "+" || key === "=") { zoom(1.35); atCentre(); }
      else if (key === "-" || key === "_") { zoom(1 / 1.35); atCentre(); }
      else if (key === "0" || key === "Home") home();
      else if (key === "n" || key === "N") pick(picked === null ? 0 : (picked + 1) % D.k, true);
      else if (key === "p" || key === "P") pick(picked === null ? D.k - 1 : (picked + D.k - 1) % D.k, true);
      else if (key === "Enter" && (picked !== null || hover >= 0)) openCluster(picked ?? S.cluster[points[hover]]);
      else if (key === "Escape") { pick(null); hideTip(); }
      else return;
      event.preventDefault();
    });
    canvas.addEventListener("blur", () => setHover(-1));
    const tools = { in: () => zoom(1.5), out: () => zoom(1 / 1.5), home: () => { pick(null); home(); } };
    for (const b of document.querySelectorAll("[data-map]")) b.addEventListener("click", tools[b.dataset.map]);
    const legend = [...document.querySelectorAll("[data-legend]")];
    for (const b of legend) b.addEventListener("click", () => {
      const q = Number(b.dataset.legend);
      if (hidden.has(q)) hidden.delete(q); else hidden.add(q);
      if (picked === q) pick(null);
      sync(b); draw();
    });
    $("legend-all").addEventListener("click", () => { hidden.clear(); legend.forEach(sync); pick(null); });
    $("legend-none").addEventListener("click", () => { for (let q = 0; q < D.k; q++) hidden.add(q); pick(null); legend.forEach(sync); });
    new ResizeObserver(fit).observe(canvas);
    return { draw, pick };
  }
  let atlas = null;
  if (D.has_map) atlas = makeAtlas($("atlas"));
  drawHeat();

  // ------------------------------------------------------------------ where am I
  const links = new Map([...document.querySelectorAll(".bar nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries) if (e.isIntersecting) for (const [id, a] of links) a.classList.toggle("here", id === e.target.id);
  }, { rootMargin: "-30% 0px -65% 0px" });
  for (const id of links.keys()) if ($(id)) seen.observe($(id));
  root.dataset.ready = String(Math.round(performance.now()));
})();
