// The first line of the page: the program, how its recording ended, and the colours.
'use strict';

const header = (() => {
const at = id => document.getElementById(id);

function endOf({ended_by: by, end_status: status}) {
  const known = status === null ? '' : status;
  return {exit: known === '' ? 'exited' : `exited with status ${known}`,
          signal: known === '' ? 'killed by a signal' : `killed by signal ${known}`,
          exec: 'executed another program', stopped: 'recording stopped', running: 'running'}[by] || 'end unknown';
}

/// The title of the window.
const titleOf = name => `${names.oneLine(name)} \u00b7 heapprof`;

/// Writes the text of an element. The same text is not written again, because that would end a selection in it.
function write(element, text) {
  if (element.firstChild === null) element.append(text);
  else if (element.firstChild.data !== text) element.firstChild.data = text;
}

/// Writes the parts of the line about the recording. A part in which text is selected, or on which the mouse is
/// pressed, is written afterwards.
function writeParts(texts) {
  const place = at('about');
  while (place.children.length > texts.length) place.lastChild.remove();
  while (place.children.length < texts.length) place.append(elements.make('span', {}));
  texts.forEach((text, i) => {
    const part = place.children[i];
    if (interaction.isIn(part)) interaction.afterwards(part, () => { if (recording.info()) draw(recording.info()); });
    else write(part, (i > 0 ? ' \u00b7 ' : '') + text);
  });
}

/// `newest`: how far the program is that runs, {at_ns, events, live_bytes, live_blocks}; it is further than the figures
/// of the views. Without it, the one before.
let latest = null;
function draw(info, newest = null) {
  latest = newest || latest;
  const live = info.integrity.ended_by === 'running' ? latest : null;
  const state = recording.isPaused() ? ', recording paused' : '';
  write(at('program'), names.oneLine(names.base(info.program)));
  elements.setTitle(at('program'), info.program);
  const {integrity} = info;
  const isComplete = integrity.complete && !integrity.events_lost;
  const duration = Math.max(info.duration_ns, live ? live.at_ns : 0);
  const events = Math.max(info.events, live ? live.events : 0);
  const name = recording.traces().length > 1 ? [names.oneLine(recording.name())] : [];
  const parts = [...name, `pid ${info.pid}`, figures.time(duration), endOf(integrity) + state,
                 `${figures.plural(events, 'event')}, ${isComplete ? 'complete' : 'incomplete'}`];
  if (live) parts.push(`${figures.bytes(live.live_bytes)} live in ${figures.plural(live.live_blocks, 'block')}`);
  at('about').dataset.shownNs = String(duration);
  writeParts(parts);
  elements.setTitle(at('about'), integrity.notes.join('\n'));
  document.title = titleOf(names.base(info.program));
}

/// Another recording is chosen: its name, and why there is no more.
function clear(text) {
  latest = null;
  at('program').textContent = at('program').title = names.oneLine(recording.name());
  at('about').replaceChildren(elements.make('span', {}, text));
  at('about').title = '';
  document.title = titleOf(recording.name());
}

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
function restoreTheme() {
  let theme = '';
  try { theme = localStorage.getItem('heapprof-theme') || ''; } catch (error) { /* as in setTheme() */ }
  if (THEMES.includes(theme)) setTheme(theme);
}
at('theme').addEventListener('click', nextTheme);

return {draw, clear, nextTheme, restoreTheme};
})();
