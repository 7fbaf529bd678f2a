import { placeOf, type Client } from '../../server/client.js'
import { startDeployment, verifyTarget } from '../../server/requests.js'
import { said, css, SvcElement } from '../element.js'
import type { DriftReport, RollbackPlan, FindingState, TreeSummary, VerifyEvent } from '../../../lib/model/plan.js'
import { download } from '../../dom/address.js'
import { html, icon, type Template } from '../../dom/html.js'
import { formatBytes } from '../../shared/api.js'
import { countWords, numberWords, t, actorWords, errorWords, serverWords } from '../../words/t.js'
import { errorLine, field, question, Submission, submitted } from '../base/form.js'
import { rollbackPlanView } from '../deployments/plan-view.js'
import { may } from '../../state/session.js'
import type { ListedDeployment } from '../../../lib/model/deployment.js'
import type { ProjectOverview } from '../../../lib/model/health.js'
import type { PlacedRelease } from '../../../lib/model/node.js'
import { deploymentWords } from '../base/words.js'
import { elements as locks } from './svc-locks.js'
import { SvcDeployments, SvcBroken } from '../deployments/svc-deployments.js'

type Dialog = 'none' | 'undo' | 'repair' | 'drift'
type Finding = Extract<VerifyEvent, { event: 'finding' }>

/** Number of findings that are shown and offered for a repair. */
const maxFindings = 1_000
/** Limit of the server, in characters. */
const maxReason = 500

/** What a finding means, in English for t(). */
const stateWords: Record<FindingState, string> = {
  changed: 'edited',
  missing: 'removed',
  other_type: 'another type',
  mode: 'other permissions'
}

/**
 * The files that svc put into the target of a project: how many, whether they are as deployed, with a verification, a
 * repair, the list of edited files, and the undo of the last deployment.
 * Properties: `projectId`, `client`, `summary`. Event: `begun`.
 */
export class SvcOwned extends SvcElement {
  static override sheet = css`
    svc-owned {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: 12px;
      padding: 14px 20px;

      > svc-dialog { display: contents; }
      .line { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 8px 16px; }
      .line p { min-width: 0; overflow-wrap: anywhere; }
      .bad { color: var(--failure); }
      .line button.edited { min-height: 28px; padding: 2px 8px; font-size: var(--size-13); color: var(--failure); }
      .drift { max-height: 50dvh; overflow: auto; font: var(--size-12) / 1.6 var(--mono); overflow-wrap: anywhere; }
      .drift li { display: grid; grid-template-columns: minmax(0, 1fr) auto; }
      .drift li > :is(b, span) { grid-column: 1; }
      .drift li > button { grid-area: 1 / 2 / span 2; min-width: 36px; padding: 4px; }
      .drift span { color: var(--muted); }
      progress { width: 100%; }
      .findings { display: grid; gap: 8px; }
      .findings ul { max-height: 220px; overflow: auto; font: var(--size-12) / 1.6 var(--mono); overflow-wrap: anywhere; }
      .findings li { display: flex; flex-wrap: wrap; gap: 0 12px; justify-content: space-between; }
      .findings li span { color: var(--muted); }
      .changes { display: grid; gap: 4px; }
      .changes .warning { display: flex; gap: 8px; overflow-wrap: anywhere; }
      .changes ul { max-height: 180px; overflow: auto; font: var(--size-12) / 1.6 var(--mono); overflow-wrap: anywhere; }
    }
  `

  projectId!: string
  client!: Client
  summary!: TreeSummary
  #progress: { done: number; files: number } | null = null
  /** Null before a verification. */
  #findings: Finding[] | null = null
  #differing = 0
  #problem: string | null = null
  #dialog: Dialog = 'none'
  #drift: DriftReport | null = null
  /** The paths that a repair puts back. */
  #repaired: readonly string[] = []
  #plan: RollbackPlan | null = null
  #force = false
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const { summary } = this
    if (summary.baseline === 'none') return html`<p class="muted">${t('svc has put no files into the target.')}</p>`
    if (summary.baseline === 'building') return html`<p class="muted">${t('The list of the files is being made.')}</p>`
    const { undo } = summary
    return html`
      <div class="line">
        <p>${this.#facts(summary)}</p>
        <div class="actions">
          <button type="button" disabled="${this.#progress !== null}" @click="${() => void this.#verify()}">${icon('check')}${t('Verify')}</button>
          ${undo === null || !may('undo') ? null : html`<button type="button" @click="${() => this.#askUndo(false)}">${icon('roll-back')}${t('Undo the last deployment…')}</button>`}
        </div>
      </div>
      ${this.#progress === null ? null : html`<progress max="${this.#progress.files}" .value="${this.#progress.done}" aria-label="${t('Verification')}"></progress>`}
      ${errorLine(this.#problem)}
      ${this.#findings === null ? null : this.#found(this.#findings)}
      <svc-dialog heading="${this.#heading}"
        .content="${this.#content()}" @dialogclose="${() => this.#show('none')}"></svc-dialog>`
  }

  #facts({ files, bytes, verified, drift, exactBackTo }: TreeSummary): Template {
    const facts = [
      t('{files} put there by svc, {size}', { files: countWords(files, 'file'), size: formatBytes(bytes) })
    ]
    const isDriftNewer = drift !== null && (verified === null || drift.at > verified.at)
    const differing = isDriftNewer ? drift.count : (verified?.differing ?? 0)
    const steps =
      exactBackTo === null
        ? null
        : t('exact undo of the last {deployments}', { deployments: countWords(exactBackTo.steps, 'deployment') })
    return html`
      ${facts.join('')}
      ${verified === null ? null : html` · ${t('verified')} <svc-time at="${verified.at}"></svc-time>`}
      ${differing === 0 ? null : html` <button type="button" class="edited" @click="${() => void this.#showDrift()}">${t('{files} edited on the server', { files: countWords(differing, 'file') })}</button>`}
      ${steps === null ? null : html` · ${steps}`}`
  }

  #found(findings: readonly Finding[]): Template {
    if (findings.length === 0) return html`<p role="status">${t('Every file is as deployed.')}</p>`
    return html`
      <div class="findings">
        <div class="line">
          <p role="status" class="bad">${t('{files} not as deployed:', { files: countWords(this.#differing, 'file') })}</p>
          ${may('repair') ? html`<button type="button" @click="${() => this.#askRepair(findings.map(({ path }) => path))}">${t('Repair…')}</button>` : null}
        </div>
        <ul tabindex="0" aria-label="${t('Differing files')}">
          ${findings.map(({ path, state }) => html`<li><b translate="no">${path}</b><span>${t(stateWords[state])}</span></li>`)}
        </ul>
        ${this.#differing > findings.length ? html`<p class="muted small">${t('and {count} more', { count: numberWords(this.#differing - findings.length) })}</p>` : null}
      </div>`
  }

  get #heading(): string {
    if (this.#dialog === 'drift') return t('Files edited on the server')
    return this.#dialog === 'undo' ? t('Undo the last deployment?') : t('Put these files back?')
  }

  #driftList(): Template {
    const report = this.#drift
    const { problem } = this.#submission
    const paths = (report?.files ?? []).slice(0, maxFindings).map(({ path }) => path)
    const close = html`
      <div class="actions end">
        ${paths.length === 0 || !may('repair') ? null : html`<button type="button" @click="${() => this.#askRepair(paths)}">${t('Put back…')}</button>`}
        <button type="button" @click="${() => this.#show('none')}">${t('Close')}</button>
      </div>`
    if (report === null) {
      return html`
        <div class="form">
          ${problem === null ? html`<p class="muted" role="status">${t('Comparing with the files on the server…')}</p>` : errorLine(problem)}
          ${close}
        </div>`
    }
    const shown = report.files.slice(0, maxFindings)
    return html`
      <div class="form">
        ${report.problem === null ? null : errorLine(serverWords(report.problem))}
        ${report.partial ? html`<p class="muted small">${t('The comparison took too long: the counts and lists are incomplete.')}</p>` : null}
        ${
          shown.length === 0
            ? html`<p role="status">${t('No contents differ. Verify also finds other permissions.')}</p>`
            : html`
            <ul class="drift" tabindex="0" aria-label="${t('Files edited on the server')}">
              ${shown.map(each => html`<li>${this.#edited(each)}</li>`)}
            </ul>`
        }
        ${report.count > shown.length ? html`<p class="muted small">${t('and {count} more', { count: numberWords(report.count - shown.length) })}</p>` : null}
        ${close}
      </div>`
  }

  #edited({ path, found, mtime }: DriftReport['files'][number]): Template {
    if (found === null || mtime === null) return html`<b translate="no">${path}</b><span>${t('removed')}</span>`
    const name = path.split('/').at(-1) ?? path
    const fetch = (): void =>
      download(
        this.client.address(placeOf('GET /api/projects/:id/drift/file', { id: this.projectId, query: { path } })),
        name
      )
    return html`
      <b translate="no">${path}</b>
      <span>${t('edited')} <svc-time at="${mtime}"></svc-time></span>
      ${may('files') ? html`<button type="button" class="quiet" title="${t('Download')}" @click="${fetch}">${icon('download')}<span class="unseen">${t('Download {name}', { name: path })}</span></button>` : null}`
  }

  #askRepair(paths: readonly string[]): void {
    this.#repaired = paths
    this.#show('repair')
  }

  async #showDrift(): Promise<void> {
    this.#drift = null
    this.#show('drift')
    try {
      this.#drift = await this.client.call('GET /api/projects/:id/drift', { id: this.projectId, signal: this.signal })
      this.update()
    } catch (error) {
      this.#submission.refuse(error)
    }
  }

  #content(): Template | null {
    if (this.#dialog === 'none') return null
    if (this.#dialog === 'drift') return this.#driftList()
    const onRefusal = (): void => this.#show('none')
    if (this.#dialog === 'repair') {
      const paths = this.#repaired
      return question({
        asked: html`<p>${t('{files} get the contents and permissions of the last deployment. What they contain now is kept, and an undo brings it back. No script runs.', { files: countWords(paths.length, 'file') })}</p>`,
        submission: this.#submission,
        answer: t('Repair'),
        kind: 'primary',
        onRefusal,
        onAnswer: event =>
          void this.#do(event, () =>
            startDeployment(this.client, 'POST /api/projects/:id/repair', { id: this.projectId, body: { paths } })
          )
      })
    }
    const canTakeBack = this.#force || (this.#plan?.counts.drifted ?? 0) > 0
    return question({
      asked: html`
        <p>${t('The files become those before the last deployment: paths, contents, permissions and times. The scripts of the project run. An undo can be undone.')}</p>
        ${rollbackPlanView(this.#plan, this.#force)}
        ${
          canTakeBack
            ? html`
            <label class="check">
              <input type="checkbox" .checked="${this.#force}" @change="${(event: Event) => this.#askUndo((event.currentTarget as HTMLInputElement).checked)}">
              <span>${t('Also take back files that were edited on the server')}</span>
            </label>`
            : null
        }
        ${field({ form: 'undo', name: 'reason', label: t('Reason (optional)'), hint: t('Shown as the message of the new deployment.'), maxLength: maxReason })}`,
      submission: this.#submission,
      answer: t('Undo'),
      kind: 'primary',
      onRefusal,
      onAnswer: event => {
        const { reason = '' } = submitted(event)
        void this.#do(event, () =>
          startDeployment(this.client, 'POST /api/projects/:id/undo', {
            id: this.projectId,
            body: { ...(this.#force ? { force: true } : {}), message: reason.trim() || null }
          })
        )
      }
    })
  }

  #show(dialog: Dialog): void {
    this.#dialog = dialog
    this.#submission.refuse(null)
  }

  #askUndo(force: boolean): void {
    this.#force = force
    this.#plan = null
    this.#show('undo')
    this.client
      .call('POST /api/projects/:id/undo', {
        id: this.projectId,
        body: { ...(force ? { force } : {}), dryRun: true },
        signal: this.signal
      })
      .then(plan => {
        if (this.#force === force) this.#plan = plan
        this.update()
      })
      .catch(error => this.#submission.refuse(error))
  }

  async #do(event: Event, work: () => Promise<string>): Promise<void> {
    event.preventDefault()
    let deployId = ''
    if (!(await this.#submission.run(async () => void (deployId = await work())))) return
    this.#findings = null
    this.#show('none')
    this.dispatchEvent(said('begun', { deployId }))
  }

  async #verify(): Promise<void> {
    const found: Finding[] = []
    this.#differing = 0
    this.#findings = null
    this.#problem = null
    this.#progress = { done: 0, files: Math.max(1, this.summary.files) }
    this.update()
    let isComplete = false
    try {
      await verifyTarget(this.client, this.projectId, {
        signal: this.signal,
        onEvent: event => {
          if (event.event === 'progress') this.#progress = { done: event.done, files: Math.max(1, event.files) }
          if (event.event === 'end') isComplete = true
          if (event.event !== 'finding') return this.update()
          this.#differing++
          if (found.length < maxFindings) found.push(event)
        }
      })
      if (!isComplete) throw new Error(t('The connection was lost before the verification had ended.'))
      this.#findings = found
    } catch (error) {
      if (!this.signal.aborted) this.#problem = errorWords(error)
    }
    this.#progress = null
    this.update()
    this.dispatchEvent(new Event('verified', { bubbles: true }))
  }
}

type Live = Pick<ProjectOverview, 'live' | 'liveSource' | 'deploymentCount' | 'releases' | 'deployments'>

/** Number of digits that identify a commit. */
const shownDigits = 8

/** Shows what is in the target of a project: which upload, its origin, its author, its size. Property: `overview`. */
export class SvcLive extends SvcElement {
  static override sheet = css`
    svc-live {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: 14px;
      padding: 18px 20px;

      .what { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: 4px 16px; }
      .what a { color: inherit; font-size: var(--size-16); font-weight: 600; overflow-wrap: anywhere; min-width: 0; }
      .what svc-time { color: var(--muted); }
      .release { display: grid; gap: 2px; min-width: 0; }
      .release p { overflow-wrap: anywhere; min-width: 0; }
      dl { display: flex; flex-wrap: wrap; gap: 10px 32px; }
      dl div { display: grid; gap: 1px; min-width: 0; max-width: 100%; }
      dt { color: var(--muted); font-size: var(--size-13); }
      dd { overflow-wrap: anywhere; }
      .note { display: flex; gap: 8px; color: var(--failure); font-size: var(--size-13); }
      .note .icon { margin-top: 2px; }
    }
  `

  overview: Live = { live: null, liveSource: null, deploymentCount: 0, releases: [], deployments: [] }

  protected override view(): Template {
    const { live, liveSource, deploymentCount, releases, deployments } = this.overview
    if (releases.length > 0) return html`${releases.map(release => releaseLine(release, deployments))}`
    if (live === null) {
      return html`
        <p class="muted">
          ${deploymentCount === 0 ? t('No deployments yet.') : t('No deployment has written files yet.')}
        </p>`
    }
    const source = liveSource ?? live
    return html`
      <p class="what">
        <a href="deployments/${live.id}">${liveTitle(source)}</a>
        <svc-time at="${live.startTime}"></svc-time>
      </p>
      <dl>${liveFacts(live, source).map(({ name, value }) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      ${doubt(live)}`
  }
}

/** Shows a release that nodes have: which deployment, and where. */
function releaseLine(
  { deployId, tree, nodes, drained, drifted, names }: PlacedRelease,
  known: readonly ListedDeployment[]
) {
  const deployment = known.find(({ id }) => id === deployId)
  const title = deployment === undefined ? deployId : liveTitle(deployment)
  const more = nodes + drained - names.length
  const notes = [
    drained === 0 ? null : t('{count} drained', { count: numberWords(drained) }),
    drifted === 0 ? null : t('{count} drifted', { count: numberWords(drifted) })
  ].filter(note => note !== null)
  return html`
    <div class="release">
      <p class="what">
        ${
          title === null
            ? html`<span class="muted">${tree === null ? t('Nothing in place') : t('deployed on the node itself')}</span>`
            : html`<a href="deployments/${deployId}">${title}</a>`
        }
        ${deployment === undefined ? null : html`<svc-time at="${deployment.startTime}"></svc-time>`}
      </p>
      <p class="muted small">
        ${countWords(nodes, 'node')}${notes.map(note => ` · ${note}`)}:
        <span translate="no">${names.join(', ')}</span>${more > 0 ? ` ${t('and {count} more', { count: numberWords(more) })}` : null}
      </p>
    </div>`
}

/** Returns the title of an upload: its message, else its commit. */
function liveTitle(source: ListedDeployment): string {
  return source.message || source.provenance?.subject || deploymentWords(source)
}

interface Fact {
  name: string
  value: unknown
}

function liveFacts(live: ListedDeployment, source: ListedDeployment): Fact[] {
  const { provenance } = source
  const facts: Array<Fact | null> = [
    provenance?.commit == null ? null : { name: t('Commit'), value: commitWords(provenance) },
    { name: t('By'), value: deployerWords(live, source) },
    live.triggerSource === 'cli'
      ? null
      : live.promotedFrom !== null
        ? {
            name: t('Promoted from'),
            value: html`<a href="deployments/${live.promotedFrom}">${t('another project')}</a>`
          }
        : {
            name: t('Rolled back to'),
            value:
              live === source
                ? t('a deleted deployment')
                : html`<a href="deployments/${source.id}"><svc-time at="${source.startTime}"></svc-time></a>`
          },
    source.fileCount === null ? null : { name: t('Files'), value: countWords(source.fileCount, 'file') },
    source.archiveBytes === null ? null : { name: t('Archive'), value: formatBytes(source.archiveBytes) }
  ]
  return facts.filter(fact => fact !== null)
}

function commitWords({ commit, branch, tag, dirty }: NonNullable<ListedDeployment['provenance']>): Template {
  const place = tag ?? branch
  return html`
    <code title="${commit}">${commit?.slice(0, shownDigits)}</code>
    ${place === null ? null : html` <span translate="no">(${place})</span>`}
    ${dirty ? html` <span>${t('with uncommitted changes')}</span>` : null}`
}

/** Returns who deployed it: a name if the panel or a CI run knows one, else the address. */
function deployerWords(live: ListedDeployment, source: ListedDeployment): string {
  if (live.actor?.startsWith('token:')) return actorWords(live.actor)
  const address = live.actorIp ?? t('unknown')
  if (live.triggerSource !== 'cli') return address
  const { provenance } = source
  if (provenance?.source === 'panel') return t('{name}, from the panel', { name: provenance.by ?? address })
  if (provenance?.ci != null)
    return [provenance.ci.actor ?? provenance.author, provenance.ci.system].filter(Boolean).join(', ')
  return provenance?.author ?? address
}

/** Returns a warning if the live deployment is incomplete or its script failed. */
function doubt(live: ListedDeployment): Template | null {
  const words = live.backgroundFailed
    ? t('Its post-deploy script failed in the background.')
    : live.status === 'failed'
      ? t('Its files were written, but the deployment failed afterwards.')
      : null
  return words === null ? null : html`<p class="note">${icon('warning')}<span>${words}</span></p>`
}

/** The elements that the page of a project registers for its deployments. */
export const elements = {
  ...locks,
  'svc-broken': SvcBroken,
  'svc-deployments': SvcDeployments,
  'svc-live': SvcLive,
  'svc-owned': SvcOwned
}
