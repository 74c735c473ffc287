// Dialogs: one at a time, closed by Escape, each a question about clusters or samples.
import { $, count, get, make, percent, picture, post, sample } from "./api.js";
import { Gallery } from "./gallery.js";

const dialog = $("dialog");
let back = null;

export function openDialog(title, wide, ...nodes) {
  if (!dialog.open) back = document.activeElement;
  $("dialog-title").textContent = title;
  $("dialog-body").replaceChildren(...nodes);
  dialog.className = wide ? "wide" : "";
  dialog.onkeydown = null;
  if (!dialog.open) dialog.showModal();
  const first = $("dialog-body").querySelector("[autofocus], input");
  (first || $("dialog-title")).focus();
}

export function closeDialog() { if (dialog.open) dialog.close(); }

// The event comes late: the next dialog may be open by then.
dialog.addEventListener("close", () => { if (dialog.open) return; $("dialog-body").replaceChildren(); back?.focus?.(); });
dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });

export const isOpen = () => dialog.open;

export function groupName(app, id) {
  if (id === -1) return "Noise";
  return app.groups.get(id)?.name ?? `Cluster ${id}`;
}

const nats = (cost) => `${count(Math.round(cost))} nats`;

export const chip = (app, id) => make("i", { class: "chip", colour: app.colour(id), "aria-hidden": "true" });

function faces(app, rows) {
  if (app.about.kind !== "pictures") {
    return make("div", { class: "texts" }, ...rows.slice(0, 4).map((row) => {
      const line = make("p", { class: "small" });
      sample(row).then((s) => { line.textContent = s.text ?? s.name; });
      return line;
    }));
  }
  return make("div", { class: "faces", "aria-hidden": "true" }, ...rows.map((row) => { const t = make("span", { class: "t" }); picture(t, row); return t; }));
}

// ---------------------------------------------------------------- choose a cluster

export function chooseGroup(app, title, { without = [], noise = false, fresh = false, hints = [] }, done) {
  const input = make("input", { type: "text", placeholder: "Type a name or a number", "aria-label": "Filter clusters", autofocus: true, autocomplete: "off" });
  const list = make("ul", { class: "choices" });
  const hint = new Map(hints);
  const every = app.state.groups.filter((g) => !without.includes(g.id));
  every.sort((a, b) => (hint.has(b.id) - hint.has(a.id)) || (hint.has(a.id) ? [...hint.keys()].indexOf(a.id) - [...hint.keys()].indexOf(b.id) : a.id - b.id));
  const pick = (id) => { closeDialog(); done(id); };
  const entry = (id, name, note) => make("li", {}, make("button", { type: "button", "data-choice": String(id), on: { click: () => pick(id) } }, ...(id === null ? [] : [chip(app, id)]), make("span", { text: name }), make("small", { text: note })));
  const fill = () => {
    const text = input.value.trim().toLowerCase();
    const shown = every.filter((g) => !text || g.name.toLowerCase().includes(text) || String(g.id) === text).slice(0, 200);
    const nodes = shown.map((g) => entry(g.id, g.name, hint.get(g.id) ?? count(g.size)));
    if (noise && (!text || "noise".includes(text))) nodes.push(entry(-1, "Noise", "belongs to no cluster"));
    if (fresh) nodes.push(entry(null, "New cluster", ""));
    list.replaceChildren(...nodes);
    if (!nodes.length) list.append(make("li", { class: "small", text: "No such cluster." }));
  };
  input.addEventListener("input", fill);
  input.addEventListener("keydown", (e) => {
    if (e.key === "Enter") { e.preventDefault(); list.querySelector("button")?.click(); }
    if (e.key === "ArrowDown") { e.preventDefault(); list.querySelector("button")?.focus(); }
  });
  list.addEventListener("keydown", (e) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!move) return;
    e.preventDefault();
    const all = [...list.querySelectorAll("button")], i = all.indexOf(document.activeElement) + move;
    (i < 0 ? input : all[Math.min(i, all.length - 1)]).focus();
  });
  fill();
  openDialog(title, false, input, list);
}

export async function mergeDialog(app, id) {
  let hints = [];
  try {
    const costs = await get(`costs?group=${id}`);
    hints = costs.map((c) => [c.id, `costs ${nats(c.cost)}`]);
  } catch { /* suggestions are optional */ }
  chooseGroup(app, `Merge “${groupName(app, id)}” with`, { without: [id], hints }, (other) => app.act({ act: "merge", groups: [id, other], into: id }));
}

export function moveDialog(app, rows) {
  chooseGroup(app, `Move ${count(rows.length)} sample${rows.length === 1 ? "" : "s"} to`, { noise: true, fresh: true }, (to) => app.act({ act: "move", rows, to }));
}

// ---------------------------------------------------------------- rename, split

export function renameDialog(app, id) {
  const group = app.groups.get(id);
  const input = make("input", { type: "text", maxlength: 120, value: group.named ? group.name : "", placeholder: group.name, "aria-label": "Name", autofocus: true, autocomplete: "off" });
  const ideas = make("div", { class: "names" });
  const save = make("button", { type: "button", class: "primary", text: "Rename" });
  const go = () => { closeDialog(); app.act({ act: "rename", group: id, name: input.value }); };
  save.addEventListener("click", go);
  input.addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); go(); } });
  get(`suggest?group=${id}`).then(({ names }) => {
    ideas.replaceChildren(...names.map((n) => make("button", { type: "button", title: n.source, text: n.name, on: { click: () => { input.value = n.name; input.focus(); } } })));
  }).catch(() => {});
  openDialog(`Rename ${group.name}`, false, input, ideas, make("div", { class: "foot" }, make("span", { class: "grow small", text: "An empty name restores the number." }), save));
  input.select();
}

export function splitDialog(app, id) {
  const size = app.groups.get(id).size;
  const parts = make("input", { type: "number", min: 2, max: Math.min(12, size - 1), value: 2, "aria-label": "Number of parts", autofocus: true });
  const view = make("div", { class: "parts", "aria-live": "polite" });
  const go = make("button", { type: "button", class: "primary", disabled: true, text: "Split" });
  let key = null, asked = 0;
  const preview = async () => {
    const mine = ++asked;
    key = null;
    go.disabled = true;
    view.replaceChildren(make("p", { class: "small", text: "Looking for parts …" }));
    try {
      const found = await post("split", { group: id, parts: Number(parts.value) });
      if (mine !== asked) return;
      key = found.key;
      go.disabled = app.about.read_only;
      view.replaceChildren(...found.parts.map((p, i) => make("div", { class: "part" }, make("h3", { text: `Part ${i + 1}: ${count(p.size)}` }), faces(app, p.typical))));
    } catch (error) { if (mine === asked) view.replaceChildren(make("p", { class: "small", text: error.message })); }
  };
  parts.addEventListener("change", preview);
  parts.addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); go.click(); } });
  go.addEventListener("click", () => { if (key) { closeDialog(); app.act({ act: "split", key }); } });
  openDialog(`Split ${groupName(app, id)}`, true, make("p", { class: "row" }, make("label", {}, "Into ", parts, " parts"), make("span", { class: "small", text: "the finer blocks of its membership; nothing changes before you press Split" })), view, make("div", { class: "foot" }, make("span", { class: "grow" }), go));
  preview();
}

// ---------------------------------------------------------------- compare, sample, duplicates

export function compareDialog(app, a, b) {
  const sides = [a, b].map((id, i) => {
    const box = make("div", { class: "gallery", id: `compare-${i}` });
    const group = app.groups.get(id);
    const node = make("section", { class: "half" }, make("h3", {}, chip(app, id), make("span", { text: group.name })), make("p", { class: "small", text: `${count(group.size)} samples · ${percent(group.confidence)} confident` }), box);
    return { id, box, node };
  });
  const merge = make("button", { type: "button", class: "primary", disabled: app.about.read_only, text: "Merge them", on: { click: () => { closeDialog(); app.act({ act: "merge", groups: [a, b], into: a }); } } });
  const move = make("button", { type: "button", text: "Move selected across", disabled: true });
  const chosen = new Set();
  openDialog("Compare", true, make("div", { class: "halves" }, ...sides.map((s) => s.node)), make("div", { class: "foot" }, make("span", { class: "grow small", id: "compare-cost" }), move, merge));
  const galleries = sides.map((s) => new Gallery(s.box, {
    pictures: app.about.kind === "pictures", label: groupName(app, s.id), selected: chosen, onopen: () => {},
    onselect: (rows, on) => { for (const r of rows) on ? chosen.add(r) : chosen.delete(r); galleries.forEach((g) => g.refresh()); move.disabled = !chosen.size || app.about.read_only; },
  }));
  sides.forEach((s, i) => app.members(s.id, $("order").value).then((rows) => galleries[i].show(rows)));
  move.addEventListener("click", async () => {
    const from = { [a]: [], [b]: [] };
    for (const row of chosen) from[app.labels[row]]?.push(row);
    closeDialog();
    if (from[a].length) await app.act({ act: "move", rows: from[a].sort((x, y) => x - y), to: b });
    if (from[b].length) await app.act({ act: "move", rows: from[b].sort((x, y) => x - y), to: a });
  });
  get(`costs?group=${a}`).then((costs) => {
    const place = costs.findIndex((c) => c.id === b);
    if ($("compare-cost") && place >= 0) $("compare-cost").textContent = `Merging them costs ${nats(costs[place].cost)}${place ? "" : ", the least of all clusters"}.`;
  }).catch(() => {});
}

export async function sampleDialog(app, row) {
  const [s, near] = await Promise.all([sample(row), get(`nearest?row=${row}`)]);
  const face = app.about.kind === "pictures" ? make("span", { class: "t large", role: "img", "aria-label": s.name }) : make("p", { class: "fulltext", text: s.text ?? s.name });
  if (app.about.kind === "pictures") picture(face, row, 320);
  const facts = make("dl", { class: "facts" }, ...[["Name", s.name], ["Cluster", groupName(app, app.labels[row])], ["Confidence", percent(s.confidence)], ["Outlier score", s.outlier.toFixed(3)], ["Reviewed", s.reviewed ? "yes" : "not yet"]].flatMap(([k, v]) => [make("dt", { text: k }), make("dd", { text: v })]));
  const fits = make("div", { class: "names" }, ...near.groups.filter((g) => g.id !== app.labels[row]).slice(0, 3).map((g) => make("button", { type: "button", disabled: app.about.read_only, on: { click: () => { closeDialog(); app.act({ act: "move", rows: [row], to: g.id }); } } }, chip(app, g.id), `Move to ${groupName(app, g.id)}`)));
  const select = make("button", { type: "button", text: "Select these", on: { click: () => { closeDialog(); app.choose(near.rows, true); } } });
  const others = make("div", { class: "faces near" }, ...near.rows.map((r, i) => {
    const node = make("button", { type: "button", class: app.about.kind === "pictures" ? "t" : "line", on: { click: () => sampleDialog(app, r) } });
    if (app.about.kind === "pictures") picture(node, r);
    sample(r).then((o) => { node.setAttribute("aria-label", `${o.name}, likeness ${near.likeness[i].toFixed(2)}`); if (app.about.kind !== "pictures") node.textContent = o.text ?? o.name; });
    return node;
  }));
  openDialog(s.name, true, make("div", { class: "one" }, face, make("div", {}, facts, fits)), make("div", { class: "row" }, make("h3", { text: "Nearest samples" }), make("span", { class: "grow" }), select), others);
}

export async function duplicatesDialog(app, id) {
  openDialog("Near-duplicates", true, make("p", { class: "small", text: "Looking …" }));
  const sets = await get(`duplicates?group=${id}`);
  if (!isOpen()) return;
  const rest = sets.flatMap((set) => set.slice(1));
  const body = sets.slice(0, 60).map((set) => make("div", { class: "part" }, make("h3", { text: `${set.length} alike` }), faces(app, set.slice(0, 24))));
  if (!sets.length) body.push(make("p", { text: `No two samples of ${groupName(app, id)} are nearly the same.` }));
  else body.push(make("div", { class: "foot" }, make("span", { class: "grow small", text: "Select all but the first of each set, then move them or mark them as noise." }), make("button", { type: "button", class: "primary", text: `Select ${count(rest.length)}`, on: { click: () => { closeDialog(); app.choose(rest); } } })));
  openDialog(`Near-duplicates in ${groupName(app, id)}`, true, ...body);
}

// ---------------------------------------------------------------- keep, help

export async function keepDialog(app) {
  const run = app.about.run;
  const code = (text) => make("pre", {}, make("code", { text }));
  let head;
  try {
    const kept = await post("keep", {});
    head = make("p", { id: "kept", text: `${kept.files.join(" and ")} are in the run: ${count(kept.n_groups)} clusters with your names.` });
  } catch (error) { head = make("p", { text: error.message }); }
  openDialog("Keep the result", false, head, make("p", { class: "small", text: "Every correction was saved when you made it. From a terminal, next to the run:" }), code(`unbend export ${run} --curated --format imagefolder -o sorted/`), code(`unbend predict ${run} new/ --curated -o labels.csv`), code(`unbend report ${run} --curated`));
}

export function helpDialog() {
  const keys = [["J  K", "next, previous cluster"], ["R", "rename the cluster"], ["M", "merge it with another"], ["S", "split it"], ["C", "compare it with another"], ["D", "near-duplicates in it"], ["G", "to the gallery: arrows, Space selects, Enter opens"], ["A", "select all members"], ["V  N  X", "selection: move, new cluster, noise"], ["Esc", "close, or clear the selection"], ["U  Shift+U", "undo, redo"], ["P  L  B", "map: move, lasso, brush"], ["+  −  0", "map: zoom, everything"], ["1  2  3", "clusters, merge tree, review"], ["/", "search"], ["E", "keep the result"]];
  openDialog("Keys", false, make("dl", { class: "keys" }, ...keys.flatMap(([k, v]) => [make("dt", {}, ...k.split("  ").map((x) => make("kbd", { text: x }))), make("dd", { text: v })])));
}
