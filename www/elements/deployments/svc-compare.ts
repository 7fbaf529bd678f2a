import { readDeployments } from '../../server/requests.js'
import { serverNow, type Client } from '../../server/client.js'
import type { DeploymentRow, DeploymentStep } from '../../../lib/model/deployment.js'
import { agoWords, deploymentWords, spanWords, stepWords } from '../base/words.js'
import { begunAt, formatBytes } from '../../shared/api.js'
import { countWords, numberWords, t, errorWords } from '../../words/t.js'
import { said, css, SvcElement } from '../element.js'
import type { Changes } from '../../../lib/model/manifest.js'
import { html, type Template } from '../../dom/html.js'
import { errorLine } from '../base/form.js'
import { liveBefore } from './svc-deployment-actions.js'

/* Compares two deployments as rows of text. Pure. */

/** One property of the two deployments. */
export interface CompareRow {
  name: string
  /** Values of the other deployment and of this one. Empty if there is no value. */
  before: string
  now: string
  /** The two values differ in a way that can matter. */
  isOther: boolean
}

/** Duration of a step counts as different if it changes by at least this share. */
const otherShare = 0.5
const otherMs = 1000

/** Returns the properties of two deployments of a project, different or equal. */
export function compareRows(before: DeploymentRow, now: DeploymentRow): CompareRow[] {
  const row = (name: string, words: (deployment: DeploymentRow) => string): CompareRow => ({
    name,
    before: words(before),
    now: words(now),
    isOther: words(before) !== words(now)
  })
  const took = (deployment: DeploymentRow): number | null =>
    deployment.endTime === null ? null : Date.parse(deployment.endTime) - Date.parse(begunAt(deployment))
  const isShown = ({ name, isOptional }: (typeof stepWords)[number]): boolean =>
    isOptional !== true || [...before.steps, ...now.steps].some(step => step.name === name)
  return [
    row(t('Message'), deploymentWords),
    row(t('Archive'), ({ archiveBytes }) => (archiveBytes === null ? '' : formatBytes(archiveBytes))),
    row(t('Files'), ({ fileCount }) => (fileCount === null ? '' : numberWords(fileCount))),
    row(t('Environment'), ({ env }) => env),
    timed(t('Duration'), took(before), took(now)),
    ...stepWords.filter(isShown).map(({ name, words }) =>
      stepRow(
        t(words),
        before.steps.find(each => each.name === name),
        now.steps.find(each => each.name === name)
      )
    )
  ].filter(row => row.before !== '' || row.now !== '')
}

function stepRow(name: string, before: DeploymentStep | undefined, now: DeploymentStep | undefined): CompareRow {
  const row = timed(name, tookMs(before), tookMs(now))
  const words = (step: DeploymentStep | undefined, time: string): string => {
    if (step === undefined) return t('not run')
    if (step.status === 'skipped') return t('none')
    if (step.status !== 'failed') return time
    return step.exitCode === undefined || step.exitCode === null
      ? t('failed')
      : t('exit {code}', { code: step.exitCode })
  }
  const isOther = row.isOther || before?.status !== now?.status
  return { ...row, before: words(before, row.before), now: words(now, row.now), isOther }
}

const tookMs = (step: DeploymentStep | undefined): number | null =>
  step === undefined || step.endedAt === null || step.status === 'skipped'
    ? null
    : Date.parse(step.endedAt) - Date.parse(step.startedAt)

function timed(name: string, before: number | null, now: number | null): CompareRow {
  const words = (ms: number | null): string => (ms === null ? '' : spanWords(ms))
  const differs =
    before !== null &&
    now !== null &&
    Math.abs(now - before) > otherMs &&
    Math.abs(now - before) > otherShare * Math.max(before, now)
  return { name, before: words(before), now: words(now), isOther: differs || (before === null) !== (now === null) }
}

/** How a script changed between two deployments. */
export interface ScriptChange {
  step: 'preDeploy' | 'postDeploy'
  before: string | null
  now: string | null
  isOther: boolean
}

/** Returns the scripts that ran in either deployment. */
export function compareScripts(before: DeploymentRow, now: DeploymentRow): ScriptChange[] {
  return (['preDeploy', 'postDeploy'] as const).flatMap(step => {
    const scriptOf = (deployment: DeploymentRow): string | null =>
      deployment.scripts.find(script => script.step === step)?.script ?? null
    const change = { step, before: scriptOf(before), now: scriptOf(now) }
    return change.before === null && change.now === null ? [] : [{ ...change, isOther: change.before !== change.now }]
  })
}

/** Whether nodes have its files. This server has no list of them then. */
const isOnNodes = ({ steps }: DeploymentRow): boolean => steps.some(({ name }) => name === 'rollout')

type Kind = keyof Changes

const kinds: ReadonlyArray<{ kind: Kind; words: string; sign: string }> = [
  { kind: 'added', words: 'Added', sign: '+' },
  { kind: 'changed', words: 'Changed', sign: '~' },
  { kind: 'removed', words: 'Removed', sign: '−' }
]
const offered = 100
const pageSize = 100

/**
 * Compares a deployment with another deployment of its project. Properties: `deployment`, `client`; `against`, the id of
 * the other deployment, or null for the one that was live before it. Event: `against`.
 */
export class SvcCompare extends SvcElement {
  static override sheet = css`
    svc-compare {
      display: grid;
      gap: 16px;
      grid-template-columns: minmax(0, 1fr);

      .choice { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 12px; }
      .choice select { width: auto; max-width: min(420px, 100%); }
      table { width: 100%; border-collapse: collapse; font-size: var(--size-13); table-layout: fixed; }
      th, td { padding: 7px 16px; border-top: 1px solid var(--line); text-align: left; vertical-align: top; overflow-wrap: anywhere; }
      thead th { border-top: 0; color: var(--muted); font-weight: 500; }
      tbody th { color: var(--muted); font-weight: 400; }
      tr.other td:last-child { font-weight: 600; }
      tr.other td:last-child::before { content: '● '; color: var(--warning); }
      .scripts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px; }
      .scripts h3 { grid-column: 1 / -1; font-size: var(--size-13); }
      .scripts pre { margin: 0; padding: 10px 12px; max-height: 200px; overflow: auto; border: 1px solid var(--line); border-radius: var(--radius); background: var(--sunken); font-size: var(--size-12); white-space: pre-wrap; overflow-wrap: anywhere; }
      .files { display: grid; gap: 8px; padding: 12px 0 0; border-top: 1px solid var(--line); }
      .kinds { display: flex; flex-wrap: wrap; gap: 4px; padding: 0 12px; }
      .kinds button { font-size: var(--size-13); }
      .kinds button[aria-pressed='true'] { background: var(--accent-quiet); color: var(--accent); }
      .files ul { padding: 0 16px 12px; font: var(--size-12) / 1.7 var(--mono); overflow-wrap: anywhere; }
      .files .pages { display: flex; align-items: center; gap: 12px; padding: 0 16px 12px; }
      .files p { padding: 0 16px 12px; }
      .added { color: var(--success); }
      .removed { color: var(--failure); }
      .changed { color: var(--warning); }
      @media (max-width: 719px) { th, td { padding-inline: 8px; } .scripts { grid-template-columns: minmax(0, 1fr); } }
    }
  `

  client!: Client
  deployment!: DeploymentRow
  against: string | null = null
  #others: readonly DeploymentRow[] | null = null
  #other: DeploymentRow | null = null
  #changes: Changes | null = null
  #problem: string | null = null
  #kind: Kind = 'changed'
  #page = 0
  #asked = 0

  protected override changed(name: string, before: unknown): void {
    // The result of a deployment changes when it ends or is corrected.
    const hasResult = name === 'deployment' && (before as DeploymentRow).status !== this.deployment.status
    if (hasResult || name === 'against') void this.#load()
  }

  protected override connected(): void {
    void this.#load()
  }

  protected override view(): Template {
    const other = this.#other
    // A project without a successful deployment has only failed ones to compare with.
    const isWithGood = this.against === null && other?.status === 'success' && this.deployment.status === 'failed'
    return html`
      <div class="section-head"><h2>${isWithGood ? t('Comparison with last successful deployment') : t('Comparison')}</h2></div>
      ${this.#others === null ? null : this.#choice(this.#others)}
      ${errorLine(this.#problem)}
      ${
        other === null
          ? this.#others !== null && this.#problem === null
            ? html`<p class="muted">${t('There is no other deployment of this project to compare with.')}</p>`
            : null
          : html`
          <div class="card">
            ${this.#table(other)}
            ${this.#files(other)}
          </div>
          ${compareScripts(other, this.deployment).map(scripts)}`
      }`
  }

  #choice(others: readonly DeploymentRow[]): Template | null {
    if (others.length === 0) return null
    const now = serverNow()
    const choose = (event: Event): void =>
      void this.dispatchEvent(said('against', { deployId: (event.currentTarget as HTMLSelectElement).value }))
    return html`
      <div class="choice">
        <label for="against">${t('Compare with')}</label>
        <select id="against" translate="no" @change="${choose}">
          ${others.map(
            other => html`
            <option value="${other.id}" .selected="${other.id === this.#other?.id}">
              ${`${agoWords(other.startTime, now)} · ${t(statusWords[other.status])} · ${deploymentWords(other)}`}
            </option>`
          )}
        </select>
        ${this.#other === null ? null : html`<a href="deployments/${this.#other.id}">${t('Open that deployment')}</a>`}
      </div>`
  }

  #table(other: DeploymentRow): Template {
    return html`
      <table>
        <thead>
          <tr><td></td><th scope="col">${t('Other deployment')}</th><th scope="col">${t('This deployment')}</th></tr>
        </thead>
        <tbody>
          ${compareRows(other, this.deployment).map(
            ({ name, before, now, isOther }) => html`
            <tr class="${isOther ? 'other' : null}"><th scope="row">${name}</th><td translate="no">${before}</td><td translate="no">${now}</td></tr>`
          )}
        </tbody>
      </table>`
  }

  #files(other: DeploymentRow): Template {
    const changes = this.#changes
    const words = this.#withoutList(other, changes)
    if (words !== null) return html`<div class="files"><p class="muted">${words}</p></div>`
    if (changes === null) return html`<div class="files" aria-busy="true"></div>`
    const paths = changes[this.#kind]
    const from = this.#page * pageSize
    const sign = kinds.find(({ kind }) => kind === this.#kind)?.sign
    return html`
      <div class="files">
        <div class="kinds" role="group" aria-label="${t('Different files')}">
          ${kinds.map(
            ({ kind, words }) => html`
            <button type="button" class="quiet" aria-pressed="${kind === this.#kind ? 'true' : 'false'}"
              @click="${() => this.#show(kind, 0)}">
              <span class="${kind}">${t(words)}</span><span class="number">${changes[kind].length}</span>
            </button>`
          )}
        </div>
        ${paths.length === 0 ? html`<p class="muted">${t('None.')}</p>` : null}
        <ul translate="no">${paths.slice(from, from + pageSize).map(path => html`<li><span class="${this.#kind}">${sign}</span> ${path}</li>`)}</ul>
        ${paths.length <= pageSize ? null : this.#pages(paths.length)}
      </div>`
  }

  /** Returns why there is no list of different files, or null. */
  #withoutList(other: DeploymentRow, changes: Changes | null): string | null {
    if (this.deployment.fileCount === null) return t('This deployment wrote no files.')
    if (other.fileCount === null) return t('The other deployment wrote no files.')
    const isSame = kinds.every(({ kind }) => changes?.[kind].length === 0)
    if (isSame || (other.treeSha256 !== null && other.treeSha256 === this.deployment.treeSha256))
      return t('Both deployments wrote the same files.')
    return [other, this.deployment].some(isOnNodes) ? t('The files differ. The pages of the nodes list them.') : null
  }

  #pages(count: number): Template {
    const from = this.#page * pageSize
    const to = Math.min(count, from + pageSize)
    return html`
      <div class="pages">
        <button type="button" disabled="${from === 0}" @click="${() => this.#show(this.#kind, this.#page - 1)}">
          ${t('Previous')}
        </button>
        <span class="muted small number">${t('{from} to {to} of {files}', { from: from + 1, to, files: countWords(count, 'file') })}</span>
        <button type="button" disabled="${to === count}" @click="${() => this.#show(this.#kind, this.#page + 1)}">
          ${t('Next')}
        </button>
      </div>`
  }

  #show(kind: Kind, page: number): void {
    this.#kind = kind
    this.#page = page
    this.update()
  }

  async #load(): Promise<void> {
    const mine = ++this.#asked
    const { id, projectId } = this.deployment
    this.#problem = null
    try {
      const { items } = await readDeployments(this.client, { projectId, limit: offered }, this.signal)
      let other =
        this.against === null
          ? liveBefore(items, this.deployment)
          : (items.find(item => item.id === this.against) ?? null)
      if (this.against !== null && other === null)
        other = await this.client.call('GET /api/logs/:deployId', { deployId: this.against, signal: this.signal })
      if (mine !== this.#asked) return
      this.#others = items.filter(item => item.id !== id)
      this.#other = other
      this.#changes = null
      this.update()
      if (other === null || this.#withoutList(other, null) !== null) return
      const changes = await this.client.call('GET /api/deployments/:id/changes', {
        id,
        query: { against: other.id },
        signal: this.signal
      })
      if (mine !== this.#asked) return
      this.#changes = changes
      this.#show((['changed', 'added', 'removed'] as const).find(kind => changes[kind].length > 0) ?? 'changed', 0)
    } catch (error) {
      if (mine !== this.#asked || this.signal.aborted) return
      this.#problem = errorWords(error)
      this.update()
    }
  }
}

const statusWords = { queued: 'Queued', running: 'Running', success: 'Success', failed: 'Failed' } as const

function scripts({ step, before, now, isOther }: ScriptChange): Template | null {
  if (!isOther) return null
  const name = step === 'preDeploy' ? t('Pre-deploy script') : t('Post-deploy script')
  return html`
    <div class="scripts">
      <h3>${t('{script}: changed', { script: name })}</h3>
      <pre translate="no">${before ?? t('none')}</pre><pre translate="no">${now ?? t('none')}</pre>
    </div>`
}

/** The elements that a page registers for a comparison. */
export const elements = { 'svc-compare': SvcCompare }
