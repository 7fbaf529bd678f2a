import { placeOf, Refused } from '../server/client.js'
import { readDeployments, readOutput, followEvents, openOutput } from '../server/requests.js'
import { type Said, css, type Wish } from '../elements/element.js'
import type { ListedDeployment } from '../../lib/model/deployment.js'
import type { ShownProject as Project } from '../../lib/model/project.js'
import type { ListedRollout } from '../../lib/model/rollout.js'
import { begunAt, type ServerEvent, formatBytes, isWaitingToBegin, shownStatus, waitingOf } from '../shared/api.js'
import { download, panelPath } from '../dom/address.js'
import { html, type Template } from '../dom/html.js'
import { stripAnsi } from '../elements/logs/log-format.js'
import { errorLine, SvcDialog } from '../elements/base/form.js'
import { isUnknown, missing, Page } from './page.js'
import { loaded, type Resource, staleLine } from '../state/resource.js'
import { SvcDeploymentActions } from '../elements/deployments/svc-deployment-actions.js'
import {
  originRows,
  outside,
  senderWords,
  SvcArchive,
  SvcFailure,
  SvcSteps,
  SvcHold
} from '../elements/deployments/record.js'
import { SvcLog } from '../elements/logs/svc-log.js'
import { originOf, SvcBackgroundFailure, SvcSpan, SvcStatus, SvcTime } from '../elements/base/facts.js'
import { addressWords, clockTimeWords, deploymentWords, exactWords, timeWords } from '../elements/base/words.js'
import { actorWords, countWords, errorWords, numberWords, t } from '../words/t.js'
import { DeploymentOutput, type DeploymentOutputNeeds } from '../state/held-lines.js'
import { hasFleet, isLookingAtNode } from '../state/session.js'

/** Whether the card of approvals is shown. Usually it is not. */
const hasApproval = (deployment: ListedDeployment): boolean =>
  isWaitingToBegin(deployment) || deployment.approvals.length > 0
const loadApproval = async () => ({
  elements: { 'svc-approval': (await import('../elements/deployments/svc-approval.js')).SvcApproval }
})

/** Minimum time between two requests for the steps of a running deployment. They follow new output only. */
const stepsMs = 700
const neighbours = 20

/**
 * The page of a deployment: live steps and output, rollback, cancel, correction of the status, comparison. The query
 * `against` names the deployment to compare with; if it is empty, the last good one. `do` opens a dialog: `roll_back`, or
 * `promote` (to the project `to`).
 */
export class DeploymentPage extends Page {
  static override sheet = css`
    svc-page-deployment {
      .verdict { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 16px; color: var(--muted); }
      .verdict svc-status { font-size: var(--size-14); }
      .page-head > div:first-child { grid-template-columns: minmax(0, 1fr); }
      .page-head h1 { overflow-wrap: anywhere; }
      .lead { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 12px; margin-block: 2px 4px; }
      .lead .origin .muted { color: var(--text); }
      .lead > * { min-width: 0; max-width: 100%; overflow-wrap: anywhere; }
      .lead a { display: inline-flex; align-items: center; gap: 6px; }
      .place { display: flex; flex-wrap: wrap; gap: 2px 24px; margin-top: 6px; font-size: var(--size-13); }
      .place > div { display: flex; gap: 8px; min-width: 0; max-width: 100%; }
      .place dt { flex: none; color: var(--muted); }
      .place dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
      .head-actions { display: flex; flex-wrap: wrap; gap: 8px; }
      /* The target and some buttons are known later than the rest: they share no line, so that little moves. */
      @media (min-width: 720px) {
        .page-head { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); }
        .head-actions { justify-content: flex-end; }
        svc-deployment-actions, svc-deployment-actions > :is(.actions, svc-dialog) { display: contents; }
      }
      svc-hold.empty { display: none; }
      .body { display: grid; grid-template-columns: 280px minmax(0, 1fr); gap: 32px; align-items: start; }
      .aside { display: grid; gap: 28px; grid-template-columns: minmax(0, 1fr); }
      .aside section { display: grid; gap: 8px; grid-template-columns: minmax(0, 1fr); }
      .facts { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 6px 16px; font-size: var(--size-13); }
      .facts dt { align-self: center; color: var(--muted); }
      .facts dd { min-width: 0; overflow-wrap: anywhere; text-align: right; }
      .facts dd button { margin-block: -6px; margin-right: -12px; font-size: inherit; vertical-align: middle; }
      .script pre {
        margin: 0;
        padding: 10px 12px;
        max-height: 200px;
        overflow: auto;
        border: 1px solid var(--line);
        border-radius: var(--radius);
        background: var(--sunken);
        font-size: var(--size-12);
        white-space: pre-wrap;
        overflow-wrap: anywhere;
      }

      .printed { display: none; margin: 0; font-size: var(--size-12); white-space: pre-wrap; overflow-wrap: anywhere; }
      @media print {
        .printed { display: block; }
        .body { display: block; }
        .body > * + * { margin-top: 16px; }
        svc-log, svc-compare .choice { display: none; }
      }

      @media (max-width: 959px) {
        .body { grid-template-columns: minmax(0, 1fr); gap: 24px; }
        /* The output comes before the request. */
        .aside { display: contents; }
        .aside > .details, .aside > .script { order: 1; }
      }
      @media (max-width: 719px) { .head-actions { width: 100%; } }
    }
  `

  #deployment!: Resource<ListedDeployment>
  #project: Resource<Project> | undefined
  #streamProblem: string | null = null
  #lastStepsMs = 0
  #output: DeploymentOutput | undefined
  #isPrinting = false
  #rollouts: Resource<ListedRollout[]> | undefined
  #components: Resource<number | null> | undefined
  #wish: Wish | null = null
  #compareModule: 'none' | 'loading' | 'there' = 'none'

  get #id(): string {
    return this.place.params['id'] as string
  }

  protected override connected(): void {
    const { client } = this.context
    this.entitle(t('Deployment'), [{ words: t('Deployments'), address: 'deployments' }])
    this.#deployment = this.resource(async signal => {
      const record = client.call('GET /api/logs/:deployId', { deployId: this.#id, query: { output: 'end' }, signal })
      if (this.#output !== undefined) return await record
      const [deployment] = await Promise.all([record, this.#openOutput()])
      // So that nothing moves when the card comes.
      if (hasApproval(deployment)) await loadApproval()
      return deployment
    })
    // The log renders visible lines only; print all loaded lines.
    this.listen(window, 'beforeprint', () => this.#print(true))
    this.listen(window, 'afterprint', () => this.#print(false))
    // Scripts without output also change the steps.
    this.repeat(3000, () => {
      if (this.#isGoing || this.#isInBackground) void this.#loadSteps()
      if (this.#isGoing) void this.#rollouts?.refresh()
    })
  }

  #print(isPrinting: boolean): void {
    this.#isPrinting = isPrinting
    this.update()
  }

  get #isGoing(): boolean {
    const status = this.#deployment.value?.status
    return status === 'queued' || status === 'running'
  }

  /** Whether it is rolled out to nodes, and not deployed on this server. */
  get #isRollout(): boolean {
    const steps = this.#deployment.value?.steps ?? []
    return hasFleet() && !isLookingAtNode() && steps.some(({ name }) => name === 'rollout')
  }

  /** Loads the rollout of the deployment once. Its own page follows it. */
  #findRollout(): void {
    this.#rollouts ??= this.resource(async signal => {
      const query = { deployId: this.#id, projectId: this.#deployment.value?.projectId, limit: 1 }
      const [{ rollouts }, { elements }] = await Promise.all([
        this.context.client.call('GET /api/rollouts', { query, signal }),
        import('../elements/fleet/svc-rollouts.js')
      ])
      this.context.define(elements)
      return rollouts
    })
  }

  /** Loads once how many components the release has, as its client listed them; null: it did not. */
  #countComponents(): number | null {
    // A hub keeps them, and passes no such request on to a node.
    if (isLookingAtNode()) return null
    this.#components ??= this.resource(async signal => {
      const asked = this.context.client.call('GET /api/deployments/:id/attestations', { id: this.#id, signal })
      const { attestations } = await asked
      return attestations.find(({ components }) => components !== undefined)?.components ?? null
    })
    return this.#components.value ?? null
  }

  /** Whether its script continues in the background. */
  get #isInBackground(): boolean {
    return this.#deployment.value?.steps.some(({ status }) => status === 'running') === true
  }

  protected override moved(): void {
    this.#wish = this.takeWish(panelPath`deployments/${this.#id}`) ?? this.#wish
    if (this.#against !== null && this.#compareModule === 'none') void this.attempt(() => this.#loadCompare())
  }

  /** The deployment to compare with, or null. A failed deployment is compared with the last good one by default. */
  get #against(): string | null {
    const asked = this.place.query.get('against')
    return asked ?? (this.#deployment.value?.status === 'failed' ? '' : null)
  }

  async #loadCompare(): Promise<void> {
    this.#compareModule = 'loading'
    this.context.define((await import('../elements/deployments/svc-compare.js')).elements)
    this.#compareModule = 'there'
  }

  /** Loads the end of the output. If this fails, the stream delivers all of it later. */
  async #openOutput(): Promise<void> {
    const read: DeploymentOutputNeeds['read'] = query =>
      readOutput(this.context.client, { ...query, deployId: this.#id }, this.signal)
    const output = new DeploymentOutput({ read })
    await output.open().catch(() => {})
    this.#output = output
    void this.#follow(output)
  }

  async #follow(output: DeploymentOutput): Promise<void> {
    try {
      await followEvents({
        open: (lastId, signal) =>
          openOutput(this.context.client, { id: this.#id, lastEventId: lastId || String(output.told), signal }),
        onEvent: event => this.#event(event),
        onConnection: state => this.context.connection.set(state),
        isFinal: error => error instanceof Refused,
        signal: this.signal
      })
    } catch (error) {
      this.#streamProblem = errorWords(error)
      this.update()
    }
  }

  #event({ event, data, id }: ServerEvent): 'more' | 'last' {
    if (event === 'log') {
      const { at, data: text } = JSON.parse(data) as { at: string; data: string }
      this.#output?.append({ at, text }, Number(id))
      if (this.#isGoing && Date.now() - this.#lastStepsMs > stepsMs) void this.#loadSteps()
      return 'more'
    }
    if (event !== 'status') return 'more'
    const { status } = JSON.parse(data) as { status: string }
    if (status !== 'success' && status !== 'failed') return 'more'
    if (this.#deployment.value === undefined || this.#isGoing) void this.#deployment.load()
    return 'last'
  }

  /** Loads the steps from the list, whose records contain only the end of the output. */
  async #loadSteps(): Promise<void> {
    const known = this.#deployment.value
    this.#lastStepsMs = Date.now()
    if (known === undefined) return
    try {
      const query = { projectId: known.projectId, limit: neighbours }
      const { items } = await readDeployments(this.context.client, query, this.signal)
      const now = items.find(item => item.id === this.#id)
      const wasInBackground = this.#isInBackground
      if (now !== undefined && (this.#isGoing || wasInBackground)) this.#deployment.set({ ...known, ...now })
      // Output after the end of the deployment is not part of its stream.
      if (wasInBackground && !this.#isGoing && !this.#isInBackground) await this.#openOutput().then(() => this.update())
    } catch {
      // The frame already shows it, and the stream continues when the server is back.
    }
  }

  protected override view(): Template {
    if (this.#deployment.value === undefined && isUnknown(this.#deployment.error)) {
      const list = { address: 'deployments', words: t('Go to deployments') }
      return missing({ words: t('Deployment not found'), id: this.#id, list })
    }
    return html`${loaded(this.#deployment, 'the deployment', deployment => this.#page(deployment))}`
  }

  protected override rendered(): void {
    if (this.#deployment.value !== undefined) this.#wish = null
  }

  #page(deployment: ListedDeployment): Template {
    const { projectName, projectId, status, startTime } = deployment
    const hasBackgroundFailure = deployment.backgroundFailed === true
    const sign = hasBackgroundFailure
      ? '✗'
      : { queued: t('Queued'), running: t('Running'), success: '✓', failed: '✗' }[status]
    const against = this.#against
    this.moved()
    if (this.#isRollout) this.#findRollout()
    this.entitle(`${sign} ${projectName} ${timeWords(startTime)}`, [
      { words: t('Deployments'), address: 'deployments' },
      { words: projectName, address: panelPath`projects/${projectId}` },
      { words: timeWords(startTime) }
    ])
    return html`
      <div class="page-head">
        <div>
          <h1 translate="no">${deploymentWords(deployment)}</h1>
          ${lead(deployment)}
          <p class="verdict" role="status">
            <svc-status state="${waitingOf(deployment) === null ? shownStatus(status, hasBackgroundFailure) : 'waiting'}"></svc-status>
            ${hasBackgroundFailure ? html`<svc-background-failure></svc-background-failure>` : null}
            <svc-span from="${begunAt(deployment)}" to="${deployment.endTime}"></svc-span>
            ${origin(deployment)}
          </p>
          ${this.#placeOf(deployment)}
        </div>
        <div class="head-actions">
        ${
          against !== null
            ? null
            : html`<a class="button" href="deployments/${deployment.id}?against">${t('Compare…')}</a>`
        }
        <svc-deployment-actions .deployment="${deployment}" .isRollout="${this.#isRollout}" .wish="${this.#wish}" .client="${this.context.client}"
          @rolledback="${(event: Event) => this.context.go(panelPath`deployments/${(event as Said<'rolledback'>).deployId}`)}"
          @deploymentcancel="${() => void this.#deployment.load()}"
          @deploymentmark="${(event: Event) => this.#marked(event as Said<'deploymentmark'>)}"></svc-deployment-actions>
        </div>
      </div>
      ${staleLine(this.#deployment)}
      ${
        this.#rollouts?.value === undefined || this.#rollouts.value.length === 0
          ? null
          : html`
          <section class="section">
            <h2>${t('Rollout')}</h2>
            <div class="card"><svc-rollouts single="" .items="${this.#rollouts.value}"></svc-rollouts></div>
          </section>`
      }
      ${
        status !== 'queued' || deployment.rolloutAhead === undefined
          ? null
          : html`<p class="muted" role="status"><a href="${panelPath`rollouts/${deployment.rolloutAhead.id}`}">${t('Waits for a rollout')}</a> <svc-time at="${deployment.rolloutAhead.since}"></svc-time></p>`
      }
      ${
        status === 'failed'
          ? html`
          <svc-failure .deployment="${deployment}" .output="${this.#output}"
            @showline="${(event: Event) => this.#showLine((event as Said<'showline'>).line)}"></svc-failure>`
          : null
      }
      ${
        hasApproval(deployment) && this.late(loadApproval, true)
          ? html`<svc-approval .deployment="${deployment}" .waiting="${waitingOf(deployment)}" .client="${this.context.client}" .wanted="${this.place.query.get('decide')}"
              @decided="${(event: Event) => this.#deployment.set((event as Said<'decided'>).deployment)}"></svc-approval>`
          : null
      }
      <svc-hold class="${deployment.checks.length === 0 && (deployment.heldFor === null || isWaitingToBegin(deployment)) ? 'empty' : ''}" .deployment="${deployment}" .client="${this.context.client}" .wanted="${this.place.query.get('decide')}"
        @decided="${(event: Event) => this.#deployment.set((event as Said<'decided'>).deployment)}"></svc-hold>
      <div class="body">
        <div class="aside">
          <section><h2>${t('Steps')}</h2><svc-steps .deployment="${deployment}"></svc-steps></section>
          <section class="details"><h2>${t('Details')}</h2>${factList(facts(deployment, { archive: this.#archive(deployment), receipt: this.#receipt(deployment), components: this.#countComponents() }))}</section>
          ${deployment.provenance === null ? null : originSection(deployment)}
          ${deployment.scripts.map(
            ran => html`
            <section class="script">
              <h2>${ran.step === 'preDeploy' ? t('Pre-deploy script') : t('Post-deploy script')}</h2>
              <p class="muted small">
                ${ran.source === 'platform' ? t('Script of the project') : t('Sent with the push')}
                ${ran.async ? t(', in the background') : null}
              </p>
              ${
                ran.script === null
                  ? html`<p class="muted small">${t('Your token may not read scripts.')}</p>`
                  : html`<pre translate="no">${ran.script}</pre>`
              }
            </section>`
          )}
        </div>
        <div class="section">
          ${errorLine(this.#streamProblem)}
          ${this.#isPrinting ? printed(this.#output) : null}
          <svc-log class="card" wrap="" downloadable="" .output="${this.#output}"
            @outputdownload="${() => void this.#download()}"></svc-log>
        </div>
      </div>
      ${against === null || this.#compareModule !== 'there' ? null : this.#compare(deployment, against)}`
  }

  /** Shows project, date and target. */
  #placeOf({ projectId, projectName, startTime }: ListedDeployment): Template {
    this.#project ??= this.resource(signal =>
      this.context.client.call('GET /api/projects/:id', { id: projectId, signal })
    )
    const target = this.#isRollout ? undefined : this.#project.value?.deployPath
    return html`
      <dl class="place">
        <div><dt>${t('Project')}</dt><dd><a href="projects/${projectId}" translate="no">${projectName}</a></dd></div>
        <div><dt>${t('Started')}</dt><dd>${exactWords(startTime)} (<svc-time at="${startTime}"></svc-time>)</dd></div>
        ${target === undefined ? null : html`<div><dt>${t('Target')}</dt><dd><code translate="no">${target}</code></dd></div>`}
      </dl>`
  }

  #compare(deployment: ListedDeployment, against: string): Template {
    return html`
      <section class="section">
        <svc-compare .deployment="${deployment}" .client="${this.context.client}" .against="${against === '' ? null : against}"
          @against="${(event: Event) => this.#compareWith((event as Event & { deployId: string }).deployId)}"></svc-compare>
      </section>`
  }

  #compareWith(deployId: string): void {
    this.context.go(panelPath`deployments/${this.#id}?against=${deployId}`, { isReplacing: true })
  }

  #showLine(line: number): void {
    const log = this.querySelector('svc-log') as SvcLog | null
    log?.scrollIntoView({ block: 'nearest' })
    log?.reveal(line)
  }

  /** Loads the line that the correction added to the output after its stream had ended. */
  #archive(deployment: ListedDeployment): Template | null {
    const { archiveBytes, uploadedBytes } = deployment
    if (archiveBytes === null) return null
    const size = formatBytes(archiveBytes)
    const words =
      uploadedBytes === null ? size : t('{size}, of which {sent} were sent', { size, sent: formatBytes(uploadedBytes) })
    return html`<svc-archive .deployment="${deployment}" .size="${words}" .client="${this.context.client}"
      @archivedeleted="${(event: Event) => this.#marked(event as Said<'archivedeleted'>)}"></svc-archive>`
  }

  #receipt({ status }: ListedDeployment): Template | null {
    if (status !== 'success' && status !== 'failed') return null
    const fetch = (): void => void this.#downloadReceipt()
    return html`<button type="button" class="quiet receipt" @click="${fetch}">${t('Download the receipt')}</button>`
  }

  #marked({ deployment }: Said<'deploymentmark'> | Said<'archivedeleted'>): void {
    this.#deployment.set(deployment)
    void this.#openOutput().then(() => this.update())
  }

  async #downloadReceipt(): Promise<void> {
    await this.attempt(async () => {
      const answer = await this.context.client.send(
        'GET',
        placeOf('GET /api/deployments/:id/receipt', { id: this.#id })
      )
      download(await answer.blob(), `${this.#id}.receipt.json`)
    })
  }

  async #download(): Promise<void> {
    await this.attempt(async () => {
      const answer = await this.context.client.send(
        'GET',
        placeOf('GET /api/logs/:deployId/output', { deployId: this.#id })
      )
      download(await answer.blob(), `${this.#id}.log`)
    })
  }
}

/** Links to the deployment that a rollback went to, or that an undo undid. */
function origin({ rollbackOf, undoOf, promotedFrom, exact }: ListedDeployment): Template | null {
  if (promotedFrom !== null)
    return html`<a href="deployments/${promotedFrom}">${t('the release of another project')}</a>`
  if (undoOf !== null) return html`<a href="deployments/${undoOf}">${t('undoes a deployment')}</a>`
  if (rollbackOf === null) return null
  const words = exact ? t('restored the state after an earlier deployment') : t('rolled back to an earlier deployment')
  return html`<a href="deployments/${rollbackOf}">${words}</a>`
}

/** Renders the output as plain lines, for print. */
function printed(output: DeploymentOutput | undefined): Template {
  const lines = (output?.lines ?? []).map(({ at, text }) => `${clockTimeWords(at)}  ${stripAnsi(text)}`)
  return html`<pre class="printed" translate="no">${lines.join('\n')}</pre>`
}

/** Shows commit, branch and author at the top. */
function lead({ provenance, commitUrl }: ListedDeployment): Template | null {
  const origin = originOf(provenance)
  if (provenance === null || origin === null) return null
  return html`
    <p class="lead">
      ${commitUrl === undefined ? origin : outside(commitUrl, origin)}
      ${provenance.author === null ? null : html`<span class="muted">${t('by {author}', { author: provenance.author })}</span>`}
    </p>`
}

function originSection(deployment: ListedDeployment): Template {
  return html`
    <section class="details">
      <h2>${t('Origin')}</h2>
      ${factList(originRows(deployment))}
      <p class="muted small">${t('Reported by the client. svc has not verified it.')}</p>
    </section>`
}

interface OtherFacts {
  archive: unknown
  receipt: unknown
  /** The number of components of the release; null: it is not known. */
  components: number | null
}

function facts(deployment: ListedDeployment, { archive, receipt, components }: OtherFacts): Array<[string, unknown]> {
  const { archiveSha256, treeSha256, fileCount, actor, actorIp, claimedIp, env, id, signedBy = [] } = deployment
  return [
    [t('Started by'), senderWords(deployment)],
    [t('Token'), actor?.startsWith('token:') ? html`<span translate="no">${actorWords(actor)}</span>` : null],
    [t('From'), addressWords(actorIp, claimedIp)],
    [signedBy.length > 0 ? t('Signed by') : '', signedBy.length > 0 ? signers(signedBy) : null],
    [t('Environment'), env],
    [t('Files'), fileCount === null ? null : numberWords(fileCount)],
    [t('Archive'), archive],
    ['SHA-256', archiveSha256 && html`<code title="${archiveSha256}">${archiveSha256.slice(0, 12)}…</code>`],
    ['SBOM', components === null ? null : countWords(components, 'component')],
    [t('Tree'), treeSha256 && html`<code title="${treeSha256}">${treeSha256.slice(0, 12)}…</code>`],
    [t('Receipt'), receipt],
    [t('Id'), html`<code>${id}</code>`]
  ]
}

/** The keys that signed the release, as the server verified them. */
function signers(signedBy: ListedDeployment['signedBy']): Template {
  const rows = signedBy.map(
    ({ name, fingerprint }) =>
      html`<b translate="no">${name}</b><br><code class="cut" translate="no" title="${fingerprint}">${fingerprint.slice(0, 19)}…</code>`
  )
  return html`${rows.map((row, at) => (at === 0 ? row : html`<br>${row}`))}`
}

function factList(rows: ReadonlyArray<[string, unknown]>): Template {
  const known = rows.filter(([, value]) => value !== null && value !== undefined && value !== '')
  return html`<dl class="facts number">${known.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`
}

export const elements = {
  'svc-page-deployment': DeploymentPage,
  'svc-archive': SvcArchive,
  'svc-deployment-actions': SvcDeploymentActions,
  'svc-dialog': SvcDialog,
  'svc-failure': SvcFailure,
  'svc-hold': SvcHold,
  'svc-log': SvcLog,
  ...SvcLog.parts,
  'svc-background-failure': SvcBackgroundFailure,
  'svc-status': SvcStatus,
  'svc-steps': SvcSteps,
  'svc-span': SvcSpan,
  'svc-time': SvcTime
}
