// Creation of elements. Texts become text nodes and attributes' values only, never markup, because names in a trace
// may contain anything.
'use strict';

const elements = (() => {
const SVG = 'http://www.w3.org/2000/svg';

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

/// An HTML element. Properties are attributes, and listeners as `onclick`; null leaves one out.
function make(tag, properties, ...children) { return fill(document.createElement(tag), properties, children); }

/// The same for SVG.
function draw(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function button(text, onclick, properties) {
  return make('button', {type: 'button', onclick, ...properties}, text);
}

/// Sets the tooltip of an element. A browser closes a tooltip that is set again, so the same text is not set.
function setTitle(element, text) { if (element.title !== text) element.title = text; }

/// What a control is called, also after it was drawn again: the heading by which a table is sorted shows the order.
/// The names of some have figures: these have a `data-name`.
const nameOf = control => control.id || control.dataset.name || control.getAttribute('aria-label') ||
  control.textContent.replace(/ [\u25b4\u25be]$/, '');

/// Replaces what is in `place`. Children that stay are not taken out: a list would close, and a field lose the focus.
/// If the focused control is not among the new children, the one with its name gets the focus.
function replaceContent(place, ...children) {
  const focused = document.activeElement;
  const isInside = focused !== place && place.contains(focused);
  const same = () => !isInside ? [] : [...place.querySelectorAll('a, button, input, select, [tabindex]')]
    .filter(control => nameOf(control) === nameOf(focused));
  const number = same().indexOf(focused);
  for (const child of [...place.childNodes]) if (!children.includes(child)) child.remove();
  let old = place.firstChild;
  for (const child of children) {
    if (child === old) old = old.nextSibling;
    else place.insertBefore(child, old);
  }
  const next = isInside && place.contains(focused) ? focused : same()[number] || same()[0];
  if (next) next.focus({preventScroll: true});
}

/// A line of live bytes over time, from equal parts of it. `null`: unknown.
function sparkline(values, width = 80, height = 18) {
  if (!values || values.length < 2) return null;
  const highest = Math.max(...values, 1);
  const points = values.map((value, i) =>
    `${(i * width / (values.length - 1)).toFixed(1)},${(height - 1 - (height - 2) * value / highest).toFixed(1)}`);
  return draw('svg', {class: 'spark', width, height, 'aria-hidden': 'true'},
              draw('polyline', {points: points.join(' ')}));
}

/// A bar of `share` (0 to 1) of its cell.
function bar(share, kind = '') {
  const element = make('span', {class: `bar ${kind}`, 'aria-hidden': 'true'});
  element.style.width = `${(44 * Math.min(1, Math.max(0, share || 0))).toFixed(1)}px`;
  return element;
}

/// The sign of an origin of code; the text alternative is in `names.originText`.
function dot(origin) { return make('i', {class: `dot ${origin || 'unknown'}`, 'aria-hidden': 'true'}); }

/// Why a view is empty, and what to do.
function empty(text, ...more) { return make('p', {class: 'empty'}, text, ...more); }

return {make, draw, button, setTitle, replaceContent, sparkline, bar, dot, empty};
})();
