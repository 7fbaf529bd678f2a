/* The origin of a deployment's files, as its client claims it. */
import type { DeploymentRow, DeploymentStep, ListedDeployment } from '../../../lib/model/deployment.js'
import type { Provenance } from '../../../lib/model/provenance.js'
import { outsideAddress } from '../../dom/address.js'
import { html, icon, type IconName, type Template } from '../../dom/html.js'
import { t, numberWords, serverWords, twoLines } from '../../words/t.js'
import { commitTitle, commitWords, spanWords, stepWords } from '../base/words.js'
import { notice, said, css, SvcElement } from '../element.js'
import { may, mayDecide } from '../../state/session.js'
import { question, Submission, errorLine } from '../base/form.js'
import type { LogLine, LogText } from '../../state/held-lines.js'
import { plainFormat, plainStyle } from '../logs/log-format.js'
import { lineNode } from '../logs/log-line.js'
import { serverNow, type Client } from '../../server/client.js'

/** Returns what sent the archive, and who. */
export function senderWords({
  provenance,
  triggerSource
}: Pick<DeploymentRow, 'provenance' | 'triggerSource'>): string {
  if (triggerSource === 'rollback') return t('a rollback')
  if (triggerSource === 'repair') return t('a repair')
  if (triggerSource === 'promotion') return t('a promotion')
  if (provenance?.source === 'panel')
    return provenance.by === null ? t('the panel') : t('{name}, from the panel', { name: provenance.by })
  return provenance?.ci ? t('a push by {system}', { system: provenance.ci.system }) : t('a push')
}

/** Returns the claimed origin as rows, with links if an address is known. */
export function originRows({ provenance, commitUrl, projectId }: ListedDeployment): Array<[string, unknown]> {
  if (provenance === null) return []
  const { commit, branch, tag, author, repository, ci } = provenance
  const query = (name: string, value: string) => new URLSearchParams({ project: projectId, [name]: value })
  const digits = html`<code title="${commitTitle(provenance)}">${commitWords(provenance)}</code>`
  return [
    [t('Commit'), commit && (commitUrl === undefined ? digits : outside(commitUrl, digits))],
    [t('Branch'), branch && html`<a href="deployments?${query('branch', branch)}" translate="no">${branch}</a>`],
    [t('Tag'), tag],
    [t('Author'), author],
    [t('Repository'), repository],
    [t('Changes'), provenance.dirty === true ? t('uncommitted changes') : null],
    [t('CI run'), ci && runOf(ci)],
    [t('CI user'), ci?.actor]
  ]
}

function runOf({ system, run, url }: NonNullable<Provenance['ci']>): unknown {
  const words = run === null ? system : `${system} ${run}`
  return url === null ? words : outside(url, words)
}

/** Returns a link to another site, or only the words if the text is not such an address. */
export function outside(text: string, words: unknown): unknown {
  const address = outsideAddress(text)
  if (address === null) return words
  return html`<a href="${address}" title="${address}" target="_blank" rel="noopener noreferrer">${words}${icon('external')}</a>`
}

/**
 * Shows the size of the archive of a deployment, and deletes it. Properties: `deployment`, `client`, `size` in words. Events:
 * `archivedeleted`, `notice`.
 */
export class SvcArchive extends SvcElement {
  static override sheet = css`
    svc-archive > button { margin-left: 8px; }
  `

  deployment!: DeploymentRow
  client!: Client
  size = ''
  #isAsking = false
  #isForced = false
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const { hasArtifact, status } = this.deployment
    const isOver = status === 'success' || status === 'failed'
    return html`<span>${this.size}${hasArtifact ? null : t(', deleted')}</span>${
      hasArtifact && isOver && may('delete_archive')
        ? html`
        <button type="button" class="quiet" aria-label="${t('Delete the archive…')}" title="${t('Delete the archive…')}"
          @click="${() => this.#ask(true)}">${icon('delete')}</button>`
        : null
    }
      <svc-dialog heading="${t('Delete the archive?')}" .content="${this.#isAsking ? this.#question() : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  #question(): Template {
    const choose = (event: Event): void => {
      this.#isForced = (event.currentTarget as HTMLInputElement).checked
    }
    return question({
      asked: html`
        <p>${t('Nobody can roll back to this deployment afterwards. Its record, output and list of files stay.')}</p>
        <label class="check">
          <input type="checkbox" .checked="${this.#isForced}" @change="${choose}">
          <span>${t('Also if an exact undo needs it')}</span>
        </label>`,
      submission: this.#submission,
      answer: t('Delete the archive'),
      onAnswer: event => {
        event.preventDefault()
        void this.#delete()
      },
      onRefusal: () => this.#ask(false)
    })
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.#isForced = false
    this.#submission.refuse(null)
  }

  async #delete(): Promise<void> {
    const isDone = await this.#submission.run(async () => {
      const { deployment } = await this.client.call('DELETE /api/deployments/:id/archive', {
        id: this.deployment.id,
        query: { force: this.#isForced ? 'true' : undefined }
      })
      this.dispatchEvent(notice(t('Archive deleted')))
      this.dispatchEvent(said('archivedeleted', { deployment }))
    })
    if (isDone) this.#ask(false)
  }
}

const shownLines = 10

/**
 * Explains why a deployment failed: the step, the exit code of its script, its last output. Properties: `deployment`,
 * `output`. Event: `showline`.
 */
export class SvcFailure extends SvcElement {
  static override sheet = css`
    svc-failure {
      display: grid;
      grid-template-columns: 16px minmax(0, 1fr);
      gap: 10px 12px;
      padding: 14px 16px;
      border-radius: 8px;
      background: var(--failure-quiet);

      > .icon { margin-top: 3px; color: var(--failure); }
      p { min-width: 0; overflow-wrap: anywhere; }
      .last {
        grid-column: 2;
        padding: 8px 12px;
        border-radius: 6px;
        background: var(--log-ground);
        color: var(--log-text);
        font: var(--size-12) / 1.5 var(--mono);
      }
      .line { white-space: pre-wrap; overflow-wrap: anywhere; }
      .line .bold { font-weight: 700; }
      .line .dim { opacity: 0.75; }
      .more { grid-column: 2; justify-self: start; }
    }
  `

  deployment!: ListedDeployment
  #output: LogText | undefined
  #detach = new AbortController()

  get output(): LogText | undefined {
    return this.#output
  }

  set output(output: LogText | undefined) {
    if (output === this.#output) return
    this.#detach.abort()
    this.#detach = new AbortController()
    this.#output = output
    output?.addEventListener('change', () => this.update(), { signal: this.#detach.signal })
    this.update()
  }

  protected override view(): Template {
    const { errorMessage, steps } = this.deployment
    const step = steps.find(({ status }) => status === 'failed')
    const shown = step === undefined ? [] : this.#linesOf(step)
    const last = shown.at(-1)
    return html`
      ${icon('failed')}
      <div role="alert">
        ${errorMessage === null ? html`<p>${t('The deployment failed. See the output for the cause.')}</p>` : html`<p translate="no">${twoLines(serverWords(errorMessage))}</p>`}
        ${step === undefined ? null : html`<p class="muted small">${stepLine(step)}</p>`}
      </div>
      ${
        last === undefined
          ? null
          : html`
          <div class="last" translate="no" role="group" aria-label="${t('Last output')}">
            ${shown.map(({ line }) => lineNode(line, plainStyle, { format: plainFormat, hasTimes: false, pattern: null, sources: [] }))}
          </div>
          <button type="button" class="more" @click="${() => this.dispatchEvent(said('showline', { line: last.number }))}">
            ${t('Show in output')}
          </button>`
      }`
  }

  /** Returns the last lines that were written while the step ran. */
  #linesOf({ startedAt, endedAt }: DeploymentStep): Array<{ line: LogLine; number: number }> {
    const output = this.#output
    if (output === undefined) return []
    const until = endedAt ?? '9999'
    const found: Array<{ line: LogLine; number: number }> = []
    for (let index = output.lines.length - 1; index >= 0 && found.length < shownLines; index--) {
      const line = output.lines[index] as LogLine
      if (line.at < startedAt) break
      if (line.at <= until && line.text.trim() !== '') found.unshift({ line, number: output.firstNumber + index })
    }
    return found
  }
}

function stepLine({ name, exitCode, startedAt, endedAt }: DeploymentStep): string {
  const step = t(stepWords.find(each => each.name === name)?.words ?? name)
  const time = endedAt === null ? '' : spanWords(Date.parse(endedAt) - Date.parse(startedAt))
  return exitCode === undefined || exitCode === null
    ? t('{step}, after {time}', { step, time })
    : t('{step}: exit code {code}, after {time}', { step, code: exitCode, time })
}

const spokenWords = { running: 'running', success: 'done', failed: 'failed', skipped: 'not run' }

type Steps = Pick<DeploymentRow, 'status' | 'steps'> & Partial<Pick<DeploymentRow, 'scripts'>>

/** The steps of a deployment as a vertical line with their durations. Property: `deployment`. */
export class SvcSteps extends SvcElement {
  static override sheet = css`
    svc-steps {
      display: block;

      li {
        position: relative;
        display: grid;
        grid-template-columns: 16px minmax(0, 1fr) auto;
        align-items: center;
        gap: 0 12px;
        min-height: 36px;
        color: var(--muted);
      }

      /* The line connects the shapes without crossing them. */
      li + li::before {
        content: '';
        position: absolute;
        left: 7.5px;
        top: -8px;
        height: 16px;
        border-left: 1px solid var(--line);
      }

      .words { color: var(--text); }
      li[data-state='skipped'] .words, li[data-state='idle'] .words { color: var(--muted); }
      li[data-state='success'] > .icon { color: var(--success); }
      li[data-state='failed'] > .icon { color: var(--failure); }
      li[data-state='failed'] .words { color: var(--failure); font-weight: 500; }
      li[data-state='running'] > .icon { color: var(--running); }
      li[data-state='running'] .words { font-weight: 500; }
      .time { font-size: var(--size-13); text-align: right; }
      .exit { color: var(--failure); }

      @media (prefers-reduced-motion: no-preference) {
        li[data-state='running'] > .icon { animation: svc-status-turn 1.2s linear infinite; }
      }
    }
  `

  deployment: Steps = { status: 'queued', steps: [] }

  protected override view(): Template {
    const { steps, scripts = [] } = this.deployment
    const isInBackground = scripts.some(({ step, async }) => step === 'postDeploy' && async)
    const shownSteps = stepWords.filter(each => !each.isOptional || steps.some(({ name }) => name === each.name))
    const rows = shownSteps.map(({ name, words }) => {
      const shown = name === 'postDeploy' && isInBackground ? 'Post-deploy script, in the background' : words
      return this.#row(
        t(shown),
        steps.find(step => step.name === name)
      )
    })
    return html`<ol>${rows}</ol>`
  }

  #row(words: string, step: DeploymentStep | undefined): Template {
    const isOver = this.deployment.status === 'success' || this.deployment.status === 'failed'
    const state: IconName = step?.status ?? (isOver ? 'skipped' : 'idle')
    const spoken = step === undefined && !isOver ? t('waiting') : t(spokenWords[step?.status ?? 'skipped'])
    return html`
      <li data-state="${state}">
        ${icon(state)}
        <span class="words">${words}<span class="unseen">, ${spoken}</span></span>
        <span class="time">${this.#detail(step, isOver)}</span>
      </li>`
  }

  #detail(step: DeploymentStep | undefined, isOver: boolean): unknown {
    if (step === undefined) return isOver ? t('not run') : null
    if (step.status === 'skipped') return t('none')
    const hasExit = step.status === 'failed' && step.exitCode !== undefined && step.exitCode !== null
    return html`
      ${hasExit ? html`<span class="exit">${t('exit {code}', { code: Number(step.exitCode) })}</span>${' · '}` : null}
      <svc-span from="${step.startedAt}" to="${step.endedAt}"></svc-span>`
  }
}

type Held = Pick<DeploymentRow, 'id' | 'status' | 'heldFor' | 'holdUntil' | 'checks' | 'steps' | 'tokenId'>

/** Whether the earlier files can be put back now: then that is offered, and a cancel, which does the same, is not. */
export function isHeld({ status, steps }: Pick<DeploymentRow, 'status' | 'steps'>): boolean {
  const isLate = steps.some(({ name }) => name === 'revert')
  return status === 'running' && !isLate && steps.some(({ name }) => name === 'check' || name === 'confirm')
}

/**
 * What happens after the files of a deployment are in place: its checks, the time that is left to confirm it, and the
 * buttons to confirm or revert it. Properties: `deployment`, `client`; `wanted`, the button that gets the focus. Events: `decided`, `notice`.
 */
export class SvcHold extends SvcElement {
  static override sheet = css`
    svc-hold {
      display: grid;
      gap: 16px;

      .window { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 12px 24px; }
      .window p { min-width: 0; }
      .left { font-weight: 600; }
      .window .actions { display: flex; flex-wrap: wrap; gap: 8px; }
      .scroller { overflow-x: auto; }
      table { width: 100%; border-collapse: collapse; font-size: var(--size-13); }
      th { color: var(--muted); font-weight: 400; text-align: left; white-space: nowrap; }
      th, td { padding: 4px 16px 4px 0; vertical-align: top; }
      th:last-child, td:last-child { padding-right: 0; text-align: right; }
      td { overflow-wrap: anywhere; }
      td .icon { margin-right: 8px; vertical-align: -3px; }
      tr[data-state='success'] .icon { color: var(--success); }
      tr[data-state='failed'] .icon { color: var(--failure); }
      tr[data-state='failed'] .answer { color: var(--failure); }
      @media (max-width: 719px) {
        .window .actions { width: 100%; }
        .window .actions > button { flex: 1; }
      }
    }
  `

  client!: Client
  deployment: Held = { id: '', status: 'queued', heldFor: null, holdUntil: null, checks: [], steps: [], tokenId: null }
  /** The decision that a link asked for: its button gets the focus once, and nobody but the user presses it. */
  wanted: string | null = null
  #hasFocused = false
  readonly #submission = new Submission(this)

  protected override rendered(): void {
    if (this.wanted === null || this.#hasFocused) return
    const button = this.querySelector<HTMLElement>(`[name="${CSS.escape(this.wanted)}"]`)
    if (button === null) return
    this.#hasFocused = true
    button.scrollIntoView({ block: 'center' })
    button.focus({ preventScroll: true })
  }

  protected override connected(): void {
    this.every(1000, () => {
      if (this.#isWaiting) this.update()
    })
  }

  /** Whether the deployment waits to be confirmed. */
  get #isWaiting(): boolean {
    const { status, steps } = this.deployment
    return status === 'running' && steps.some(step => step.name === 'confirm' && step.status === 'running')
  }

  protected override view(): Template {
    const { checks } = this.deployment
    if (!isHeld(this.deployment) && checks.length === 0) return html``
    return html`${isHeld(this.deployment) ? this.#window() : null}${checks.length === 0 ? null : this.#table()}`
  }

  #window(): Template {
    const { holdUntil } = this.deployment
    const leftMs = holdUntil === null ? 0 : Math.max(0, Date.parse(holdUntil) - serverNow())
    const left = html`<span class="left number" role="timer">${spanWords(Math.floor(leftMs / 1000) * 1000)}</span>`
    return html`
      <div class="card padded window">
        <p>
          ${
            this.#isWaiting
              ? html`${t('Waiting for a confirmation. The earlier files are put back in')} ${left}`
              : t(
                  'The checks run. If they fail, the policy of the project decides whether the earlier files are put back.'
                )
          }
        </p>
        ${mayDecide(this.deployment) ? this.#actions() : null}
        ${errorLine(this.#submission.problem)}
      </div>`
  }

  #actions(): Template {
    const button = (decision: 'confirm' | 'revert', words: string, kind: string): Template => html`
      <button type="button" name="${decision}" class="${kind}" disabled="${this.#submission.isBusy}"
        @click="${() => void this.#decide(decision)}">${words}</button>`
    return html`
      <div class="actions">
        ${button('revert', t('Revert now'), 'danger')}
        ${this.#isWaiting ? button('confirm', t('Confirm'), 'primary') : null}
      </div>`
  }

  #table(): Template {
    const rows = this.deployment.checks.map(({ check, ok, attempts, message }) => {
      const state = ok ? 'success' : 'failed'
      return html`
        <tr data-state="${state}">
          <td>${icon(state)}<span class="unseen">${ok ? t('passed') : t('failed')}</span><code translate="no">${check}</code></td>
          <td class="answer" translate="no">${twoLines(serverWords(message))}</td>
          <td class="number">${numberWords(attempts)}</td>
        </tr>`
    })
    return html`
      <section class="checks">
        <h2>${t('Checks')}</h2>
        <div class="scroller" tabindex="0" role="region" aria-label="${t('Checks')}">
          <table>
            <thead><tr><th scope="col">${t('Check')}</th><th scope="col">${t('Answer')}</th><th scope="col">${t('Attempts')}</th></tr></thead>
            <tbody>${rows}</tbody>
          </table>
        </div>
      </section>`
  }

  async #decide(decision: 'confirm' | 'revert'): Promise<void> {
    await this.#submission.run(async () => {
      const { id } = this.deployment
      const { deployment } = await this.client.call(`POST /api/deployments/:id/${decision}`, { id })
      this.dispatchEvent(said('decided', { deployment }))
      const words = decision === 'confirm' ? t('The deployment was confirmed') : t('The earlier files are back')
      if (decision === 'confirm' || deployment.revertedAt !== null) this.dispatchEvent(notice(words))
    })
  }
}
