// Files that the page writes: rows as CSV, pictures as SVG.
'use strict';

const saving = (() => {
/// `content`: a text or a Blob.
function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], {type}));
  const link = elements.make('a', {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/// A field of RFC 4180. A text that a spreadsheet would take for a formula begins with an apostrophe; so does a part of
/// it after a semicolon or a tab, since some separate fields there, and then know no quotes within a field.
function field(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = (/^[=+\-@\t\r]/.test(value) ? "'" : '') + String(value).replace(/[;\t\r\n](?=[=+\-@\t\r])/g, "$&'");
  return /[",;\t\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
}
const csv = rows => rows.map(row => row.map(field).join(',') + '\n').join('');

const rules = () => [...document.styleSheets].map(sheet => [...sheet.cssRules].map(rule => rule.cssText).join('\n'))
  .join('\n');

const LOOKS = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'opacity',
               'display', 'font-family', 'font-size', 'font-style', 'font-weight', 'text-anchor'];
/// Writes what the style sheets say about `from` into the attributes of its copy, for programs without style sheets.
function copyLooks(from, copy) {
  const style = getComputedStyle(from);
  for (const property of LOOKS) copy.setAttribute(property, style.getPropertyValue(property));
  copy.removeAttribute('class');
  [...from.children].forEach((child, i) => copyLooks(child, copy.children[i]));
}

/// The text of a picture. Names may have characters that XML does not: https://www.w3.org/TR/xml/#charsets.
const xml = picture => new XMLSerializer().serializeToString(picture)
  .replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, '\ufffd');

const sizeOf = (width, height) => ({width, height, viewBox: `0 0 ${width} ${height}`});
function sizeOfNode(node) {
  const {width, height} = node.getBoundingClientRect();
  return sizeOf(Math.ceil(width), Math.ceil(height));
}
const background = () => elements.draw('rect', {width: '100%', height: '100%',
                                                fill: getComputedStyle(document.body).backgroundColor});

/// A chart as a plain picture.
function plain(chart) {
  const copy = chart.cloneNode(true);
  copyLooks(chart, copy);
  for (const [name, value] of Object.entries(sizeOfNode(chart))) copy.setAttribute(name, value);
  copy.prepend(background());
  return copy;
}

/// Charts, as [title, chart], one below the other.
function column(charts) {
  const TITLE = 22;   // pixels
  const {color, fontFamily} = getComputedStyle(document.body);
  const parts = [];
  let widest = 0, y = 0;
  for (const [title, chart] of charts) {
    const copy = plain(chart), {width, height} = sizeOfNode(chart);
    copy.setAttribute('y', y + TITLE);
    parts.push(elements.draw('text', {y: y + 15, fill: color, 'font-family': fontFamily, 'font-size': '13px',
                                      'font-weight': '600'}, title), copy);
    widest = Math.max(widest, width);
    y += TITLE + height;
  }
  return elements.draw('svg', sizeOf(widest, y), background(), ...parts);
}

/// A chart, or a list of charts with their titles, as a plain picture; another part of the page as HTML inside a
/// picture, with the page's style sheet.
function svg(shown) {
  if (Array.isArray(shown)) return xml(column(shown));
  if (shown.localName === 'svg') return xml(plain(shown));
  const frame = elements.draw('foreignObject', {width: '100%', height: '100%'});
  frame.append(shown.cloneNode(true));
  const picture = elements.draw('svg', {...sizeOfNode(shown), class: 'saved',
                                        'data-theme': document.documentElement.dataset.theme},
                                elements.draw('style', {}, rules()), frame);
  return xml(picture);
}

return {save, csv, svg};
})();
