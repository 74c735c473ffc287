// The page: one object that holds what is known and does what is asked.
import { $, bytes, count, drawing, forgetSamples, get, make, percent, post, picture, sample } from "./api.js";
import { chooseGroup, closeDialog, compareDialog, duplicatesDialog, groupName, helpDialog, isOpen, keepDialog, mergeDialog, moveDialog, renameDialog, sampleDialog, splitDialog } from "./dialogs.js";
import { Gallery } from "./gallery.js";
import { Atlas } from "./map.js";
import { Side } from "./side.js";

const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const GREY = 0x9aa0a8;

class App {
  constructor() {
    this.groups = new Map();
    this.marked = new Set();
    this.selected = new Set();
    this.group = null;
    this.only = null; // clusters that the map shows in full; null for all
    this.colouring = "cluster";
    this.busy = Promise.resolve();
    // Lists are numbered as they are asked for: an answer that comes late replaces no newer list.
    this.asked = 0;
    this.latest = 0;
  }

  async start() {
    this.atlas = new Atlas($("points"), $("over"), $("stage"), drawing);
    const [about, state, points, labels] = await Promise.all([get("run"), get("state"), bytes("points"), bytes("labels")]);
    this.about = about;
    document.title = `${about.title} · unbend explore`;
    $("title").textContent = about.title;
    this.take(state, labels);
    this.atlas.load(new Uint16Array(points));
    this.gallery = new Gallery($("gallery"), {
      pictures: about.kind === "pictures", label: "Members", selected: this.selected,
      onselect: (rows, on) => this.toggle(rows, on), onopen: (row) => this.openSample(row),
    });
    this.side = new Side(this);
    this.listen();
    this.fillColours();
    const first = this.state.groups.find((g) => g.size);
    this.open(first ? first.id : -1, false);
    this.say(about.read_only ? "read-only" : "saved");
    $("names").hidden = !about.names;
    if (about.read_only) document.documentElement.classList.add("read-only");
    this.watch();
    requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = performance.now().toFixed(0); }));
  }

  // ------------------------------------------------------------ what is known

  take(state, labels) {
    this.state = state;
    this.labels = new Int32Array(labels);
    this.groups = new Map(state.groups.map((g) => [g.id, g]));
    this.rgb = new Map(state.groups.map((g) => [g.id, parseInt(g.colour.slice(1), 16)]));
    document.documentElement.dataset.revision = state.revision;
  }

  colour(id) { return this.groups.get(id)?.colour ?? "#8a8f98"; }

  members(id, order) { return bytes(`members?group=${id}&order=${order}`).then((b) => new Int32Array(b)); }

  say(text, wrong = false) {
    $("status").textContent = text;
    $("status").classList.toggle("wrong", wrong);
  }

  // Acts wait for each other, so that each knows the revision it changes.
  act(tree) {
    this.busy = this.busy.then(async () => {
      this.say("saving …");
      try {
        const state = await post("act", { ...tree, revision: this.state.revision });
        await this.adopt(state);
        this.say("saved");
      } catch (error) {
        this.say(error.message, true);
        await this.reload().catch(() => {});
      }
    });
    return this.busy;
  }

  async adopt(state) {
    const labels = await bytes("labels");
    const before = this.group;
    this.take(state, labels);
    forgetSamples();
    if (this.group !== -1 && !this.groups.has(this.group)) this.group = this.labels[this.shown?.[0] ?? 0];
    for (const id of this.only ?? []) if (!this.groups.has(id)) this.only = null;
    this.choose([]);
    this.paint();
    this.side.refresh();
    await this.showGroup(before === this.group);
  }

  async reload() { await this.adopt(await get("state")); }

  // Wait for changes that another tab makes.
  async watch() {
    for (;;) {
      try {
        const { revision, closing } = await get(`changes?since=${this.state.revision}`);
        if (closing) { this.say("the server was stopped; everything is saved", true); return; }
        await this.busy;
        if (revision !== this.state.revision) { await this.reload(); this.say("changed in another tab"); }
      } catch {
        this.say("the server does not answer", true);
        await new Promise((resolve) => setTimeout(resolve, 3000));
      }
    }
  }

  // ------------------------------------------------------------ one cluster

  open(id, reveal = true) {
    this.group = id;
    this.only = null;
    this.side.list();
    this.paint();
    if (reveal) { this.view("panel"); $("list").querySelector(".here")?.scrollIntoView({ block: "nearest" }); }
    return this.showGroup();
  }

  step(by) {
    const ids = this.state.groups.filter((g) => g.size).map((g) => g.id);
    if (ids.length) this.open(ids[(ids.indexOf(this.group) + by + ids.length) % ids.length]);
  }

  async showGroup(keepPlace = false) {
    const id = this.group, turn = ++this.asked;
    this.heading(id);
    const rows = await this.members(id, $("order").value).catch(() => new Int32Array());
    if (id !== this.group || turn < this.latest) return;
    this.latest = turn;
    this.heading(id);
    this.shown = rows;
    this.gallery.show(rows, keepPlace);
    $("panel").dataset.group = id;
    if (this.groups.has(id)) get(`suggest?group=${id}`).then((found) => { if (turn === this.latest) this.suggestions(id, found); }).catch(() => {});
  }

  heading(id) {
    const group = this.groups.get(id);
    $("group-title").style.setProperty("--c", this.colour(id));
    $("group-title").lastElementChild.textContent = groupName(this, id);
    const facts = group ? [`${count(group.size)} samples`, `${percent(group.confidence)} confident`, group.reviewed ? `${count(group.reviewed)} reviewed` : ""] : [`${count(this.state.noise)} samples`];
    $("group-facts").textContent = facts.filter(Boolean).join(" · ");
    for (const name of ["rename", "merge", "split", "compare"]) $(name).disabled = !group || (this.about.read_only && name !== "compare");
    $("names").replaceChildren();
  }

  suggestions(id, { names, words }) {
    const group = this.groups.get(id);
    const nodes = [];
    if (words.length) nodes.push(make("span", { class: "small", text: words.slice(0, 8).join(", ") }));
    if (group && !group.named && !this.about.read_only) for (const n of names.slice(0, 4)) nodes.push(make("button", { type: "button", title: `Name it so (${n.source})`, text: n.name, on: { click: () => this.act({ act: "rename", group: id, name: n.name }) } }));
    $("names").replaceChildren(...nodes);
  }

  openSample(row) { return sampleDialog(this, row).catch((error) => this.say(error.message, true)); }

  compare(a, b) { compareDialog(this, a, b); }

  // ------------------------------------------------------------ selection

  choose(rows, add = false) {
    if (!add) this.selected.clear();
    for (const row of rows) this.selected.add(row);
    this.selectionChanged();
  }

  toggle(rows, on) {
    for (const row of rows) on ? this.selected.add(row) : this.selected.delete(row);
    this.selectionChanged();
  }

  selectionChanged() {
    const n = this.selected.size;
    $("chosen").hidden = !n;
    $("chosen-text").textContent = `${count(n)} selected`;
    for (const name of ["move", "fresh", "noise"]) $(name).disabled = this.about.read_only;
    this.gallery?.refresh();
    this.atlas.select([...this.selected]);
  }

  rows() { return [...this.selected].sort((a, b) => a - b); }

  // ------------------------------------------------------------ the map

  paint() {
    const { labels, rgb } = this, only = this.only ?? (this.group === null ? null : [this.group]);
    const faint = this.only ? (row) => !this.only.includes(labels[row]) : null;
    if (this.colouring === "cluster") this.atlas.paint((row) => rgb.get(labels[row]) ?? GREY, faint);
    else {
      const { describe, values } = this.colouring;
      const table = Array.from({ length: 256 }, (_, v) => columnColour(describe, v));
      this.atlas.paint((row) => table[values[row]], faint);
    }
    this.legend(only);
    this.labelMap();
  }

  labelMap() {
    const sums = new Map(), n = this.labels.length, step = Math.max(1, Math.floor(n / 60000)), spots = this.atlas.spots;
    if (!spots || this.state.groups.length > 150) { this.atlas.label([]); return; }
    for (let row = 0; row < n; row += step) {
      const id = this.labels[row];
      if (id < 0) continue;
      if (!sums.has(id)) sums.set(id, [[], []]);
      const s = sums.get(id);
      s[0].push(spots[2 * row]);
      s[1].push(spots[2 * row + 1]);
    }
    // At the member nearest to the median: the median of two heaps lies between them.
    const middle = (v) => Float64Array.from(v).sort()[v.length >> 1];
    const marks = [...sums].map(([id, [x, y]]) => {
      const u = middle(x), v = middle(y), far = x.map((_, i) => (x[i] - u) ** 2 + (y[i] - v) ** 2);
      const i = far.indexOf(far.reduce((a, b) => Math.min(a, b)));
      return { id, name: groupName(this, id), x: x[i], y: y[i] };
    });
    marks.sort((a, b) => (b.id === this.group) - (a.id === this.group));
    this.atlas.label(marks);
  }

  fillColours() {
    const options = [make("option", { value: "cluster", text: "by cluster" }), ...this.about.columns.map((c, i) => make("option", { value: i, text: `by ${c.name}` }))];
    $("colour").replaceChildren(...options);
    $("colour").addEventListener("change", async () => {
      const v = $("colour").value;
      this.colouring = v === "cluster" ? v : { describe: this.about.columns[v], values: new Uint8Array(await bytes(`column?number=${v}`)) };
      this.paint();
    });
  }

  legend() {
    const box = $("legend");
    if (this.colouring === "cluster") { box.replaceChildren(); return; }
    const d = this.colouring.describe;
    if (d.kind === "number") {
      const bar = make("i", { class: "ramp" });
      box.replaceChildren(make("span", { text: d.low.toPrecision(3) }), bar, make("span", { text: d.high.toPrecision(3) }));
    } else box.replaceChildren(...d.categories.slice(0, 14).map((name, i) => make("span", { class: "key", colour: `#${columnColour(d, i).toString(16).padStart(6, "0")}` }, make("i", { class: "chip" }), name.slice(0, 40))), ...(d.categories.length > 14 ? [make("span", { text: `and ${d.categories.length - 14} more` })] : []));
  }

  highlight(ids) { this.only = ids; this.paint(); this.view("stage"); }

  point(row) { this.atlas.select([row]); }

  hover(row, spot) {
    const tip = $("tip");
    if (row < 0) { tip.hidden = true; return; }
    sample(row).then((s) => {
      const face = s.pictured ? [make("span", { class: "t" })] : [];
      if (face.length) picture(face[0], row);
      tip.replaceChildren(...face, make("b", { text: s.text ? s.text.slice(0, 160) : s.name }), make("span", { text: `${groupName(this, this.labels[row])} · ${percent(s.confidence)}` }));
      tip.hidden = false;
      const w = this.atlas.width;
      tip.style.left = `${Math.min(spot[0] + 14, w - tip.offsetWidth - 6)}px`;
      tip.style.top = `${Math.min(spot[1] + 14, this.atlas.height - tip.offsetHeight - 6)}px`;
    });
  }

  // ------------------------------------------------------------ mouse, keys, search

  view(name) {
    document.documentElement.dataset.show = name;
    for (const b of document.querySelectorAll(".switch [data-show]")) b.setAttribute("aria-pressed", String(b.dataset.show === name));
    if (name === "stage") this.atlas.resize();
  }

  mode(name) {
    this.atlas.setMode(name);
    for (const each of ["pan", "lasso", "brush"]) $(each).setAttribute("aria-pressed", String(each === name));
  }

  async search(text) {
    if (!text.trim()) return;
    const turn = ++this.asked;
    const found = await get(`search?text=${encodeURIComponent(text.slice(0, 200))}`);
    if (turn < this.latest) return;
    if (found.groups.length && !found.rows.length) this.open(found.groups[0]);
    this.choose(found.rows);
    if (found.rows.length) this.showRows(found.rows, `“${text}”`, turn);
    const more = found.total > found.rows.length ? `, the first ${count(found.rows.length)} are selected` : "";
    this.say(`${count(found.total)} sample${found.total === 1 ? "" : "s"} and ${count(found.groups.length)} cluster${found.groups.length === 1 ? "" : "s"} found${more}`);
  }

  // A list that is not a cluster: what was found or selected.
  showRows(rows, title, turn = ++this.asked) {
    this.latest = turn;
    this.shown = rows;
    $("group-title").lastElementChild.textContent = title;
    $("group-title").style.setProperty("--c", "transparent");
    $("group-facts").textContent = `${count(rows.length)} samples`;
    $("names").replaceChildren();
    for (const name of ["rename", "merge", "split", "compare"]) $(name).disabled = true;
    this.gallery.show(rows);
    this.view("panel");
  }

  commands() {
    const some = () => this.selected.size && !this.about.read_only, group = () => this.groups.has(this.group), write = () => group() && !this.about.read_only;
    const other = () => chooseGroup(this, `Compare “${groupName(this, this.group)}” with`, { without: [this.group] }, (id) => this.compare(this.group, id));
    return {
      rename: () => write() && renameDialog(this, this.group),
      merge: () => write() && mergeDialog(this, this.group),
      split: () => write() && splitDialog(this, this.group),
      compare: () => group() && other(),
      duplicates: () => duplicatesDialog(this, this.group).catch((e) => this.say(e.message, true)),
      all: () => this.choose(Array.from(this.shown)),
      move: () => some() && moveDialog(this, this.rows()),
      fresh: () => some() && this.act({ act: "move", rows: this.rows(), to: null }),
      noise: () => some() && this.act({ act: "move", rows: this.rows(), to: -1 }),
      clear: () => this.choose([]),
      "chosen-show": () => this.showRows(this.rows(), "Selection"),
      undo: () => this.state.undo && !this.about.read_only && this.act({ act: "undo" }),
      redo: () => this.state.redo && !this.about.read_only && this.act({ act: "redo" }),
      keep: () => this.busy.then(() => keepDialog(this)),
      help: () => helpDialog(),
      pan: () => this.mode("pan"), lasso: () => this.mode("lasso"), brush: () => this.mode("brush"),
      "zoom-in": () => this.atlas.zoom(1.5), "zoom-out": () => this.atlas.zoom(1 / 1.5), home: () => this.atlas.home(),
      theme: () => setTheme(isDark() ? "light" : "dark", this),
    };
  }

  listen() {
    const commands = this.commands();
    for (const [id, f] of Object.entries(commands)) $(id).addEventListener("click", f);
    $("order").addEventListener("change", () => this.showGroup());
    $("find").addEventListener("submit", (e) => { e.preventDefault(); this.search($("search").value).catch((x) => this.say(x.message, true)); });
    for (const b of document.querySelectorAll(".switch [data-show]")) b.addEventListener("click", () => this.view(b.dataset.show));
    this.atlas.onhover = (row, spot) => this.hover(row, spot);
    this.atlas.onpick = (row, e) => { if (row < 0) { this.only = null; this.paint(); } else if (e.shiftKey || this.atlas.mode !== "pan") this.toggle([row], !this.selected.has(row)); else { this.open(this.labels[row], false); } };
    this.atlas.onselect = (rows, add) => { this.choose(rows, add); if (rows.length) this.showRows(this.rows(), "Selection"); };
    const keys = { j: () => this.step(1), k: () => this.step(-1), r: commands.rename, m: commands.merge, s: commands.split, c: commands.compare, d: commands.duplicates, a: commands.all, v: commands.move, n: commands.fresh, x: commands.noise, u: commands.undo, e: commands.keep, p: commands.pan, l: commands.lasso, b: commands.brush, g: () => { this.view("panel"); $("gallery").focus(); }, 0: commands.home, "+": commands["zoom-in"], "-": commands["zoom-out"], 1: () => this.side.show("clusters"), 2: () => this.side.show("tree"), 3: () => this.side.show("review"), "/": () => $("search").focus(), "?": commands.help };
    document.addEventListener("keydown", (e) => {
      // A field of a dialog that was just closed keeps the focus until the next frame; it takes no keys.
      const writing = e.target.matches("input:not([type=checkbox]), select, textarea") && e.target.getClientRects().length > 0;
      const control = e.ctrlKey || e.metaKey;
      if (control && e.key.toLowerCase() === "z" && !writing) { e.preventDefault(); (e.shiftKey ? commands.redo : commands.undo)(); return; }
      if (control && e.key.toLowerCase() === "y" && !writing) { e.preventDefault(); commands.redo(); return; }
      if (control || e.altKey || writing || isOpen()) return;
      if (e.key === "Escape") { commands.clear(); this.only = null; this.paint(); return; }
      if (this.side.key(e)) { e.preventDefault(); return; }
      const f = e.key === "U" ? commands.redo : keys[e.key.toLowerCase()];
      if (f) { e.preventDefault(); f(); }
    });
    $("search").addEventListener("keydown", (e) => { if (e.key === "Escape") { $("search").value = ""; $("search").blur(); } });
    new MutationObserver(() => this.buttons()).observe(document.documentElement, { attributeFilter: ["data-revision"] });
    this.buttons();
    this.mode("pan");
    this.view(innerWidth < 800 ? "side" : "panel");
  }

  buttons() {
    for (const name of ["undo", "redo"]) {
      $(name).disabled = !this.state[name] || this.about.read_only;
      $(name).title = this.state[name] ? `${name === "undo" ? "Undo" : "Redo"} ${this.state[name]} (${name === "undo" ? "U" : "Shift+U"})` : "";
    }
    $("keep").disabled = this.about.read_only;
  }
}

function columnColour(describe, v) {
  if (v === 255) return GREY;
  if (describe.kind === "category") return parseInt((describe.colours[v] ?? "#9aa0a8").slice(1), 16);
  const at = Math.min((v / 254) * (RAMP.length - 1), RAMP.length - 1.0001), i = Math.floor(at), f = at - i;
  const [r, g, b] = RAMP[i].map((c, j) => Math.round(c + f * (RAMP[i + 1][j] - c)));
  return (r << 16) | (g << 8) | b;
}

const media = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => document.documentElement.dataset.dark === "yes";

function setTheme(theme, app) {
  if (theme) { document.documentElement.dataset.theme = theme; localStorage.setItem("unbend-theme", theme); }
  const now = document.documentElement.dataset.theme || (media.matches ? "dark" : "light");
  document.documentElement.dataset.dark = now === "dark" ? "yes" : "no";
  app?.atlas?.redraw();
}

const kept = localStorage.getItem("unbend-theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
setTheme(null);
const app = new App();
media.addEventListener("change", () => setTheme(null, app));
app.start().catch((error) => { app.say(error.message, true); document.documentElement.dataset.failed = "yes"; closeDialog(); });
