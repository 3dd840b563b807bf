// Keys of the whole page, and the help about them.
'use strict';

(() => {
const {make, button} = elements;
const at = id => document.getElementById(id);

const KEYS = [['1 \u2026 9', 'the views'],
              ['/', 'search the rows of the view for a text; Enter makes a filter of it'],
              ['Escape, Back', 'undo the last step'], ['\u2191 \u2193, Enter', 'move in a table, select a row'],
              ['\u2190 \u2192', 'open and close a branch of the tree'],
              ['\u2190 \u2192 \u2191 \u2193, Enter', 'move in a flame graph, select a function and zoom to it'],
              ['Home; n, N; f', 'in a flame graph: all of it; the next and the previous match of a search; flip it'],
              ['\u2190 \u2192 \u2191 \u2193, Enter', 'move in the heat map, select sizes and lifetimes'],
              ['Tab',
               'to the timeline: \u2190 \u2192 move, Shift extends a range, Enter selects a moment, p sets a pin'],
              ['y', 'copy the command line with the figures of this view'], ['t', 'light or dark colours'],
              ['d', 'to the details'], ['?', 'this help']];
function showHelp() {
  const dialog = at('help-text');
  dialog.replaceChildren(
    make('h2', {}, 'One selection drives every view'),
    make('p', {},
         'Drag on the timeline to select a range, click for a moment; Alt and two clicks set pins to compare. ' +
         'Metric, range and filters apply to all views; the selected function is highlighted, and its figures are in ' +
         'the details. The address holds all of it: it can be bookmarked, and Back undoes a step. A search is for a ' +
         'text; the filters of functions and of own code take regular expressions, too. On a touch screen, hold a ' +
         'finger on a heading, a figure or a frame to see its tooltip.'),
    make('table', {}, make('tbody', {}, ...KEYS.map(([key, text]) =>
      make('tr', {}, make('th', {scope: 'row'}, make('kbd', {}, key)), make('td', {}, text))))),
    make('p', {class: 'legend-text'}, ...Object.entries(names.originText).flatMap(([key, text]) =>
      [elements.dot(key), text, '  '])),
    make('p', {}, 'The same figures in a terminal: ', make('code', {}, statusLine.command())),
    button('Close', () => dialog.close()));
  dialog.showModal();
}
at('help').addEventListener('click', showHelp);

// The fragment of the address is the selection. The fragment of this link would replace it.
document.querySelector('.skip').addEventListener('click', event => {
  event.preventDefault();
  at('view-panel').focus();
});

document.addEventListener('keydown', event => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || at('help-text').open) return;
  const isTyping = event.target.matches('input:not([type=checkbox]), select, textarea');
  if (event.key === 'Escape') {
    if (isTyping) event.target.blur();
    else if (!detailsPanel.closeStack() && !selection.undo()) return;
  } else if (isTyping) {
    return;
  } else if (event.key >= '1' && event.key <= '9') {
    selection.change({view: viewPanel.KEYS[event.key - 1]});
  } else if (event.key === '/') {
    if (at('search').disabled) feedback.announce(at('search').title);
    at('search').focus();
    at('search').select();
  } else if (event.key === '?') showHelp();
  else if (event.key === 'y') statusLine.copy();
  else if (event.key === 't') header.nextTheme();
  else if (event.key === 'd') detailsPanel.focus();
  else return;
  event.preventDefault();
});
})();
