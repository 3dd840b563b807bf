// What a user changes in a view besides the selection: the current row, the order of a table, open branches, a flipped
// graph, scrolled parts and the focus. It stays when the view is drawn again, as a running program goes on, and ends
// with the view or the selection.
'use strict';

const viewState = (() => {
const SCROLLED = '.scroller, .scrolled, .chart-host, .chart';
const CONTROLS = 'a, button, input, select, [tabindex]';
let key = '', number = 0, parts = new Map();

/// Called before a view is made.
function begin(state) {
  const next = selection.keyOfView(state);
  if (next !== key) forget();
  key = next;
}
/// The next view begins anew.
function forget() {
  key = '';
  ++number;
  parts = new Map();
}

/// The state of a part of the view: an object, which the part reads when it is made, and changes. Its function
/// `restore`, if it has one, is called when the part is in its place.
function of(part) {
  if (!parts.has(part)) parts.set(part, {});
  return parts.get(part);
}

/// Calls `draw`, which replaces what is in `host` by a view with the same state.
function keeping(host, draw) {
  const find = wanted => [...host.querySelectorAll(wanted)];
  const scrolled = find(SCROLLED).map(({className, scrollTop, scrollLeft}) => ({className, scrollTop, scrollLeft}));
  const focused = document.activeElement, position = find(CONTROLS).indexOf(focused);
  draw();
  // Links that have a figure in their text are known by their position only.
  const next = position >= 0 && !host.contains(document.activeElement) ? find(CONTROLS)[position] : null;
  if (next && next.localName === focused.localName) next.focus({preventScroll: true});
  find(SCROLLED).forEach((part, i) => {
    if (!scrolled[i] || scrolled[i].className !== part.className) return;
    [part.scrollTop, part.scrollLeft] = [scrolled[i].scrollTop, scrolled[i].scrollLeft];
  });
  for (const {restore} of parts.values()) if (restore) restore();
}

return {begin, forget, of, keeping, number: () => number};
})();
