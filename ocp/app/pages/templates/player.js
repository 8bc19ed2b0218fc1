// Plays the scene of a report on a canvas. Lengths arrive as integers (multiples of `unit`); z is up in 3-D, and a
// planar scene (x right, y up) is stood upright, so that one camera serves both.
"use strict";
(function () {
  const byId = (id) => document.getElementById(id);
  const scene = JSON.parse(byId("scene").textContent);
  const canvas = byId("stage"), pen = canvas.getContext("2d");
  const play = byId("play"), seek = byId("seek"), clock = byId("clock"), speed = byId("speed");
  const flat = scene.kind === "2d", frames = scene.frames, n = scene.count;
  const start = scene.t[0], end = scene.t[frames - 1], span = end - start;
  const HOLD = 0.7; // seconds of rest at the end before the motion starts again
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // vertices of solids, and shades of light on their faces
  const vertices = scene.solids.map(([, v]) => Array.from({ length: v.length / 3 }, (_, k) => [0, 1, 2].map((c) => v[3 * k + c] * scene.unit)));
  const SHADES = 48;
  let shades = [], greys = [];
  const checked = (id) => byId(id) !== null && byId(id).checked;

  // ---- data: the pose of everything at a time, between two frames by linear interpolation
  const coordinate = (f, i, c) => scene.points[(f * n + i) * 3 + c] * scene.unit;
  const point = flat ? (f, i) => [coordinate(f, i, 0), 0, coordinate(f, i, 1)]
                     : (f, i) => [coordinate(f, i, 0), coordinate(f, i, 1), coordinate(f, i, 2)];
  const mix = (a, b, w) => a.map((v, k) => v + (b[k] - v) * w);
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];

  function between(t) {
    const f = Math.max(0, scene.t.findIndex((v) => v >= t));
    if (f === 0) return { a: 0, b: 0, w: 0 };
    return { a: f - 1, b: f, w: (t - scene.t[f - 1]) / (scene.t[f] - scene.t[f - 1]) };
  }
  function pointsAt(at) {
    return Array.from({ length: n }, (_, i) => mix(point(at.a, i), point(at.b, i), at.w));
  }
  function bodyPose(at, body) {
    if (body < 0) return (q) => q; // stands in the world
    const read = (f) => scene.poses.slice((f * scene.bodies + body) * 9, (f * scene.bodies + body) * 9 + 9);
    const v = mix(read(at.a), read(at.b), at.w);
    const p = v.slice(0, 3).map((x) => x * scene.unit);
    const unit = (a) => a.map((x) => x / (Math.hypot(...a) || 1));
    const x = unit(v.slice(3, 6)), z = unit(cross(x, v.slice(6, 9))), y = cross(z, x);
    return (q) => [0, 1, 2].map((k) => p[k] + x[k] * q[0] + y[k] * q[1] + z[k] * q[2]);
  }

  // ---- camera: orbit around a target; a planar scene is seen from the front without perspective
  const everything = []; // [position, margin around it] over a fair sample of the motion, for the size of the picture
  const margins = new Map(scene.dots.map(([i, metres]) => [i, metres]));
  for (let k = 0; k <= 24; k++) {
    const f = Math.round((frames - 1) * k / 24);
    for (let i = 0; i < n; i++) everything.push([point(f, i), margins.get(i) || 0]);
    scene.solids.forEach(([body], s) => {
      const pose = bodyPose({ a: f, b: f, w: 0 }, body), skip = Math.ceil(vertices[s].length / 60);
      for (let v = 0; v < vertices[s].length; v += skip) everything.push([pose(vertices[s][v]), 0]);
    });
  }
  const middle = [0, 1, 2].map((k) => {
    const [low, high] = everything.reduce(([a, b], [p]) => [Math.min(a, p[k]), Math.max(b, p[k])], [Infinity, -Infinity]);
    return everything.length ? (low + high) / 2 : 0;
  });
  const radius = Math.max(...everything.map(([p, m]) => Math.hypot(...p.map((v, k) => v - middle[k])) + m), 0) || 1;
  let camera, width = 1, height = 1;
  function resetView() {
    camera = { yaw: flat ? 0 : scene.yaw, pitch: flat ? 0 : 0.3, zoom: 1, target: middle.slice() };
  }
  resetView();
  // half width and height of the motion as first seen; in 3-D from whichever side, so that orbiting never cuts it off
  const half = [1e-3 * radius, 1e-3 * radius];
  for (const [p, m] of everything) {
    const [x, y, z] = p.map((v, k) => v - middle[k]), out = Math.hypot(x, y);
    half[0] = Math.max(half[0], out + m);
    half[1] = Math.max(half[1], Math.abs(z) * Math.cos(camera.pitch) + out * Math.sin(camera.pitch) + m);
  }
  function scaleOf() { // pixels per metre at the target
    const part = flat ? 0.46 : 0.41; // perspective enlarges what is near
    return camera.zoom * Math.min(part * width / half[0], part * height / half[1]);
  }
  function project(p) {
    const [x, y, z] = p.map((v, k) => v - camera.target[k]);
    const cy = Math.cos(camera.yaw), sy = Math.sin(camera.yaw), cp = Math.cos(camera.pitch), sp = Math.sin(camera.pitch);
    const right = x * cy - y * sy, away = x * sy + y * cy;
    const up = z * cp + away * sp, depth = away * cp - z * sp;
    const eye = 4.5 * radius, s = scaleOf() * (flat ? 1 : eye / Math.max(eye + depth, 0.05 * eye));
    return { x: width / 2 + right * s, y: height / 2 - up * s, depth, s };
  }

  // ---- drawing
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let colour = {};
  function readColours() {
    for (const name of ["link", "body", "ground", "force", "target", "axis_x", "axis_y", "axis_z", "grid", "sky", "ink", "soft", "solid-hue", "solid-low", "solid-high"]) {
      colour[name] = style("--" + name);
    }
    const [hue, low, high] = ["solid-hue", "solid-low", "solid-high"].map((name) => parseFloat(colour[name]));
    const tinted = (saturation) => Array.from({ length: SHADES },
      (_, k) => `hsl(${hue} ${saturation}% ${(low + (high - low) * k / (SHADES - 1)).toFixed(1)}%)`);
    shades = tinted(22);
    greys = tinted(3);
  }
  function trail(points) {
    pen.beginPath();
    points.forEach((p, k) => (k ? pen.lineTo(p.x, p.y) : pen.moveTo(p.x, p.y)));
  }
  function nice(length) {
    const power = 10 ** Math.floor(Math.log10(length)), lead = length / power;
    return (lead < 2 ? 1 : lead < 5 ? 2 : 5) * power;
  }
  function drawGround() {
    pen.strokeStyle = colour.grid;
    pen.lineWidth = 1;
    const step = nice(flat ? 90 / scaleOf() : radius / 2.2);
    if (flat) {
      const reach = [width / 2 / scaleOf(), height / 2 / scaleOf()];
      const lines = (k, make) => {
        const centre = camera.target[k === 0 ? 0 : 2];
        for (let v = Math.ceil((centre - reach[k]) / step); v <= (centre + reach[k]) / step; v++) {
          pen.globalAlpha = v === 0 && k === 1 ? 1 : 0.55;
          trail(make(v * step).map(project));
          pen.stroke();
        }
      };
      const [cx, , cz] = camera.target;
      lines(0, (v) => [[v, 0, cz - reach[1]], [v, 0, cz + reach[1]]]);
      lines(1, (v) => [[cx - reach[0], 0, v], [cx + reach[0], 0, v]]);
    } else {
      const centre = middle.map((v) => Math.round(v / step) * step), count = 6;
      for (let i = -count; i <= count; i++) for (const along of [0, 1]) {
        const ends = [-1, 1].map((side) => {
          const p = [centre[0], centre[1], scene.ground];
          p[along] += side * count * step;
          p[1 - along] += i * step;
          return project(p);
        });
        pen.globalAlpha = 1 - 0.75 * Math.abs(i) / count;
        trail(ends);
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    pen.fillStyle = colour.soft;
    pen.font = "12px system-ui, sans-serif";
    pen.fillText("grid " + Number(step.toPrecision(1)) + " m", 12, height - 12);
  }
  function drawTraces(now) {
    for (const i of scene.traces) {
      const path = Array.from({ length: frames }, (_, f) => project(point(f, i)));
      pen.strokeStyle = colour.body;
      pen.lineWidth = 1.2;
      pen.globalAlpha = 0.3;
      trail(path);
      pen.stroke();
      pen.globalAlpha = 0.95;
      pen.lineWidth = 1.8;
      trail(path.slice(0, now.a + 1).concat([project(mix(point(now.a, i), point(now.b, i), now.w))]));
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }
  function drawFigure(at, alpha) {
    const points = pointsAt(at), seen = points.map(project), items = [];
    const meanDepth = (list) => list.reduce((sum, p) => sum + p.depth, 0) / list.length;
    if (alpha === 1) scene.solids.forEach(([body, , faces, mesh], s) => {
      const world = vertices[s].map(bodyPose(at, body)), flatSeen = world.map(project);
      for (const face of faces) {
        const loop = face.map((k) => flatSeen[k]);
        let area = 0, depth = 0;
        for (let k = 0; k < loop.length; k++) {
          const p = loop[k], q = loop[(k + 1) % loop.length];
          area += p.x * q.y - q.x * p.y;
          depth += p.depth / loop.length;
        }
        if (mesh ? area === 0 : area >= 0) continue; // seen from behind (y points down on the screen)
        const [o, one, two] = [world[face[0]], world[face[1]], world[face[2]]];
        const m = cross([one[0] - o[0], one[1] - o[1], one[2] - o[2]], [two[0] - o[0], two[1] - o[1], two[2] - o[2]]);
        const size = (area < 0 ? 1 : -1) * Math.hypot(m[0], m[1], m[2]) || 1; // of triangles the side that is seen
        const light = Math.max(0, (0.35 * m[0] - 0.45 * m[1] + 0.82 * m[2]) / size) * 0.75 + 0.25;
        items.push({ depth, draw: () => {
          pen.fillStyle = pen.strokeStyle = (body < 0 ? greys : shades)[Math.round(light * (SHADES - 1))];
          pen.lineWidth = 0.6;
          trail(loop);
          pen.closePath();
          pen.fill();
          pen.stroke();
        } });
      }
    });
    for (const [indices, closed, role, inside] of scene.edges) {
      if (inside && alpha === 1) continue; // a ghost shows the skeleton alone
      if (alpha < 1 && (role === "force" || role === "target")) continue;
      const line = indices.map((i) => seen[i]);
      const front = role === "force" ? 100 : 0.01; // arrows are seen through everything
      items.push({ depth: meanDepth(line) - front * radius, draw: () => {
        pen.strokeStyle = pen.fillStyle = colour[role];
        pen.lineWidth = role === "ground" ? 1.5 : role === "force" || role === "target" ? 2 : role.startsWith("axis") ? 3 : Math.min(7, Math.max(2.5, 0.02 * radius * line[0].s));
        pen.lineJoin = pen.lineCap = "round";
        trail(line);
        if (closed) {
          pen.closePath();
          pen.globalAlpha = 0.85 * alpha;
          pen.fill();
          pen.globalAlpha = alpha;
        } else pen.stroke();
      } });
    }
    for (const [i, metres, role] of scene.dots) {
      if (alpha < 1 && !metres) continue; // a ghost without its joint marks is calmer
      const p = seen[i], size = metres ? metres * p.s : Math.min(7, Math.max(3.5, 0.022 * radius * p.s));
      items.push({ depth: p.depth - 0.02 * radius, draw: () => {
        pen.beginPath();
        pen.arc(p.x, p.y, size, 0, 2 * Math.PI);
        pen.fillStyle = metres || role !== "link" ? colour[role] : colour.sky;
        pen.strokeStyle = colour[role];
        pen.lineWidth = 2;
        pen.fill();
        pen.stroke();
        if (!metres || flat) return;
        const shine = pen.createRadialGradient(p.x - 0.4 * size, p.y - 0.5 * size, 0, p.x, p.y, size); // a ball, not a disc
        shine.addColorStop(0, "rgba(255,255,255,0.55)");
        shine.addColorStop(0.6, "rgba(255,255,255,0)");
        shine.addColorStop(1, "rgba(0,0,0,0.22)");
        pen.fillStyle = shine;
        pen.fill();
      } });
    }
    if (!flat) items.sort((a, b) => b.depth - a.depth); // the farthest first
    pen.globalAlpha = alpha;
    for (const item of items) item.draw();
    pen.globalAlpha = 1;
    return seen;
  }
  function drawNames(seen) {
    pen.font = "12px system-ui, sans-serif";
    pen.lineWidth = 3;
    pen.strokeStyle = colour.sky;
    pen.fillStyle = colour.ink;
    for (const [i, text] of scene.labels) {
      pen.strokeText(text, seen[i].x + 9, seen[i].y - 6);
      pen.fillText(text, seen[i].x + 9, seen[i].y - 6);
    }
  }

  // ---- time
  let time = start, playing = false, last = 0, queued = false;
  function paint() {
    queued = false;
    const shown = Math.min(time, end), at = between(shown);
    pen.clearRect(0, 0, width, height);
    drawGround();
    if (checked("ghosts")) for (let k = 0; k <= 8; k++) drawFigure(between(start + span * k / 8), 0.16);
    if (checked("traces")) drawTraces(at);
    const seen = drawFigure(at, 1);
    if (checked("names")) drawNames(seen);
    seek.value = String(span > 0 ? Math.round(1000 * (shown - start) / span) : 0);
    const digits = span < 1 ? 3 : 2;
    clock.textContent = shown.toFixed(digits) + " / " + end.toFixed(digits) + " s";
    seek.setAttribute("aria-valuetext", shown.toFixed(digits) + " seconds");
  }
  function repaint() {
    if (!queued) { queued = true; requestAnimationFrame(paint); }
  }
  function tick(now) {
    if (!playing) return;
    const rate = Number(speed.value);
    time += rate * Math.min(0.1, Math.max(0, (now - last) / 1000)); // the first frame may carry an earlier stamp
    last = now;
    if (time > end + HOLD * rate) time = start;
    paint();
    requestAnimationFrame(tick);
  }
  function setPlaying(on) {
    playing = on && span > 0;
    play.textContent = playing ? "Pause" : "Play";
    if (playing) {
      if (time >= end) time = start;
      last = performance.now();
      requestAnimationFrame(tick);
    }
  }
  function goTo(t) {
    time = Math.min(end, Math.max(start, t));
    repaint();
  }

  // ---- hands
  play.addEventListener("click", () => setPlaying(!playing));
  seek.addEventListener("input", () => { setPlaying(false); goTo(start + span * Number(seek.value) / 1000); });
  for (const id of ["ghosts", "traces", "names"]) if (byId(id)) byId(id).addEventListener("change", repaint);
  document.addEventListener("keydown", (event) => {
    const inField = ["INPUT", "SELECT", "BUTTON", "SUMMARY"].includes(event.target.tagName);
    if (event.key === " " && !inField) setPlaying(!playing);
    else if (event.target === canvas && event.key.startsWith("Arrow")) {
      setPlaying(false);
      goTo(time + (event.key === "ArrowRight" || event.key === "ArrowUp" ? 1 : -1) * span / 100);
    } else return;
    event.preventDefault();
  });
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); canvas.focus({ preventScroll: true }); });
  canvas.addEventListener("pointermove", (event) => {
    if (!event.buttons) return;
    if (flat || event.shiftKey || event.buttons === 4) {
      const s = scaleOf(), cy = Math.cos(camera.yaw), sy = Math.sin(camera.yaw);
      camera.target[0] -= cy * event.movementX / s;
      camera.target[1] += sy * event.movementX / s;
      camera.target[2] += event.movementY / s;
    } else {
      camera.yaw += 0.008 * event.movementX;
      camera.pitch = Math.min(1.55, Math.max(-1.55, camera.pitch + 0.008 * event.movementY));
    }
    repaint();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    camera.zoom = Math.min(40, Math.max(0.1, camera.zoom * Math.exp(-0.0015 * event.deltaY)));
    repaint();
  }, { passive: false });
  canvas.addEventListener("dblclick", () => { resetView(); repaint(); });
  dark.addEventListener("change", () => { readColours(); repaint(); });
  new ResizeObserver(() => {
    const ratio = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(); // at once: setting the size has wiped the canvas
  }).observe(canvas);

  readColours();
  const asked = /^#t=([0-9.]+)(&strobe)?$/.exec(location.hash); // report.html#t=0.5 opens at rest at that time
  if (asked) {
    byId("ghosts").checked = Boolean(asked[2]);
    goTo(Number(asked[1]));
  } else if (!matchMedia("(prefers-reduced-motion: reduce)").matches) setPlaying(true);
})();
