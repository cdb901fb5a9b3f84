'use strict';
// The token microscope: where the tokens of a generation come from.
globalThis.microscope = ({ data, make, stepping, wanted, changed }) => {
  const home = document.getElementById('microscope');
  if (!home || data.generations.length === 0) return;
  const [chooser, text, facts] = ['generation', 'text', 'facts'].map((id) => document.getElementById(id));
  const number = (x) => (x === 0 ? '0' : Math.abs(x) < 1e-4 ? x.toExponential(2) : String(+x.toPrecision(4)));

  // The tokens of a generation with their origins, from its rounds.
  const tokens = (generation) => {
    const found = [];
    let at = 0;
    generation.rounds.forEach((round, i) => {
      const [proposed, accepted, emitted] = round;
      for (let j = 0; j < emitted; j += 1, at += 1) {
        const origin = proposed === 0 ? 'plain'
          : j < accepted ? 'accepted' : round[7] === 1 ? 'bonus' : 'correction';
        found.push({ id: generation.tokens[at], origin, round: i, place: j });
      }
    });
    return found;
  };
  const piece = (id) => data.strings[id] ?? null;
  const shown = (string) => string.replace(/\n/g, '⏎').replace(/\t/g, '⇥').replace(/ /g, '␣');
  const named = (id) => {
    const string = piece(id);
    return string === null ? `#${id}` : `“${shown(string)}”`;
  };
  const nodes = (generation, token) => generation.steps?.[token.round]?.nodes ?? [];
  // The node of an accepted token: the accepted one at its depth.
  const node = (generation, token) => nodes(generation, token)
    .find((node) => node.accepted && node.depth === token.place + 1);
  const WORDS = {
    accepted: 'accepted from the draft', correction: 'correction after a rejection',
    bonus: 'bonus token after a whole draft', plain: 'nothing was drafted',
  };
  const tipped = (generation, token) => {
    const lines = [`${named(token.id)}: ${WORDS[token.origin]}`, `round ${token.round}`];
    const own = node(generation, token);
    const rejected = token.origin === 'correction'
      ? nodes(generation, token).filter((node) => node.depth === token.place + 1 && node.reached)
      : [];
    const describe = (node, what) => lines.push(
      `${what}p = ${number(node.p)}, q = ${number(node.q)}, overlap = ${number(node.overlap)}`,
      `acceptance probability = ${number(node.acceptance)}`,
    );
    if (own) describe(own, '');
    rejected.forEach((node) => {
      lines.push(`rejected: ${named(node.token)}`);
      describe(node, '');
    });
    const siblings = own
      ? nodes(generation, token).filter((other) => other.parent === own.parent && other !== own)
      : [];
    if (siblings.length) {
      lines.push(`siblings: ${siblings.map((other) => named(other.token)).join(', ')}`);
    }
    return lines.join('\n');
  };

  const bars = (title, distribution) => {
    const grid = make('div', { class: 'bars' });
    for (const [id, share] of distribution) {
      const label = `${named(id)} ${number(share)}`;
      grid.append(make('code', {}, named(id)),
        make('meter', { min: 0, max: 1, value: share, 'aria-label': label }),
        make('span', {}, number(share)));
    }
    return make('div', {}, make('h3', {}, title), grid);
  };
  const PARTS = ['draft', 'target', 'verify', 'other'];
  const time = (round) => {
    const space = 'http://www.w3.org/2000/svg';
    const times = round.slice(3, 7);
    const whole = times.reduce((a, b) => a + b, 0) || 1;
    const line = document.createElementNS(space, 'svg');
    line.setAttribute('class', 'time');
    line.setAttribute('viewBox', '0 0 100 10');
    line.setAttribute('preserveAspectRatio', 'none');
    line.setAttribute('role', 'img');
    const words = PARTS.map((part, i) => `${part} ${number(times[i])} µs`).join(', ');
    line.setAttribute('aria-label', words);
    let from = 0;
    PARTS.forEach((part, i) => {
      const rect = document.createElementNS(space, 'rect');
      const wide = (100 * times[i]) / whole;
      Object.entries({ class: part, x: from, width: wide, height: 10 })
        .forEach(([name, value]) => rect.setAttribute(name, value));
      line.append(rect);
      from += wide;
    });
    return make('div', {}, make('h3', {}, `Time of the round: ${number(whole)} µs`), line, make('p', {}, words));
  };
  const draft = (generation, token) => {
    const rows = nodes(generation, token);
    const head = ['node', 'parent', 'token', 'p', 'q', 'overlap', 'acceptance', 'decision'];
    const cells = (values, tag) => make('tr', {}, ...values.map((value) => make(tag, {}, value)));
    const decision = (node) => (node.accepted ? 'accepted' : node.reached ? 'rejected' : 'not reached');
    const line = (node, i) => cells([String(i), node.parent === null ? '–' : String(node.parent),
      named(node.token), number(node.p), number(node.q), number(node.overlap),
      number(node.acceptance), decision(node)], 'td');
    const table = make('table', {}, make('thead', {}, cells(head, 'th')),
      make('tbody', {}, ...rows.map(line)));
    const scroll = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'The draft of the round' }, table);
    return make('div', {}, make('h3', {}, 'The draft of the round'), scroll);
  };
  const detail = (generation, token) => {
    const round = generation.rounds[token.round];
    const [proposed, accepted, emitted] = round;
    const parts = [make('p', {}, `${named(token.id)}: ${WORDS[token.origin]}. Round ${token.round}: `
      + `${proposed} proposed, ${accepted} accepted, ${emitted} emitted.`)];
    const panels = make('div', { class: 'panels' }, time(round));
    const step = generation.steps?.[token.round];
    const place = token.origin === 'accepted' ? node(generation, token)
      : nodes(generation, token).filter((node) => node.reached && !node.accepted).at(-1);
    if (place?.target) {
      panels.append(bars('Target p', place.target), bars('Draft q', place.draft));
      if (place.residual) panels.append(bars('Residual max(0, p − q), normalised', place.residual));
    } else if (step?.last && token.origin !== 'accepted') {
      panels.append(bars('Target p', step.last));
    } else if (!generation.steps) {
      parts.push(make('p', {}, 'This run recorded no distributions for this generation.'));
    }
    parts.push(panels);
    if (step?.nodes?.length) parts.push(draft(generation, token));
    facts.replaceChildren(...parts);
  };

  let open = null;
  const draw = () => {
    const generation = data.generations[chooser.value];
    if (generation && generation === open) return;
    open = generation;
    facts.replaceChildren();
    text.replaceChildren();
    if (!generation) return;
    text.append(...tokens(generation).map((token) => {
      const string = piece(token.id);
      const span = make('span', { class: `t ${token.origin}`, 'data-tip': tipped(generation, token) });
      span.textContent = string ?? String(token.id);
      if (string === null) span.classList.add('id');
      span.token = token;
      return span;
    }));
    const whole = document.getElementById('whole');
    const known = generation.tokens.every((id) => piece(id) !== null);
    whole.hidden = known;
    whole.textContent = known ? '' : generation.text;
  };
  const pick = (span) => {
    Array.from(text.children).forEach((other) => {
      other.classList.toggle('same', other.token.round === span.token.round);
    });
    detail(open, span.token);
  };
  text.addEventListener('click', (event) => {
    const span = event.target.closest('.t');
    if (span) pick(span);
  });
  stepping(text, '.t', pick);
  const list = () => {
    const before = chooser.value;
    chooser.replaceChildren();
    data.generations.forEach((generation, i) => {
      if (wanted(generation.cell)) chooser.append(make('option', { value: i }, generation.name));
    });
    if (Array.from(chooser.options).some((option) => option.value === before)) chooser.value = before;
    draw();
  };
  chooser.addEventListener('change', draw);
  changed.push(list);
  list();
};
