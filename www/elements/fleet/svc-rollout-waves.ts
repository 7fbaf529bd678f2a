import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import type { Wave } from '../../state/rollout-live.js'
import { numberWords, t } from '../../words/t.js'
import { spanWords } from '../base/words.js'
import { countsWords } from './svc-rollout-bar.js'
import { waveRows, type WaveRow } from './wave-rows.js'

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
