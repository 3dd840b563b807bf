// What is served, and the recording that is shown: its name, and what the header and the timeline need of it.
'use strict';

const recording = (() => {
let traces = [], options = {}, info = null, paused = false;

const shown = () => traces.find(trace => String(trace.n) === selection.now().trace) ||
  {name: 'TRACE', path: 'TRACE', running: false};
const name = () => shown().name;
/// The recording in command lines: they run where `serve` was started. A name that begins with - would be an option.
const pathOf = ({path}) => path.startsWith('-') ? './' + path : path;
const path = () => pathOf(shown());

async function loadTraces() { ({traces, options} = await ask.traces()); }

/// Another recording is chosen, of which nothing is known yet.
function forget() { [info, paused] = [null, false]; }

/// Program, duration, end, threads: the answer to a question that views ask, too. `info` itself reads every event.
/// Returns whether the recording is still the chosen one; otherwise its answer is dropped.
async function load() {
  const {trace} = selection.now();
  const answer = await ask.template('report', {metric: costOf(selection.now())}, trace === '0' ? {} : {trace});
  const isChosen = trace === selection.now().trace;
  if (isChosen) info = answer;
  return isChosen;
}

/// The command line that prints the figures of a view, with the options of the server: `more` has the command's own,
/// `positional` its arguments (by default the recording). `selects`: as selection.commandLine().
function commandLine(command, more = [], positional = [], selects = 'all') {
  const isReplaced = word => word.startsWith('--suppressions=') && more.includes('--no-suppressions');
  const given = (options[command] || []).filter(word => !isReplaced(word));
  return selection.commandLine(command, path(), [...more, ...given], positional, selects);
}

/// A time of the selection as text; the text of a mark as it is.
function timeText(text) {
  const ns = selection.nanoseconds(text, info ? info.duration_ns : NaN);
  return Number.isFinite(ns) ? figures.time(ns) : text === 'peak' ? 'the peak' : text;
}

const isRunning = () => info !== null && info.integrity.ended_by === 'running';
/// Whether the program can be controlled. That of a copy which was written while the program ran cannot.
const isLive = () => shown().running;
/// Whether what is left at the end of the selection is what is live now.
const leftIsLive = ({at, to}) => isRunning() && !at && (!to || to === 'end');

/// Blocks that are left: at the end of the recording or of a range of it; of those live at a moment, the never freed.
const leftAt = ({to}) => to && to !== 'end' ? timeText(to) : 'end';
const metricLabel = (metric, state) => metric === 'live' ? `Live at ${state.at ? timeText(state.at) : 'end'}` :
  metric !== 'leaked' ? figures.metrics[metric].label : state.at ? `Never freed${isRunning() ? ' so far' : ''}` :
    leftIsLive(state) ? 'Live now' : `Left at ${leftAt(state)}`;
/// What a figure of the metric is: "live at the peak".
function said(metric, state) {
  const moment = leftAt(state);
  if (metric === 'leaked' && leftIsLive(state)) return 'live now';
  if (metric === 'leaked') return state.at ? 'never freed' : `left at ${moment === 'end' ? 'the end' : moment}`;
  return metric === 'peak' && state.at ? 'live' : figures.metrics[metric].said;
}
/// The metrics beside the selected one: a moment has no peak, and its allocations are what is live.
const otherMetrics = (metric, state) => (state.at ? ['leaked'] : ['allocated', 'leaked', 'peak', 'temporary'])
  .filter(other => other !== metric);

/// The name of a file that is saved.
const fileName = what => `${info ? names.base(info.program) : name()}-${what}`.replace(/[^\w.-]/g, '_');

/// All functions of the recording, with their origins.
function functionRows() {
  const {trace, own} = selection.options(selection.now(), true);
  return ask.template('function_rows', {}, {trace, own});
}

/// The value of the filter "function" that selects the blocks in whose stacks a search finds the text.
async function patternOf(text) {
  const {rows} = await functionRows().catch(() => ({rows: null}));
  return selection.containing(text, rows && rows.map(({name}) => name));
}

/// The metric of questions that know no pinned bytes: that of the blocks which pin them.
const costOf = state => state.metric !== 'pinned' ? state.metric : state.at ? 'live' : 'leaked';

/// Whether mappings are selected: commands that analyze single heap blocks refuse them.
const withMappings = ({filters}) => filters.some(({option, value}) => option === 'kind' && value !== 'heap');

/// Everything a view needs to ask its questions.
function contextOf(state) {
  const selected = selection.options(state);
  return {state, metric: costOf(state), isPinned: state.metric === 'pinned', selected, info, traces,
          traceName: name(), tracePath: path(), filters: selection.options(state, true), functionRows,
          ask: (question, values) => ask.template(question, values, selected),
          // Asked when a view needs it: the questions before it are answered first.
          get report() { return ask.template('report', {metric: costOf(state)}, selected); }};
}

return {loadTraces, load, forget, name, path, pathOf, commandLine, timeText, metricLabel, said, otherMetrics, fileName,
        functionRows, patternOf, costOf, contextOf, withMappings, isRunning, isLive,
        isPaused: () => isRunning() && paused, setPaused: now => { paused = now; },
        info: () => info, traces: () => traces};
})();
