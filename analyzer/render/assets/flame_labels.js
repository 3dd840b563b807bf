// Labels of frames, shortened until they fit. Needs flame_elements.js.
'use strict';

/// Returns a function of a name and a width in pixels: the part of the name that has room, or ''.
function flameLabels() {

const canvas = flameElements.make('canvas').getContext('2d');
canvas.font = '11.5px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif';
const widths = new Map();
function textWidth(text) {
  let width = widths.get(text);
  if (width === undefined) widths.set(text, width = canvas.measureText(text).width);
  return width;
}
/// The positions after each scope of a name, outermost first: where there is little room, only the part after a scope
/// is the label. For an unresolved address that part is the offset; the colour shows the module.
function scopes(label) {
  const offset = label.search(/\+0x[0-9a-f]+$/);
  if (offset > 0) return [offset];
  const ends = [];
  let nested = 0;
  for (let i = 0; i + 2 < label.length; ++i) {
    const c = label[i];
    if ('<({'.includes(c)) ++nested;
    else if ('>)}'.includes(c)) --nested;
    else if (nested === 0 && c === ':' && label[i + 1] === ':') ends.push(i + 2);
  }
  return ends;
}

return (label, room) => {
  const isNarrow = text => text.length * 12 < room || (text.length * 3 < room && textWidth(text) <= room);
  if (isNarrow(label)) return label;
  let inner = label;
  for (const end of scopes(label)) {
    inner = label.slice(end);
    if (isNarrow(inner)) return inner;
  }
  label = inner;
  let low = 0, high = Math.min(label.length - 1, Math.ceil(room / 3));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (canvas.measureText(label.slice(0, middle) + '\u2026').width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 1 ? label.slice(0, low) + '\u2026' : '';
};
}
