// Source files with bytes beside each line; without a file, the list of files.
'use strict';

const viewSource = (() => {
const {make} = elements;

/// `isWhole`: all lines of the file are shown, not only those that have costs.
function head({state, metric}, isWhole = true) {
  if (!state.file) return {command: ['source', ['--cost', metric, '--top', '0']]};
  return {tools: [elements.button('\u2039 All files', () => selection.change({file: ''})),
                  make('span', {class: 'muted', title: state.file}, names.oneLine(names.source(state.file)))],
          command: ['source', ['--cost', metric, ...isWhole ? ['--all'] : []], state.file]};
}

/// Why code has no lines, and what to do: what the command prints about it, or how to give debug files.
function adviceOf(answer) {
  const missing = answer.symbol_warnings.filter(text => text.includes('debug'));
  return missing.length ? missing.join('\n') :
    'Build with -g, or give the debug files with --debug-dir or --debuginfod.';
}

async function files(context) {
  const {metric} = context;
  const about = figures.metrics[metric];
  const answer = await context.ask('files', {});   // the files have all metrics
  const {command} = head(context);
  if (!answer.files.length) return {node: viewParts.emptySelection('No source file has this cost'), command};
  const rows = answer.files.map(file => ({...file, name: file.file || '(no file is known)'}));
  const table = rowTable.create({
    label: 'Source files', rows, sort: {key: `self-${metric}`},
    columns: [
      {key: 'name', label: 'File', wide: true, value: row => row.name, search: row => row.name,
       cell: row => make('span', {class: 'name', title: row.name}, names.oneLine(names.source(row.name)), ' ',
                         make('small', {}, names.oneLine(row.name.slice(0, row.name.lastIndexOf('/') + 1))))},
      viewTable.figureColumn(metric, 'self', {label: 'Self'}),
      viewTable.shareColumn(metric, 'self', answer.total[about.value]),
      viewTable.figureColumn(metric, 'total', {label: 'Total'}),
      {key: 'lines', label: 'Lines', number: true, value: row => row.lines_with_costs,
       text: row => figures.count(row.lines_with_costs)},
    ],
    onSelect: row => { if (row.file) selection.change({file: row.file}); },
  });
  const unknown = answer.files.filter(file => !file.file).reduce((sum, file) => sum + file.self[about.value], 0);
  const note = unknown === 0 || unknown * 2 < answer.total[about.value] ? '' :
    make('p', {class: 'more warning'}, `${figures.percent(unknown, answer.total[about.value])} is allocated by ` +
      `code without line numbers. ${adviceOf(answer)}`);
  return {node: make('div', {class: 'stacked'}, note, table.host), csv: table.csv,
          filter: table.filter, focus: table.focus, select() {}, command,
          shown: figures.plural(answer.all_files, 'file')};
}

async function show(context) {
  const {state, metric} = context;
  if (!state.file) return files(context);
  const about = figures.metrics[metric];
  const values = {name: state.file};   // the lines have all metrics
  let isWhole = true;
  const answer = await context.ask('lines', values).catch(error => {
    if (!error.message.startsWith('the answer has more than')) throw error;
    isWhole = false;
    return ask.template('lines', values, context.selected, {all: null});
  }).catch(error => {
    if (error instanceof ask.NotInFile) return null;
    if (!error.message.includes('source file of')) throw error;
    return error;
  });
  const {tools, command} = head(context, isWhole);
  if (answer instanceof Error) {
    const {symbol_warnings: warnings} = await context.ask('files', {});
    return {node: make('div', {}, make('p', {class: 'empty'}, `No line of ${names.label(state.file)} is known. `,
                                       adviceOf({symbol_warnings: warnings}))), tools, command};
  }
  if (answer === null)
    return {node: viewParts.needsServer(command[0], command[1], [context.tracePath, state.file]), tools,
            command};
  const heaviest = Math.max(1, ...answer.lines.map(line => line.self[about.value]));
  const isCostly = line => line.total[about.value] > 0;
  const notes = isWhole ? [] :
    [make('p', {class: 'more'}, 'The file is too large to be shown whole: only its lines with costs are listed.')];
  if (answer.text.from === null)
    notes.push(make('p', {class: 'more'},
                    'The text of this file was not found on this machine; lines with costs are ' +
                    'listed. Use --source-path, or a bundle that contains the sources.'));
  if (answer.text.warning) notes.push(make('p', {class: 'more warning'}, answer.text.warning));
  const table = rowTable.create({
    label: `Lines of ${answer.file || state.file}`, rows: answer.lines,
    columns: [
      {key: 'self', label: 'Self', number: true, sortable: false, value: line => line.self[about.value],
       text: line => line.self[about.value] ? figures.ofMetric(metric, line.self[about.value]) : '',
       exact: line => figures.exact(metric, line.self[about.value])},
      viewParts.shareColumn(line => line.self[about.value], answer.all_total[about.value], {minor: 2, sortable: false,
        cell: line => line.self[about.value] ? make('span', {}, elements.bar(line.self[about.value] / heaviest),
          figures.percent(line.self[about.value], answer.all_total[about.value])) : null}),
      {key: 'total', label: 'Total', number: true, minor: 1, sortable: false, value: line => line.total[about.value],
       text: line => line.total[about.value] ? figures.ofMetric(metric, line.total[about.value]) : ''},
      {key: 'line', label: 'Line', number: true, width: 60, sortable: false, value: line => line.line,
       text: line => line.line === null ? '?' : String(line.line)},
      {key: 'text', label: names.oneLine(names.source(answer.text.path || answer.file)) || 'Text', wide: true,
       minWidth: 200, sortable: false,
       value: line => line.text, search: line => line.text || '',
       cell: line => make('code', {class: isCostly(line) ? 'costly' : ''}, line.text === null ?
         line.functions.map(names.label).join(', ') : line.text)},
    ],
    onSelect: line => { if (line.functions[0]) selection.change({name: line.functions[0]}); },
  });
  const first = answer.lines.findIndex(isCostly);
  return {node: make('div', {class: 'stacked'}, ...notes, table.host), tools: [tools[0], make('span', {class: 'muted',
            title: answer.text.path || answer.file}, names.source(answer.file) || state.file)], command, csv: table.csv,
              filter: table.filter,
          focus: table.focus, select() {}, attached() { if (first > 8) table.scrollTo(first - 4); },
          shown: `${figures.ofMetric(metric, answer.self[about.value])} on these lines`};
}

return {key: 'source', title: 'Source', head, show};
})();
