// The one selection that every view shows. It is the fragment of the address, so that it can be bookmarked, that Back
// undoes a step, and that a copied command has the same figures.
'use strict';

const selection = (() => {
/// Options of a selection that may be given several times, as chips.
const FILTERS = ['function', 'not-function', 'module', 'not-module', 'thread', 'not-thread', 'min-size', 'max-size',
                 'min-lifetime', 'max-lifetime', 'freed', 'kind', 'own'];
const FIELDS = {view: 'summary', metric: 'peak', from: '', to: '', at: '', by: 'function', name: '', shown: '',
                file: '', before: '', after: '', sort: '', zoom: '', series: '', trace: '0',
                other: ''};
const listeners = [];
let current = parse(location.hash);
// How many steps Back undoes without leaving the page. Each entry of the history has its own number, which is still
// right after Back, Forward and a reload.
let depth = history.state ? history.state.depth : 0;
let numbered = '';   // the address of the entry that was numbered last
numberEntry(depth);

function numberEntry(number) {
  depth = number;
  numbered = location.hash;
  if (!history.state || history.state.depth !== depth) history.replaceState({depth}, '');
}
/// Another entry is shown. It has no number yet if a link or the address bar made it; an address that is opened again
/// replaces its entry.
function showEntry() {
  numberEntry(history.state ? history.state.depth : depth + (location.hash === numbered ? 0 : 1));
}

function parse(hash) {
  const read = {...FIELDS, own: false, filters: []};
  for (const part of hash.replace(/^#/, '').split('&')) {
    const at = part.indexOf('=');
    if (at < 0) continue;
    let value;
    try { value = decodeURIComponent(part.slice(at + 1)); } catch (error) { continue; }
    const key = part.slice(0, at);
    if (key === 'only-own') read.own = value === '1';
    else if (Object.hasOwn(FIELDS, key)) read[key] = value;
    else if (FILTERS.includes(key) && value !== '') read.filters.push({option: key, value});
  }
  if (!Object.hasOwn(figures.metrics, read.metric)) read.metric = 'peak';
  // Addresses of before there was this metric.
  if (read.by === 'pinned') [read.by, read.metric] = ['function', 'pinned'];
  return read;
}

function format(state) {
  const parts = [];
  for (const key of Object.keys(FIELDS))
    if (state[key] !== FIELDS[key] || key === 'view') parts.push(`${key}=${encodeURIComponent(state[key])}`);
  if (state.own) parts.push('only-own=1');
  for (const {option, value} of state.filters) parts.push(`${option}=${encodeURIComponent(value)}`);
  return '#' + parts.join('&');
}

/// The selection with some fields changed. Another view begins with its first variant.
function changed(fields) {
  const isOther = fields.view !== undefined && fields.view !== current.view;
  return {...current, ...isOther ? {shown: '', sort: '', zoom: ''} : {}, ...fields};
}
/// Changes some fields; one step that Back undoes, unless `replace`.
function change(fields, replace = false) {
  const next = format(changed(fields)), number = replace ? depth : depth + 1;
  if (next === format(current) || next === location.hash) return;
  if (replace) location.replace(next);
  else location.hash = next;
  numberEntry(number);
}
function undo() {
  if (depth === 0) return false;
  --depth;   // until the entry before is shown
  history.back();
  return true;
}
window.addEventListener('popstate', showEntry);
window.addEventListener('hashchange', () => {
  showEntry();
  current = parse(location.hash);
  for (const listener of listeners) listener(current);
});

/// What a view depends on, as a key. The zoomed frame and the selected function are only marked in a view that is
/// shown. No view depends on the areas of the timeline, and only the comparison depends on pins.
const keyOfView = state => format({...state, zoom: '', name: '', series: '',
                                   ...state.view === 'compare' ? {} : {before: '', after: '', other: ''}});

/// A link to the selection with some fields changed.
const link = fields => format(changed(fields));

/// Adds a filter. False: there is the same already.
function add(option, value) {
  if (current.filters.some(filter => filter.option === option && filter.value === value)) return false;
  change({filters: [...current.filters, {option, value}]});
  return true;
}
const remove = filter => change({filters: current.filters.filter(other => other !== filter)});

/// The longest name that a question may contain: servers limit the length of addresses.
const MAX_NAME = 2000;
const {escaped, eitherCase} = names;
/// A regular expression that matches this name only; of a longer name, also others that begin like it.
const exactly = name => '^' + (name.length > MAX_NAME ? escaped(name.slice(0, MAX_NAME)) : escaped(name) + '$');
/// The name that exactly() was made of, or null.
function named(pattern) {
  const name = /^\^([^]*)\$$/.exec(pattern);
  if (!name) return null;
  const plain = name[1].replace(/\\([.[\]{}()*+?^$|\\])/g, '$1');
  return exactly(plain) === pattern ? plain : null;
}

/// A regular expression that matches the names in which a search finds the text, see names.finder(). It ignores the
/// case of letters only if that changes which of `all` names match; null: these are not known.
function containing(text, all) {
  const isFound = names.finder(text);
  const isCaseKnown = all ? all.every(name => !isFound(name) || name.includes(text)) : !names.ignoresCase(text);
  return isCaseKnown ? escaped(text) : eitherCase(text);
}
/// The text of which containing() made the pattern; null: of none, or of the pattern itself.
function contained(pattern) {
  const text = pattern.replace(/\[([a-z])[A-Z]\]|\(([^()|\\]+)\|[^()|\\]+\)|\\([.[\]{}()*+?^$|\\])/g,
                               (whole, letter, other, sign) => letter || other || sign);
  return text !== pattern && [escaped(text), eitherCase(text)].includes(pattern) ? text : null;
}

/// A pattern of the filter "module" that matches this file or path only.
const exactFile = path => path.replace(/[*?[\\]/g, '\\$&');

/// The options of the API that select: with `whole`, without the range of time and the moment.
function options(state = current, whole = false) {
  const selected = {};
  for (const {option, value} of state.filters) (selected[option] = selected[option] || []).push(value);
  if (state.own) selected['only-own'] = '1';
  if (state.trace !== '0') selected.trace = state.trace;
  if (whole) return selected;
  if (state.at) selected['live-at'] = state.at;
  else {
    if (state.from) selected.from = state.from;
    if (state.to) selected.to = state.to;
  }
  return selected;
}

/// Commands that have no options for own code: their figures do not depend on it.
const WITHOUT_OWN_CODE = ['histogram', 'frees'];
/// Options without those that the command does not have.
function applicable(command, given) {
  if (!WITHOUT_OWN_CODE.includes(command)) return given;
  return Object.fromEntries(Object.entries(given).filter(([name]) => name !== 'own' && name !== 'only-own'));
}

/// The options with only the blocks of one function. Null: other functions are selected, to which the commands would
/// add it, since blocks with any of several functions are selected.
function ofFunction(name, given) {
  const pattern = exactly(name);
  return (given.function || []).some(other => other !== pattern) ? null : {...given, function: [pattern]};
}

/// Whether anything but the recording is selected.
const isNarrowed = () => Object.keys(options()).some(key => key !== 'trace');
/// What changes in a selection that has a moment, when it has none any more.
const withoutMoment = () => current.metric === 'live' ? {metric: 'peak'} : {};

const quoted = text => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
/// The command line that prints the figures of a view: `more` has the command's own options.
/// `selects`: the part of the selection that applies to it: "all", "filters" or "nothing".
function commandLine(command, trace, more = [], positional = [], selects = 'all') {
  const words = ['heapprof', command, ...positional.length ? [] : [quoted(trace)], ...positional.map(quoted),
                 ...more.map(quoted)];
  const selected = selects === 'nothing' ? {} : applicable(command, options(current, selects === 'filters'));
  for (const [name, value] of Object.entries(selected)) {
    if (name === 'trace') continue;
    for (const text of Array.isArray(value) ? value : [value])
      words.push(...(name === 'only-own' ? ['--' + name] :
        text.startsWith('-') ? [`--${name}=${quoted(text)}`] : ['--' + name, quoted(text)]));
  }
  return words.join(' ');
}

const TIME_UNITS = {ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 6e10, min: 6e10, h: 3.6e12};
/// Nanoseconds of a time as commands have it: seconds, "12ms", or a share of `duration`. NaN for others (the peak,
/// marks).
function nanoseconds(text, duration) {
  const parts = /^([\d.]+)(%|[a-z]+)?$/.exec(text);
  if (!parts) return text === 'start' ? 0 : text === 'end' ? duration : NaN;
  const [, number, unit = 's'] = parts;
  return unit === '%' ? number * duration / 100 : Object.hasOwn(TIME_UNITS, unit) ? number * TIME_UNITS[unit] : NaN;
}
/// The same, also of the peak of `info`, the recording, and of the mark with this text. NaN if it is not known.
function nanosecondsOf(text, info, marks) {
  const ns = text === 'peak' ? info.heap.peak_time_ns : nanoseconds(text, info.duration_ns);
  if (Number.isFinite(ns)) return ns;
  const named = marks.filter(mark => mark.text === text.replace(/^mark:/, ''));
  return named.length === 1 ? named[0].time_ns : NaN;
}
/// Seconds as text, as exact as a range of this length needs. nanoseconds() reads no exponent, which String() writes of
/// less than a microsecond.
function seconds(ns, range) {
  const decimals = Math.min(9, Math.max(0, Math.ceil(3 - Math.log10(Math.max(range, 1) / 1e9))));
  const text = (ns / 1e9).toFixed(decimals);
  return decimals > 0 ? text.replace(/\.?0+$/, '') : text;
}

return {FILTERS, MAX_NAME, change, undo, link, add, remove, exactly, named, containing, contained, exactFile, options,
        ofFunction, isNarrowed, withoutMoment, quoted, applicable, commandLine, nanoseconds, nanosecondsOf, seconds,
        now: () => current, keyOfView, listen: listener => listeners.push(listener)};
})();
