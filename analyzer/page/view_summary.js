// The view one sees first: five figures, at most five sentences that lead on, and the largest own functions.
'use strict';

const viewSummary = (() => {
const {make} = elements;

function tile(label, value, note, exact, fields) {
  return viewParts.link(fields, {class: 'tile', title: exact}, make('span', {}, label), make('b', {}, value),
                        make('small', {}, note));
}

/// The name of a site or a keeper, as the links select it.
const nameOf = entry => names.ofFrame(entry.site || entry);

/// A call site: the function, and the line, since other lines of the function are other call sites.
function siteWords(entry) {
  const place = nameOf(entry);
  return [make('b', {}, names.label(place.name)), place.line ? ` (${names.oneLine(names.place(place))})` : ''];
}

/// The end of a range of time in words, or of the recording.
const endOf = ({slice}, {duration_ns: duration}) => slice && slice.to_ns < duration ?
  `until ${figures.time(slice.to_ns)}` : recording.isRunning() ? 'until now' : 'until the end';

/// A sentence about functions without names, if they have a fifth of the peak; empty otherwise.
function namesMissing({rows, total}) {
  const sum = list => list.reduce((bytes, row) => bytes + row.self.peak_bytes, 0);
  const unnamed = rows.filter(row => row.origin === 'unknown' && /\+0x[0-9a-f]+$/.test(row.name));
  return !unnamed.length || sum(unnamed) * 5 < total.peak_bytes ? '' :
    `${figures.percent(sum(unnamed), total.peak_bytes)} of the peak is of functions without names: their files have no ` +
    'symbols, or are not on this machine. Give them with --debug-dir, --sysroot or --debuginfod.';
}

/// Beside the view: how the recording ended, what is missing of it, and its notes.
function showIntegrity({integrity}) {
  const {complete, ended_by: by, stop_reason: reason, events_lost: lost, bytes_damaged: damaged, notes} = integrity;
  const isComplete = complete && !lost;
  detailsPanel.showStack({title: isComplete ? 'The recording is complete' : 'The recording is incomplete',
    frames: null, entries: [
      ['ended by', by], ['stopped because', reason],
      ['events lost', isComplete || lost === 0 ? '' : lost === null ? 'unknown' : figures.count(lost)],
      ['damaged', damaged ? figures.exact('peak', damaged) : ''],
      ...notes.map(note => ['note', note])]});
}

/// Who keeps most memory from being returned to the system, if it is a tenth of resident memory; empty otherwise.
function pinning({groups, resident}) {
  const [most] = groups;
  return !most || !resident || most.overhead_bytes * 10 < resident.rss_bytes ? [] :
    [make('b', {}, names.label(most.name)), ` pins ${figures.bytes(most.overhead_bytes)} of free memory: the ` +
      `pages of its ${figures.plural(most.blocks, 'live block')} cannot be returned to the system.`];
}

/// What the sentences are about: the recording, a range of it, or what is live at a moment, as `report` words it.
/// Each has `fields`, the selection to which it leads, or `lead`, a function.
function findings(report, leaks, churn, pins, info, rows) {
  const list = [];
  const add = (weight, text, fields, lead) => list.push({weight, text, fields, lead});
  const total = report.heap.peak_bytes;
  const isMoment = report.live_at_ns !== null, isRange = report.slice !== null;
  const growing = !isMoment && leaks && leaks.sites.find(site => site.trend === 'growing' && site.site);
  if (growing) {
    const {name} = nameOf(growing);
    const ending = endOf(report, info);
    const left = isRange ? ' that were allocated in this range and not freed ' + ending :
      recording.isRunning() ? ', live now' : ' that were never freed';
    add(5, [...siteWords(growing), ` grew ${ending}: ${figures.bytes(growing.bytes)} in ` +
            `${figures.plural(growing.blocks, 'block')}${left}.`],
        {view: 'leaks', metric: 'leaked', name});
  }
  // The share that is kept compares what is live at the peak with what the whole recording allocates.
  const keeper = !isMoment && !isRange && report.keepers && report.keepers[0];
  const largest = report.sites[0];
  if (largest && largest.site) {
    const {name} = nameOf(largest);
    const whole = isMoment ? 'what is live' : isRange ? 'the peak in this range' : 'the peak';
    add(4, [...siteWords(largest), ` allocated ${figures.percent(largest.bytes, report.total.bytes)} of ` +
            `${whole}: ${figures.bytes(largest.bytes)} in ${figures.plural(largest.blocks, 'block')}.`],
        {view: 'flame', metric: isMoment ? 'live' : 'peak', name, zoom: viewFlame.WIDEST});
  }
  if (keeper && largest && keeper.function && (!largest.site || keeper.function !== largest.site.function)) {
    add(3, [make('b', {}, names.label(keeper.function)), ` keeps ${figures.percent(keeper.bytes_share, 1)} of what ` +
            `it allocates: ${figures.bytes(keeper.bytes)} at the peak.`],
        {view: 'flame', shown: 'sandwich', name: keeper.function});
  }
  const short = !isMoment && churn && churn.sites.find(site => site.site);
  if (short && short.short_lived > 0 && short.short_lived * 10 >= churn.total.allocations) {
    const {name} = nameOf(short);
    const freed = short.short_lived === short.allocations ? 'all' : `${figures.count(short.short_lived)} of them`;
    add(3, [...siteWords(short), ` allocated ${figures.plural(short.allocations, 'block')}; ${freed} were freed within ` +
            `${figures.time(churn.within_ns)}.`],
        {view: 'lifetimes', shown: 'churn', metric: 'temporary', name});
  }
  const kept = pins ? pinning(pins) : [];
  if (kept.length)
    add(3, kept, {view: 'table', metric: 'pinned', by: 'function', name: pins.groups[0].name});
  const {peak_rss_bytes: resident} = report;
  if (resident && resident > 2 * total && resident - total > 16 << 20)
    add(2, [`Resident memory ${isMoment ? 'is' : 'reached'} ${figures.bytes(resident)}, more than twice the live ` +
            'heap: what it consists of.'],
        {view: 'resident'});
  if (!info.integrity.complete || info.integrity.events_lost)
    add(6, [`The recording is incomplete${info.integrity.events_lost ?
      `: ${figures.count(info.integrity.events_lost)} events are lost` : ''}. Figures are a lower bound.`],
        null, () => showIntegrity(info));
  const missing = isMoment ? '' : namesMissing(rows);
  if (missing) add(2, [missing], {view: 'table', metric: 'peak', by: 'module'});
  for (const note of info.integrity.notes) {
    const embedded = /^embedded allocator: (\S+) in /.exec(note);
    if (embedded)
      add(1, [make('span', {title: note}, `The program uses ${embedded[1]}; its allocations are included.`)],
          {view: 'table', by: 'module'});
    else add(1, [note], null, () => showIntegrity(info));
  }
  list.sort((a, b) => b.weight - a.weight);
  return list.slice(0, 5);
}

/// Of the recording or a range of it: the peak, what is left at its end, and what was allocated.
function periodTiles(report, info, temporaryBytes) {
  const {heap, slice} = report;
  const endsEarly = slice !== null && slice.to_ns < info.duration_ns;
  const left = endsEarly ? `Left at ${figures.time(slice.to_ns)}` : recording.metricLabel('leaked', {});
  // Filters select blocks, but resident memory is that of the process.
  const isWhole = report.peak_rss_bytes === null && slice === null;
  const resident = isWhole ? info.peak_rss_bytes : report.peak_rss_bytes;
  return [
    tile('Peak', figures.bytes(heap.peak_bytes), `${figures.plural(heap.peak_blocks, 'block')} at ` +
         figures.time(heap.peak_time_ns), figures.exact('peak', heap.peak_bytes), {view: 'flame',
             metric: 'peak'}),
    // The peak of a range has older blocks, too.
    tile(left, figures.bytes(heap.leaked_bytes), figures.plural(heap.leaked_blocks, 'block') + (slice ?
         ' allocated in this range' : `, ${figures.percent(heap.leaked_bytes, heap.peak_bytes)} of the peak`),
         figures.exact('leaked', heap.leaked_bytes), {view: 'leaks', metric: 'leaked'}),
    tile('Allocated', figures.bytes(heap.allocated_bytes), figures.plural(heap.allocations, 'allocation'),
         figures.exact('allocated', heap.allocated_bytes), {view: 'table', metric: 'allocated'}),
    tile('Temporary', figures.count(heap.temporary_allocations), `${figures.percent(heap.temporary_allocations,
         heap.allocations)} of allocations, ${figures.bytes(temporaryBytes)}`,
         figures.exact('temporary', heap.temporary_allocations) + ', freed by their thread before its next allocation',
         {view: 'table', metric: 'temporary'}),
    tile('Highest resident', resident === null ? 'unknown' : figures.bytes(resident),
         resident === null ? 'not in this selection' : isWhole ? 'of the whole process' : `the heap's peak is ` +
           `${figures.percent(heap.peak_bytes, resident)} of it`, null, {view: 'resident'})];
}

/// Of a moment: what is live, and what of it was never freed.
function momentTiles(report) {
  const {heap, live_at_ns: at, rss_bytes: resident} = report;
  return [
    tile('Live', figures.bytes(heap.peak_bytes),
         `${figures.plural(heap.peak_blocks, 'block')} at ${figures.time(at)}`,
         figures.exact('live', heap.peak_bytes), {view: 'flame', metric: 'live'}),
    tile(recording.metricLabel('leaked', {at: '0'}), figures.bytes(heap.leaked_bytes),
         `of these, in ${figures.plural(heap.leaked_blocks, 'block')}`,
         figures.exact('leaked', heap.leaked_bytes), {view: 'leaks', metric: 'leaked'}),
    tile('Resident', resident === null ? 'unknown' : figures.bytes(resident), resident === null ?
         'no sample in this selection' : `what is live is ${figures.percent(heap.peak_bytes, resident)} of it`,
         null, {view: 'resident'})];
}

async function show(context) {
  const {info} = context;
  const missing = error => {
    if (error instanceof ask.NotInFile) return null;
    throw error;
  };
  const [report, rows] = await Promise.all([
    // Of a moment, both are the same, and a file has what is live at marks.
    context.ask('report', {metric: context.state.at ? 'live' : 'peak'}), context.ask('function_rows', {})]);
  const {heap} = report;
  const command = ['report', []];
  const tiles = make('div', {class: 'tiles'}, ...report.live_at_ns !== null ? momentTiles(report) :
    periodTiles(report, info, rows.total.temporary_bytes));
  if (context.isPinned) {
    const answer = await pinned.groups(context);
    tiles.append(tile('Pinned', figures.bytes(answer.pinned_bytes), `${figures.bytes(answer.overhead_bytes)} beyond ` +
                      'the live blocks', figures.exact('pinned', answer.pinned_bytes), {view: 'flame'}));
  }
  if (heap.allocations === 0 && heap.peak_bytes === 0)
    return {node: make('div', {}, tiles, viewParts.emptySelection('No block was allocated')), command};
  // What grew, what was freed soon and who pins memory need more passes over the recording: these sentences are added
  // when they are known. Of a program that goes on, the ones before stay until then.
  const kept = viewState.of('sentences');   // {leaks, churn, pins}
  const sentences = make('ul', {class: 'findings waiting'});
  const leading = ({text, fields, lead}) => fields ? viewParts.link(fields, {}, ...text) :
    make('button', {type: 'button', class: 'plain', onclick: lead}, ...text);
  const say = (leaks, churn, pins) => elements.replaceContent(sentences,
    ...findings(report, leaks, churn, pins, info, rows).map(finding => make('li', {}, leading(finding))));
  say(kept.leaks, kept.churn, kept.pins);
  if (report.live_at_ns !== null) {
    sentences.classList.remove('waiting');
  } else {
    if (kept.leaks) sentences.classList.remove('waiting');
    else sentences.prepend(make('li', {}, 'Reading the recording for what grew, and what was freed soon ...'));
    Promise.all([context.ask('growth', {}).catch(missing), recording.withMappings(context.state) ? null :
      context.ask(ask.file ? 'churn' : 'short_lived', {}).catch(missing)]).then(async ([leaks, churn]) => {
      [kept.leaks, kept.churn] = [leaks, churn];
      say(leaks, churn, kept.pins);
      sentences.classList.remove('waiting');
      // `pins` knows no selections. That it has no answer is said where its figures are asked for.
      const pins = Object.keys(context.selected).some(key => key !== 'trace') ? null :
        await pinned.groups(context, 'function', true).catch(() => null);
      if (!pins) return;
      kept.pins = pins;
      say(leaks, churn, pins);
    }, error => {
      say(null, null, null);
      feedback.fail(error);
    }).finally(() => sentences.classList.remove('waiting'));
  }
  // Own functions only; when there are none (no symbols), all of them.
  const own = rows.rows.filter(row => row.origin === 'own');
  const shown = {...rows, rows: own.length ? own : rows.rows};
  const table = viewTable.tableOf(shown, context, {});
  const pruned = ask.file ? ask.file.pruned.map(text => make('p', {class: 'more'}, text)) : [];
  return {
    node: make('div', {class: 'stacked summary'}, tiles, sentences, ...pruned,
               make('h3', {}, own.length ? 'Own functions' : 'Functions'), table.host),
    filter: table.filter, csv: table.csv, focus: table.focus, command, select: table.repaint,
  };
}

return {key: 'summary', title: 'Summary', hasPinned: true, show};
})();
