import { placeOf, Refused } from '../server/client.js'
import { type Said, css } from '../elements/element.js'
import type { ListedRollout, RolloutEvent } from '../../lib/model/rollout.js'
import { html, icon, type Template } from '../dom/html.js'
import { SvcSpan, SvcTime } from '../elements/base/facts.js'
import { errorLine, SvcDialog } from '../elements/base/form.js'
import { isUnknown, missing, Page } from './page.js'
import { SvcRows } from '../elements/base/svc-rows.js'
import { shortTree } from '../elements/base/words.js'
import { policyRows, SvcMark, troubled } from '../elements/fleet/marks.js'
import { SvcRolloutActions } from '../elements/fleet/svc-rollout-actions.js'
import { SvcRolloutBar, SvcRolloutFailures, SvcRolloutWaves } from '../elements/fleet/svc-rollout-waves.js'
import { createLiveRollout, followRollout } from '../state/rollout-live.js'
import { loaded } from '../state/resource.js'
import { numberWords, t, errorWords, serverWords, twoLines } from '../words/t.js'

/** Thousands of nodes may change in a second; the page is drawn this often. */
const drawMs = 120
/** Interval at which a rollout that has ended is looked at again: somebody may resume it, or late nodes get the release. */
const endedMs = 5000
const neighbours = 20

/** A rollout: its state, the nodes that need attention, and all nodes by wave. */
export class RolloutPage extends Page {
  static override sheet = css`
    svc-page-rollout {
      .lead { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; color: var(--muted); font-size: var(--size-13); }
      .lead > * { min-width: 0; overflow-wrap: anywhere; }
      .reason { display: flex; gap: 10px; padding: 12px 16px; border-left: 4px solid var(--failure); border-radius: var(--radius); background: var(--failure-quiet); overflow-wrap: anywhere; }
      .reason .icon { margin-top: 3px; color: var(--failure); }
      .reason p { min-width: 0; }
      dl { display: grid; grid-template-columns: 220px minmax(0, 1fr); gap: 8px 16px; padding: 16px; }
      dt { color: var(--muted); }
      dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
      @media (max-width: 719px) { dl { grid-template-columns: minmax(0, 1fr); gap: 2px; } dd { margin-bottom: 8px; } }
    }
  `

  #live = createLiveRollout()
  #problem: unknown
  #isFollowing = false
  /** The last rollout of the project, if it is a later one: only the last one gives orders. */
  #later: ListedRollout | null = null
  #drawing: ReturnType<typeof setTimeout> | undefined

  get #id(): string {
    return this.place.params['id'] as string
  }

  protected override connected(): void {
    this.#live = createLiveRollout()
    this.entitle(t('Rollout'), [
      { words: t('Fleet'), address: 'nodes' },
      { words: t('Rollouts'), address: 'rollouts' }
    ])
    void this.#follow()
    this.repeat(endedMs, () => void this.#look())
    this.signal.addEventListener('abort', () => clearTimeout(this.#drawing))
  }

  async #follow(): Promise<void> {
    if (this.#isFollowing) return
    this.#isFollowing = true
    this.#problem = undefined
    try {
      await followRollout({
        open: signal =>
          this.context.client.send('GET', placeOf('GET /api/rollouts/:rolloutId/events', { rolloutId: this.#id }), {
            signal,
            headers: { accept: 'application/x-ndjson' }
          }),
        onEvent: event => this.#take(event),
        onConnection: state => this.context.connection.set(state),
        isFinal: error => error instanceof Refused,
        signal: this.signal
      })
    } catch (error) {
      this.#problem = error
      this.update()
    }
    this.#isFollowing = false
  }

  #take(event: RolloutEvent): void {
    const isFirst = this.#live.rollout === undefined
    this.#live.take(event)
    if (isFirst) void this.#look()
    this.#drawing ??= setTimeout(() => {
      this.#drawing = undefined
      this.update()
    }, drawMs)
  }

  /** Looks for a later rollout, and follows one again that has ended, if it has changed since. */
  async #look(): Promise<void> {
    const known = this.#live.rollout
    if (known === undefined) return
    const found = await this.context.client
      .call('GET /api/rollouts', { query: { projectId: known.projectId, limit: neighbours }, signal: this.signal })
      .then(({ rollouts }) => rollouts)
      .catch(() => [])
    const last = found[0]
    this.#later = last !== undefined && last.number > known.number ? last : null
    this.update()
    const now = found.find(({ id }) => id === known.id)
    if (this.#isFollowing) return
    if (now !== undefined && (now.state !== known.state || !isSame(now.counts, known.counts))) void this.#follow()
  }

  protected override view(): Template {
    const { rollout } = this.#live
    if (rollout === undefined && isUnknown(this.#problem)) {
      const list = { address: 'rollouts', words: t('Go to rollouts') }
      return missing({ words: t('Rollout not found'), id: this.#id, list })
    }
    const resource = {
      value: rollout,
      error: this.#problem,
      load: () => this.#follow(),
      refresh: () => this.#follow(),
      set() {}
    }
    return html`${loaded(resource, 'the rollout', known => this.#page(known))}`
  }

  #page(rollout: ListedRollout): Template {
    const { projectName, projectId, number, deployId, treeSha256, createdAt, endedAt, haltedReason } = rollout
    const name = t('Rollout {number} of {project}', { number: numberWords(number), project: projectName })
    this.entitle(name, [
      { words: t('Fleet'), address: 'nodes' },
      { words: t('Rollouts'), address: 'rollouts' },
      { words: `${projectName} · ${numberWords(number)}` }
    ])
    const waves = this.#live.waves()
    const failed = waves.flatMap(({ nodes }) => nodes.filter(({ phase }) => troubled.has(phase)))
    return html`
      <div class="page-head">
        <div>
          <h1 translate="no">${name}</h1>
          <div class="lead">
            <a href="projects/${projectId}" translate="no">${projectName}</a>
            <a href="deployments/${deployId}">${t('Open deployment')}</a>
            <span>${t('Tree')} <code title="${treeSha256}" translate="no">${shortTree(treeSha256)}</code></span>
            <span>${t('Started')} <svc-time at="${createdAt}"></svc-time></span>
            <svc-span from="${createdAt}" to="${endedAt ?? haltedAt(rollout, waves)}"></svc-span>
          </div>
        </div>
      </div>
      <svc-rollout-actions .rollout="${rollout}" .isReplaced="${this.#later !== null}" .client="${this.context.client}"
        @rolloutchange="${(event: Event) => this.#changed(event as Said<'rolloutchange'>)}"></svc-rollout-actions>
      ${this.#later === null ? null : html`<p class="muted">${t('A later rollout took its place:')} <a href="rollouts/${this.#later.id}">${t('Rollout {number}', { number: numberWords(this.#later.number) })}</a></p>`}
      ${this.#problem === undefined ? null : errorLine(errorWords(this.#problem))}
      ${
        haltedReason === null
          ? null
          : html`<div class="reason" role="status">${icon('warning')}<p>${twoLines(serverWords(haltedReason))}</p></div>`
      }
      <svc-rollout-bar .counts="${rollout.counts}"></svc-rollout-bar>
      ${
        failed.length === 0
          ? null
          : html`
          <section class="section">
            <h2>${t('Nodes that need attention')}</h2>
            <svc-rollout-failures .rolloutId="${rollout.id}" .nodes="${failed}" .client="${this.context.client}"></svc-rollout-failures>
          </section>`
      }
      <section class="section">
        <h2>${t('Waves')}</h2>
        <div class="card"><svc-rollout-waves .waves="${waves}" .current="${rollout.wave}"></svc-rollout-waves></div>
      </section>
      <section class="section">
        <h2>${t('Policy of this rollout')}</h2>
        <dl class="card number">${policyRows(rollout.policy).map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}</dl>
      </section>`
  }

  #changed({ rollout }: Said<'rolloutchange'>): void {
    this.#live.take({ type: 'state', rollout })
    this.update()
    void this.#follow()
  }
}

/** Returns when a halted rollout did something last: what follows is waiting. Null: it is not halted. */
function haltedAt(
  { state, createdAt }: ListedRollout,
  waves: ReturnType<ReturnType<typeof createLiveRollout>['waves']>
): string | null {
  if (state !== 'halted') return null
  const times = waves.flatMap(({ nodes }) => nodes.map(({ updatedAt }) => updatedAt))
  return times.reduce((last, at) => (at > last ? at : last), createdAt)
}

function isSame(a: ListedRollout['counts'], b: ListedRollout['counts']): boolean {
  const text = (counts: ListedRollout['counts']): string => JSON.stringify(Object.entries(counts).sort())
  return text(a) === text(b)
}

export const elements = {
  'svc-page-rollout': RolloutPage,
  'svc-dialog': SvcDialog,
  'svc-mark': SvcMark,
  'svc-rollout-actions': SvcRolloutActions,
  'svc-rollout-bar': SvcRolloutBar,
  'svc-rollout-failures': SvcRolloutFailures,
  'svc-rollout-waves': SvcRolloutWaves,
  'svc-rows': SvcRows,
  'svc-span': SvcSpan,
  'svc-time': SvcTime
}
