// Questions to the server. The token came after the # of the address: it is in no URL that is sent.
const KEY = "unbend-token";

const said = new URLSearchParams(location.hash.slice(1));
export const drawing = said.get("map"); // "webgl" or "plain" where a driver must be avoided

function findToken() {
  const given = said.get("token");
  if (given) {
    localStorage.setItem(KEY, given); // of this origin only: host and port
    history.replaceState(null, "", "/");
    return given;
  }
  return localStorage.getItem(KEY) || "";
}

const token = findToken();

export class Problem extends Error {}

async function ask(path, body, kind) {
  const options = { headers: { authorization: `Bearer ${token}` }, cache: "no-store" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(`/api/${path}`, options);
  } catch {
    throw new Problem("The server does not answer. Start unbend explore again.");
  }
  if (!answer.ok) {
    if (answer.status === 401) throw new Problem("Open the address that unbend explore printed.");
    let text = "";
    try { text = (await answer.json()).problem; } catch { /* not JSON */ }
    throw new Problem(text || `The server refused (${answer.status}).`);
  }
  return answer[kind]();
}

export const get = (path) => ask(path, undefined, "json");
export const post = (path, body) => ask(path, body, "json");
export const bytes = (path) => ask(path, undefined, "arrayBuffer");

// ---------------------------------------------------------------- samples by row, kept

const known = new Map();
const waiting = new Map();
let samplesDue = false;

export function forgetSamples() { known.clear(); }

export function sample(row) {
  if (known.has(row)) return Promise.resolve(known.get(row));
  if (!waiting.has(row)) {
    let settle;
    const promise = new Promise((resolve) => { settle = resolve; });
    waiting.set(row, { promise, settle });
    if (!samplesDue) { samplesDue = true; queueMicrotask(fetchSamples); }
  }
  return waiting.get(row).promise;
}

async function fetchSamples() {
  samplesDue = false;
  const rows = [...waiting.keys()];
  const settles = rows.map((row) => waiting.get(row).settle);
  waiting.clear();
  for (let i = 0; i < rows.length; i += 400) {
    let found;
    try { found = await post("samples", { rows: rows.slice(i, i + 400) }); } catch { return; }
    if (known.size > 50000) known.clear();
    found.forEach((s, j) => { known.set(s.row, s); settles[i + j](s); });
  }
}

// ---------------------------------------------------------------- pictures, many in one sheet

const places = new Map(); // `${side}:${row}` -> { url, x, y, columns, lines }
const sheets = [];
let wanted = new Map(); // key -> elements
let tilesDue = false;

export function picture(element, row, side = 64) {
  element.dataset.row = row;
  const key = `${side}:${row}`;
  const place = places.get(key);
  if (place) { show(element, place); return; }
  if (!wanted.has(key)) wanted.set(key, []);
  wanted.get(key).push(element);
  if (!tilesDue) { tilesDue = true; setTimeout(fetchTiles, 12); }
}

function show(element, p) {
  element.style.backgroundImage = `url(${p.url})`;
  element.style.backgroundSize = `${p.columns * 100}% ${p.lines * 100}%`;
  const x = p.columns > 1 ? (p.x / (p.columns - 1)) * 100 : 0;
  const y = p.lines > 1 ? (p.y / (p.lines - 1)) * 100 : 0;
  element.style.backgroundPosition = `${x}% ${y}%`;
}

async function fetchTiles() {
  tilesDue = false;
  const now = wanted;
  wanted = new Map();
  const bySide = new Map();
  for (const [key, elements] of now) {
    const [side, row] = key.split(":").map(Number);
    if (!elements.some((e) => e.isConnected)) continue; // scrolled past already
    if (!bySide.has(side)) bySide.set(side, []);
    bySide.get(side).push(row);
  }
  for (const [side, rows] of bySide) {
    for (let i = 0; i < rows.length; i += 160) await fetchSheet(side, rows.slice(i, i + 160), now);
  }
}

async function fetchSheet(side, rows, now) {
  let data;
  try { data = await ask("tiles", { rows, side }, "blob"); } catch { return; }
  const url = URL.createObjectURL(data);
  const columns = Math.min(16, rows.length), lines = Math.ceil(rows.length / columns);
  rows.forEach((row, i) => {
    const place = { url, x: i % columns, y: Math.floor(i / columns), columns, lines };
    places.set(`${side}:${row}`, place);
    for (const e of now.get(`${side}:${row}`)) if (Number(e.dataset.row) === row) show(e, place);
  });
  sheets.push({ url, keys: rows.map((row) => `${side}:${row}`) });
  if (sheets.length > 80) {
    const old = sheets.shift();
    URL.revokeObjectURL(old.url);
    for (const key of old.keys) if (places.get(key)?.url === old.url) places.delete(key);
  }
}

// ---------------------------------------------------------------- small helpers of the page

export const $ = (id) => document.getElementById(id);
export const count = (n) => n.toLocaleString("en");
export const percent = (p) => (p === null || p === undefined ? "–" : `${(100 * p).toFixed(p < 0.995 && p >= 0.0995 ? 0 : 1)}%`);

// Text is always set as text: names and texts of samples never become markup.
export function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") node.textContent = value;
    else if (key === "class") node.className = value;
    else if (key === "on") for (const [event, f] of Object.entries(value)) node.addEventListener(event, f);
    else if (key === "colour") node.style.setProperty("--c", value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}
