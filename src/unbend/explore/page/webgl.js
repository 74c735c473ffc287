// Points drawn by the graphics card.
const VERTEX = `#version 300 es
in vec2 spot; in vec4 tint; uniform vec4 view; uniform float size; out vec4 colour;
void main() { gl_Position = vec4((spot * 2.0 - 1.0) * view.xy + view.zw, 0.0, 1.0);
  gl_PointSize = size * (tint.a < 0.3 ? 0.7 : 1.0); colour = vec4(tint.rgb, tint.a < 0.3 ? 0.28 : 0.92); }`;
const FRAGMENT = `#version 300 es
precision mediump float; in vec4 colour; uniform float disc; out vec4 pixel;
void main() { float a = 1.0; if (disc > 0.5) { float r = length(gl_PointCoord - 0.5) * 2.0;
  a = 1.0 - smoothstep(0.8, 1.0, r); if (a < 0.02) discard; }
  pixel = vec4(colour.rgb * colour.a * a, colour.a * a); }`;

// Ask on a canvas of its own: one that has been asked for WebGL can no longer be drawn otherwise.
function hasCard(options) {
  const gl = document.createElement("canvas").getContext("webgl2", options);
  if (!gl) return false;
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return !/swiftshader|llvmpipe|software|basic render/i.test(name);
}

export class WebglPoints {
  constructor(canvas, gl) {
    Object.assign(this, { canvas, gl, buffers: {} });
    const program = gl.createProgram();
    for (const [type, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.bindAttribLocation(program, 0, "spot");
    gl.bindAttribLocation(program, 1, "tint");
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.enableVertexAttribArray(0);
    gl.enableVertexAttribArray(1);
    this.uniforms = Object.fromEntries(["view", "size", "disc"].map((name) => [name, gl.getUniformLocation(program, name)]));
  }

  // The graphics card's context; null where WebGL would be computed by the processor.
  static open(canvas, always = false) {
    const options = { antialias: false, alpha: true, premultipliedAlpha: true, failIfMajorPerformanceCaveat: !always };
    return always || hasCard(options) ? canvas.getContext("webgl2", options) : null;
  }

  fill(name, spots, tints) {
    const gl = this.gl, set = (this.buffers[name] ??= { spots: gl.createBuffer(), tints: gl.createBuffer() });
    for (const [buffer, data] of [[set.spots, spots], [set.tints, tints]]) {
      if (!data) continue;
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.bufferData(gl.ARRAY_BUFFER, data, gl.DYNAMIC_DRAW);
    }
  }

  begin(frame, ratio) {
    const gl = this.gl, w = this.canvas.width / ratio, h = this.canvas.height / ratio;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform4f(this.uniforms.view, (2 * frame.sx) / w, (2 * frame.sy) / h, (2 * frame.cx) / w - 1, 1 - (2 * frame.cy) / h);
  }

  draw(name, number, size) {
    const gl = this.gl, set = this.buffers[name];
    if (!number || !set) return;
    gl.bindBuffer(gl.ARRAY_BUFFER, set.spots);
    gl.vertexAttribPointer(0, 2, gl.UNSIGNED_SHORT, true, 4, 0);
    gl.bindBuffer(gl.ARRAY_BUFFER, set.tints);
    gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, 4, 0);
    gl.uniform1f(this.uniforms.size, size);
    gl.uniform1f(this.uniforms.disc, size > 3 ? 1 : 0);
    gl.drawArrays(gl.POINTS, 0, number);
  }

  end() {}
}
