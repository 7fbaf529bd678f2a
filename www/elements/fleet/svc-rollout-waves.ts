import type { Client } from '../../server/client.js'
import type { ListedRollout, ListedRolloutNode } from '../../../lib/model/rollout.js'
import { css, SvcElement } from '../element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { numberWords, t, errorWords, serverWords, twoLines } from '../../words/t.js'
import { countRows, phaseOrder, troubled } from './marks.js'
import type { Wave } from '../../state/rollout-live.js'
import { spanWords, stepWords } from '../base/words.js'
import { stripAnsi } from '../logs/log-format.js'

/** The phases of nodes as a bar, with the counts as words below it. Property: `counts`. */
export class SvcRolloutBar extends SvcElement {
  static override sheet = css`
    svc-rollout-bar {
      display: grid;
      gap: 8px;

      svg { display: block; width: 100%; height: 10px; border-radius: 5px; background: var(--hover); }
      .good { fill: var(--success); }
      .bad { fill: var(--failure); }
      .going { fill: var(--running); }
      .waiting { fill: var(--warning); }
      .calm { fill: var(--edge); }
      ul { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: var(--size-13); }
      li { display: inline-flex; align-items: center; gap: 6px; }
    }
  `

  counts: ListedRollout['counts'] = {}

  protected override view(): Template {
    const rows = countRows(this.counts)
    const all = rows.reduce((sum, { count }) => sum + count, 0)
    // From the left: what is done, what goes on, what has not begun.
    const order = ['good', 'bad', 'waiting', 'going', 'calm']
    let from = 0
    const parts = [...rows]
      .sort((a, b) => order.indexOf(a.tone) - order.indexOf(b.tone))
      .map(row => {
        const width = (row.count / all) * 1000
        from += width
        return { ...row, from: from - width, width }
      })
    return html`
      <svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">
        ${parts.map(({ tone, from, width }) => html`<rect class="${tone}" x="${from}" y="0" width="${width}" height="10"/>`)}
      </svg>
      <ul class="number">
        ${rows.map(
          ({ phase, count }) => html`
          <li><b>${numberWords(count)}</b><svc-mark kind="phase" state="${phase}"></svc-mark></li>`
        )}
      </ul>`
  }
}

/** Returns the counts of a wave as a text: `3 good, 1 failed`. */
export function countsWords(counts: ListedRollout['counts']): string {
  return countRows(counts)
    .map(({ count, words }) => `${numberWords(count)} ${t(words)}`)
    .join(' · ')
}

/* The rows of a list of waves with their nodes. Pure. */

/** A row: a wave, or a node of the wave above it. */
export type WaveRow =
  | { kind: 'wave'; key: string; wave: Wave; isOpen: boolean }
  | { kind: 'node'; key: string; node: ListedRolloutNode }

/** Up to this number of nodes, all waves are open. */
const fewNodes = 40

/** Returns which waves are open unless the reader decides otherwise: the current one, and those with trouble. */
export function isOpenAtFirst({ number, nodes, counts }: Wave, current: number, all: number): boolean {
  if (nodes.length === 0) return false
  if (all <= fewNodes) return true
  return number === current || [...troubled].some(phase => (counts[phase] ?? 0) > 0)
}

/** Returns the rows. `decided`: waves that the reader opened or closed. */
export function waveRows(
  waves: readonly Wave[],
  { current, decided }: { current: number; decided: ReadonlyMap<number, boolean> }
): WaveRow[] {
  const all = waves.reduce((sum, { nodes }) => sum + nodes.length, 0)
  return waves.flatMap((wave): WaveRow[] => {
    const isOpen = decided.get(wave.number) ?? isOpenAtFirst(wave, current, all)
    const nodes = isOpen ? wave.nodes : []
    return [
      { kind: 'wave', key: `wave ${wave.number}`, wave, isOpen },
      ...nodes.map((node): WaveRow => ({ kind: 'node', key: node.nodeId, node }))
    ]
  })
}

/** Nodes that are shown at first, and added with each press. */
const pageRows = 20

/**
 * The nodes of a rollout that need attention, the worst first: what failed, with the step and the end of the output.
 * Properties: `rolloutId`, `nodes`, `client`.
 */
export class SvcRolloutFailures extends SvcElement {
  static override sheet = css`
    svc-rollout-failures {
      display: grid;
      gap: 8px;

      details { min-width: 0; }
      summary { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 2px 16px; padding: 10px 16px; cursor: pointer; list-style: none; border-radius: inherit; }
      summary::-webkit-details-marker { display: none; }
      summary:hover { background: var(--hover); }
      summary b { font-weight: 500; overflow-wrap: anywhere; }
      summary .why { grid-column: 1 / 3; color: var(--muted); font-size: var(--size-13); overflow-wrap: anywhere; }
      .more { display: grid; gap: 10px; padding: 4px 16px 16px; }
      pre { max-height: 320px; margin: 0; padding: 12px; overflow: auto; border-radius: var(--radius); background: var(--log-ground); color: var(--log-text); border: 1px solid var(--line); font-size: var(--size-12); white-space: pre-wrap; overflow-wrap: anywhere; }
      .foot { display: flex; align-items: center; justify-content: space-between; gap: 16px; }
    }
  `

  rolloutId = ''
  nodes: readonly ListedRolloutNode[] = []
  client!: Client
  #most = pageRows
  /** What was loaded about nodes: the whole node, or why it could not be loaded. */
  readonly #known = new Map<string, ListedRolloutNode | string>()

  protected override view(): Template {
    const sorted = [...this.nodes].sort((a, b) => phaseOrder.indexOf(a.phase) - phaseOrder.indexOf(b.phase))
    const shown = sorted.slice(0, this.#most)
    const isOnly = sorted.length === 1
    return html`
      ${shown.map((node, index) => keyed(node.nodeId, this.#node(node, isOnly || index === 0)))}
      ${
        shown.length === sorted.length
          ? null
          : html`
          <div class="foot">
            <span class="muted small number">${t('{count} of {all}', { count: numberWords(shown.length), all: numberWords(sorted.length) })}</span>
            <button type="button" @click="${() => this.#showMore()}">${t('Show more')}</button>
          </div>`
      }`
  }

  protected override rendered(): void {
    // The first one is open from the start, which is no toggle of the reader.
    for (const details of this.querySelectorAll('details[open]')) void this.#load(details.id.slice('failed-'.length))
  }

  #node(node: ListedRolloutNode, isFirst: boolean): Template {
    const { nodeId, nodeName, wave, phase, error } = node
    return html`
      <details class="card" id="failed-${nodeId}" open="${isFirst}" @toggle="${(event: Event) => this.#toggled(event, nodeId)}">
        <summary>
          <b translate="no">${nodeName}</b>
          <svc-mark kind="phase" state="${phase}"></svc-mark>
          <span class="why">${t('Wave {wave}', { wave: numberWords(wave) })}${error === null ? null : html` · <span translate="no">${twoLines(serverWords(error))}</span>`}</span>
        </summary>
        ${this.#more(node)}
      </details>`
  }

  #more(node: ListedRolloutNode): Template {
    const known = this.#known.get(node.nodeId)
    const whole = typeof known === 'object' ? { ...node, output: node.output ?? known.output } : node
    const { nodeId, failedStep, output, phase } = whole
    const step = stepWords.find(({ name }) => name === failedStep)?.words ?? failedStep
    return html`
      <div class="more">
        ${step === null ? null : html`<p>${t('Failed step')}: <b>${t(step)}</b></p>`}
        ${
          output === null || output === ''
            ? html`<p class="muted small">${known === undefined ? t('Loading…') : typeof known === 'string' ? twoLines(known) : phase === 'unreachable' ? t('The node did not answer, so what it did is not known.') : t('The node sent no output.')}</p>`
            : html`<pre translate="no" tabindex="0" aria-label="${t('End of the output')}">${stripAnsi(output)}</pre>`
        }
        <p class="small"><a href="nodes/${nodeId}">${t('Open node')}</a></p>
      </div>`
  }

  #toggled(event: Event, nodeId: string): void {
    if ((event.currentTarget as HTMLDetailsElement).open) void this.#load(nodeId)
  }

  async #load(nodeId: string): Promise<void> {
    if (this.#known.has(nodeId)) return
    try {
      const { rolloutId, signal } = this
      const given = { rolloutId, node: nodeId, signal }
      this.#known.set(nodeId, (await this.client.call('GET /api/rollouts/:rolloutId/nodes/:node', given)).node)
    } catch (error) {
      if (this.signal.aborted) return
      this.#known.set(nodeId, errorWords(error))
    }
    this.update()
  }

  #showMore(): void {
    this.#most += pageRows
    this.update()
  }
}

/** The waves of a rollout with their nodes, of which only the visible ones are on the page. Properties: `waves`, `current`. */
export class SvcRolloutWaves extends SvcElement {
  static override sheet = css`
    svc-rollout-waves {
      display: block;
      border-radius: 7px;
      overflow: clip;

      svc-rows { --row-px: 45px; }
      li + li > * { border-top: 1px solid var(--line); }
      .wave {
        display: flex;
        gap: 12px;
        justify-content: flex-start;
        width: 100%;
        height: 100%;
        padding: 0 16px;
        border: 0;
        border-radius: 0;
        background: var(--sunken);
        text-align: left;
      }
      .wave:focus-visible { outline-offset: -2px; }
      .wave > .icon { color: var(--muted); }
      .wave[aria-expanded='true'] > .icon { rotate: 90deg; }
      .wave > span { color: var(--muted); font-weight: 400; font-size: var(--size-13); }
      .wave .current { flex: none; color: var(--running); font-weight: 500; }
      .node { display: grid; grid-template-columns: minmax(0, 1.2fr) 130px minmax(0, 2fr) 80px; align-items: center; gap: 0 16px; height: 100%; padding: 0 16px 0 44px; color: inherit; }
      .node:hover { background: var(--hover); text-decoration: none; }
      .node:focus-visible { outline-offset: -2px; border-radius: 6px; }
      .node > .error, .node > .took { color: var(--muted); font-size: var(--size-13); }
      .node > .took { text-align: right; }
      .name { display: flex; align-items: center; gap: 8px; min-width: 0; }
      .name .icon { color: var(--failure); }
      @media (max-width: 719px) {
        svc-rows { --row-px: 57px; }
        .node { grid-template-columns: minmax(0, 1fr) auto; padding-left: 16px; }
        .node > .took { display: none; }
        .node > .error { display: none; }
      }
    }
  `

  waves: readonly Wave[] = []
  current = 0
  readonly #decided = new Map<number, boolean>()

  protected override view(): Template {
    const rows = waveRows(this.waves, { current: this.current, decided: this.#decided })
    return html`
      <svc-rows label="${t('Waves and their nodes')}" .items="${rows}" .key="${keyOf}" .row="${this.#row}"></svc-rows>`
  }

  readonly #row = (row: WaveRow, { isCurrent }: { isCurrent: boolean }): Template => {
    const stop = isCurrent ? null : '-1'
    if (row.kind === 'wave') {
      const { number, counts, nodes } = row.wave
      return html`
        <button type="button" class="wave" tabindex="${stop}" aria-expanded="${row.isOpen ? 'true' : 'false'}"
          @click="${() => this.#toggle(number, !row.isOpen)}">
          ${icon('next')}<b>${t('Wave {wave}', { wave: numberWords(number) })}</b>
          <span class="cut number">${nodes.length === 0 ? t('No nodes') : countsWords(counts)}</span>
          ${number === this.current ? html`<span class="current">${t('current')}</span>` : null}
        </button>`
    }
    const { nodeId, nodeName, phase, error, tookMs, isConnected } = row.node
    return html`
      <a class="node" href="nodes/${nodeId}" tabindex="${stop}">
        <span class="name">
          ${isConnected ? null : html`${icon('failed')}<span class="unseen">${t('Not connected')}</span>`}
          <span class="cut" translate="no" title="${nodeName}">${nodeName}</span>
        </span>
        <svc-mark kind="phase" state="${phase}"></svc-mark>
        <span class="error cut" title="${error}" translate="no">${error}</span>
        <span class="took number">${tookMs === null ? null : spanWords(tookMs)}</span>
      </a>`
  }

  #toggle(wave: number, isOpen: boolean): void {
    this.#decided.set(wave, isOpen)
    this.update()
  }
}

const keyOf = ({ key }: WaveRow): string => key
