import type { ListedRolloutNode } from '../../../lib/model/rollout.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, keyed, type Template } from '../../dom/html.js'
import type { RolloutCalls } from '../../server/rollout-calls.js'
import { errorWords, serverWords, twoLines } from '../../words/errors.js'
import { numberWords, t } from '../../words/t.js'
import { stepWords } from '../base/words.js'
import { stripAnsi } from '../logs/ansi.js'
import { phaseOrder } from './rollout-words.js'

/** Nodes that are shown at first, and added with each press. */
const pageRows = 20

/**
 * The nodes of a rollout that need attention, the worst first: what failed, with the step and the end of the output.
 * Properties: `rolloutId`, `nodes`, `calls`.
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
  calls!: Pick<RolloutCalls, 'node'>
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
      this.#known.set(nodeId, await this.calls.node(this.rolloutId, nodeId, this.signal))
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
