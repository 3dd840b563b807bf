// What the page says about its own work: progress, errors, and announcements for screen readers.
'use strict';

const feedback = (() => {
const {make} = elements;
/// Most answers are there sooner: a page that dims for a moment flickers, and drawing it delays them.
const PROGRESS_AFTER_MS = 300, ASK_EVERY_MS = 100, UPDATE_AFTER_MS = 2000;

function announce(text) { document.getElementById('announce').textContent = text; }

/// Messages are about what is shown, or about a file that is being saved. Neither kind replaces the other.
const SHOWN = 'progress', SAVED = 'saving';
const placeOf = about => document.getElementById(about);
function clear(about = SHOWN) { placeOf(about).replaceChildren(); }
function fail(error, about = SHOWN) {
  if (error.name === 'AbortError') return;   // given up, because the view has changed
  const place = placeOf(about);
  if (place.textContent === error.message) return;   // it is announced once
  place.replaceChildren(make('p', {class: 'error', role: 'alert'}, error.message));
}

/// Copies a text; `button`, which was pressed, says so for a moment, or that the browser did not allow it.
async function copy(text, button) {
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch (error) {
    // Without a permission or a secure context: by a text field.
    const area = make('textarea', {class: 'unseen'}, text), focused = document.activeElement;
    document.body.append(area);
    area.select();
    isCopied = document.execCommand('copy');
    area.remove();
    if (focused) focused.focus({preventScroll: true});
  }
  announce(`${isCopied ? 'Copied' : 'Not copied, because the browser does not allow it'}: ${text}`);
  if (button.dataset.label) return;   // it says so already
  button.dataset.label = button.textContent;
  button.textContent = isCopied ? 'Copied' : 'Not copied';
  setTimeout(() => {
    button.textContent = button.dataset.label;
    delete button.dataset.label;
  }, 1500);
}

/// Sums of what was read, while a whole recording is: the first figures of a large one.
const soFar = sums => make('p', {class: 'so-far'},
  `So far, up to ${figures.time(sums.time_ns)} of the recording: ${figures.bytes(sums.live_bytes)} live in ` +
  `${figures.plural(sums.live_blocks, 'block')}; peak ${figures.bytes(sums.peak_bytes)}; ` +
  `${figures.plural(sums.allocations, 'allocation')} of ${figures.bytes(sums.allocated_bytes)}.`);

/// Shows in place of the view that its questions are being answered, and how far they are, until the function that is
/// returned is called. `command` answers the view's first question. `isUpdate`: of a running program, whose figures are
/// asked for twice a second; the page would flicker. `onWait` is called again and again, once the wait is long enough
/// to be shown. `task`: what the questions are asked for, and a remark about it, which may change meanwhile. The text
/// changes ten times a second, so it is announced apart: what is done, and each quarter of it.
const dim = () => document.getElementById('view').classList.add('waiting');
const READING = {about: SHOWN, text: 'Reading the recording', remark: ''};
function showProgress(command, isCurrent, isUpdate = false, onWait = dim, task = READING) {
  const began = performance.now();
  let running = [], isAsking = false, announced = {what: '', quarter: 0};
  const ticking = setInterval(async () => {
    const passed = performance.now() - began;
    if (!isCurrent() || passed < (isUpdate ? UPDATE_AFTER_MS : PROGRESS_AFTER_MS)) return;
    onWait();
    // The question that the view waits for, or the index that this one waits for.
    const one = running.find(entry => entry.command === 'index') ||
      running.find(entry => entry.command === command) || running[0];
    const what = one && one.command === 'index' ? `${READING.text}, and writing its index` : task.text;
    const done = [...one && one.share > 0 ? [figures.percent(one.share, 1), figures.plural(one.events, 'event')] : [],
                  ...passed < 1000 ? [] : [`${Math.floor(passed / 1000)} s`]];
    placeOf(task.about).replaceChildren(make('span', {class: 'busy'}), `${what} \u2026 ${done.join(', ')}`,
                                        ...task.remark ? [`${done.length ? '. ' : ''}${task.remark}`] : [],
                                        ...one && one.so_far ? [soFar(one.so_far)] : []);
    const quarter = one ? Math.floor(4 * one.share) / 4 : 0;
    if (!isUpdate && (what !== announced.what || quarter > announced.quarter)) {
      announced = {what, quarter};
      announce(`${what} \u2026 ${quarter > 0 ? figures.percent(quarter, 1) : ''}`);
    }
    if (isAsking) return;
    isAsking = true;
    running = await ask.progress();
    isAsking = false;
  }, ASK_EVERY_MS);
  return () => clearInterval(ticking);
}

return {PROGRESS_AFTER_MS, SAVED, announce, clear, fail, copy, showProgress};
})();
