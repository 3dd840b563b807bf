// The frames of a flame graph as a tree. They come in preorder, siblings by descending value, with one array per
// property (see write_flame_data() in flame_data.cpp). A frame is an index into these arrays; frame 0, the root,
// stands for all. Needs figures.js.
'use strict';
function flameTree(data) {

const {grouped, plural} = figures;
const count = data.depth.length;
const depth = data.depth, value = data.value;
const fn = data.function;                // -1: the root, or several small frames that are merged
const parent = new Int32Array(count).fill(-1);
const end = new Int32Array(count);       // one past the last frame below
const start = new Float64Array(count);   // value to the left
const self = Float64Array.from(value);
{
  const path = [];
  const next = [];
  for (let i = 0; i < count; ++i) {
    const d = depth[i];
    for (let k = path.length; k > d; --k) end[path[k - 1]] = i;
    path.length = d;
    if (d > 0) {
      const p = parent[i] = path[d - 1];
      start[i] = next[d - 1];
      next[d - 1] += value[i];
      self[p] -= value[i];
    }
    path.push(i);
    next[d] = start[i];
  }
  for (const i of path) end[i] = count;
}

// ---- Names ----------------------------------------------------------------------------------------

/// The frame's entry of data.functions, or null.
const functionOf = i => fn[i] < 0 ? null : data.functions[fn[i]];
const isMerged = i => fn[i] < 0 && i !== 0;
const nameOf = i => i === 0 ? 'all' : isMerged(i) ? plural(data.line[i], 'small frame') : data.functions[fn[i]][0];
const labelOf = i => {
  if (i === 0)
    return 'all: ' + (data.was ? `${humanNumber(data.was[0])} before, ${humanNumber(data.is[0])} after` : human(0));
  return isMerged(i) ? nameOf(i) : data.functions[fn[i]][1] || data.functions[fn[i]][0];
};
const moduleOf = i => fn[i] < 0 ? '' : data.modules[data.functions[fn[i]][2]][0];
const fileOf = i => fn[i] < 0 ? '' : data.files[data.functions[fn[i]][3]];
const isInlined = i => fn[i] >= 0 && data.functions[fn[i]][5] === 1;
const whereOf = i => {
  const file = fileOf(i), line = data.line[i];
  if (!file || isMerged(i)) return '';
  return line > 0 ? `${file}:${line}` : line < 0 ? `${file}:${-line} and other lines` : file;
};

// ---- Figures --------------------------------------------------------------------------------------

function humanNumber(x) { return data.unit === 'bytes' ? figures.bytes(x) : grouped(x); }
function human(i) { return data.unit !== 'bytes' ? exact(i) : humanNumber(value[i]); }
function exact(i) { return grouped(data.exact[i] || value[i]); }
/// The change of a frame in a comparison.
function changed(i) {
  const by = data.is[i] - data.was[i];
  return by === 0 ? 'no change' : (by < 0 ? '\u2212' : '+') + humanNumber(Math.abs(by));
}

// ---- Paths ----------------------------------------------------------------------------------------

/// Whether `i` is a caller of the other frame, directly or not.
const isCaller = (i, other) => i < other && end[i] >= end[other];

/// The names of the frame's callers and of itself, outermost first, without the root.
function namesTo(i) {
  const path = [];
  for (let p = i; p > 0; p = parent[p]) path.push(nameOf(p));
  return path.reverse();
}
/// The frame with these names, or the last one of them that is found; or the one with their flameTree.hashOf(): of
/// several, `preferred`.
function frameAt(path, preferred) {
  if (typeof path === 'number') return frameWith(path, preferred);
  let to = 0;
  for (const name of path) {
    let next = to + 1;
    while (next < end[to] && (isMerged(next) || nameOf(next) !== name)) next = end[next];
    if (next >= end[to]) break;
    to = next;
  }
  return to;
}
/// The frame whose path has this hash: of several, `preferred`; 0 if there is none.
function frameWith(hash, preferred) {
  if (flameTree.hashOf(namesTo(preferred)) === hash) return preferred;
  const hashes = new Int32Array(count);
  for (let i = 1; i < count; ++i) {
    if (isMerged(i)) continue;
    hashes[i] = flameTree.nextHash(hashes[parent[i]], nameOf(i));
    if (hashes[i] === hash) return i;
  }
  return 0;
}
/// The widest frame that `isWanted` (of an entry of `functions`) accepts. Frames within such a frame do not count.
/// Returns {widest, frames, share}: how many there are, and the share of their values that it has; null: none.
function widestOf(isWanted) {
  const wanted = data.functions.map(isWanted);
  let widest = -1, frames = 0, total = 0;
  for (let i = 1; i < count;) {
    if (fn[i] < 0 || !wanted[fn[i]]) {
      ++i;
      continue;
    }
    if (widest < 0 || value[i] > value[widest]) widest = i;
    ++frames;
    total += value[i];
    i = end[i];
  }
  return widest < 0 ? null : {widest, frames, share: total > 0 ? value[widest] / total : 1};
}

return {data, count, depth, value, fn, parent, end, start, self, functionOf, isMerged, nameOf, labelOf, moduleOf,
        whereOf, isInlined, humanNumber, human, exact, changed, isCaller, namesTo, frameAt, widestOf};
}

/// The hash of a path whose last name is `name`, from the hash of the path before it (FNV-1a).
flameTree.nextHash = (hash, name) => {
  const PRIME = 0x01000193, END = 0x10000;   // END is no character
  for (let i = 0; i < name.length; ++i) hash = Math.imul(hash ^ name.charCodeAt(i), PRIME);
  return Math.imul(hash ^ END, PRIME);
};
/// A number for a path whose names are too long to be kept.
flameTree.hashOf = path => path.reduce((hash, name) => flameTree.nextHash(hash, name), 0);
