// The bar of the selection: the metric, chips of ranges and filters, and what controls a program that runs.
'use strict';

const selectionBar = (() => {
const {make, button} = elements;
const at = id => document.getElementById(id);
const {timeText} = recording;

function chip(text, remove, exact) {
  return make('span', {class: 'chip', title: exact}, text,
              button('\u00d7', remove, {'aria-label': `Remove ${text}`}));
}

const FILTER_TEXTS = {function: 'function', 'not-function': 'not function', module: 'module',
                      'not-module': 'not module', thread: 'thread', 'not-thread': 'not thread',
                      'min-size': 'size from', 'max-size': 'size up to', 'min-lifetime': 'lives at least',
                      'max-lifetime': 'freed within', kind: 'kind', own: 'own code'};

let adding = false;   // the form of a new filter is open
function filterForm() {
  const option = make('select', {'aria-label': 'Kind of filter'}, ...selection.FILTERS.map(key =>
    make('option', {value: key}, FILTER_TEXTS[key])));
  const input = make('input', {type: 'text', 'aria-label': 'Value of the filter', size: '18',
                               placeholder: 'name, 4K, 20us \u2026'});
  const form = make('form', {class: 'filter-form'}, option, input, make('button', {type: 'submit'}, 'Add'));
  form.addEventListener('submit', event => {
    event.preventDefault();
    adding = false;
    if (input.value.trim()) selection.add(option.value, input.value.trim());
    draw();
  });
  form.addEventListener('keydown', event => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    adding = false;
    draw();
    at('add-filter').focus();
  });
  setTimeout(() => input.focus(), 0);
  return form;
}

function draw() {
  const state = selection.now();
  // A moment has no peak, and its allocations are what is live.
  const isShown = key => key === state.metric || (state.at ? !['peak', 'allocated', 'allocations', 'temporary']
    .includes(key) : key !== 'live');
  const metrics = Object.keys(figures.metrics).filter(isShown);
  const parts = [make('div', {class: 'segments', role: 'group', 'aria-label': 'Metric'},
    ...metrics.map(key => button(recording.metricLabel(key, state), () => selection.change({metric: key}),
                                 {'aria-pressed': String(key === state.metric),
                                  title: explanations.of(figures.metrics[key].label)})))];
  if (state.from || state.to)
    parts.push(chip(`${state.from ? timeText(state.from) : 'start'} \u2013 ${state.to ? timeText(state.to) : 'end'}`,
                    () => selection.change({from: '', to: ''})));
  if (ask.file && (state.from || state.to))
    parts.push(make('span', {class: 'muted'}, 'one of the ten ranges of this file'));
  if (state.at)
    parts.push(chip(`at ${timeText(state.at)}`,
                    () => selection.change({at: '', ...selection.withoutMoment()})));
  for (const filter of state.filters) {
    const name = filter.option.endsWith('function') ? selection.named(filter.value) : null;
    parts.push(chip(`${FILTER_TEXTS[filter.option]} ${name ? names.label(name) : names.oneLine(filter.value)}`,
                    () => selection.remove(filter), name || filter.value));
  }
  parts.push(adding ? filterForm() : button('+ filter', () => { adding = true; draw(); },
                                            {class: 'plain', id: 'add-filter'}));
  const own = make('input', {type: 'checkbox', id: 'own'});
  own.checked = state.own;
  own.addEventListener('change', () => selection.change({own: own.checked}));
  parts.push(make('span', {class: 'space'}), make('label', {}, own, ' only own code'),
             button('Compare\u2026', () => selection.change({view: 'compare',
               ...state.from || state.to ? {before: state.from || '0', after: state.to || 'end'} : {}})));
  if (recording.isLive()) {
    const marking = button('Mark', () =>
                           control(`mark?text=${encodeURIComponent(prompt('Text of the mark') || 'mark')}`));
    parts.push(button('Pause', () => control('pause')), button('Resume', () => control('resume')), marking);
  }
  at('selection').replaceChildren(...parts);
}

async function control(what) {
  try {
    await ask.control(what);
    feedback.announce('Done: ' + what.split('?')[0]);
  } catch (error) {
    feedback.fail(error);
  }
}

return {draw};
})();
