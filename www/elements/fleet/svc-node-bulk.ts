import { Refused, type Client } from '../../server/client.js'
import { notice, said, css, SvcElement } from '../element.js'
import type { ListedNode } from '../../../lib/model/node.js'
import { html, icon, type Template } from '../../dom/html.js'
import { countWords, numberWords, t, errorWords } from '../../words/t.js'
import { question } from '../base/form.js'

/** Number of requests at the same time. */
const atOnce = 4
/** Refusals that concern the user or the load, so that the next item would meet them too. */
const generalStatuses: ReadonlySet<number> = new Set([401, 403, 429])

/** The result of one request for each of several items. */
export interface AskedEach<Item> {
  done: Item[]
  failed: Array<{ item: Item; error: unknown }>
  /** The items that were not asked for. */
  left: Item[]
}

/**
 * Sends one request for each item, a few at the same time. Ends early if `isStopped` says so, or after an error that
 * does not concern the item alone: a lost connection, an ended session, a server that cannot write. `onProgress` gets
 * the number of answers.
 */
export async function askEach<Item>(
  items: readonly Item[],
  ask: (item: Item) => Promise<unknown>,
  { isStopped, onProgress }: { isStopped: () => boolean; onProgress: (count: number) => void }
): Promise<AskedEach<Item>> {
  const done: Item[] = []
  const failed: AskedEach<Item>['failed'] = []
  let next = 0
  let isEnded = false
  const work = async (): Promise<void> => {
    while (next < items.length && !isEnded && !isStopped()) {
      const item = items[next++] as Item
      try {
        await ask(item)
        done.push(item)
      } catch (error) {
        failed.push({ item, error })
        isEnded ||= !isOfItem(error)
      }
      onProgress(done.length + failed.length)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return { done, failed, left: items.slice(next) }
}

function isOfItem(error: unknown): boolean {
  return error instanceof Refused && error.status < 500 && !generalStatuses.has(error.status)
}

/** What the user is asked about, and what is then done. */
interface Task {
  isDraining: boolean
  /** The nodes to change. */
  nodes: readonly ListedNode[]
  /** The number of chosen nodes that are already as desired. */
  others: number
}

/** Maximum number of names shown before a change. */
const shownNames = 8

/**
 * Drains or undrains the chosen nodes, each with a request of its own. Properties: `nodes`, the chosen ones; `client`.
 * Events: `bulkdone`, `notice`.
 */
export class SvcNodeBulk extends SvcElement {
  static override sheet = css`
    svc-node-bulk {
      display: flex;
      flex-wrap: wrap;
      gap: 8px;

      dialog li { overflow-wrap: anywhere; }
      dialog ul { max-height: 220px; padding-left: 20px; overflow-y: auto; list-style: disc; }
      progress { width: 100%; height: 6px; accent-color: var(--accent); }
    }
  `

  client!: Client
  nodes: readonly ListedNode[] = []
  #task: Task | null = null
  /** The number of answers, or null if nothing is in progress. */
  #answered: number | null = null
  #isStopped = false

  protected override view(): Template {
    const isDrained = this.nodes.some(node => node.isDrained)
    const isNot = this.nodes.some(node => !node.isDrained)
    return html`
      ${isNot ? html`<button type="button" @click="${() => this.#ask(true)}">${icon('pause')}${t('Drain…')}</button>` : null}
      ${isDrained ? html`<button type="button" @click="${() => this.#ask(false)}">${icon('play')}${t('Undrain…')}</button>` : null}
      <svc-dialog heading="${this.#heading()}" .content="${this.#content()}" @dialogclose="${() => this.#close()}"></svc-dialog>`
  }

  #heading(): string {
    if (this.#task === null) return ''
    const { isDraining, nodes } = this.#task
    const what = nodesWords(nodes.length)
    if (this.#answered !== null) return isDraining ? t('Draining {what}', { what }) : t('Undraining {what}', { what })
    const name = nodes.length === 1 ? nodes[0]?.name : undefined
    if (name !== undefined) return isDraining ? t('Drain {name}?', { name }) : t('Undrain {name}?', { name })
    return isDraining ? t('Drain {what}?', { what }) : t('Undrain {what}?', { what })
  }

  #content(): Template | null {
    if (this.#task === null) return null
    return this.#answered === null ? this.#question(this.#task) : this.#progress(this.#task, this.#answered)
  }

  #question({ isDraining, nodes, others }: Task): Template {
    const what = nodesWords(nodes.length)
    const more = nodes.length - shownNames
    const rest = { what: nodesWords(others) }
    return question({
      asked: html`
        <p>${
          isDraining
            ? t(
                'Rollouts leave these nodes out from now on. What runs there continues, and a deployment that has begun finishes.'
              )
            : t('Rollouts include these nodes again. Each gets the release that is desired now.')
        }</p>
        <ul>
          ${nodes.slice(0, shownNames).map(({ name }) => html`<li translate="no">${name}</li>`)}
          ${more > 0 ? html`<li>${t('and {count} more', { count: numberWords(more) })}</li>` : null}
        </ul>
        ${
          others === 0
            ? null
            : html`<p class="muted small">${isDraining ? t('Already drained: {what}', rest) : t('Not drained: {what}', rest)}</p>`
        }`,
      submission: { isBusy: false, problem: null },
      answer: isDraining ? t('Drain {what}', { what }) : t('Undrain {what}', { what }),
      kind: 'primary',
      onAnswer: event => {
        event.preventDefault()
        void this.#run()
      },
      onRefusal: () => this.#close()
    })
  }

  #progress({ nodes }: Task, answered: number): Template {
    const words = t('{count} of {all}', { count: numberWords(answered), all: nodesWords(nodes.length) })
    return html`
      <div class="form">
        <progress aria-label="${this.#heading()}" max="${nodes.length}" .value="${answered}"></progress>
        <p class="number">${words}</p>
        <div class="actions end">
          <button type="button" autofocus disabled="${this.#isStopped}" @click="${() => this.#close()}">${t('Stop')}</button>
        </div>
      </div>`
  }

  #ask(isDraining: boolean): void {
    const nodes = this.nodes.filter(({ isDrained }) => isDrained !== isDraining)
    this.#task = { isDraining, nodes, others: this.nodes.length - nodes.length }
    this.update()
  }

  /** Closes the question. What is in progress ends first, without further requests. */
  #close(): void {
    if (this.#answered === null) this.#task = null
    else this.#isStopped = true
    this.update()
  }

  async #run(): Promise<void> {
    const { nodes, isDraining } = this.#task as Task
    this.#isStopped = false
    this.#answered = 0
    this.update()
    const body = { drained: isDraining }
    const drain = ({ id }: ListedNode) => this.client.call('PUT /api/nodes/:node/drain', { node: id, body })
    const { done, failed, left } = await askEach(nodes, drain, {
      isStopped: () => this.#isStopped || !this.isConnected,
      onProgress: count => {
        this.#answered = count
        this.update()
      }
    })
    this.#answered = null
    this.#task = null
    this.update()
    const what = nodesWords(done.length)
    if (done.length > 0)
      this.dispatchEvent(notice(isDraining ? t('Drained: {what}', { what }) : t('Undrained: {what}', { what })))
    const failures = failed.map(({ item: { id, name }, error }) => ({ id, name, problem: errorWords(error) }))
    this.dispatchEvent(said('bulkdone', { failed: failures, left }))
  }
}

const nodesWords = (count: number): string => countWords(count, 'node')
