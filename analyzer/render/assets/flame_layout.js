// The layout of a flame graph: a box for each frame that is wide enough, and the place of their rows in the window.
// All lengths are pixels. Needs flame_tree.js.
'use strict';

/// The boxes of the frames in `zoomed`, which fills the width, and of its callers. Returns `rows`, the boxes by row,
/// the outermost one first, each as {i, x, w, row, n}: n > 0 is a stub in the place of n frames with the sum `v`; and
/// the frames in stubs and their sum, `hiddenFrames` and `hiddenValue`.
function flameBoxes(tree, zoomed, width) {
  const {depth, value, parent, end, start, self} = tree;
  const scale = value[zoomed] > 0 ? width / value[zoomed] : 0;
  let hiddenFrames = 0, hiddenValue = 0;
  const boxes = [];
  for (let i = parent[zoomed]; i >= 0; i = parent[i]) boxes.push({i, x: 0, w: width, row: depth[i], n: 0});
  boxes.reverse();
  for (let i = zoomed; i < end[zoomed];) {
    const w = value[i] * scale, x = (start[i] - start[zoomed]) * scale;
    if (w >= flameLayout.MIN_WIDTH || i === zoomed) {
      boxes.push({i, x, w, row: depth[i], n: 0});
      ++i;
      continue;
    }
    // Siblings are in descending order: this one and all after it are too narrow. They become one stub.
    const up = parent[i];
    const last = end[up];
    const lost = start[up] + value[up] - self[up] - start[i];
    boxes.push({i, x, w: lost * scale, row: depth[i], n: last - i, v: lost});
    hiddenFrames += last - i;
    hiddenValue += lost;
    i = last;
  }
  const rows = [];
  for (const box of boxes) (rows[box.row] || (rows[box.row] = [])).push(box);
  return {rows, hiddenFrames, hiddenValue};
}

/// The places of these boxes. `flames`: the outermost frame is at the bottom, at the lower edge of a window that has
/// `height`.
function flameLayout(tree, {rows}, flames, height) {
const {ROW, BAR} = flameLayout;
const levels = rows.length;
const spareRows = flames ? Math.max(0, Math.floor((height - 20) / ROW) - levels) : 0;   // empty ones above the boxes

/// The row that is drawn as the n-th one from above, and the reverse.
const mirrored = row => flames ? spareRows + levels - 1 - row : row;
const topOf = row => mirrored(row) * ROW;

/// The first and the last row between two heights.
function rowsBetween(top, bottom) {
  let first = Math.floor(top / ROW), last = Math.ceil(bottom / ROW);
  if (flames) [first, last] = [mirrored(last), mirrored(first)];
  return [Math.max(first, 0), Math.min(last, levels - 1)];
}
/// How many levels are above and below the part of this height that begins at `top`.
function levelsOutside(top, height) {
  const within = hidden => Math.max(0, Math.min(levels, hidden));
  return [within(Math.round(top / ROW) - spareRows),
          within(spareRows + levels - Math.round((top + height) / ROW))];
}

/// The box of a frame; undefined: it has none of its own.
const boxOf = i => (rows[tree.depth[i]] || []).find(box => box.i === i && box.n === 0);
/// The box at a place, or null.
function boxAt(x, y) {
  const drawn = Math.floor(y / ROW);
  const row = rows[mirrored(drawn)];
  if (!row || y - drawn * ROW > BAR) return null;
  let low = 0, high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].x <= x) low = middle + 1;
    else high = middle;
  }
  const box = row[low - 1];
  return box && x <= box.x + box.w ? box : null;
}

return {rows, height: (Math.max(levels, 1) + spareRows) * ROW + 10, topOf, rowsBetween, levelsOutside, boxOf, boxAt};
}

flameLayout.ROW = 19;          // from row to row, as in flamegraph.cpp
flameLayout.BAR = 18;          // height of a frame
flameLayout.MIN_WIDTH = 0.3;   // narrower frames are not drawn one by one
