// The left side: the list of clusters, the merge tree, the review queue.
import { $, count, get, make, percent, picture, sample } from "./api.js";
import { chip, groupName } from "./dialogs.js";

export class Side {
  constructor(app) {
    this.app = app;
    this.tabs = ["clusters", "tree", "review"];
    this.current = "clusters";
    this.tabs.forEach((name, i) => {
      const tab = $(`tab-${name}`);
      tab.addEventListener("click", () => this.show(name));
      tab.addEventListener("keydown", (e) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
        if (step) { const next = this.tabs[(i + step + 3) % 3]; this.show(next); $(`tab-${next}`).focus(); e.preventDefault(); }
      });
    });
    $("merge-go").addEventListener("click", () => { const ids = [...app.marked]; app.marked.clear(); app.act({ act: "merge", groups: ids, into: ids[0] }); });
    $("merge-clear").addEventListener("click", () => { app.marked.clear(); this.list(); });
    $("compare-two").addEventListener("click", () => app.compare(...app.marked));
    $("list").addEventListener("keydown", (e) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[e.key], on = document.activeElement.closest("li");
      if (!step || !on) return;
      e.preventDefault();
      (step > 0 ? on.nextElementSibling : on.previousElementSibling)?.querySelector("button")?.focus();
    });
  }

  show(name) {
    this.current = name;
    for (const each of this.tabs) {
      $(each).hidden = each !== name;
      $(`tab-${each}`).setAttribute("aria-selected", String(each === name));
      $(`tab-${each}`).tabIndex = each === name ? 0 : -1;
    }
    this.refresh();
  }

  refresh() {
    this.list();
    if (this.current === "tree") this.tree();
    if (this.current === "review") this.review();
  }

  // ------------------------------------------------------------ clusters

  list() {
    const app = this.app, largest = Math.max(1, ...app.state.groups.map((g) => g.size));
    const active = document.activeElement?.dataset?.group;
    const entry = (id, name, size, confidence) => {
      const open = make("button", { type: "button", class: "open", "data-group": id, "aria-current": id === app.group ? "true" : null, on: { click: () => app.open(id) } },
        chip(app, id), make("span", { class: "name", text: name }), make("span", { class: "size", text: count(size) }));
      const bar = make("i", { class: "meter" });
      bar.style.setProperty("--w", `${(100 * size) / largest}%`);
      open.append(bar);
      if (confidence !== null && confidence !== undefined) open.append(make("span", { class: "sure", text: percent(confidence), title: "mean confidence" }));
      const tick = id < 0 ? make("span") : make("input", { type: "checkbox", "aria-label": `Mark ${name} to merge or compare`, "data-mark": id, on: { change: (e) => { e.target.checked ? app.marked.add(id) : app.marked.delete(id); this.bar(); } } });
      if (id >= 0) tick.checked = app.marked.has(id);
      return make("li", { class: id === app.group ? "here" : "", colour: app.colour(id) }, tick, open);
    };
    const nodes = app.state.groups.filter((g) => g.size || g.named).map((g) => entry(g.id, g.name, g.size, g.confidence));
    if (app.state.noise) nodes.push(entry(-1, "Noise", app.state.noise, null));
    $("list").replaceChildren(...nodes);
    if (active !== undefined) $("list").querySelector(`[data-group="${active}"]`)?.focus();
    this.bar();
  }

  bar() {
    for (const id of [...this.app.marked]) if (!this.app.groups.has(id)) this.app.marked.delete(id);
    const n = this.app.marked.size;
    $("merge-bar").hidden = n < 1;
    $("merge-text").textContent = n === 1 ? "1 marked" : `${n} marked`;
    $("merge-go").disabled = n < 2 || this.app.about.read_only;
    $("compare-two").disabled = n !== 2;
  }

  // ------------------------------------------------------------ merge tree

  async tree() {
    const app = this.app;
    let merges;
    try { merges = await get("tree"); } catch (error) { $("tree").textContent = error.message; return; }
    const nodes = new Map(merges.map((m) => [m.id, m]));
    const leaves = (id) => (id >= 0 ? [id] : [...leaves(nodes.get(id).a), ...leaves(nodes.get(id).b)]);
    const branch = (id) => {
      if (id >= 0) {
        return make("li", {}, make("button", { type: "button", class: "leaf", "aria-current": id === app.group ? "true" : null, on: { click: () => app.open(id) } }, chip(app, id), make("span", { text: groupName(app, id) }), make("small", { text: count(app.groups.get(id)?.size ?? 0) })));
      }
      const m = nodes.get(id), ids = leaves(id);
      const merge = make("button", { type: "button", class: "join", disabled: app.about.read_only, "aria-label": `Merge ${ids.map((i) => groupName(app, i)).join(", ")}`, on: { click: () => app.act({ act: "merge", groups: ids, into: Math.min(...ids) }) } }, "Merge");
      const look = make("button", { type: "button", class: "cost", title: "Show these clusters on the map", on: { click: () => app.highlight(ids) } }, `+${count(Math.round(m.cost))} nats`);
      return make("li", { class: "inner" }, make("div", { class: "node" }, look, merge), make("ul", {}, branch(m.a), branch(m.b)));
    };
    const intro = make("p", { class: "small", text: "What a merge costs is how much longer the code of the samples gets. The cheapest merges join clusters that may be one." });
    const first = merges.slice(0, 3).filter((m) => m.a >= 0 && m.b >= 0);
    const cheap = make("div", { class: "cheap" }, ...first.map((m) => make("div", {}, chip(app, m.a), chip(app, m.b), make("span", { class: "grow", text: `${groupName(app, m.a)} + ${groupName(app, m.b)}` }), make("small", { text: `+${count(Math.round(m.cost))}` }), make("button", { type: "button", text: "Compare", on: { click: () => app.compare(m.a, m.b) } }))));
    $("tree").replaceChildren(intro, ...(merges.length ? [cheap, make("ul", { class: "tree" }, branch(merges.at(-1).id))] : [make("p", { text: "One cluster has nothing to merge with." })]));
  }

  // ------------------------------------------------------------ review queue

  async review() {
    const app = this.app;
    let queue;
    try { queue = await get("queue"); } catch (error) { $("review").textContent = error.message; return; }
    const done = app.state.reviewed;
    const progress = make("p", { class: "small", text: `Least certain first. ${count(done)} of ${count(app.about.n)} looked at.` });
    if (!queue.length) { $("review").replaceChildren(progress, make("p", { text: "Nothing is left to review." })); return; }
    const row = queue[0];
    let s, near;
    try { [s, near] = await Promise.all([sample(row), get(`nearest?row=${row}`)]); } catch (error) { $("review").textContent = error.message; return; }
    const face = app.about.kind === "pictures" ? make("span", { class: "t large", role: "img", "aria-label": s.name }) : make("p", { class: "fulltext", text: s.text ?? s.name });
    if (app.about.kind === "pictures") picture(face, row, 320);
    const here = app.labels[row];
    const act = (tree) => app.act(tree).then(() => $("review").querySelector("button")?.focus());
    const right = make("button", { type: "button", class: "primary", disabled: app.about.read_only, "data-key": "y", on: { click: () => act({ act: "confirm", rows: [row] }) } }, chip(app, here), `Right: ${groupName(app, here)}`, make("kbd", { text: "Y" }));
    const others = near.groups.filter((g) => g.id !== here).slice(0, 3).map((g, i) => make("button", { type: "button", disabled: app.about.read_only, "data-key": "qwt"[i], on: { click: () => act({ act: "move", rows: [row], to: g.id }) } }, chip(app, g.id), groupName(app, g.id), make("kbd", { text: "QWT"[i] })));
    const noise = make("button", { type: "button", disabled: app.about.read_only, "data-key": "x", on: { click: () => act({ act: "move", rows: [row], to: -1 }) } }, chip(app, -1), "Noise", make("kbd", { text: "X" }));
    const open = make("button", { type: "button", text: "More about it", on: { click: () => app.openSample(row) } });
    $("review").replaceChildren(progress, face, make("p", { class: "who", text: s.name }), make("p", { class: "small", text: `${percent(s.confidence)} confident of ${groupName(app, here)}` }), make("div", { class: "verdicts" }, right, ...others, noise, open));
    app.point(row);
  }

  key(e) {
    if (this.current !== "review") return false;
    const button = $("review").querySelector(`[data-key="${e.key.toLowerCase()}"]`);
    if (!button || button.disabled) return false;
    button.click();
    return true;
  }
}
