// The map: all samples as points, with pan, zoom, lasso and brush.
//
// Points lie in the buffers in random order. While the map moves only the first SMOOTH of them
// are drawn, which is a fair sample; when it rests, all are.
import { PlainPoints } from "./plain.js";
import { WebglPoints } from "./webgl.js";

const SMOOTH = 150000;
const REST = 140; // ms without movement

export class Atlas {
  // how: "webgl" or "plain" to insist on one way of drawing
  constructor(canvas, over, stage, how) {
    Object.assign(this, { canvas, over, stage, n: 0, mode: "pan", selected: [], marks: [], frames: 0 });
    this.view = { x: 0, y: 0, zoom: 1 };
    this.onhover = this.onpick = this.onselect = () => {};
    const gl = how === "plain" ? null : WebglPoints.open(canvas, how === "webgl");
    this.points = gl ? new WebglPoints(canvas, gl) : new PlainPoints(canvas);
    stage.dataset.drawn = gl ? "webgl" : "plain";
    this.ink = over.getContext("2d");
    new ResizeObserver(() => this.resize()).observe(stage);
    this.listen();
  }

  load(spots) {
    this.spots = spots;
    this.n = spots.length / 2;
    this.order = new Uint32Array(this.n);
    for (let i = 0; i < this.n; i++) this.order[i] = i;
    let seed = 12345;
    for (let i = this.n - 1; i > 0; i--) { // always the same order
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      const j = seed % (i + 1), keep = this.order[i];
      this.order[i] = this.order[j];
      this.order[j] = keep;
    }
    const mixed = new Uint16Array(spots.length);
    for (let i = 0; i < this.n; i++) { const row = this.order[i]; mixed[2 * i] = spots[2 * row]; mixed[2 * i + 1] = spots[2 * row + 1]; }
    this.points.fill("all", mixed, null);
    this.resize();
  }

  // rgb(row) is 0xrrggbb; faint(row) says whether it steps back.
  paint(rgb, faint) {
    if (!this.n) return;
    const tints = new Uint8Array(4 * this.n);
    for (let i = 0; i < this.n; i++) {
      const row = this.order[i], c = rgb(row);
      tints[4 * i] = c >> 16; tints[4 * i + 1] = (c >> 8) & 255; tints[4 * i + 2] = c & 255;
      tints[4 * i + 3] = faint && faint(row) ? 40 : 255;
    }
    this.points.fill("all", null, tints);
    this.rgb = rgb;
    this.select(this.selected);
  }

  select(rows) {
    this.selected = rows;
    if (!this.n) return;
    const spots = new Uint16Array(2 * rows.length), tints = new Uint8Array(4 * rows.length), rims = new Uint8Array(4 * rows.length);
    const rim = document.documentElement.dataset.dark === "yes" ? 255 : 20;
    rows.forEach((row, i) => {
      const c = this.rgb ? this.rgb(row) : 0;
      spots[2 * i] = this.spots[2 * row]; spots[2 * i + 1] = this.spots[2 * row + 1];
      tints.set([c >> 16, (c >> 8) & 255, c & 255, 255], 4 * i);
      rims.set([rim, rim, rim, 255], 4 * i);
    });
    this.points.fill("rims", spots, rims);
    this.points.fill("chosen", spots, tints);
    this.redraw();
  }

  label(marks) { this.marks = marks; this.redraw(); }

  resize() {
    const box = this.stage.getBoundingClientRect(), ratio = Math.min(devicePixelRatio || 1, 2);
    if (!box.width || !box.height) return;
    Object.assign(this, { width: box.width, height: box.height, ratio });
    for (const c of [this.canvas, this.over]) {
      c.width = Math.round(box.width * ratio);
      c.height = Math.round(box.height * ratio);
    }
    this.redraw();
  }

  // Pixels per half unit of the map, and the centre.
  frame() {
    const s = Math.min(this.width, this.height) * 0.46 * this.view.zoom;
    const wide = Math.max(1, Math.min(1.35, this.width / this.height));
    const tall = Math.max(1, Math.min(1.35, this.height / this.width));
    return { sx: s * wide, sy: s * tall, cx: this.width / 2 + this.view.x, cy: this.height / 2 + this.view.y };
  }

  place(row) {
    const f = this.frame();
    return [f.cx + (this.spots[2 * row] / 32767.5 - 1) * f.sx, f.cy - (this.spots[2 * row + 1] / 32767.5 - 1) * f.sy];
  }

  redraw(moving = false) {
    if (moving) {
      this.moving = true;
      clearTimeout(this.restTimer);
      this.restTimer = setTimeout(() => { this.moving = false; this.redraw(); }, REST);
    }
    if (!this.due) { this.due = true; requestAnimationFrame(() => { this.due = false; this.draw(); }); }
  }

  pointSize() {
    const base = this.n > 500000 ? 1.4 : this.n > 100000 ? 1.9 : this.n > 20000 ? 2.8 : this.n > 4000 ? 4.5 : 7;
    return base * Math.min(3, Math.max(1, Math.sqrt(this.view.zoom))) * this.ratio;
  }

  draw() {
    if (!this.width || !this.n) return;
    this.frames += 1;
    this.drawPoints();
    this.drawOver();
    this.stage.dataset.view = `${this.view.x.toFixed(1)} ${this.view.y.toFixed(1)} ${this.view.zoom.toFixed(3)}`;
  }

  drawPoints() {
    const size = this.pointSize(), number = this.moving ? Math.min(this.n, SMOOTH) : this.n;
    const large = Math.max(size * 1.3, 5 * this.ratio); // what is chosen has a rim
    this.points.begin(this.frame(), this.ratio);
    this.points.draw("all", number, size);
    this.points.draw("rims", this.selected.length, large + 4 * this.ratio);
    this.points.draw("chosen", this.selected.length, large);
    this.points.end();
  }

  drawOver() {
    const g = this.ink;
    g.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    if (this.path && this.path.length > 1) {
      g.beginPath();
      this.path.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
      g.strokeStyle = "#2b8fb8";
      if (this.mode === "lasso") { g.closePath(); g.fillStyle = "rgba(80,150,190,.14)"; g.fill(); g.lineWidth = 1.5; } else { g.lineWidth = 36; g.globalAlpha = 0.25; g.lineCap = g.lineJoin = "round"; }
      g.stroke();
      g.globalAlpha = 1;
    }
    if (this.moving && this.n > SMOOTH) return;
    g.font = "600 12.5px system-ui, sans-serif";
    g.textAlign = "center";
    g.textBaseline = "middle";
    const dark = document.documentElement.dataset.dark === "yes", f = this.frame(), taken = [];
    for (const m of this.marks) {
      const at = f.cx + (m.x / 32767.5 - 1) * f.sx, y = f.cy - (m.y / 32767.5 - 1) * f.sy;
      const text = m.name.length > 26 ? `${m.name.slice(0, 25)}…` : m.name, w = g.measureText(text).width / 2 + 4;
      if (at < 0 || y < 0 || at > this.width || y > this.height) continue;
      const x = Math.min(Math.max(at, w), this.width - w); // whole at the edge
      if (taken.some((t) => Math.abs(t.x - x) < t.w + w && Math.abs(t.y - y) < 16)) continue;
      taken.push({ x, y, w });
      g.lineWidth = 3.5;
      g.lineJoin = "round";
      g.strokeStyle = dark ? "rgba(20,22,26,.85)" : "rgba(255,255,255,.9)";
      g.strokeText(text, x, y);
      g.fillStyle = dark ? "#f2f4f6" : "#1d2329";
      g.fillText(text, x, y);
    }
  }

  // ------------------------------------------------------------ where, which

  nearest(x, y, reach = 12) {
    const f = this.frame(), spots = this.spots;
    const u = ((x - f.cx) / f.sx + 1) * 32767.5, v = ((f.cy - y) / f.sy + 1) * 32767.5;
    const kx = f.sx / 32767.5, ky = f.sy / 32767.5;
    let best = -1, least = reach * reach;
    for (let i = 0; i < this.n; i++) {
      const dx = (spots[2 * i] - u) * kx;
      if (dx > reach || dx < -reach) continue;
      const dy = (spots[2 * i + 1] - v) * ky, d = dx * dx + dy * dy;
      if (d < least) { least = d; best = i; }
    }
    return best;
  }

  inside(path) {
    const f = this.frame(), rows = [];
    const poly = path.map(([x, y]) => [((x - f.cx) / f.sx + 1) * 32767.5, ((f.cy - y) / f.sy + 1) * 32767.5]);
    const xs = poly.map((p) => p[0]), ys = poly.map((p) => p[1]);
    const low = Math.min(...xs), high = Math.max(...xs), bottom = Math.min(...ys), top = Math.max(...ys);
    for (let i = 0; i < this.n; i++) {
      const x = this.spots[2 * i], y = this.spots[2 * i + 1];
      if (x < low || x > high || y < bottom || y > top) continue;
      let odd = false;
      for (let a = 0, b = poly.length - 1; a < poly.length; b = a++) {
        const [ax, ay] = poly[a], [bx, by] = poly[b];
        if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
      }
      if (odd) rows.push(i);
    }
    return rows;
  }

  under(path, reach = 18) {
    const rows = new Set(), f = this.frame();
    const places = path.map(([x, y]) => [((x - f.cx) / f.sx + 1) * 32767.5, ((f.cy - y) / f.sy + 1) * 32767.5]);
    const kx = f.sx / 32767.5, ky = f.sy / 32767.5;
    for (let i = 0; i < this.n; i++) {
      for (const [u, v] of places) {
        const dx = (this.spots[2 * i] - u) * kx;
        if (dx > reach || dx < -reach) continue;
        const dy = (this.spots[2 * i + 1] - v) * ky;
        if (dx * dx + dy * dy <= reach * reach) { rows.add(i); break; }
      }
    }
    return [...rows];
  }

  // ------------------------------------------------------------ pointer and keys

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.min(80, Math.max(0.5, this.view.zoom * factor)), k = zoom / this.view.zoom;
    this.view.x = (x - this.width / 2) * (1 - k) + this.view.x * k;
    this.view.y = (y - this.height / 2) * (1 - k) + this.view.y * k;
    this.view.zoom = zoom;
    this.redraw(true);
  }

  home() { this.view = { x: 0, y: 0, zoom: 1 }; this.redraw(true); }

  setMode(mode) { this.mode = mode; this.stage.dataset.mode = mode; }

  listen() {
    const c = this.canvas, spot = (e) => { const b = c.getBoundingClientRect(); return [e.clientX - b.left, e.clientY - b.top]; };
    const fingers = new Map();
    let last = null, travelled = 0;
    c.addEventListener("pointerdown", (e) => {
      if (e.button) return;
      c.setPointerCapture(e.pointerId);
      fingers.set(e.pointerId, spot(e));
      last = spot(e);
      travelled = 0;
      if (this.mode !== "pan" && fingers.size === 1) this.path = [last];
    });
    c.addEventListener("pointermove", (e) => {
      const now = spot(e);
      if (!fingers.has(e.pointerId)) { this.hover(now); return; }
      if (fingers.size === 2) { this.pinch(fingers, e.pointerId, now); this.path = null; return; }
      fingers.set(e.pointerId, now);
      travelled += Math.hypot(now[0] - last[0], now[1] - last[1]);
      if (this.path) { this.path.push(now); this.redraw(); } else { this.view.x += now[0] - last[0]; this.view.y += now[1] - last[1]; this.redraw(true); }
      last = now;
    });
    const end = (e) => {
      if (!fingers.delete(e.pointerId)) return;
      const path = this.path;
      this.path = null;
      if (e.type === "pointercancel") { this.redraw(); return; }
      if (travelled < 5) { const row = this.n ? this.nearest(...spot(e)) : -1; this.onpick(row, e); } else if (path) {
        const rows = this.mode === "lasso" ? this.inside(path) : this.under(path);
        this.onselect(rows, e.shiftKey);
      }
      this.redraw();
    };
    c.addEventListener("pointerup", end);
    c.addEventListener("pointercancel", end);
    c.addEventListener("pointerleave", () => this.onhover(-1));
    c.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom(Math.exp(-e.deltaY * 0.0016), ...spot(e)); }, { passive: false });
    c.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey) return;
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[e.key];
      if (step) { this.view.x += step[0]; this.view.y += step[1]; this.redraw(true); } else if (e.key === "+" || e.key === "=") this.zoom(1.4);
      else if (e.key === "-") this.zoom(1 / 1.4);
      else if (e.key === "0") this.home();
      else return;
      e.preventDefault();
      e.stopPropagation();
    });
  }

  pinch(fingers, id, now) {
    const other = [...fingers].find(([key]) => key !== id)[1], before = fingers.get(id);
    const gap = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
    const k = gap(now) / Math.max(gap(before), 1);
    fingers.set(id, now);
    this.zoom(k, (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  }

  hover(spot) {
    clearTimeout(this.hoverTimer);
    this.hoverTimer = setTimeout(() => this.onhover(this.n ? this.nearest(...spot) : -1, spot), 40);
  }
}
