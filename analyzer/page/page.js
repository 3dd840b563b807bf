// The page around the views: header, timeline, selection bar, list of views, details, status line, keyboard.
'use strict';

const page = (() => {
const {make, button} = elements;
const VIEWS = [viewSummary, viewFlame, viewTable, viewTree, viewLeaks, viewBlocks, viewLifetimes, viewThreads,
               viewSource];
const MORE_VIEWS = [viewCompare, viewProcesses];
/// The command that answers a view's first question, for files without the answer.
const COMMANDS = {summary: 'report', flame: 'tree', table: 'report', tree: 'tree', leaks: 'leaks', blocks: 'blocks',
                  lifetimes: 'histogram', threads: 'threads', source: 'source', compare: 'diff', processes: 'report'};
/// The question, besides `report`, without whose answer a view shows nothing.
const FIRST = {summary: 'function_rows', flame: 'tree', table: 'function_rows', tree: 'tree'};
const PROGRESS_AFTER_MS = 100;
const at = id => document.getElementById(id);
const isNumber = value => Number.isFinite(value);

let traces = [], live = false, info = null, chart = null;
let shownView = null;     // what the view returned: filter, csv, picture, command
let commandText = '';
let turn = 0, detailsTurn = 0, chartTurn = 0;
let stack = null;         // what the details show instead of a function, until the selection changes

const traceName = () => (traces.find(trace => String(trace.n) === selection.now().trace) || {name: 'TRACE'}).name;

// ---- What views use ---------------------------------------------------------------------------------

function announce(text) { at('announce').textContent = text; }

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    // Without a permission or a secure context: by a text field.
    const area = make('textarea', {class: 'unseen'}, text);
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  announce('Copied: ' + text);
  const copied = at('copy');
  copied.textContent = 'Copied';
  setTimeout(() => { copied.textContent = 'Copy as command'; }, 1500);
}

const isNarrowed = () => Object.keys(selection.options()).some(key => key !== 'trace');
function emptySelection(text) {
  const isSelected = isNarrowed();
  return elements.empty(`${text} in this ${isSelected ? 'selection. Widen the range, or remove a filter. ' :
    'recording. '}`, isSelected ? button('Select everything', () =>
    selection.change({from: '', to: '', at: '', filters: [], own: false,
                      metric: selection.now().metric === 'live' ? 'peak' : selection.now().metric})) : null);
}

function needsServer(command, more, positional) {
  const {from, to, metric} = selection.now();
  const isOtherMetric = (from || to) && metric !== 'peak';
  return make('p', {class: 'empty'}, isOtherMetric ?
    'Of ranges, this file has trees and flame graphs of the metric "Live at peak" only. Ask the recording: ' :
    'This file does not contain the answer. Ask the recording: ',
              make('code', {}, selection.commandLine(command, traceName(), more, positional)), ', or ',
              make('code', {}, `heapprof serve ${traceName()}`));
}

function directions(shown, entries) {
  return make('div', {class: 'segments', role: 'group', 'aria-label': 'Variant of the view'},
    ...entries.map(([key, label]) => button(label, () => selection.change({shown: key}),
                                            {'aria-pressed': String(key === shown)})));
}
function choice(field, value, labels, standard) {
  const list = make('select', {'aria-label': 'Order'}, ...Object.entries(labels).map(([key, label]) =>
    make('option', {value: key, selected: key === value}, label)));
  list.addEventListener('change', () => selection.change({[field]: list.value === standard ? '' : list.value}));
  return list;
}

/// Shows a stack in the details: {title, entries, frames, name}; `later` is a function that asks for more, and
/// returns a promise of elements.
function showStack(shown) {
  stack = shown;
  refreshDetails();
}

const fileName = what => `${names.base(info.program)}-${what}`.replace(/[^\w.-]/g, '_');

// ---- Header and timeline ----------------------------------------------------------------------------

function endOf({ended_by: by, end_status: status}) {
  const known = status === null ? '' : status;
  return {exit: known === '' ? 'exited' : `exited with status ${known}`,
          signal: known === '' ? 'killed by a signal' : `killed by signal ${known}`,
          exec: 'executed another program', stopped: 'recording stopped', running: 'running'}[by] || 'end unknown';
}

function drawHeader() {
  at('program').textContent = names.oneLine(names.base(info.program));
  at('program').title = info.program;
  const {integrity} = info;
  const isComplete = integrity.complete && !integrity.events_lost;
  const parts = [`pid ${info.pid}`, figures.time(info.duration_ns), endOf(integrity),
                 `${figures.plural(info.events, 'event')}, ${isComplete ? 'complete' : 'incomplete'}`];
  at('about').textContent = parts.join(' \u00b7 ');
  at('about').title = integrity.notes.join('\n');
  document.title = `${names.oneLine(names.base(info.program))} \u00b7 heapprof`;
}

/// A file has the answers for ten equal ranges: the one with the middle of a range.
function tenth(ns) {
  const number = Math.min(9, Math.max(0, Math.floor(10 * ns / info.duration_ns)));
  return {from: `${10 * number}%`, to: `${10 * number + 10}%`, at: ''};
}
const withoutMoment = () => selection.now().metric === 'live' ? {metric: 'peak'} : {};

function createChart() {
  chart = timeChart.create(at('timeline'), {
    onRange(from, to) {
      const range = to - from;
      selection.change({...ask.file ? tenth((from + to) / 2) :
        {from: selection.seconds(from, range), to: selection.seconds(to, range), at: ''}, ...withoutMoment()});
    },
    onMoment(ns) {
      if (ask.file) selection.change({...tenth(ns), ...withoutMoment()});
      else selection.change({at: selection.seconds(ns, info.duration_ns), from: '', to: '', metric: 'live'});
    },
    onPin(ns) {
      const {before, after} = selection.now();
      const text = selection.seconds(ns, info.duration_ns);
      if (!before || after) selection.change({before: text, after: ''});
      else {
        const [first, second] = [before, text].sort((a, b) => a - b);
        selection.change({before: first, after: second, view: 'compare'});
      }
    },
    onClear: () => selection.change({from: '', to: '', at: '', ...withoutMoment()}),
    onSite(site) {
      const {series} = selection.now();
      if (series === 'module') selection.add('module', site.label);
      else if (series === 'thread') selection.add('thread', (/\d+$/.exec(site.label) || [site.label])[0]);
      else selection.change({name: fullName(site)});
    },
    tools: [make('span', {class: 'chart-saves'},
                 button('CSV', () => saving.save(fileName('timeline.csv'), 'text/csv', saving.csv(chart.csv())),
                        {title: 'Save the timeline as CSV'}),
                 button('SVG', () => saving.save(fileName('timeline.svg'), 'image/svg+xml',
                                                 saving.svg(chart.picture())), {title: 'Save the timeline as SVG'})),
    // A file has the areas of call sites only.
    ...ask.file ? [] : [make('select', {'aria-label': 'Areas of the timeline', onchange: event =>
      selection.change({series: event.target.value})}, ...[['', 'by call site'], ['module', 'by module'],
        ['thread', 'by thread']].map(([value, text]) => make('option', {value}, text)))]],
  });
}
/// The whole name of a site of the timeline, whose label is short.
let rowNames = [];
function fullName(site) {
  return (rowNames.find(name => name === site.name) || rowNames.find(name => names.short(name) ===
    names.short(site.label)) || site.label);
}

async function refreshChart() {
  const mine = ++chartTurn;
  const selected = selection.options(selection.now(), true);
  delete selected['only-own'];
  at('timeline').classList.add('waiting');
  try {
    const data = await ask.template('timeline', {}, {}, {...selected, by: selection.now().series});
    if (mine !== chartTurn) return;
    chart.show(data);
    markChart();
  } catch (error) {
    if (mine !== chartTurn) return;
    if (chart.data().isPending) at('timeline').replaceChildren(elements.empty(error.message));
    else fail(error);
  } finally {
    if (mine === chartTurn) at('timeline').classList.remove('waiting');
  }
}

function markChart() {
  const {from, to, at: moment, before, after} = selection.now();
  const ns = text => {
    if (!text) return null;
    const value = selection.nanoseconds(text, info.duration_ns);
    if (isNumber(value)) return value;
    const mark = chart.data().marks.find(candidate => candidate.text === text);
    return mark ? mark.time_ns : null;
  };
  chart.mark({from: ns(from), to: ns(to), at: ns(moment), pins: [ns(before), ns(after)].filter(pin => pin !== null)});
}

// ---- Selection bar ----------------------------------------------------------------------------------

function timeText(text) {
  const ns = selection.nanoseconds(text, info.duration_ns);
  return isNumber(ns) ? figures.time(ns) : text;
}

function chip(text, remove, exact) {
  return make('span', {class: 'chip', title: exact}, text,
              button('\u00d7', remove, {'aria-label': `Remove ${text}`}));
}

const FILTER_TEXTS = {function: 'function', 'not-function': 'not function', module: 'module',
                      'not-module': 'not module', thread: 'thread', 'not-thread': 'not thread',
                      'min-size': 'size from', 'max-size': 'size up to', 'min-lifetime': 'lives at least',
                      'max-lifetime': 'freed within', kind: 'kind', own: 'own code'};

let adding = false;
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
    drawSelection();
  });
  form.addEventListener('keydown', event => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    adding = false;
    drawSelection();
    at('add-filter').focus();
  });
  setTimeout(() => input.focus(), 0);
  return form;
}

function drawSelection() {
  const state = selection.now();
  const isMoment = state.at !== '' || state.metric === 'live';
  const liveLabel = `Live at ${state.at ? timeText(state.at) : 'end'}`;
  const metrics = Object.entries(figures.metrics).filter(([key]) => key !== 'live' || isMoment);
  const parts = [make('div', {class: 'segments', role: 'group', 'aria-label': 'Metric'},
    ...metrics.map(([key, {label}]) => button(key === 'live' ? liveLabel : label,
                                              () => selection.change({metric: key}),
                                              {'aria-pressed': String(key === state.metric)})))];
  if (state.from || state.to)
    parts.push(chip(`${state.from ? timeText(state.from) : 'start'} \u2013 ${state.to ? timeText(state.to) : 'end'}`,
                    () => selection.change({from: '', to: ''})));
  if (state.at) parts.push(chip(`at ${timeText(state.at)}`, () => selection.change({at: '', ...withoutMoment()})));
  for (const filter of state.filters) {
    const name = filter.option.endsWith('function') ? selection.named(filter.value) : null;
    parts.push(chip(`${FILTER_TEXTS[filter.option]} ${name ? names.label(name) : names.oneLine(filter.value)}`,
                    () => selection.remove(filter), name || filter.value));
  }
  parts.push(adding ? filterForm() : button('+ filter', () => { adding = true; drawSelection(); },
                                            {class: 'plain', id: 'add-filter'}));
  const own = make('input', {type: 'checkbox', id: 'own'});
  own.checked = state.own;
  own.addEventListener('change', () => selection.change({own: own.checked}));
  parts.push(make('span', {class: 'space'}), make('label', {}, own, ' only own code'),
             button('Compare\u2026', () => selection.change({view: 'compare',
               ...state.from || state.to ? {before: state.from || '0', after: state.to || 'end'} : {}})));
  if (live) {
    const marking = button('Mark', () =>
                           control(`mark?text=${encodeURIComponent(prompt('Text of the mark') || 'mark')}`));
    parts.push(button('Pause', () => control('pause')), button('Resume', () => control('resume')), marking);
  }
  at('selection').replaceChildren(...parts);
}
async function control(what) {
  try {
    await ask.control(what);
    announce('Done: ' + what.split('?')[0]);
  } catch (error) {
    fail(error);
  }
}

// ---- Views ------------------------------------------------------------------------------------------

const available = () => [...VIEWS, viewCompare, ...(traces.length > 1 ? [viewProcesses] : [])];

function drawViews() {
  const {view} = selection.now();
  const list = available();
  const menu = make('select', {id: 'view-menu', 'aria-label': 'View'}, ...list.map(({key, title}) =>
    make('option', {value: key, selected: key === view}, title)));
  menu.addEventListener('change', () => selection.change({view: menu.value}));
  at('views').replaceChildren(menu, make('ul', {}, ...list.map(({key, title}, i) => make('li',
    {class: MORE_VIEWS.some(other => other.key === key) ? 'apart' : ''},
    make('a', {href: selection.link({view: key}), 'aria-current': key === view ? 'page' : null}, title,
         VIEWS[i] ? make('kbd', {}, String(i + 1)) : null)))));
}

function fail(error) {
  if (error.name === 'AbortError') return;   // given up, because the view has changed
  at('progress').replaceChildren(make('p', {class: 'error', role: 'alert'}, error.message));
}

/// All functions of the recording, with their origins.
function functionRows() {
  const {trace, own} = selection.options(selection.now(), true);
  return ask.template('function_rows', {}, {trace, own});
}

/// Everything a view needs to ask its questions.
function contextOf(state) {
  const selected = selection.options(state);
  return {state, metric: state.metric, selected, info, traces, traceName: traceName(),
          filters: selection.options(state, true), functionRows,
          ask: (name, values) => ask.template(name, values, selected),
          // Asked when a view needs it: the questions before it are answered first.
          get report() { return ask.template('report', {metric: state.metric}, selected); }};
}

/// Shows in place of the view that its questions are being answered, and how far they are, until the function that is
/// returned is called.
function showProgress(view, isCurrent) {
  const began = performance.now();
  let running = [], isAsking = false;
  const ticking = setInterval(async () => {
    const passed = performance.now() - began;
    if (!isCurrent()) return;
    at('view').classList.add('waiting');
    // The question that the view waits for, or the index that this one waits for.
    const one = running.find(({command}) => command === 'index') ||
      running.find(({command}) => command === COMMANDS[view.key]) || running[0];
    at('progress').replaceChildren(make('span', {class: 'busy'}), [
      one && one.command === 'index' ? 'Reading the recording, and writing its index' : 'Reading the recording',
      one && one.share > 0 ? `\u2026 ${figures.percent(one.share, 1)}, ${figures.plural(one.events, 'event')}` :
        '\u2026',
      passed < 1000 ? '' : `${Math.floor(passed / 1000)} s`].join(' '));
    if (isAsking) return;
    isAsking = true;
    running = await ask.progress();
    isAsking = false;
  }, PROGRESS_AFTER_MS);
  return () => clearInterval(ticking);
}

async function refreshView() {
  const mine = ++turn;
  const state = selection.now();
  const view = available().find(candidate => candidate.key === state.view) || viewSummary;
  const host = at('view');
  host.dataset.asked = String(mine);
  ask.giveUp();
  const stopProgress = showProgress(view, () => mine === turn);
  let result;
  try {
    const context = contextOf(state);
    result = await view.show(context);
    if (mine !== turn) return;
    drawStatus(state, null, result);
    context.report.then(report => { if (mine === turn) drawStatus(state, report, result); },
                        () => { if (mine === turn) drawStatus(state, undefined, result); });
    at('progress').replaceChildren();
  } catch (error) {
    if (mine !== turn) return;
    result = error instanceof ask.NotInFile ? {node: needsServer(COMMANDS[view.key], [], undefined)} :
      {node: make('p', {class: 'error', role: 'alert'}, error.message)};
    drawStatus(state, undefined, {command: [COMMANDS[view.key], []]});
    at('progress').replaceChildren();
  } finally {
    stopProgress();
    if (mine === turn) host.classList.remove('waiting');
  }
  shownView = {...result, key: view.key};
  const saves = make('span', {class: 'saves'});
  if (result.csv) saves.append(button('CSV', () => saving.save(fileName(view.key + '.csv'), 'text/csv',
                                                               saving.csv(result.csv()))));
  saves.append(button('SVG', () => saving.save(fileName(view.key + '.svg'), 'image/svg+xml',
                                               saving.svg(result.picture ? result.picture() : at('view')))));
  at('view-head').replaceChildren(make('h1', {}, view.title), ...result.tools || [],
                                  make('span', {class: 'shown muted'}, result.shown || ''), saves);
  host.dataset.view = view.key;
  host.replaceChildren(result.node);
  if (result.attached) result.attached();
  applySearch();
  host.dataset.drawn = String(mine);   // equal to `asked` when nothing is awaited
  announce(`${view.title}. ${at('sentence').textContent}`);
}

/// `report`: null before its answer has arrived, undefined without one.
function drawStatus(state, report, result) {
  const [command, more, name, positional] = result.command || ['report', []];
  commandText = selection.commandLine(command, traceName(), more,
                                      positional || (name ? [traceName(), name] : undefined), result.plain);
  at('command').textContent = commandText;
  at('sentence').classList.toggle('waiting', report === null);
  if (report === undefined) at('sentence').replaceChildren();
  if (!report) return;
  const about = figures.metrics[state.metric];
  const {bytes, blocks} = report.total;
  const text = about.unit === 'count' ? `${figures.count(blocks)}` : figures.bytes(bytes);
  const rest = about.unit === 'count' ? ` ${about.said}, ${figures.bytes(bytes)}` :
    ` in ${figures.plural(blocks, state.metric === 'allocated' ? 'allocation' : 'block')}` +
    (state.metric === 'peak' ? ` at ${figures.time(report.heap.peak_time_ns)}` :
      state.metric === 'live' ? ` at ${state.at ? timeText(state.at) : 'the end'}` : ` ${about.said}`);
  at('sentence').replaceChildren(isNarrowed() ? 'Selection: ' : 'Whole recording: ', make('b', {}, text), rest);
  // What a range leaves is no part of what the recording leaves.
  if (!isNarrowed() || (state.metric === 'leaked' && (state.from || state.to))) return;
  const mine = turn;
  ask.template('report', {metric: state.metric === 'live' ? 'peak' : state.metric}, state.trace === '0' ? {} :
    {trace: state.trace}).then(whole => {
    if (mine !== turn) return;
    const [part, all] = about.unit === 'count' ? [blocks, whole.total.blocks] : [bytes, whole.total.bytes];
    at('sentence').append(' \u00b7 ', make('b', {}, figures.percent(part, all)), state.metric === 'live' ?
      ' of the peak' : ' of the whole recording');
  }, () => {});
}

async function refreshDetails() {
  const mine = ++detailsTurn;
  const state = selection.now();
  const host = at('details');
  host.dataset.asked = String(mine);
  const replace = nodes => {
    if (mine !== detailsTurn) return;
    host.classList.remove('waiting');
    host.replaceChildren(...nodes);
    host.dataset.drawn = String(mine);
  };
  if (!stack && !state.name) return replace(details.nothing());
  const waiting = setTimeout(() => { if (mine === detailsTurn) host.classList.add('waiting'); }, PROGRESS_AFTER_MS);
  const context = contextOf(state);
  try {
    if (stack) {
      const actions = stack.name ? [button('Figures of this function', () => {
        const {name} = stack;
        stack = null;
        if (name === selection.now().name) refreshDetails();
        else selection.change({name});
      })] : [];
      const more = stack.later ? await stack.later() : [];
      replace([...await details.stackDetails(context, stack), ...more, make('p', {class: 'actions'}, ...actions)]);
    } else {
      replace(await details.functionDetails(context, state.name));
    }
  } catch (error) {
    replace([make('h2', {}, names.oneLine(state.name)), make('p', {class: 'error'}, error.message)]);
  } finally {
    clearTimeout(waiting);
  }
}

// ---- Search, keys, theme ----------------------------------------------------------------------------

function applySearch() {
  const text = at('search').value.trim();
  if (shownView && shownView.filter && (text || shownView.wasFiltered)) {
    shownView.wasFiltered = true;
    const count = shownView.filter(text);
    if (text && isNumber(count)) announce(`${figures.plural(count, 'row')} found`);
  }
}
at('search').addEventListener('input', applySearch);
at('search').addEventListener('keydown', event => {
  if (event.key === 'Enter') {
    const text = at('search').value.trim();
    at('search').value = '';
    if (text) selection.add('function', text);
  } else if (event.key === 'Escape') {
    event.stopPropagation();
    if (at('search').value === '') at('search').blur();
    at('search').value = '';
    applySearch();
  } else if (event.key === 'ArrowDown' && shownView && shownView.focus) {
    shownView.focus();
  } else return;
  event.preventDefault();
});

const THEMES = ['', 'light', 'dark'];
function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  at('theme').title = `Colours: ${theme || 'as the system'}`;
  try { localStorage.setItem('heapprof-theme', theme); } catch (error) { /* a browser may refuse storage */ }
}
function nextTheme() {
  const now = document.documentElement.dataset.theme || '';
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  // The first step is the one that changes something.
  setTheme(now === '' ? (isDark ? 'light' : 'dark') : THEMES[(THEMES.indexOf(now) + 1) % 3]);
}
at('theme').addEventListener('click', nextTheme);
at('copy').addEventListener('click', () => copy(commandText));

const KEYS = [['1 \u2026 9', 'the views'], ['/', 'search the rows of the view; Enter makes a filter of the text'],
              ['Escape, Back', 'undo the last step'], ['\u2191 \u2193, Enter', 'move in a table, select a row'],
              ['\u2190 \u2192', 'open and close a branch of the tree'],
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
         'A metric, filters and the selected function apply to all views. The address holds them: it can be ' +
         'bookmarked, and Back undoes a step.'),
    make('table', {}, make('tbody', {}, ...KEYS.map(([key, text]) =>
      make('tr', {}, make('th', {scope: 'row'}, make('kbd', {}, key)), make('td', {}, text))))),
    make('p', {class: 'legend-text'}, ...Object.entries(names.originText).flatMap(([key, text]) =>
      [elements.dot(key), text, '  '])),
    make('p', {}, 'The same figures in a terminal: ', make('code', {}, commandText)),
    button('Close', () => dialog.close()));
  dialog.showModal();
}
at('help').addEventListener('click', showHelp);

document.addEventListener('keydown', event => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || at('help-text').open) return;
  const isTyping = event.target.matches('input, select, textarea');
  if (event.key === 'Escape') {
    if (isTyping) event.target.blur();
    else if (stack) {
      stack = null;
      refreshDetails();
    } else if (!selection.undo()) return;
  } else if (isTyping) {
    return;
  } else if (event.key >= '1' && event.key <= '9') {
    selection.change({view: VIEWS[event.key - 1].key});
  } else if (event.key === '/') {
    at('search').focus();
    at('search').select();
  } else if (event.key === '?') showHelp();
  else if (event.key === 'y') copy(commandText);
  else if (event.key === 't') nextTheme();
  else if (event.key === 'd') at('details').focus();
  else return;
  event.preventDefault();
});

// ---- Start, changes, a program that still runs --------------------------------------------------------

let before = {};
function refresh() {
  const state = selection.now();
  const keyOf = fields => JSON.stringify(fields);
  const chartKey = keyOf({...selection.options(state, true), 'only-own': null, series: state.series});
  const detailsKey = keyOf([selection.options(state), state.metric, state.name]);
  const viewKey = selection.format({...state, zoom: ''});
  drawViews();
  drawSelection();
  const series = at('timeline').querySelector('select');
  if (series) series.value = state.series;
  // In the order of what a user waits for: the timeline reads every event.
  if (before.view !== viewKey) refreshView();
  else if (shownView && shownView.zoom) shownView.zoom(state.zoom);
  if (before.details !== detailsKey) {
    stack = null;
    refreshDetails();
  }
  if (before.chart !== chartKey) refreshChart();
  else markChart();
  before = {chart: chartKey, details: detailsKey, view: viewKey, trace: state.trace};
}

/// Program, duration, end, threads: the answer to a question that views ask, too. `info` itself reads every event.
async function loadInfo() {
  const {trace, metric} = selection.now();
  info = await ask.template('report', {metric}, trace === '0' ? {} : {trace});
  drawHeader();
}

/// Asks again what is shown, when the program has allocated in between. Events that arrive meanwhile are one.
function follow() {
  const events = new EventSource('/api/events');
  let shown = -1, latest = null, busy = false;
  async function update() {
    busy = true;
    while (latest && (latest.events !== shown || latest.ended)) {
      const {events: count, ended} = latest;
      latest = null;
      shown = count;
      try {
        if (ended) {
          ({traces, live} = await ask.traces());
          drawSelection();
        }
        ask.forget();
        await loadInfo();
        await Promise.all([refreshChart(), refreshView()]);
      } catch (error) {
        fail(error);
      }
    }
    busy = false;
  }
  events.addEventListener('message', message => {
    latest = JSON.parse(message.data);
    if (latest.ended) events.close();
    if (!busy) update();
  });
}

async function start() {
  let theme = '';
  try { theme = localStorage.getItem('heapprof-theme') || ''; } catch (error) { /* as in setTheme() */ }
  if (THEMES.includes(theme)) setTheme(theme);
  at('details').tabIndex = -1;
  // The token has become a cookie: it need not stay in the address, the history or a bookmark.
  if (location.search) history.replaceState(null, '', location.pathname + location.hash);
  const view = VIEWS.find(({key}) => key === selection.now().view) || viewSummary;
  // Asked at the same time as what the header needs; the view asks the same again, and shows an error.
  if (Object.hasOwn(FIRST, view.key))
    ask.template(FIRST[view.key], {metric: selection.now().metric}, selection.options()).catch(() => {});
  const stopProgress = showProgress(view, () => true);
  try {
    const [served] = await Promise.all([ask.traces(), loadInfo()]);
    ({traces, live} = served);
  } catch (error) {
    fail(error);
    return;
  } finally {
    stopProgress();
  }
  createChart();
  chart.showPending(info.duration_ns);
  selection.listen(async () => {
    if (before.trace !== selection.now().trace) {
      at('view').classList.add('waiting');
      try {
        await loadInfo();
      } catch (error) {
        fail(error);
        return;
      }
    }
    refresh();
  });
  refresh();
  functionRows().then(answer => { rowNames = answer.rows.map(row => row.name); }, () => {});
  if (live) follow();
}
// The views name `page`, which exists when this script has ended.
setTimeout(start, 0);

return {announce, copy, emptySelection, needsServer, directions, choice, showStack, fail};
})();
