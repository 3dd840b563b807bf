// The bar of the selection: the metric, chips of ranges and filters, and what controls a program that runs.
'use strict';

const selectionBar = (() => {
const {make, button} = elements;
const at = id => document.getElementById(id);
const {timeText} = recording;

function chip(text, remove, exact) {
  return make('span', {class: 'chip', title: exact}, make('span', {}, text),
              button('\u00d7', remove, {'aria-label': `Remove ${text}`}));
}

const FILTER_TEXTS = {function: 'function', 'not-function': 'not function', module: 'module',
                      'not-module': 'not module', thread: 'thread', 'not-thread': 'not thread',
                      'min-size': 'size from', 'max-size': 'size up to', 'min-lifetime': 'lives at least',
                      'max-lifetime': 'freed within', freed: 'freed', kind: 'kind', own: 'own code'};

/// What the values of filters look like, and what to type instead of others.
const SIZE = /^\d+([kmgt](i?b)?|b)?$/i, LIFETIME = /^\d+(\.\d+)?(ns|us|ms|s|m|min|h)?$/;
const SIZE_TEXT = 'a size, such as 500, 4K or 200M', LIFETIME_TEXT = 'a time, such as 20us, 5ms or 2s';
const PATTERN_TEXT = 'part of a name, or a regular expression';
const NAME_TEXTS = {module: 'a file name or path; * is any text', 'not-module': 'a file name or path; * is any text',
                    thread: 'a number or a name', 'not-thread': 'a number or a name'};
const VALUES = {'min-size': [SIZE, SIZE_TEXT], 'max-size': [SIZE, SIZE_TEXT], 'min-lifetime': [LIFETIME, LIFETIME_TEXT],
                'max-lifetime': [LIFETIME, LIFETIME_TEXT], freed: [/^(yes|no)$/, 'yes or no'],
                kind: [/^(heap|mmap|all)$/, 'heap, mmap or all']};

/// The forms that are open, by the ids of their buttons. What is typed stays while the bar is drawn again.
const forms = new Map();

/// A button that opens a form, or the form in its place. `formOf(close)` makes it.
function buttonOrForm(id, text, formOf, properties) {
  return forms.get(id) || button(text, () => {
    forms.set(id, formOf(() => {
      forms.delete(id);
      draw();
      if (at(id)) at(id).focus();
    }));
    draw();
    forms.get(id).querySelector('input').focus();
  }, {id, ...properties});
}

/// Escape calls `close`; Enter calls `close` and then `submit`.
function formWith(close, submit, ...controls) {
  const form = make('form', {class: 'filter-form'}, ...controls);
  form.addEventListener('submit', event => {
    event.preventDefault();
    close();
    submit();
  });
  form.addEventListener('keydown', event => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    close();
  });
  return form;
}

function filterForm(close) {
  const option = make('select', {'aria-label': 'Kind of filter'}, ...selection.FILTERS.map(key =>
    make('option', {value: key}, FILTER_TEXTS[key])));
  const input = make('input', {type: 'text', 'aria-label': 'Value of the filter', size: '18'});
  const check = () => {
    const [pattern, text] = VALUES[option.value] || [/./, ''];
    input.setCustomValidity(pattern.test(input.value.trim()) || input.value.trim() === '' ? '' : `Type ${text}.`);
  };
  input.addEventListener('input', check);
  const explain = () => {
    const text = VALUES[option.value] ? VALUES[option.value][1] : NAME_TEXTS[option.value] || PATTERN_TEXT;
    input.placeholder = input.title = text;
  };
  option.addEventListener('change', () => {
    explain();
    check();
  });
  explain();
  const submit = () => { if (input.value.trim()) selection.add(option.value, input.value.trim()); };
  return formWith(close, submit, option, input, make('button', {type: 'submit'}, 'Add'));
}

/// The text of a mark is typed here; the page goes on meanwhile.
function markForm(close) {
  const input = make('input', {type: 'text', 'aria-label': 'Text of the mark', size: '18', placeholder: 'mark'});
  const submit = () => control('mark', {text: input.value.trim() || 'mark'});
  return formWith(close, submit, input, make('button', {type: 'submit'}, 'Set mark'));
}

function draw() {
  const state = selection.now();
  // A moment has no peak, and its allocations are what is live.
  const isShown = key => key === state.metric || (state.at ? !['peak', 'allocated', 'allocations', 'temporary']
    .includes(key) : key !== 'live');
  const metrics = Object.keys(figures.metrics).filter(isShown);
  const applied = viewPanel.metricsOf(state), metric = viewPanel.metricOf(state);
  const parts = [make('div', {class: 'segments', role: 'group', 'aria-label': 'Metric'},
    ...metrics.map(key => button(recording.metricLabel(key, state), () => selection.change({metric: key}),
                                 {'aria-pressed': String(key === metric), disabled: !applied.includes(key),
                                  title: applied.includes(key) ? explanations.ofMetric(key, state) :
                                    'This view does not depend on it'})))];
  if (state.from || state.to)
    parts.push(chip(`${state.from ? timeText(state.from) : 'start'} \u2013 ${state.to ? timeText(state.to) : 'end'}`,
                    () => selection.change({from: '', to: ''})));
  if (ask.file && (state.from || state.to))
    parts.push(make('span', {class: 'muted'}, 'one of the ten ranges of this file'));
  if (state.at)
    parts.push(chip(`at ${timeText(state.at)}`,
                    () => selection.change({at: '', ...selection.withoutMoment()})));
  if (ask.hasMoment(state.at)) parts.push(make('span', {class: 'muted'}, 'one of the moments of this file'));
  if (state.before && !state.after && state.view !== 'compare')
    parts.push(chip(`A at ${timeText(state.before)}: Alt and click a second moment`,
                    () => selection.change({before: ''})));
  else if (state.before && state.after && state.view !== 'compare')
    parts.push(chip(`pins at ${timeText(state.before)} and ${timeText(state.after)}`,
                    () => selection.change({before: '', after: ''})));
  for (const filter of state.filters) {
    const name = filter.option.endsWith('function') ? selection.named(filter.value) : null;
    const part = filter.option.endsWith('function') && name === null ? selection.contained(filter.value) : null;
    const value = name ? names.label(name) : names.oneLine(part === null ? filter.value : `"${part}"`);
    parts.push(chip(`${FILTER_TEXTS[filter.option]} ${value}`, () => selection.remove(filter), name || filter.value));
  }
  parts.push(buttonOrForm('add-filter', '+ filter', filterForm, {class: 'plain'}));
  const own = make('input', {type: 'checkbox', id: 'own'});
  own.checked = state.own;
  own.addEventListener('change', () => selection.change({own: own.checked}));
  parts.push(make('span', {class: 'space'}), make('label', {}, own, ' only own code'),
             button('Compare\u2026', () => selection.change({view: 'compare',
               ...state.from || state.to ? {before: state.from || '0', after: state.to || 'end'} : {}})));
  if (recording.isLive()) {
    parts.push(recording.isPaused() ? button('Resume', () => control('resume')) :
      button('Pause', () => control('pause')));
    parts.push(buttonOrForm('add-mark', 'Mark', markForm));
  } else {
    forms.delete('add-mark');
  }
  elements.replaceContent(at('selection'), ...parts);
}

async function control(action, options = {}) {
  const {trace} = selection.now();
  try {
    const {state} = await ask.control(action, {trace, ...options});
    feedback.announce('Done: ' + action);
    if (trace !== selection.now().trace) return;
    recording.setPaused(state === 'paused');
    draw();
    // Another recording may have been chosen meanwhile, and this one again, which is read then.
    if (recording.info()) header.draw(recording.info());
  } catch (error) {
    feedback.fail(error);
  }
}

return {draw};
})();
