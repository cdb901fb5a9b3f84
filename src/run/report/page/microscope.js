'use strict';
// The token microscope: where the tokens of a generation come from.
globalThis.microscope = ({ data, make, stepping, wanted, changed }) => {
  const home = document.getElementById('microscope');
  if (!home || data.generations.length === 0) return;
  const [chooser, text, facts, lacking] = ['generation', 'text', 'facts', 'lacking']
    .map((id) => document.getElementById(id));
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
  const WORDS = {
    accepted: 'accepted from the draft', correction: 'correction after a rejection',
    bonus: 'bonus token after a whole draft', plain: 'nothing was drafted',
  };
  const verifier = (generation) => data.cells[generation.cell]?.verifier;
  const step = (generation, token) => generation.steps?.[token.round];
  const nodes = (generation, token) => step(generation, token)?.nodes ?? [];
  // The node of an accepted token: the accepted one at its depth.
  const own = (generation, token) => (token.origin === 'accepted'
    ? nodes(generation, token).find((node) => node.accepted && node.depth === token.place + 1)
    : undefined);
  // The drafted tokens that were rejected where a token stands.
  const rejected = (generation, token) => nodes(generation, token)
    .filter((node) => node.reached && !node.accepted && node.depth === token.place + 1);
  const uniform = (node) => {
    if (node.uniform === undefined) return '';
    const sign = node.accepted ? '<' : '≥';
    return `uniform number ${number(node.uniform)} ${sign} ${number(node.acceptance)}`;
  };

  const tipped = (generation, token) => {
    const lines = [`${named(token.id)}: ${WORDS[token.origin]}`, `round ${token.round}`];
    const describe = (node, whose) => lines.push(
      `${whose}p = ${number(node.p)}, q = ${number(node.q)}, Σ min(p, q) = ${number(node.overlap)}`,
      `acceptance probability = ${number(node.acceptance)}`, uniform(node),
    );
    const node = own(generation, token);
    if (node) describe(node, '');
    rejected(generation, token).forEach((other) => {
      lines.push(`rejected here: ${named(other.token)}`);
      describe(other, 'of the rejected token: ');
    });
    return lines.filter(Boolean).join('\n');
  };

  // Tokens with their shares; marks say what happened to a token, by its id.
  const bars = (title, distribution, marks = {}) => {
    const grid = make('div', { class: 'bars' });
    for (const [id, share] of distribution) {
      const label = `${named(id)} ${number(share)}`;
      grid.append(make('code', {}, named(id)),
        make('meter', { min: 0, max: 1, value: share, 'aria-label': label }),
        make('span', {}, [number(share), marks[id]].filter(Boolean).join(' ')));
    }
    return make('div', {}, make('h3', {}, title), grid);
  };
  // The most probable tokens and, if it is not among them, one more.
  const including = (distribution, id, share) => (
    distribution.some(([other]) => other === id) ? distribution : [...distribution, [id, share]]);
  const distributions = (generation, token) => {
    const emitted = { [token.id]: '✓ emitted' };
    const last = step(generation, token)?.last;
    const node = own(generation, token) ?? rejected(generation, token).at(-1);
    if (!node?.target) {
      return last && token.origin !== 'accepted' ? [bars(`Target p, from which ${named(token.id)} was drawn`, last, emitted)] : [];
    }
    const its = named(node.token);
    const marks = node.accepted ? emitted : { [node.token]: '✗ rejected', ...emitted };
    const which = node.accepted ? `the accepted ${its}` : `the rejected ${its}`;
    const panels = [
      bars(`Target p where ${which} stood`, including(node.target, node.token, node.p), marks),
      bars(`Draft q, from which ${its} came`, including(node.draft, node.token, node.q), marks),
    ];
    if (node.residual) {
      const use = node.accepted ? 'if it had been rejected' : `after ${its} was rejected`;
      panels.push(bars(`Residual max(0, p − q), normalised, ${use}`, node.residual, marks));
    }
    return panels;
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

  // The nodes of a draft, every one before its children, with what it hangs from in a tree.
  const inOrder = (drafted) => {
    const branches = drafted.some((node, i) => drafted.findIndex((other) => other.parent === node.parent) !== i);
    const below = (parent) => drafted.flatMap((node, i) => {
      if (node.parent !== parent) return [];
      const lead = branches ? '\u2003'.repeat(node.depth - 1) + (node.depth > 1 ? '└ ' : '') : `${node.depth}. `;
      return [{ node, lead }, ...below(i)];
    });
    return { branches, lines: below(null) };
  };
  const ENDS = {
    correction: 'drawn from the residual', bonus: 'drawn from p after the whole draft',
  };
  const draft = (generation, token) => {
    const { branches, lines } = inOrder(nodes(generation, token));
    const given = lines.some(({ node }) => node.uniform !== undefined);
    const cells = (values, tag, of = {}) => make('tr', of, ...values.map((value) => make(tag, {}, value)));
    const head = ['token', 'decision', 'p', 'q', 'acceptance probability',
      ...(given ? ['uniform number'] : []), 'Σ min(p, q)'];
    const line = ({ node, lead }) => {
      const [mark, decision, kind] = node.accepted ? ['✓', 'accepted', 'kept']
        : node.reached ? ['✗', 'rejected', 'lost'] : ['·', 'not reached', 'unseen'];
      return cells([`${lead}${mark} ${named(node.token)}`, decision, number(node.p), number(node.q),
        number(node.acceptance), ...(given ? [node.uniform === undefined ? '–' : number(node.uniform)] : []),
        number(node.overlap)], 'td', { class: kind });
    };
    const emitted = tokens(generation).filter((other) => other.round === token.round).at(-1);
    const end = ENDS[emitted?.origin];
    const last = step(generation, token).last.find(([id]) => id === emitted?.id);
    const rows = lines.map(line);
    if (end) {
      rows.push(cells([`→ ${named(emitted.id)}`, `${emitted.origin}, ${end}`, last ? number(last[1]) : '–',
        ...head.slice(3).map(() => '–')], 'td'));
    }
    const title = branches ? 'The draft of the round, a tree' : 'The draft of the round';
    const table = make('table', {}, make('thead', {}, cells(head, 'th')), make('tbody', {}, ...rows));
    const scroll = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title }, table);
    return make('div', {}, make('h3', {}, title), scroll);
  };

  // How a token came to be, in words.
  const account = (generation, token) => {
    const round = generation.rounds[token.round];
    const [proposed, accepted, emitted] = round;
    const words = [`${named(token.id)}: ${WORDS[token.origin]}. Round ${token.round}: `
      + `${proposed} proposed, ${accepted} accepted, ${emitted} emitted.`];
    const numbers = (node) => [`p = ${number(node.p)}`, `q = ${number(node.q)}`,
      `acceptance probability ${number(node.acceptance)}`, uniform(node)].filter(Boolean).join(', ');
    const node = own(generation, token);
    if (node) words.push(`It has ${numbers(node)}.`);
    const lost = rejected(generation, token).map((other) => `${named(other.token)} (${numbers(other)})`);
    if (lost.length) {
      const whose = lost.length > 1 ? 'the rejected tokens' : 'the rejected token';
      words.push(`p and q are those of ${whose} ${lost.join(' and ')}, not of ${named(token.id)}.`);
    }
    return words.join(' ');
  };
  const detail = (generation, token) => {
    const parts = [make('p', {}, account(generation, token))];
    if (nodes(generation, token).length) parts.push(draft(generation, token));
    const panels = make('div', { class: 'panels' }, ...distributions(generation, token),
      time(generation.rounds[token.round]));
    facts.replaceChildren(...parts, panels);
  };

  // What the rows of a generation do not say.
  const missing = (generation) => {
    if (!generation.steps) {
      return 'The rows of this generation have no drafted tokens and no distributions: the origin of '
        + 'each token is all that is known.';
    }
    const all = generation.steps.flatMap((one) => one.nodes ?? []);
    const rule = verifier(generation);
    if (all.length === 0) return '';
    if (rule !== 'rejection') {
      return `The verifier ${rule} has its own rule. Acceptance probabilities and residuals are those `
        + 'of rejection sampling; the rows have no uniform numbers.';
    }
    return all.some((node) => node.uniform !== undefined) ? ''
      : 'The rows of this generation have no uniform numbers, with which acceptance was decided.';
  };
  let open = null;
  const pick = (span) => {
    Array.from(text.children).forEach((other) => {
      other.classList.toggle('same', other.token.round === span.token.round);
    });
    detail(open, span.token);
  };
  const draw = () => {
    const generation = data.generations[chooser.value];
    if (generation && generation === open) return;
    open = generation;
    facts.replaceChildren();
    text.replaceChildren();
    lacking.textContent = generation ? missing(generation) : '';
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
    // A rejection has most to show.
    const first = ['.correction', '.accepted', '.t'].map((what) => text.querySelector(what)).find(Boolean);
    if (first) pick(first);
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
