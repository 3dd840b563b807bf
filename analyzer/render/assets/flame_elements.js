// Elements of a flame graph. Its picture is a document of SVG, in which those of HTML need their namespace.
'use strict';
const flameElements = (() => {
const SVG = 'http://www.w3.org/2000/svg';
const HTML = 'http://www.w3.org/1999/xhtml';

/// An element of HTML.
function make(tag, attributes, ...children) {
  const element = document.createElementNS(HTML, tag);
  for (const [key, text] of Object.entries(attributes || {})) element.setAttribute(key, text);
  element.append(...children);
  return element;
}
/// An element of SVG.
function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  return element;
}

return {make, draw};
})();
