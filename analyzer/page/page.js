// Start of the page, changes of the selection, and a program that still runs.
'use strict';

(() => {
let before = {};   // what is drawn; nothing while a recording is read
let stopFollowing = () => {};

function refresh() {
  const state = selection.now();
  const keyOf = fields => JSON.stringify(fields);
  const chartKey = keyOf({...selection.options(state, true), 'only-own': null, series: state.series});
  const detailsKey = keyOf([selection.options(state), state.metric, state.name]);
  const viewKey = selection.keyOfView(state);
  viewPanel.drawList();
  selectionBar.draw();
  timeline.setSeries(state.series);
  // In the order of what a user waits for: the timeline reads every event.
  if (before.view !== viewKey) {
    ask.giveUp();
    viewPanel.refresh();
  } else {
    if (before.name !== state.name) viewPanel.select();
    if (before.zoom !== state.zoom) viewPanel.zoom(state.zoom);
  }
  if (before.details !== detailsKey) detailsPanel.refresh(true);
  if (before.chart !== chartKey) timeline.refresh();
  else timeline.mark();
  before = {chart: chartKey, details: detailsKey, view: viewKey, name: state.name, zoom: state.zoom,
            trace: state.trace};
}

async function loadRecording() {
  if (await recording.load()) header.draw(recording.info());
}

/// Another recording is chosen: what is shown, and what is asked, is about the one before.
function leave() {
  stopFollowing();
  stopFollowing = () => {};
  before = {};
  ask.giveUp();
  // A program that is not followed goes on, too.
  if (recording.traces().some(({running}) => running)) ask.forget(true, 0);
  recording.forget();
  header.clear('reading the recording \u2026');
  timeline.clear('Reading the recording \u2026');
  detailsPanel.clear();
  selectionBar.draw();
  viewPanel.wait();
}

/// Reads the chosen recording and draws the selection.
async function show() {
  const {trace, view} = selection.now();
  // No other recording is chosen meanwhile, and this one is not drawn by another call.
  const isAwaited = () => trace === selection.now().trace && before.trace !== trace;
  const stopProgress = feedback.showProgress(viewPanel.commandOf(view), isAwaited);
  try {
    await loadRecording();
  } catch (error) {
    if (isAwaited()) fail(error);
    return;
  } finally {
    stopProgress();
  }
  if (!isAwaited()) return;
  refresh();
  if (recording.isLive()) stopFollowing = follow();
}

/// The recording cannot be read. Another one can be chosen.
function fail(error) {
  header.clear('cannot be read');
  timeline.clear('The recording cannot be read.');
  detailsPanel.clear();
  selectionBar.draw();
  viewPanel.fail(error);
}

/// Asks again what is shown, when the program has allocated in between, at most twice a second, and less often if the
/// answers take longer. Events that arrive meanwhile are one; the header shows each at once. A view whose answers take
/// long does not delay the timeline, and takes at most a third of a processor. A hidden page has no connection: a
/// browser has six to a server, for all its tabs, and the server needs a process that reads the events. The details
/// take at most a third of a processor, too. Returns a function that ends it.
function follow() {
  const MIN_INTERVAL_MS = 500, MAX_INTERVAL_MS = 1000, MAX_WAIT_MS = 1000, LONG_MS = 2000, RETRY_MS = 3000;
  const {trace} = selection.now();
  let events = null, retrying = 0, isLost = false, isOver = false, hasEnded = false;
  let shown = -1, latest = null, busy = false, view = null, long = {key: '', times: 0, until_ms: 0};
  let details = null, areDetailsOld = false;
  const pause = ms => new Promise(done => setTimeout(done, ms));
  async function updateDetails() {
    while (areDetailsOld && !isOver) {
      areDetailsOld = false;
      const began = performance.now();
      await detailsPanel.update();
      await pause(2 * (performance.now() - began));
    }
  }
  async function update() {
    busy = true;
    while (!isOver && latest && (latest.events !== shown || latest.ended)) {
      const {events: count, ended} = latest;
      const began = performance.now();
      latest = null;
      shown = count;
      try {
        if (ended) {
          await recording.loadTraces();
          selectionBar.draw();
          await view;
          if (isOver) break;
        }
        ask.forget(ended, recording.info().duration_ns);
        const {view: key} = selection.now();
        const isAsked = view === null && (ended || key !== long.key || performance.now() >= long.until_ms);
        if (isAsked) view = viewPanel.update(ended).finally(() => {
          const now = performance.now();
          // The first answers read the recording from its beginning, also if the next ones need not.
          const times = now - began <= LONG_MS ? 0 : key === long.key ? long.times + 1 : 1;
          long = {key, times, until_ms: times > 2 ? now + 2 * (now - began) : 0};
          view = null;
        });
        areDetailsOld = true;
        details = details || updateDetails().finally(() => { details = null; });
        await Promise.all([loadRecording(), timeline.refresh(!ended)]);
        await (ended ? view : Promise.race([view, pause(MAX_WAIT_MS)]));
        if (isOver) break;
        if (!isAsked) shown = -1;   // the view has older figures
        else if (view === null)
          document.documentElement.dataset.followedNs = String(recording.info().duration_ns);
      } catch (error) {
        if (!isOver) feedback.fail(error);
        // No event follows the last one.
        if (ended) {
          latest = {events: count, ended};
          await pause(RETRY_MS);
        }
      }
      const passed = performance.now() - began;
      const interval = Math.min(MAX_INTERVAL_MS, Math.max(MIN_INTERVAL_MS, 2 * passed));
      if (!ended && passed < interval) await pause(interval - passed);
    }
    busy = false;
  }
  function connect() {
    disconnect();
    if (document.hidden || hasEnded) return;
    events = new EventSource('/api/events?trace=' + encodeURIComponent(trace));
    events.addEventListener('open', () => {
      if (isLost) feedback.clear();
      isLost = false;
      shown = -1;
    });
    events.addEventListener('message', message => {
      latest = JSON.parse(message.data);
      hasEnded = latest.ended;
      if (hasEnded) disconnect();
      else header.draw(recording.info(), latest);
      if (!busy) update();
    });
    // A browser does not connect again by itself if a server with another token answers.
    events.addEventListener('error', () => {
      disconnect();
      isLost = true;
      retrying = setTimeout(connect, RETRY_MS);
      recording.loadTraces().catch(error => { if (!isOver) feedback.fail(error); });
    });
  }
  function disconnect() {
    clearTimeout(retrying);
    if (events) events.close();
  }
  document.addEventListener('visibilitychange', connect);
  connect();
  return () => {
    isOver = true;
    document.removeEventListener('visibilitychange', connect);
    disconnect();
  };
}

async function start() {
  header.restoreTheme();
  document.getElementById('details').tabIndex = -1;
  // The token has become a cookie: it need not stay in the address, the history or a bookmark.
  if (location.search) history.replaceState(history.state, '', location.pathname + location.hash);
  const state = selection.now();
  // At the same time as the list of recordings: show() asks the same.
  viewPanel.askFirst(state);
  recording.load().catch(() => {});
  timeline.create();
  selection.listen(() => {
    if (before.trace === selection.now().trace) return refresh();
    leave();
    show();
  });
  await recording.loadTraces().catch(feedback.fail);
  // Of several recordings, none was chosen.
  if (recording.traces().length > 1 && !location.hash) selection.change({view: 'processes'}, true);
  else show();
}
start();
})();
