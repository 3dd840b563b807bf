// What stands around the frames of a flame graph: search, buttons, legend, the path to the zoomed frame, and notes.
// Needs flame_tree.js, flame_elements.js.
'use strict';

/// `part`: that of flameGraph(). `svg`: the frames; `tip`: their tooltip. `onModule(query)`: called when a module of
/// the legend is chosen, with the search for it.
function flameControls(tree, part, svg, tip, onModule) {

const {grouped, percent, plural} = figures;
const {make} = flameElements;
const {data, value, count, nameOf, humanNumber} = tree;

const input = make('input', {type: 'search', spellcheck: 'false', autocomplete: 'off',
                             'aria-label': 'Search functions',
                             placeholder: 'Search functions, module:name, file:name'});
const regexButton = make('button', {type: 'button', 'aria-pressed': 'false', title: 'Regular expression'}, '.*');
const searchBox = make('div', {class: 'search'}, input, regexButton);
const found = make('span', {class: 'found', role: 'status'});
const resetButton = make('button', {type: 'button', title: 'Show everything (Home)'}, 'Reset zoom');
const flipButton = make('button', {type: 'button', 'aria-pressed': 'false',
                                   title: 'Outermost frames at the bottom (f)'}, 'Flip');
const crumbs = make('nav', {class: 'crumbs', 'aria-label': 'Zoomed frame and its callers'});
const legend = make('div', {class: 'legend'});
// How many levels are outside the window, at the edge where they are; a click scrolls there.
const outsideUp = make('button', {type: 'button', class: 'outside up', tabindex: '-1'});
const outsideDown = make('button', {type: 'button', class: 'outside down', tabindex: '-1'});
const chart = make('div', {class: 'chart'}, outsideUp, svg, outsideDown);
const hiddenNote = make('span', {});
const spoken = make('div', {class: 'unseen', 'aria-live': 'polite'});
const context = make('p', {class: 'context'});
for (const [label, text] of data.context)
  context.append(make('span', {}, label ? label + ' ' : '', make('b', {}, text)));
const keys = make('span', {});
for (const [key, text] of [['/', 'search'], ['\u2190\u2191\u2192\u2193', 'move'], ['Enter', 'zoom in'],
                           ['Esc', 'zoom out'], ['n', 'next match'], ['f', 'flip']])
  keys.append(make('kbd', {}, key), ' ' + text + '\u2002');

const page = make('div', {class: 'hp'},
  part ? '' : make('header', {},
    make('div', {}, make('h1', {}, data.title), context),
    make('div', {class: 'sum'}, make('b', {}, data.was ? tree.changed(0) : tree.human(0)), data.cost)),
  make('div', {class: 'bar'}, searchBox, found, make('span', {class: 'space'}), resetButton, flipButton),
  legend, crumbs, chart,
  make('footer', {}, hiddenNote, keys), tip, spoken);

if (data.was) {
  const levels = make('span', {class: 'note'});
  for (let grade = 0; grade < 9; ++grade) levels.append(make('i', {class: 'g' + grade}));
  legend.append(levels, make('span', {class: 'note'}, make('small', {},
    'red: more than before; blue: less; width: the larger of the two values')));
}
for (const [name, hue, own] of data.was || part ? [] : data.modules.slice(0, 9)) {
  const swatch = make('i', {class: `h${hue}l`});
  const text = name || 'unknown';
  const button = make('button', {type: 'button', title: `${humanNumber(own)} allocated by frames of ${text}`}, swatch,
                      text.length > 32 ? text.slice(0, 31) + '\u2026' : text,
                      make('small', {}, own > 0 ? percent(own, value[0]) : ''));
  button.addEventListener('click', () => onModule(`module:${name}`));
  if (name) legend.append(button);
}
if (!data.was && data.functions.some(f => f[5] === 1))
  legend.append(make('span', {class: 'note'}, make('i', {class: 'inlined'}), make('small', {}, 'inlined')));

const setPressed = (button, on) => button.setAttribute('aria-pressed', String(on));

return {
  page, input, regexButton, resetButton, flipButton, chart, outsideUp, outsideDown,

  isRegex: () => regexButton.getAttribute('aria-pressed') === 'true',
  setFlipped(on) { setPressed(flipButton, on); },

  /// Shows what is searched for, and what flameSearch() has found.
  showSearch(text, isRegex, result) {
    if (input.value !== text) input.value = text;
    setPressed(regexButton, isRegex);
    const error = result && result.error;
    searchBox.classList.toggle('bad', Boolean(error));
    searchBox.title = error || '';
    found.replaceChildren();
    if (!result) return;
    if (error) found.append('invalid regular expression');
    else if (result.order.length === 0) found.append('no match');
    else found.append(make('b', {}, percent(result.total, value[0])),
                      ` ${humanNumber(result.total)} in ${plural(result.order.length, 'frame')}`);
  },

  /// Shows the zoomed frame and its callers; `onChoose(frame)`: called when one of them is chosen.
  showPath(zoomed, onChoose) {
    resetButton.disabled = zoomed === 0;
    const path = [];
    for (let p = zoomed; p >= 0; p = tree.parent[p]) path.unshift(p);
    // Long paths keep both ends.
    const shown = path.length > 9 ? [...path.slice(0, 2), -1, ...path.slice(-6)] : path;
    crumbs.replaceChildren();
    crumbs.style.display = zoomed === 0 ? 'none' : '';
    shown.forEach((p, k) => {
      if (k > 0) crumbs.append('\u203a');
      if (p < 0) {
        crumbs.append(make('span', {}, (path.length - 8) + ' more'));
        return;
      }
      const crumb = make('button', {type: 'button', title: nameOf(p).slice(0, 400)},
                         p === 0 ? 'all' : tree.labelOf(p).slice(0, 200));
      if (p === zoomed) crumb.setAttribute('aria-current', 'true');
      crumb.addEventListener('click', () => onChoose(p));
      crumbs.append(crumb);
    });
  },

  /// Shows which frames are not drawn one by one. `boxes`: of flameBoxes().
  showHidden({hiddenFrames, hiddenValue}, zoomed) {
    const parts = [];
    if (hiddenFrames > 0)
      parts.push(`${plural(hiddenFrames, 'frame')} too narrow to draw: ${humanNumber(hiddenValue)}, ` +
                 `${percent(hiddenValue, value[zoomed])} of this view`);
    if (data.merged[0] > 0)
      parts.push(`${plural(data.merged[0], 'small frame')} merged ${part ? 'here' : 'in this file'}: ` +
                 `${humanNumber(data.merged[1])}, ` +
                 percent(data.merged[1], value[0]));
    hiddenNote.textContent = parts.join('. ') || plural(count - 1, 'frame') + ', all drawn';
  },

  /// Shows how many levels are above and below the window.
  showOutside([above, below]) {
    for (const [button, hidden, sign] of [[outsideUp, above, '\u25b4'], [outsideDown, below, '\u25be']]) {
      button.classList.toggle('on', hidden > 0);
      if (hidden > 0) button.textContent = `${sign} ${grouped(hidden)} more level${hidden === 1 ? '' : 's'}`;
    }
  },

  /// Shows that there is no frame.
  showNothing() {
    if (page.querySelector('.empty')) return;
    svg.style.display = 'none';
    chart.append(make('div', {class: 'empty'}, 'Nothing to show: no ' + data.cost + '.'));
  },

  /// Announces the figures of a frame to screen readers.
  speak(i) {
    const about = data.was ?
      `${humanNumber(data.was[i])} before, ${humanNumber(data.is[i])} after, ${tree.changed(i)}` :
      `${tree.human(i)}, ${percent(value[i], data.total)} of total`;
    spoken.textContent = nameOf(i).slice(0, 300) + (tree.isInlined(i) ? ', inlined' : '') + ', ' + about;
  },
  speakNothing() { spoken.textContent = ''; },
};
}
