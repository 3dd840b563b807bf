// The blocks that are live at the selected moment, at the peak, or at the end. The list is asked page by page.
'use strict';

const viewBlocks = (() => {
const {make} = elements;
const PAGE = 200;   // the same in questions.json
const SORTS = {size: 'Largest first', age: 'Oldest first', address: 'By address'};

async function show(context) {
  const {state, metric, info} = context;
  const sort = Object.hasOwn(SORTS, state.sort) ? state.sort : 'size';
  const selected = {...context.selected};
  if (metric === 'peak' && !state.at) {
    const {heap} = await context.report;
    delete selected.from;
    delete selected.to;
    selected['live-at'] = `${heap.peak_time_ns}ns`;
  }
  const askPage = number => ask.template('blocks', {sort, skip: String(number * PAGE)}, selected);
  const first = await askPage(0);
  const pages = new Map([[0, first]]);
  const asked = new Set([0]);
  const source = {
    count: first.total.blocks,
    at(i) {
      const answer = pages.get(Math.floor(i / PAGE));
      const block = answer && answer.blocks[i % PAGE];
      return block && {...block, answer};
    },
    need(from, to) {
      const wanted = [];
      for (let number = Math.floor(from / PAGE); number * PAGE < to; ++number) {
        if (asked.has(number)) continue;
        asked.add(number);
        wanted.push(askPage(number).then(answer => pages.set(number, answer), page.fail));
      }
      return wanted.length ? Promise.all(wanted) : null;
    },
  };
  const threads = new Map(info.threads.map(thread => [thread.index, thread]));
  const threadOf = block => {
    const thread = threads.get(block.thread);
    return thread ? `${names.oneLine(thread.name || '')} ${thread.tid}` : '';
  };
  const addressOf = block => block.address === null ? `#${block.number}` : '0x' + block.address.toString(16);
  const choice = page.choice('sort', sort, SORTS, 'size');
  const command = ['blocks', ['--sort', sort, ...(selected['live-at'] && !state.at ?
    ['--live-at', selected['live-at']] : [])]];
  const shown = `${figures.plural(first.total.blocks, 'block')}, ${figures.bytes(first.total.bytes)} live at ` +
    figures.time(first.at_ns);
  if (first.total.blocks === 0)
    return {node: elements.empty(`No block of this selection is live at ${figures.time(first.at_ns)}. `,
                                 'Select another moment, or remove a filter.'), tools: [choice], command, shown};
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
      {key: 'thread', label: 'Thread', size: 'minor thread', text: threadOf, csv: block => [threadOf(block)]},
      {key: 'address', label: 'Address', number: true, size: 'address', text: addressOf,
       csv: block => [addressOf(block)]},
    ],
    onSelect: block => {
      const {frames} = block.answer.stacks[block.stack];
      page.showStack({
        title: `${figures.bytes(block.size_bytes)} at ${addressOf(block)}`,
        frames: frames.map(i => block.answer.frames[i]), name: block.name,
        entries: [['size', `${figures.grouped(block.size_bytes)} bytes`], ['age', figures.time(block.age_ns)],
                  ['allocated at', block.allocated_ns === null ? '' : figures.time(block.allocated_ns)],
                  ['thread', threadOf(block)], ['call site', names.label(block.name)]]});
    },
  });
  return {node: table.host, tools: [choice], csv: table.csv, focus: table.focus, command, shown};
}

return {key: 'blocks', title: 'Blocks', show};
})();
