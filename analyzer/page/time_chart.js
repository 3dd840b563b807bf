// Live bytes over time, above every view: a stack of the call sites with the highest maximum, resident memory, marks,
// pauses and idle ranges, and the selection of a moment or a range.
//
// SVG of its own instead of a chart library: docs/concepts/experiments.md has the measurement and the reasons.
'use strict';

const timeChart = (() => {
const {make, draw} = elements;
const LEFT = 68, RIGHT = 24, TOP = 14, BOTTOM = 20;
const LINES = {
  resident: 'Memory of the process that is in RAM, as the system counts it: the heap, mappings, the files of the ' +
    'program and its libraries, stacks, and the recorder. The view Resident has them one by one',
  mapped: 'Memory that the program and its libraries have mapped by calls of mmap, without those that only reserve ' +
    'addresses. It can be less than resident memory, which also has the files of the program and its libraries, ' +
    'stacks, and what the C library\u2019s malloc takes from the system by itself. It can be more, too: pages that ' +
    'were never touched are not in RAM',
};
const CHARACTER = 7;   // pixels of a character of a mark's text
const HANDLE = 6;   // pixels beside an edge, or the peak, in which it can be taken

/// A round step of about a `parts`-th of `most`, of a number system with the steps 1, 2, 5 and these units.
function roundStep(most, parts) {
  const rough = most / parts, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(step => step * power).find(step => step >= rough);
}
function byteStep(most, parts) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(1, most)) / 10));
  return Math.max(1, roundStep(most / unit, parts) * unit);
}

/// For each of at most `columns` columns the index of its highest sample, so that no peak disappears.
function highestOfColumns(data, columns) {
  const {time_ns: time, live_bytes: live} = data.samples;
  const length = Math.max(1, data.duration_ns - data.start_ns);
  const chosen = [];
  let column = -1;
  for (let i = 0; i < time.length; ++i) {
    const here = Math.floor((time[i] - data.start_ns) * columns / length);
    if (here !== column) {
      chosen.push(i);
      column = here;
    } else if (live[i] > live[chosen.at(-1)]) {
      chosen[chosen.length - 1] = i;
    }
  }
  return chosen;
}

/// options: onRange(from_ns, to_ns), onMoment(ns), onPeak(), onMark(mark), onPin(ns), onClear(), onSite(site); tools:
/// elements below the chart; remarkOfMark(mark): what the tooltip of a mark's flag adds, or an empty text.
function create(host, options) {
  let data = null, marked = {from: null, to: null, at: null, pins: []};   // what is selected
  let draft = null;   // {from, to}: the range that is dragged, or extended by keys, and is not selected yet
  let pointer = null, dragging = null;
  let lines = [];   // of the process: {label, style, time, bytes, highest, isCut, isOutside}
  const chart = draw('svg', {class: 'time-chart', tabindex: '0', role: 'application'});
  const legend = make('div', {class: 'legend'});
  const moment = make('span', {class: 'moment'});
  const spoken = make('p', {class: 'unseen'}), said = make('p', {class: 'more', role: 'status'});
  host.replaceChildren(chart, make('div', {class: 'below'}, legend, moment, ...options.tools), said, spoken);

  const width = () => Math.max(200, chart.clientWidth || host.clientWidth);
  const height = () => Math.max(80, chart.clientHeight || 150);
  const xOf = ns => LEFT + (width() - LEFT - RIGHT) * (ns - data.start_ns) /
    Math.max(1, data.duration_ns - data.start_ns);
  const nsOf = x => Math.round(Math.min(data.duration_ns, Math.max(data.start_ns, data.start_ns +
    (x - LEFT) / (width() - LEFT - RIGHT) * (data.duration_ns - data.start_ns))));

  const highestOf = values => values.reduce((high, value) => Math.max(high, value), 0);
  /// The upper end of the scale. Resident memory is cut off where it would press live memory to the ground.
  function highest() {
    const live = Math.max(data.peak ? data.peak.bytes : 0, highestOf(data.samples.live_bytes), 1);
    const resident = highestOf(data.rss.bytes);
    return resident > 2.5 * live ? 1.25 * live : Math.max(live, resident);
  }

  /// Memory of the process that is no live block, beside a scale that ends at `most`.
  function linesBeside(most) {
    const {time_ns: time, mapped_bytes: mapped = []} = data.samples;
    return [{label: 'resident', style: 'resident', time: data.rss.time_ns, bytes: data.rss.bytes},
            {label: 'mapped', style: 'mapped', time, bytes: mapped}]
      .map(line => ({...line, highest: highestOf(line.bytes)}))
      .filter(line => line.bytes.length > 1 && line.highest > 0)
      .map(line => ({...line, isCut: line.highest > most,
                     // A line of which only a stub is within the scale looks like an error.
                     isOutside: line.highest > most &&
                       line.bytes.filter(bytes => bytes <= most).length < 0.1 * line.bytes.length}));
  }

  /// The text beside a mark's flag, as far as there is room.
  const textOfMark = ({time_ns: ns, text}) =>
    names.oneLine(text).slice(0, Math.max(4, Math.floor((width() - xOf(ns)) / CHARACTER)));
  /// The mark whose flag, or the text beside it, has this position; of several the last one, which covers the others.
  const markAt = (x, y) => y > TOP ? null : data.marks.findLast(mark => x >= xOf(mark.time_ns) - 2 &&
    x <= xOf(mark.time_ns) + 12 + CHARACTER * textOfMark(mark).length) ?? null;

  /// What does not depend on the pointer and the selection takes most of the time, so it is drawn only when the data
  /// or the size changes.
  let drawnData = null, drawnSize = '';
  const still = draw('g', {}), moving = draw('g', {});
  chart.append(still, moving);
  function paint() {
    if (!data) return;
    const size = `${width()} ${height()}`;
    if (data !== drawnData || size !== drawnSize) paintData();
    [drawnData, drawnSize] = [data, size];
    paintSelection();
    drawLegend();
  }

  function paintData() {
    const w = width(), h = height(), bottom = h - BOTTOM;
    chart.setAttribute('viewBox', `0 0 ${w} ${h}`);
    const top = highest(), step = byteStep(top * 1.04, 6);
    const most = Math.max(step, Math.ceil(top / step) * step);
    lines = linesBeside(most);
    const yOf = value => bottom - (bottom - TOP) * value / most;
    const parts = [draw('defs', {}, draw('pattern', {id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse',
                                                     patternTransform: 'rotate(45)'},
                                         draw('rect', {class: 'hatch', width: 2, height: 6})),
                        draw('clipPath', {id: 'plot'}, draw('rect', {x: LEFT, y: TOP - 1, width: w - LEFT - RIGHT,
                                                                     height: bottom - TOP + 1})))];
    for (let value = 0; value <= most * 1.0001; value += step) {
      parts.push(draw('line', {class: 'grid', x1: LEFT, x2: w - RIGHT, y1: yOf(value), y2: yOf(value)}),
                 draw('text', {class: 'axis', x: LEFT - 6, y: yOf(value) + 4, 'text-anchor': 'end'},
                      value === 0 ? '0 B' : figures.bytes(value).replace(/\.0+ /, ' ')));
    }
    const length = data.duration_ns - data.start_ns;
    if (length > 0) {
      const every = roundStep(length, Math.max(2, Math.min(10, w / 130)));
      for (let ns = Math.ceil(data.start_ns / every) * every; ns <= data.duration_ns; ns += every)
        parts.push(draw('text', {class: 'axis', x: xOf(ns), y: h - 5, 'text-anchor': 'middle'}, figures.time(ns)
          .replace(/(\.\d*?)0+ /, '$1 ').replace('. ', ' ')));
    }
    const chosen = highestOfColumns(data, w - LEFT - RIGHT);
    const time = data.samples.time_ns;
    // Between two samples live bytes stay what they were at the first.
    const outline = values => chosen.map((i, k) => {
      const x = xOf(time[i]).toFixed(1), y = yOf(values(i)).toFixed(1);
      return k === 0 ? `${x} ${y}` : `H${x}V${y}`;
    }).join('');
    const ending = chosen.length ? `H${xOf(data.duration_ns).toFixed(1)}` : '';
    let sums = new Float64Array(time.length);
    const areas = draw('g', {class: 'areas'});
    const layers = data.sites.map((site, i) => ({values: site.bytes, style: `s${i}`}));
    for (const {values, style} of layers) {
      const below = sums;
      sums = sums.map((sum, i) => sum + values[i]);
      if (!chosen.length) break;
      const upper = sums;
      const back = [...chosen].reverse().map(i =>
        `V${yOf(below[i]).toFixed(1)}H${xOf(time[i]).toFixed(1)}`).join('');
      areas.append(draw('path', {class: `area ${style}`, d: `M${outline(i => upper[i])}${ending}${back}z`}));
    }
    if (chosen.length) {
      const named = sums, all = data.samples.live_bytes;
      const back = [...chosen].reverse().map(i =>
        `V${yOf(named[i]).toFixed(1)}H${xOf(time[i]).toFixed(1)}`).join('');
      areas.append(draw('path', {class: 'area rest',
                                 d: `M${outline(i => Math.max(all[i], named[i]))}${ending}${back}z`}));
    }
    parts.push(areas);
    for (const {from_ns: from, to_ns: to} of data.idle)
      parts.push(draw('rect', {class: 'idle', x: xOf(from), width: Math.max(0, xOf(to) - xOf(from)), y: bottom + 1,
                               height: 2}, draw('title', {}, `idle: no events for ${figures.time(to - from)}`)));
    for (const {from_ns: from, to_ns: to} of data.pauses)
      parts.push(draw('rect', {class: 'pause', x: xOf(from), width: Math.max(1, xOf(to) - xOf(from)), y: TOP,
                               height: bottom - TOP, fill: 'url(#hatch)'},
                      draw('title', {}, 'recording paused: live bytes are a lower bound')));
    for (const {style, time: times, bytes, isOutside} of lines)
      if (!isOutside) parts.push(draw('path', {class: style, 'clip-path': 'url(#plot)', d: 'M' + times.map((ns, i) =>
        `${xOf(ns).toFixed(1)} ${yOf(bytes[i]).toFixed(1)}`).join('L')}));
    for (const mark of data.marks) {
      const {time_ns: ns, text} = mark, x = xOf(ns), remark = options.remarkOfMark(mark);
      parts.push(draw('g', {class: 'mark'}, draw('line', {x1: x, x2: x, y1: TOP - 8, y2: bottom}),
                      draw('path', {d: `M${x} ${TOP - 12}h9l-3 4l3 4h-9z`}),
                      draw('text', {class: 'axis', x: x + 12, y: TOP - 4}, textOfMark(mark)),
                      draw('title', {}, `${text}, at ${figures.time(ns)}${remark && `; ${remark}`}`)));
    }
    if (data.peak && data.peak.bytes > 0) {
      const x = xOf(data.peak.time_ns), isRight = x > w - 140;
      parts.push(draw('line', {class: 'peak', x1: x, x2: x, y1: TOP, y2: bottom}),
                 draw('text', {class: 'axis strong', x: x + (isRight ? -5 : 5), y: TOP + 9,
                               'text-anchor': isRight ? 'end' : 'start'}, `peak ${figures.bytes(data.peak.bytes)}`));
    }
    if (data.note && !data.isError)
      parts.push(draw('text', {class: 'axis', x: (LEFT + w - RIGHT) / 2, y: (TOP + bottom) / 2,
                               'text-anchor': 'middle'}, data.note));
    still.replaceChildren(...parts);
  }

  /// What is drawn as selected.
  const seen = () => draft ? {...marked, at: null, ...draft} : marked;
  function selectDraft() {
    marked = seen();   // until the selection has changed
    draft = null;
    options.onRange(marked.from, marked.to);
  }
  function dropDraft() {
    if (!draft) return;
    draft = null;
    paint();
  }

  function paintSelection() {
    const w = width(), bottom = height() - BOTTOM;
    const parts = [], {from: first, to: last, at, pins} = seen();
    if (first !== null || last !== null) {
      const from = xOf(first ?? data.start_ns), to = xOf(last ?? data.duration_ns);
      parts.push(draw('rect', {class: 'outside', x: LEFT, y: TOP, width: Math.max(0, from - LEFT),
                               height: bottom - TOP}),
                 draw('rect', {class: 'outside', x: to, y: TOP, width: Math.max(0, w - RIGHT - to),
                               height: bottom - TOP}),
                 draw('rect', {class: 'range', x: from, y: TOP - 6, width: Math.max(1, to - from),
                               height: bottom - TOP + 6}));
      for (const x of [from, to])
        parts.push(draw('rect', {class: 'edge', x: x - 3, y: (TOP + bottom) / 2 - 12, width: 6, height: 24, rx: 2}));
    }
    if (at !== null)
      parts.push(draw('line', {class: 'at', x1: xOf(at), x2: xOf(at), y1: TOP - 6, y2: bottom}));
    pins.forEach((ns, i) => parts.push(draw('g', {class: 'pin'},
      draw('line', {x1: xOf(ns), x2: xOf(ns), y1: TOP, y2: bottom}),
      draw('circle', {cx: xOf(ns), cy: TOP, r: 8}),
      draw('text', {x: xOf(ns), y: TOP + 4, 'text-anchor': 'middle'}, 'AB'[i]))));
    if (pointer !== null)
      parts.push(draw('line', {class: 'pointer', x1: xOf(pointer), x2: xOf(pointer), y1: TOP, y2: bottom}));
    moving.replaceChildren(...parts);
  }

  /// The last sample at or before a time.
  function sampleAt(ns) {
    const time = data.samples.time_ns;
    let low = 0, high = time.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (time[middle] <= ns) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  function drawLegend() {
    const at = pointer === null ? -1 : sampleAt(pointer);
    const entries = data.sites.map((site, i) => {
      const entry = elements.button('', () => options.onSite(site),
                                    {class: 'entry', title: `${site.label}  ${site.detail}  ${site.module}`});
      entry.append(make('i', {class: `s${i}`}), names.label(site.label), ' ',
                   make('small', {}, at >= 0 ? figures.bytes(site.bytes[at]) : ''));
      return entry;
    });
    if (data.samples.time_ns.length) {
      const rest = at < 0 ? '' : figures.bytes(data.samples.live_bytes[at] -
        data.sites.reduce((sum, site) => sum + site.bytes[at], 0));
      entries.push(make('span', {class: 'entry'}, make('i', {class: 'rest'}), 'everything else ',
                        make('small', {}, rest)));
    }
    for (const {label, style, highest: most, isCut, isOutside} of lines)
      entries.push(make('span', {class: 'entry', title: LINES[label]},
                        isOutside ? null : make('i', {class: style === 'mapped' ? 'dotted' : 'dashed'}),
                        isCut ? `${label}, up to ${figures.bytes(most)}` : label));
    if (data.isError) entries.push(make('span', {class: 'error', title: data.note}, data.note));
    // An entry that is pressed, or has the focus, stays if its text does.
    const next = make('div', {}, ...entries);
    if (next.innerHTML !== legend.innerHTML) elements.replaceContent(legend, ...next.childNodes);
    moment.textContent = at < 0 ? '' :
      `${figures.bytes(data.samples.live_bytes[at])} live at ${figures.time(pointer)}`;
  }

  const edgeAt = x => marked.from === null && marked.to === null ? null :
    Math.abs(x - xOf(marked.from ?? data.start_ns)) <= HANDLE ? 'from' :
      Math.abs(x - xOf(marked.to ?? data.duration_ns)) <= HANDLE ? 'to' : null;
  const position = event => event.clientX - chart.getBoundingClientRect().left;
  const markOf = event => markAt(position(event), event.clientY - chart.getBoundingClientRect().top);

  chart.addEventListener('pointerdown', event => {
    if (!data || event.button !== 0) return;
    chart.setPointerCapture(event.pointerId);
    draft = null;   // of keys
    const x = position(event), edge = edgeAt(x);
    dragging = {x, moved: false, isPin: event.altKey,
                fixed: edge === 'from' ? marked.to ?? data.duration_ns :
                  edge === 'to' ? marked.from ?? data.start_ns : nsOf(x), edge};
  });
  chart.addEventListener('pointermove', event => {
    if (!data) return;
    const x = position(event);
    pointer = nsOf(x);
    if (dragging && (dragging.moved || Math.abs(x - dragging.x) > 3)) {
      dragging.moved = true;
      const other = nsOf(x);
      draft = {from: Math.min(other, dragging.fixed), to: Math.max(other, dragging.fixed)};
    }
    const isOnMark = !dragging && markOf(event) !== null;
    chart.classList.toggle('on-mark', isOnMark);
    chart.classList.toggle('on-edge', !dragging && !isOnMark && edgeAt(x) !== null);
    requestAnimationFrame(paint);
  });
  chart.addEventListener('pointerup', event => {
    if (!dragging) return;
    const {moved, edge, isPin} = dragging;
    dragging = null;
    const ns = nsOf(position(event)), mark = markOf(event);
    if (moved) selectDraft();
    else if (isPin) options.onPin(ns);
    else if (mark !== null) options.onMark(mark);
    else if (edge) return;
    else if ((marked.from !== null || marked.to !== null) &&
             (ns < (marked.from ?? data.start_ns) || ns > (marked.to ?? data.duration_ns))) options.onClear();
    else if (data.peak && data.peak.bytes > 0 && Math.abs(xOf(ns) - xOf(data.peak.time_ns)) <= HANDLE) options.onPeak();
    else options.onMoment(ns);
  });
  // The browser has taken the pointer for something else: nothing was chosen.
  chart.addEventListener('pointercancel', () => {
    dragging = pointer = null;
    dropDraft();
  });
  chart.addEventListener('pointerleave', () => { pointer = null; if (data && !dragging) paint(); });
  chart.addEventListener('keydown', event => {
    if (!data || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (data.duration_ns - data.start_ns) / 100;
    const here = pointer ?? marked.at ?? data.peak?.time_ns ?? data.start_ns;
    const moves = {ArrowLeft: -step, ArrowRight: step, PageUp: -10 * step, PageDown: 10 * step,
                   Home: -Infinity, End: Infinity};
    if (Object.hasOwn(moves, event.key)) {
      pointer = Math.round(Math.min(data.duration_ns, Math.max(data.start_ns, here + moves[event.key])));
      if (event.shiftKey) {
        const {from, to} = seen(), first = from ?? data.start_ns;
        const fixed = from === null && to === null ? here : Math.abs(here - first) < 1 ? to ?? data.duration_ns : first;
        draft = {from: Math.min(fixed, pointer), to: Math.max(fixed, pointer)};
      }
      paint();
      feedback.announce(moment.textContent);
    } else if (event.key === 'Enter') {
      if (draft) selectDraft();
      else if (data.peak && data.peak.bytes > 0 && here === data.peak.time_ns) options.onPeak();
      else options.onMoment(here);
    } else if (event.key === 'p') {
      options.onPin(here);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  // Shift may have been pressed for something else, as Shift and Tab to come here.
  chart.addEventListener('keyup', event => { if (event.key === 'Shift' && draft && !dragging) selectDraft(); });
  chart.addEventListener('blur', () => { if (!dragging) dropDraft(); });
  new ResizeObserver(paint).observe(chart);

  return {
    /// An empty chart, in which times can be selected, until show() has the data: `note` says why.
    showEmpty(duration, note, isError = false) {
      data = {note, isError, start_ns: 0, duration_ns: duration, samples: {time_ns: [], live_bytes: []}, sites: [],
              rss: {time_ns: [], bytes: []}, marks: [], pauses: [], idle: [], peak: null};
      chart.setAttribute('aria-label', `Live memory over time: ${note}`);
      spoken.textContent = note;
      paint();
    },
    show(next) {
      data = next;
      const largest = data.sites.map(site => site.label).slice(0, 3).join(', ');
      const text = !data.samples.time_ns.length ? 'Live memory over time: no events' :
        `Live memory over time: peak ${figures.bytes(data.peak.bytes)} at ${figures.time(data.peak.time_ns)}, ` +
        `${figures.bytes(data.samples.live_bytes.at(-1))} at the end; largest: ${largest}`;
      chart.setAttribute('aria-label', text + '. Arrow keys move, Shift extends a range, Enter selects a moment, p ' +
                         'sets a pin.');
      spoken.textContent = text;
      paint();
    },
    /// A range that is dragged, or extended by keys, stays meanwhile.
    mark(next) { marked = next; if (!dragging) paint(); },
    /// Shows a sentence below the chart, or none.
    say(...nodes) { said.replaceChildren(...nodes); },
    data: () => data,
    picture: () => chart,
    csv() {
      const {time_ns: time, live_bytes: live, mapped_bytes: mapped = []} = data.samples;
      // Resident memory and marks have times of their own. Live bytes and mappings are those of the sample before.
      const mappedAt = i => mapped.length ? mapped[i] ?? 0 : null;
      const rowOf = (ns, i, resident, mark) => [ns, live[i] ?? 0, mappedAt(i), resident, mark,
                                                ...data.sites.map(site => site.bytes[i] ?? 0)];
      const rows = [...time.map((ns, i) => rowOf(ns, i, null, null)),
                    ...data.rss.time_ns.map((ns, i) => rowOf(ns, sampleAt(ns), data.rss.bytes[i], null)),
                    ...data.marks.map(({time_ns: ns, text}) => rowOf(ns, sampleAt(ns), null, text))];
      return [['time_ns', 'live_bytes', 'mapped_bytes', 'rss_bytes', 'mark', ...data.sites.map(site => site.name)],
              ...rows.sort((a, b) => a[0] - b[0])];
    },
  };
}

return {create};
})();
