// The blocks that are live at the selected moment, at the peak, or at the end. The list is asked page by page.
'use strict';

const viewBlocks = (() => {
const {make} = elements;
const PAGE = 1000;   // rows of a question after the first one; their cost hardly depends on the number
const SORTS = {size: 'Largest first', age: 'Oldest first', address: 'By address'};

/// `isOfPeak`: the blocks that are live at the peak are shown.
const mayBeOfPeak = ({state, metric}) => metric === 'peak' && !state.at && !recording.withMappings(state);
function head(context, isOfPeak = mayBeOfPeak(context)) {
  const sort = Object.hasOwn(SORTS, context.state.sort) ? context.state.sort : 'size';
  return {tools: [viewParts.choice('sort', sort, SORTS, 'size')],
          command: ['blocks', ['--sort', sort, ...isOfPeak ? ['--cost', 'peak'] : []]]};
}

async function show(context) {
  const {state, info} = context;
  const sort = Object.hasOwn(SORTS, state.sort) ? state.sort : 'size';
  const {selected} = context;
  // Of a selection in which nothing was live, there is no peak.
  const isOfPeak = mayBeOfPeak(context) && (await context.report).heap.peak_bytes > 0;
  const question = isOfPeak ? 'blocks_at_peak' : 'blocks';
  const first = await ask.template(question, {sort, skip: '0'}, selected);
  const pages = new Map();   // number: answer
  const failed = new Set();
  let isAsking = false;
  /// Asks for the first page that the rows in view need. Pages that were scrolled past meanwhile are not asked for.
  function askNext(from, to) {
    if (isAsking) return null;
    let number = Math.floor(from / PAGE);
    while (number * PAGE < to && (pages.has(number) || failed.has(number))) ++number;
    if (number * PAGE >= to || to <= first.blocks.length) return null;
    isAsking = true;
    const asked = ask.template(question, {sort}, {...selected, skip: String(number * PAGE), top: String(PAGE)});
    return asked.then(answer => { pages.set(number, answer); }, error => {
      failed.add(number);
      feedback.fail(error);
    }).finally(() => { isAsking = false; });
  }
  const source = {
    count: first.total.blocks,
    at(i) {
      const answer = i < first.blocks.length ? first : pages.get(Math.floor(i / PAGE));
      const block = answer && answer.blocks[answer === first ? i : i % PAGE];
      return block && {...block, answer};
    },
    need: askNext,
  };
  const threads = new Map(info.threads.map(thread => [thread.index, thread]));
  const threadOf = block => {
    const thread = threads.get(block.thread);
    return thread ? `${names.oneLine(thread.name || '')} ${thread.tid}` : '';
  };
  const addressOf = block => block.address === null ? `#${block.number}` : '0x' + block.address.toString(16);
  const {tools, command} = head(context, isOfPeak);
  const shown = `${figures.plural(first.total.blocks, 'block')}, ${figures.bytes(first.total.bytes)} live at ` +
    figures.time(first.at_ns);
  if (first.total.blocks === 0)
    return {node: elements.empty(`No block of this selection is live at ${figures.time(first.at_ns)}. `,
                                 'Select another moment, or remove a filter.'), tools, command, shown};
  const table = rowTable.create({
    label: shown, source,
    columns: [
      {key: 'name', label: 'Call site', wide: true, cell: block => viewTable.nameCell(block), csvLabel:
        ['name', 'file', 'line', 'module'], csv: block => [block.name, block.file, block.line, block.module]},
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
  return {node: table.host, tools, csv: table.csv, focus: table.focus, command, select() {}, shown};
}

return {key: 'blocks', title: 'Blocks', metrics: ({at}) => at ? ['live', 'leaked'] : ['leaked', 'peak'], head, show};
})();
