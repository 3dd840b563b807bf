// Questions and answers. A question is a command and its options; its answer is what `heapprof COMMAND --json`
// prints, or a text of another --format. With a server it is asked there; a file that `heapprof html` wrote has its
// answers inside.
'use strict';

const ask = (() => {
const stored = document.getElementById('answers');
const file = stored ? JSON.parse(stored.textContent) : null;
/// Answers are kept for a view that is chosen again. The largest ones have 32 MB of text, and take more as objects.
const MAX_KEPT = 80, MAX_KEPT_BYTES = 64 << 20;
const kept = new Map();   // key: {answer: promise, bytes, shownUntil_ms}; the one that was asked longest ago first
function dropOldest() {
  let bytes = 0;
  for (const entry of kept.values()) bytes += entry.bytes;
  for (const [wanted, entry] of kept) {
    if (kept.size < 2 || (kept.size <= MAX_KEPT && bytes <= MAX_KEPT_BYTES)) return;
    kept.delete(wanted);
    bytes -= entry.bytes;
  }
}

class NotInFile extends Error {}

/// The options that have a value, as [name, text], sorted by name and text; arguments keep their order.
function pairs(options) {
  const list = [];
  for (const [name, value] of Object.entries(options)) {
    for (const text of Array.isArray(value) ? value : [value])
      if (text !== null && text !== undefined && text !== '' && text !== false)
        list.push([name, text === true ? '1' : String(text)]);
  }
  const order = (a, b) => a < b ? -1 : a > b ? 1 : 0;
  return list.sort((a, b) => order(a[0], b[0]) || (a[0] === 'arg' ? 0 : order(a[1], b[1])));
}
const key = (command, options) => command + '?' +
  pairs(options).map(([name, text]) => `${encodeURIComponent(name)}=${encodeURIComponent(text)}`).join('&');

/// The moments for which a file has answers.
const moments = new Set(file === null ? [] : Object.keys(file.answers).filter(key => key.startsWith('report?'))
  .map(key => new URLSearchParams(key.slice('report?'.length)).get('live-at')));
/// Whether a file has the answers for a moment.
const hasMoment = text => moments.has(text);

/// Questions without an answer yet, also those whose answer is not shown any more.
let pending = 0;
function count(change) {
  pending += change;
  document.documentElement.dataset.pending = String(pending);
}

/// `how`: options of the request. `onBytes` is called with the size of the answer.
async function fetched(address, how = {}, onBytes = () => {}) {
  count(1);
  try {
    return await received(address, how, onBytes);
  } finally {
    count(-1);
  }
}

/// Answers about another recording than the first ones, whose file was replaced since, would contradict what is shown.
const identities = new Map();   // number of the trace: process and program
function expectSame(address, {pid, program}) {
  if (pid === undefined || program === undefined) return;
  const trace = new URLSearchParams(address.slice(address.indexOf('?') + 1)).get('trace') || '0';
  const identity = `${pid} ${program}`;
  if (!identities.has(trace)) identities.set(trace, identity);
  if (identities.get(trace) !== identity)
    throw new Error('The file has another recording now. Load the page again.');
}

async function received(address, how, onBytes) {
  let answer;
  try {
    answer = await fetch('/api/' + address, {credentials: 'same-origin', ...how});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error('The server does not answer. Start it again: heapprof serve TRACE');
  }
  onBytes(Number(answer.headers.get('Content-Length')));
  let content;
  try {
    const type = answer.headers.get('Content-Type') || '';
    if (answer.ok && type.startsWith('text/plain')) return await answer.text();
    if (answer.ok && type.startsWith('text/csv')) return await answer.blob();
    content = await answer.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Error(`The server answered with status ${answer.status} and no JSON. Load the page again.`);
  }
  if (!answer.ok) throw new Error(content.error || `The server answered with status ${answer.status}.`);
  expectSame(address, content);
  return content;
}

/// The answer as a promise; the same question is asked once. Throws NotInFile where a file has no such answer.
function question(command, options = {}, isSlow = false) {
  const wanted = key(command, selection.applicable(command, options));
  if (file) {
    const answer = Object.hasOwn(file.answers, wanted) ? file.answers[wanted] : undefined;
    return answer === undefined ? Promise.reject(new NotInFile('This file does not contain the answer.')) :
      Promise.resolve(answer);
  }
  let entry = kept.get(wanted);
  if (!entry) {
    const controller = new AbortController();
    if (isSlow) slow.set(wanted, controller);
    const asked_ms = performance.now();
    const asked = entry = {bytes: 0, shownUntil_ms: 0};
    entry.answer = fetched(wanted, {signal: controller.signal}, bytes => { asked.bytes = bytes; });
    const forget = () => { if (slow.get(wanted) === controller) slow.delete(wanted); };
    entry.answer.then(() => {
      forget();
      const now = performance.now();
      if (isSlow) asked.shownUntil_ms = now + SHOWN_TIMES * (now - asked_ms);
      dropOldest();
    }, () => {
      forget();
      if (kept.get(wanted) === asked) kept.delete(wanted);
    });
  } else {
    kept.delete(wanted);
  }
  kept.set(wanted, entry);
  dropOldest();
  return entry.answer;
}

/// Questions that need another pass over the recording, and whose answers are added to a view later. They are given
/// up when the view changes: the server ends them, and answers others sooner. Of a running program their answers are
/// shown for ten times as long as they took.
const SLOW = ['over_time', 'function_over_time', 'growth', 'short_lived'];
const SHOWN_TIMES = 10;
const slow = new Map();   // key: controller of the request
function giveUp() {
  for (const [wanted, controller] of slow) {
    kept.delete(wanted);
    controller.abort();
  }
  slow.clear();
}

/// What the program does later does not change what a range shows that has ended before `until_ns`, unless blocks are
/// selected by their lifetimes: those that it frees later have others.
function isPast(wanted, until_ns) {
  const options = new URLSearchParams(wanted.slice(wanted.indexOf('?') + 1));
  const to = options.get('to') || '';
  return !to.endsWith('%') && !['live-at', 'min-lifetime', 'max-lifetime'].some(name => options.has(name)) &&
    selection.nanoseconds(to, NaN) <= until_ns;
}

/// A running program has gone on: its answers are asked again, if they can be others. `all`: it has ended.
/// `duration_ns`: how far it was when this was called.
let forgotten_ns = 0;   // all answers that are kept were asked for when the program was at least as far
function forget(all, duration_ns) {
  const now = performance.now();
  for (const [wanted, {shownUntil_ms: until}] of kept)
    if (all || !(slow.has(wanted) || until > now || isPast(wanted, forgotten_ns))) kept.delete(wanted);
  forgotten_ns = duration_ns;
}

/// The templates that this page and `heapprof html` have in common.
const templates = JSON.parse(document.getElementById('questions').textContent);
/// Command and options of a template for a selection; `values` replaces its placeholders. A template that ignores the
/// selection still has the options of `more`.
function optionsOf(name, values, selected, more) {
  const {command, options, selection} = templates.find(entry => entry.name === name);
  const filled = {};
  for (const [option, text] of Object.entries(options))
    filled[option] = text.replace(/\{(\w+)\}/g, (whole, place) => values[place] ?? '');
  return [command, {...filled, ...(selection ? selected : {}), ...more}];
}
/// The answer to the question of a template. `isSlow`: it is added later, as those of SLOW.
const template = (name, values, selected, more = {}, isSlow = false) =>
  question(...optionsOf(name, values, selected, more), isSlow || SLOW.includes(name));
/// The answer as it is now, also if the same question was answered before. Only with a server.
function fresh(name, values, selected, more = {}) {
  const [command, options] = optionsOf(name, values, selected, more);
  return fetched(key(command, selection.applicable(command, options)));
}
/// What the command prints with --csv, as a Blob: the browser need not keep it in memory. Only with a server.
const csv = (name, values, selected, more = {}) => fresh(name, values, selected, {...more, csv: '1'});

/// The traces that are served, and the options with which the commands answer: {traces: [{name, path, n, running}],
/// options: {COMMAND: [WORD]}}.
async function traces() {
  if (file) return {traces: [{name: file.trace, path: file.trace, n: 0, running: false}], options: file.options};
  return fetched('');
}

/// What the server computes at the moment, the oldest first: [{command, time_ns, what, share, events}]. Never throws.
async function progress() {
  if (file) return [];
  try {
    return (await (await fetch('/api/progress', {credentials: 'same-origin'})).json()).running;
  } catch (error) {
    return [];
  }
}

/// Controls a recording: {trace, text}, its number, and the text of a mark.
const control = (action, options) => fetched('control/' + key(action, options), {method: 'POST'});

return {question, template, fresh, csv, hasMoment, giveUp, traces, progress, control, NotInFile, file, forget};
})();
