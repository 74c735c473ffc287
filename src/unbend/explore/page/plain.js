// Points drawn into pixels by this script: where there is no graphics card, it is many times faster
// than a WebGL that is itself computed by the processor.

// A disc as steps from its centre: [dx, dy, alpha], with soft edges.
function disc(size) {
  const r = size / 2, reach = Math.ceil(r), found = [];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      const a = size < 3 ? (dx >= 0 && dy >= 0 && dx < size && dy < size ? 1 : 0) : Math.min(1, r + 0.5 - Math.hypot(dx, dy));
      if (a > 0.06) found.push([dx, dy, Math.round(a * 255)]);
    }
  }
  return { steps: found, reach };
}

export class PlainPoints {
  constructor(canvas) {
    this.canvas = canvas;
    this.ink = canvas.getContext("2d");
    this.sets = {};
  }

  // spots: Uint16Array (x, y); tints: Uint8Array (r, g, b, a)
  fill(name, spots, tints) {
    const set = (this.sets[name] ??= {});
    if (spots) set.spots = spots;
    if (tints) set.tints = new Uint32Array(tints.buffer, tints.byteOffset, tints.length / 4);
  }

  begin(frame, ratio) {
    const { width, height } = this.canvas;
    if (!this.image || this.image.width !== width || this.image.height !== height) {
      this.image = this.ink.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else this.pixels.fill(0);
    this.scale = [(frame.sx * ratio) / 32767.5, (frame.cx - frame.sx) * ratio, (-frame.sy * ratio) / 32767.5, (frame.cy + frame.sy) * ratio];
  }

  draw(name, number, size) {
    const set = this.sets[name];
    if (!number || !set?.spots || !set.tints) return;
    const { width, height } = this.canvas, [ax, bx, ay, by] = this.scale, { spots, tints } = set, pixels = this.pixels;
    const { steps, reach } = disc(Math.max(1, Math.round(size)));
    const offsets = Int32Array.from(steps, ([dx, dy]) => dy * width + dx), alphas = Uint8Array.from(steps, (s) => s[2]);
    const m = offsets.length, right = width - reach - 1, bottom = height - reach - 1, soft = alphas.some((a) => a < 255);
    for (let i = 0; i < number; i++) {
      const x = (spots[2 * i] * ax + bx) | 0, y = (spots[2 * i + 1] * ay + by) | 0;
      if (x < reach || y < reach || x > right || y > bottom) continue;
      const at = y * width + x, tint = tints[i], faint = tint >>> 24 < 80;
      const solid = faint ? (tint & 0xffffff) | 0x48000000 : tint | 0xff000000;
      for (let j = 0; j < m; j++) {
        const k = at + offsets[j];
        if (!soft && !faint) { pixels[k] = solid; continue; }
        const a = faint ? 0x48 : alphas[j]; // an edge never covers what is more solid
        if (a === 255 || pixels[k] >>> 24 <= a) pixels[k] = (solid & 0xffffff) | (a << 24);
      }
    }
  }

  end() { this.ink.putImageData(this.image, 0, 0); }
}
