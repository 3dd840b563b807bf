// The blocks that are live at the selected moment, at the peak, or at the end. The list is asked page by page.
'use strict';

const viewBlocks = (() => {
const {make} = elements;
const PAGE = 1000;   // rows of a question after the first one; their cost hardly depends on the number
const PIECE = 100_000;   // rows of a question for the CSV: a server limits the bytes of an answer
const MAX_TRIES = 3;   // to read the list of a program that runs
const RETRY_MS = 3000;   // after a page that could not be read
const TYPING_MS = 300;   // without a key, until a text is searched
const SORTS = {size: 'Largest first', age: 'Oldest first', address: 'By address'};

/// `isOfPeak`: the blocks that are live at the peak are shown.
const mayBeOfPeak = ({state, metric}) => metric === 'peak' && !state.at && !recording.withMappings(state);
function head(context, isOfPeak = mayBeOfPeak(context)) {
  const sort = Object.hasOwn(SORTS, context.state.sort) ? context.state.sort : 'size';
  return {tools: [viewParts.choice('sort', sort, SORTS, 'size')],
          command: ['blocks', ['--sort', sort, ...isOfPeak ? ['--cost', 'peak'] : []]]};
}

/// All rows, as `heapprof blocks --csv` prints them. `askFor(options)` asks for some of them, fewer where their names
/// are so long that the server refuses the answer.
async function wholeCsv(askFor) {
  const NEWLINE = 10;
  const pieces = [];
  let top = PIECE;
  for (let skip = 0, isLast = false; !isLast;) {
    try {
      const piece = await askFor({skip: String(skip), top: String(top)});
      const bytes = new Uint8Array(await piece.arrayBuffer());
      // Each one begins with the headings. The command writes no line break into a field.
      const headings = bytes.indexOf(NEWLINE) + 1;
      let rows = 0;
      for (let at = headings; (at = bytes.indexOf(NEWLINE, at) + 1) > 0;) ++rows;
      pieces.push(skip === 0 ? piece : piece.slice(headings));
      skip += top;
      isLast = rows < top;
    } catch (error) {
      if (top === 1 || !error.message.startsWith('the answer has more than')) throw error;
      top = Math.ceil(top / 2);
    }
  }
  return new Blob(pieces);
}

/// Options that select the blocks of the answer `first` also after the program has gone on. `report`: that of the same
/// selection, if the blocks are those of its peak.
function momentOf(first, {state, selected}, report) {
  const at = `${first.at_ns}ns`, {slice} = first;
  if (report !== null) {
    // A range in which never more was live than before it has its peak just before its first event.
    const isBefore = report.slice !== null && first.at_ns < report.slice.from_ns;
    return isBefore ? {cost: '', from: '', to: '', 'live-at': at} : {to: at};
  }
  // The time of the peak alone would also have the events of this time that follow it.
  const SELECT_NO_BLOCKS = ['trace', 'live-at', 'own', 'only-own'];
  if (state.at === 'peak' && Object.keys(selected).every(key => SELECT_NO_BLOCKS.includes(key)))
    return {cost: 'peak', 'live-at': '', to: at};
  if (state.at) return {'live-at': at};
  return {...slice ? {from: `${slice.from_ns}ns`} : {}, to: at};
}

/// wholeCsv() of a program that still runs. Its pieces are of one moment, but what is known of the moment can change:
/// events of the same time may follow, the clock is read more exactly, and a lifetime is known when the block is freed.
/// Then everything is asked for again. `askTotal` asks for {blocks, bytes}.
async function unchangedCsv(askFor, askTotal) {
  for (let tries = MAX_TRIES; tries > 0; --tries) {
    const before = await askTotal(), rows = await wholeCsv(askFor), after = await askTotal();
    if (before.blocks === after.blocks && before.bytes === after.bytes) return rows;
  }
  throw new Error('The blocks that are selected changed while they were read. Remove filters by lifetime, or pause ' +
                  'the recording.');
}

async function show(context) {
  const {state, info} = context;
  const sort = Object.hasOwn(SORTS, state.sort) ? state.sort : 'size';
  const {selected} = context;
  // Of a selection in which nothing was live, there is no peak.
  const report = mayBeOfPeak(context) ? await context.report : null;
  const isOfPeak = report !== null && report.heap.peak_bytes > 0;
  const question = isOfPeak ? 'blocks_at_peak' : 'blocks';
  const firstOf = chosen => ask.template(question, {sort, skip: '0'}, chosen);
  const whole = await firstOf(selected);
  const {tools, command} = head(context, isOfPeak);
  const textOf = ({total, at_ns: ns}) =>
    `${figures.plural(total.blocks, 'block')}, ${figures.bytes(total.bytes)} live at ${figures.time(ns)}`;
  const shown = textOf(whole);
  if (whole.total.blocks === 0)
    return {node: elements.empty(`No block of this selection is live at ${figures.time(whole.at_ns)}. `,
                                 'Select another moment, or remove a filter.'), tools, command, shown};
  const threads = new Map(info.threads.map(thread => [thread.index, thread]));
  const threadOf = block => {
    const thread = threads.get(block.thread);
    return thread ? `${names.oneLine(thread.name || '')} ${thread.tid}` : '';
  };
  const addressOf = block => block.address === null ? `#${block.number}` : '0x' + block.address.toString(16);

  /// The blocks of the options `chosen`, of which `first` is the first answer.
  function listOf(first, chosen) {
    // The rows are those of one moment, also while the program goes on. By the peak, other blocks are freed than now.
    const moment = recording.isRunning() && !(isOfPeak && chosen.freed) ?
      momentOf(first, {state, selected: chosen}, isOfPeak ? report : null) : null;
    const askForPage = options => moment === null ? ask.template(question, {sort}, chosen, options) :
      ask.fresh(question, {sort}, chosen, {...moment, ...options});
    let {total} = first, start = first;   // `start`: the answer with the first rows, until a page has them
    const pages = new Map();   // number: answer
    const failed = new Set();   // numbers
    let isAsking = false, hasFailed = false, retry = null, tries = MAX_TRIES;
    const pageOf = i => Math.floor(i / PAGE);
    const answerOf = i => pages.get(pageOf(i)) || (i < start.blocks.length ? start : undefined);

    /// Takes a page. If it has other totals, what is known of the moment has changed, as in unchangedCsv(): beside rows
    /// of other answers, some would be repeated or missing.
    function take(number, answer) {
      const isOther = tries > 0 && (answer.total.blocks !== total.blocks || answer.total.bytes !== total.bytes);
      if (isOther) {
        --tries;
        pages.clear();
        [total, start] = [answer.total, {blocks: []}];
        source.count = total.blocks;
      }
      pages.set(number, answer);
      if (hasFailed && table.host.isConnected) feedback.clear();
      hasFailed = false;
      if (isOther) table.repaint();
    }
    /// Lets the pages that failed be asked for again, as long as the list is shown.
    const retryLater = () => new Promise(done => setTimeout(() => {
      retry = null;
      failed.clear();
      if (table.host.isConnected) done();
    }, RETRY_MS));
    /// Asks for the first page that the rows in view need. Pages that were scrolled past meanwhile are not asked for.
    function askNext(from, to) {
      if (isAsking) return null;
      const missing = new Set();
      for (let i = from; i < to; ++i) if (!answerOf(i)) missing.add(pageOf(i));
      const number = [...missing].find(one => !failed.has(one));
      if (number === undefined) {
        if (!missing.size || retry) return null;
        return retry = retryLater();
      }
      isAsking = true;
      const asked = askForPage({skip: String(number * PAGE), top: String(PAGE)});
      return asked.then(answer => take(number, answer), error => {
        failed.add(number);
        if (!table.host.isConnected) return;   // another view is shown, of which this is no error
        hasFailed = true;
        feedback.fail(error);
      }).finally(() => { isAsking = false; });
    }
    const source = {
      count: total.blocks,
      at(i) {
        const answer = answerOf(i), block = answer && answer.blocks[answer === start ? i : i % PAGE];
        return block && {...block, answer};
      },
      need: askNext,
    };
    function wholeList() {
      const askFor = options => ask.csv(question, {sort}, chosen, {...moment, ...options});
      const askTotal = async () =>
        (await ask.fresh(question, {sort, skip: '0'}, chosen, {...moment, top: '1'})).total;
      return moment === null ? wholeCsv(askFor) : unchangedCsv(askFor, askTotal);
    }
    const known = first.blocks.length;
    const table = rowTable.create({
      label: shown, ...ask.file ? {rows: first.blocks.map(block => ({...block, answer: first}))} : {source},
      more: ask.file && known < first.total.blocks ? `This file has ${figures.count(known)} of ` +
        `${figures.plural(first.total.blocks, 'block')}; heapprof blocks --top 0 prints all.` : '',
      columns: [
        {key: 'name', label: 'Call site', wide: true, cell: block => viewTable.nameCell(block),
         search: block => `${block.name} ${block.file || ''} ${block.module || ''} ${threadOf(block)}`,
         csvLabel: ['name', 'file', 'line', 'module'],
         csv: block => [block.name, block.file, block.line, block.module]},
        {key: 'size', label: 'Size', number: true, text: block => figures.bytes(block.size_bytes),
         exact: block => figures.exact('peak', block.size_bytes), csv: block => [block.size_bytes]},
        {key: 'age', label: 'Age', number: true, text: block => figures.time(block.age_ns),
         exact: block => block.allocated_ns === null ? '' : `allocated at ${figures.time(block.allocated_ns)}`,
         csv: block => [block.age_ns], csvLabel: ['age_ns']},
        {key: 'thread', label: 'Thread', width: 150, minor: 2, text: threadOf, csv: block => [threadOf(block)]},
        {key: 'address', label: 'Address', number: true, width: 140, text: addressOf,
         csv: block => [addressOf(block)]},
      ],
      onSelect: block => {
        const {frames} = block.answer.stacks[block.stack];
        detailsPanel.showStack({
          title: `${figures.bytes(block.size_bytes)} at ${addressOf(block)}`,
          frames: frames.map(i => block.answer.frames[i]), name: block.name,
          entries: [['size', `${figures.grouped(block.size_bytes)} bytes`], ['age', figures.time(block.age_ns)],
                    ['allocated at', block.allocated_ns === null ? '' : figures.time(block.allocated_ns)],
                    ['thread', threadOf(block)], ['call site', names.label(block.name)]]});
      },
    });
    return {...table, csv: ask.file ? table.csv : wholeList};
  }

  if (ask.file) {
    const list = listOf(whole, selected);
    return {node: list.host, tools, csv: list.csv, filter: list.filter, focus: list.focus, command, select() {},
            shown};
  }
  // A search asks the server, as the filter does that Enter makes of the text.
  const host = make('div', {class: 'stacked'});
  let list = null, wanted = context.searched, timer = 0;
  async function fill(text) {
    try {
      const chosen = text ? {...selected, function: [await recording.patternOf(text)]} : selected;
      const first = text ? await firstOf(chosen) : whole;
      if (text !== wanted) return;
      list = listOf(first, chosen);
      const found = `${textOf(first)}, with "${text}" in their stacks`;
      host.replaceChildren(...text ? [make('p', {class: 'more'}, found)] : [], list.host);
      if (text && !context.isUpdate && host.isConnected) feedback.announce(found);
    } catch (error) {
      if (text === wanted) host.replaceChildren(make('p', {class: 'error', role: 'alert'}, error.message));
    }
    if (text === wanted) host.classList.remove('waiting');
  }
  function filter(text) {
    if (text === wanted) return;
    wanted = text;
    host.classList.add('waiting');
    clearTimeout(timer);
    // Another view may have been chosen meanwhile.
    timer = setTimeout(() => { if (host.isConnected) fill(text); }, text ? TYPING_MS : 0);
  }
  // Stacks match any of several functions, so that a search would add blocks.
  const isSearchable = !selected.function;
  if (!isSearchable) wanted = '';
  await fill(wanted);
  // Rows that were scrolled to are not shown without their figures in between.
  if (context.isUpdate && list) await list.ready();
  return {node: host, tools, command, select() {}, shown, csv: () => list ? list.csv() : [],
          focus: () => { if (list) list.focus(); },
          ...isSearchable ? {filter} :
            {noSearch: 'No search while the filter "function" is set: a second function would add blocks. ' +
              'Remove it first.'}};
}

return {key: 'blocks', title: 'Blocks', metrics: ({at}) => at ? ['live', 'leaked'] : ['leaked', 'peak'], head, show};
})();
