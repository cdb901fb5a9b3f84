'use strict';
(() => {
  const root = document.documentElement;
  const all = (where, what) => Array.from(where.querySelectorAll(what));
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  root.classList.add('scripted');

  // Light and dark: that of the system until the reader chooses.
  const system = matchMedia('(prefers-color-scheme: dark)');
  const paint = (dark) => {
    root.dataset.theme = dark ? 'dark' : 'light';
    theme.textContent = dark ? 'Light' : 'Dark';
  };
  const theme = document.getElementById('theme');
  paint(system.matches);
  system.addEventListener('change', () => paint(system.matches));
  theme.addEventListener('click', () => paint(root.dataset.theme !== 'dark'));
  addEventListener('beforeprint', () => { root.dataset.theme = 'light'; });
  addEventListener('afterprint', () => paint(theme.textContent === 'Light'));

  // Values at the pointer, or at the place where the arrow keys are.
  const tip = document.getElementById('tip');
  const heading = (cell) => {
    const head = cell.closest('table').tHead.rows[0].cells[cell.cellIndex];
    return head ? head.dataset.name ?? head.textContent : '';
  };
  const values = (mark) => {
    if (mark.dataset.tip) return mark.dataset.tip;
    const ends = mark.dataset.i ? ` [${mark.dataset.i}]` : '';
    return [heading(mark), `${mark.dataset.v}${ends}`].filter(Boolean).join(': ');
  };
  const show = (mark) => {
    tip.textContent = values(mark);
    const box = mark.getBoundingClientRect();
    const { offsetWidth: wide, offsetHeight: high } = tip;
    const left = Math.max(4, Math.min(box.left + box.width / 2 + 10, innerWidth - wide - 4));
    const above = box.top - high - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above < 4 ? box.bottom + 8 : above}px`;
  };
  const TIPPED = '[data-tip], td[data-v]';
  document.addEventListener('pointerover', (event) => {
    const mark = event.target.closest(TIPPED);
    if (mark) show(mark); else tip.textContent = '';
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') tip.textContent = '';
  });

  // Steps through the marks of a container with the arrow keys.
  const stepping = (container, what, act = () => {}) => {
    let at = null;
    const leave = () => { if (at) at.classList.remove('on'); };
    container.addEventListener('keydown', (event) => {
      const marks = all(container, what).filter((mark) => mark.getClientRects().length > 0);
      const now = marks.indexOf(at);
      const to = {
        ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1,
        Home: 0, End: marks.length - 1,
      }[event.key];
      if (event.key === 'Enter' || event.key === ' ') {
        if (at) { act(at); event.preventDefault(); }
        return;
      }
      if (to === undefined || marks.length === 0 || event.target.closest('button, select')) return;
      event.preventDefault();
      leave();
      at = marks[Math.max(0, Math.min(to, marks.length - 1))];
      at.classList.add('on');
      at.scrollIntoView({ block: 'nearest', inline: 'nearest' });
      show(at);
    });
    container.addEventListener('blur', () => { leave(); at = null; tip.textContent = ''; });
  };
  all(document, 'figure svg').forEach((figure) => stepping(figure, '.spots rect'));
  all(document, '.scroll').forEach((region) => stepping(region, 'td[data-v]'));

  // Sorting, by the number behind a cell if it has one.
  const value = (cell) => {
    const number = parseFloat(cell.dataset.v ?? cell.textContent);
    return Number.isNaN(number) ? null : number;
  };
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x !== null && y !== null) return x - y;
    if (x !== null || y !== null) return x === null ? 1 : -1;
    return a.textContent.localeCompare(b.textContent, 'en');
  };
  const sort = (table, column) => {
    const head = table.tHead.rows[0].cells[column];
    const down = head.getAttribute('aria-sort') === 'ascending';
    all(table.tHead, 'th').forEach((other) => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const rows = Array.from(table.tBodies[0].rows);
    const missing = (row) => row.cells[column].textContent === '–';
    rows.sort((a, b) => {
      if (missing(a) !== missing(b)) return missing(a) ? 1 : -1;
      return (down ? -1 : 1) * order(a.cells[column], b.cells[column]);
    });
    table.tBodies[0].append(...rows);
  };
  for (const table of all(document, 'table.sorts')) {
    all(table.tHead, 'th').forEach((head, column) => {
      head.dataset.name = head.textContent;
      const button = make('button', { type: 'button' }, head.textContent);
      button.addEventListener('click', () => sort(table, column));
      head.replaceChildren(button);
    });
  }

  // Filters: what a key (a cell of the run) belongs to, and what the reader wants to see.
  const data = JSON.parse(document.getElementById('data').textContent);
  const boxes = all(document, '.tools input');
  const changed = [];
  const wanted = (key) => {
    const cell = data.cells[key];
    return !cell || boxes.every((box) => box.checked || cell[box.dataset.of] !== box.value);
  };
  const filter = () => {
    all(document, '[data-key]').forEach((mark) => {
      mark.toggleAttribute('hidden', !wanted(mark.dataset.key));
      if (mark instanceof SVGElement) mark.style.display = wanted(mark.dataset.key) ? '' : 'none';
    });
    all(document, '[data-keys]').forEach((group) => {
      const seen = group.dataset.keys.split(' ').some(wanted);
      group.style.display = seen ? '' : 'none';
    });
    changed.forEach((change) => change());
  };
  boxes.forEach((box) => box.addEventListener('change', filter));
  document.getElementById('every').addEventListener('click', () => {
    boxes.forEach((box) => { box.checked = true; });
    filter();
  });

  if (globalThis.microscope) globalThis.microscope({ data, all, make, show, stepping, wanted, changed });
})();
