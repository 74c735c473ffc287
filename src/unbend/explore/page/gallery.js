// A list of samples, as pictures or as a table, of which only the visible part exists.
import { make, percent, picture, sample } from "./api.js";

const TILE = 66, GAP = 4, LINE = 52;

export class Gallery {
  // options: pictures (bool), label, selected (Set), onselect(rows, add), onopen(row)
  constructor(root, options) {
    Object.assign(this, { root, rows: [], focus: 0, anchor: 0, ...options });
    this.inner = make("div", { class: "inner", role: "presentation" });
    root.append(this.inner);
    root.classList.toggle("tiles", this.pictures);
    root.setAttribute("role", "listbox");
    root.setAttribute("aria-multiselectable", "true");
    root.setAttribute("aria-label", this.label);
    root.tabIndex = 0;
    root.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => this.later(true)).observe(root);
    root.addEventListener("click", (e) => this.click(e));
    root.addEventListener("dblclick", (e) => { const i = this.place(e); if (i >= 0) this.onopen(this.rows[i]); });
    root.addEventListener("keydown", (e) => this.key(e));
  }

  show(rows, keepPlace = false) {
    this.rows = rows;
    if (!keepPlace) { this.root.scrollTop = 0; this.focus = this.anchor = 0; }
    this.focus = Math.min(this.focus, Math.max(0, rows.length - 1));
    this.drawn = null;
    this.draw();
  }

  later(changed = false) {
    if (changed) this.drawn = null;
    if (!this.due) { this.due = true; requestAnimationFrame(() => { this.due = false; this.draw(); }); }
  }

  columns() { return this.pictures ? Math.max(1, Math.floor((this.inner.clientWidth + GAP) / (TILE + GAP))) : 1; }

  // Of a line, the gap below it included.
  height() { return this.pictures ? (this.inner.clientWidth + GAP) / this.columns() : LINE; }

  draw() {
    const columns = this.columns(), height = this.height();
    if (!this.root.clientHeight) return;
    const first = Math.max(0, Math.floor(this.root.scrollTop / height) - 2) * columns;
    const last = Math.min(this.rows.length, (Math.ceil((this.root.scrollTop + this.root.clientHeight) / height) + 2) * columns);
    const now = `${first} ${last} ${columns} ${this.rows.length}`;
    if (this.drawn === now) return;
    this.drawn = now;
    this.inner.style.height = `${Math.ceil(this.rows.length / columns) * height}px`;
    const nodes = [];
    for (let i = first; i < last; i++) nodes.push(this.option(i, columns, height));
    this.inner.replaceChildren(...nodes);
    this.root.dataset.count = this.rows.length;
  }

  option(i, columns, height) {
    const row = this.rows[i], chosen = this.selected.has(row);
    const node = make("div", {
      role: "option", id: `${this.root.id}-${i}`, "aria-selected": String(chosen), "aria-setsize": this.rows.length,
      "aria-posinset": i + 1, "data-i": i, class: i === this.focus ? "focus" : "", "aria-label": `sample ${row}`,
    });
    const width = height;
    node.style.top = `${Math.floor(i / columns) * height}px`;
    if (this.pictures) {
      node.style.left = `${(i % columns) * width}px`;
      node.style.width = node.style.height = `${width - GAP}px`;
      picture(node, row);
    } else node.style.height = `${height}px`;
    sample(row).then((s) => this.fillIn(node, s));
    return node;
  }

  fillIn(node, s) {
    node.setAttribute("aria-label", `${s.name}, confidence ${percent(s.confidence)}`);
    node.title = `${s.name}\n${percent(s.confidence)} confident`;
    node.classList.toggle("reviewed", s.reviewed);
    if (this.pictures) { if (!s.pictured && !node.firstChild) node.append(make("span", { class: "noimage", text: s.name })); } else {
      node.replaceChildren(make("span", { class: "who", text: s.text ?? s.name }), make("span", { class: "what", text: s.text ? `${s.name} · ${percent(s.confidence)}` : percent(s.confidence) }));
    }
  }

  place(e) { const node = e.target.closest("[data-i]"); return node ? Number(node.dataset.i) : -1; }

  click(e) {
    const i = this.place(e);
    if (i < 0) return;
    this.focus = i;
    if (e.shiftKey) this.range(this.anchor, i);
    else { this.anchor = i; this.toggle(i); }
  }

  toggle(i) { const row = this.rows[i]; this.onselect([row], !this.selected.has(row)); }

  range(a, b) {
    const from = Math.min(a, b), to = Math.max(a, b);
    this.onselect(Array.from(this.rows.slice(from, to + 1)), true);
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.rows.length) return;
    const columns = this.columns(), page = columns * 5;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: page, PageUp: -page, Home: -this.rows.length, End: this.rows.length }[e.key];
    if (step) {
      this.focus = Math.min(this.rows.length - 1, Math.max(0, this.focus + step));
      if (e.shiftKey) this.range(this.anchor, this.focus); else this.anchor = this.focus;
      this.reveal();
    } else if (e.key === " ") this.toggle(this.focus);
    else if (e.key === "Enter") this.onopen(this.rows[this.focus]);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  reveal() {
    const columns = this.columns(), height = this.height();
    const top = Math.floor(this.focus / columns) * height;
    if (top < this.root.scrollTop) this.root.scrollTop = top;
    else if (top + height > this.root.scrollTop + this.root.clientHeight) this.root.scrollTop = top + height - this.root.clientHeight;
    this.refresh();
    this.root.setAttribute("aria-activedescendant", `${this.root.id}-${this.focus}`);
  }

  refresh() {
    this.draw();
    for (const node of this.inner.children) {
      const i = Number(node.dataset.i);
      node.setAttribute("aria-selected", String(this.selected.has(this.rows[i])));
      node.classList.toggle("focus", i === this.focus);
    }
  }
}
