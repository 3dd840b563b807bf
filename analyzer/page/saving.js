// Files that the page writes: rows as CSV, pictures as SVG.
'use strict';

const saving = (() => {
function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  const link = elements.make('a', {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/// A field of RFC 4180. A text that a spreadsheet would take for a formula begins with an apostrophe.
function field(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
  return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
}
const csv = rows => rows.map(row => row.map(field).join(',') + '\n').join('');

const rules = () => [...document.styleSheets].map(sheet => [...sheet.cssRules].map(rule => rule.cssText).join('\n'))
  .join('\n');

/// A chart with the page's style sheet; another part of the page as HTML inside a picture.
function svg(node) {
  const {width, height} = node.getBoundingClientRect();
  const picture = elements.draw('svg', {width: Math.ceil(width), height: Math.ceil(height),
                                        viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`,
                                        class: 'saved', 'data-theme': document.documentElement.dataset.theme});
  const copy = node.cloneNode(true);
  if (node.localName === 'svg') {
    picture.append(...copy.childNodes);
    for (const name of node.classList) picture.classList.add(name);
  } else {
    const frame = elements.draw('foreignObject', {width: '100%', height: '100%'});
    frame.append(copy);
    picture.append(frame);
  }
  picture.prepend(elements.draw('style', {}, rules()));
  return new XMLSerializer().serializeToString(picture);
}

return {save, csv, svg};
})();
