import { notice, said, css, SvcElement } from '../element.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { ProjectCalls } from '../../server/project-calls.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { saveBar, field, type Field, Submission } from '../base/form.js'
import {
  type CheckDraft,
  checkFields,
  type CheckKind,
  checkKinds,
  checkKindWords,
  type Choice,
  choices,
  draftOf,
  gateNumbers,
  newCheck,
  numberWords,
  type PolicyDraft,
  policyOfDraft,
  hasRolloutProblem,
  noRollout,
  rolloutFields,
  rolloutOfDraft
} from './policy-form.js'

const textKeys = [
  'protect',
  'onFailureScript',
  'fileMode',
  'directoryMode',
  'group',
  'maintenanceFile',
  'maintenancePage'
] as const
/** Maximum number of checks, as on the server. */
const maxChecks = 10

/**
 * The form of a project's policy: edited files, checks, confirmation, rollouts. Properties: `project`, `calls`; `isPlaced`:
 * whether it is rolled out to nodes. Events:
 * `projectchange`, `unsaved`, `notice`.
 */
export class SvcProjectPolicy extends SvcElement {
  static override sheet = css`
    svc-project-policy {
      display: block;

      form { display: grid; gap: 20px; grid-template-columns: minmax(0, 1fr); }
      header { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 8px 16px; }
      .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(220px, 100%), 1fr)); gap: 20px; align-items: start; }
      /* Labels of one and of two lines: the inputs stay in a row. */
      .numbers { align-items: end; }
      fieldset { display: grid; gap: 16px; min-width: 0; margin: 0; padding: 16px; border: 1px solid var(--line); border-radius: 8px; }
      .check-row { display: grid; grid-template-columns: minmax(0, 160px) minmax(0, 1fr) auto; gap: 12px; align-items: start; }
      .check-row .fields { display: grid; gap: 12px; }
      .check-row > button { min-width: 36px; margin-top: 26px; padding: 4px; }
      @media (max-width: 719px) {
        .check-row { grid-template-columns: minmax(0, 1fr) auto; }
        .check-row .fields { grid-column: 1 / 3; }
        .check-row > button { grid-area: 1 / 2; }
      }
    }
  `

  calls!: ProjectCalls
  isPlaced = false
  #project!: Project
  #draft!: PolicyDraft
  #isUnsaved = false
  readonly #submission = new Submission(this)

  get project(): Project {
    return this.#project
  }

  /** While there are unsaved changes, the form keeps its texts. */
  set project(project: Project) {
    this.#project = project
    if (!this.#isUnsaved) this.#draft = draftOf(project.policy)
    this.update()
  }

  protected override connected(): void {
    this.listen(window, 'beforeunload', event => {
      if (this.#isUnsaved) event.preventDefault()
    })
  }

  protected override view(): Template {
    const draft = this.#draft
    const { isBusy } = this.#submission
    return html`
      <form @submit="${(event: Event) => void this.#save(event)}">
        <header><h2>${t('Policy')}</h2></header>
        <div class="pair">
          ${this.#choice('drift', t('Files that were edited in the target'), choices.drift)}
          ${this.#choice('onPostFailure', t('If the post-deploy script fails'), choices.onPostFailure)}
        </div>
        <div class="pair">
          ${this.#choice('prune', t('Files of earlier deployments that a new one does not contain'), choices.prune)}
          ${this.#choice('rollback', t('A rollback'), choices.rollback)}
        </div>
        ${this.#text('protect', 'Paths that are never removed', { rows: 3, placeholder: 'uploads/**', hint: t('One pattern per line.') })}
        <div class="pair">
          ${this.#choice('pruneByDeployToken', t('Removing files with a push (--prune)'), choices.pruneByDeployToken)}
          ${this.#choice('forceByDeployToken', t('Replacing edited files with a push (--force)'), choices.forceByDeployToken)}
        </div>
        <div class="pair">
          ${this.#choice('exact', t('If replaced files are too large to be kept'), choices.exact)}
          ${this.#text('fileMode', 'Permissions of files', { placeholder: '0644', hint: t('Executable files get x for each r. Empty: as in the archive.') })}
          ${this.#text('directoryMode', 'Permissions of directories', { placeholder: '0755', hint: t('Of those that svc makes. Others keep theirs.') })}
          ${this.#text('group', 'Group of files and directories', { placeholder: 'www-data', hint: t('A name or a number. Empty: that of the user that svc runs as.') })}
          ${this.#text('maintenanceFile', 'Maintenance file', { placeholder: '.maintenance' })}
          ${this.#text('maintenancePage', 'Maintenance page', { placeholder: 'maintenance.html', hint: t('A file of the target. The maintenance file gets its contents.') })}
        </div>
        <header>
          <h3>${t('Checks after a deployment')}</h3>
          <button type="button" disabled="${draft.checks.length >= maxChecks}" @click="${() => this.#addCheck()}">${icon('plus')}${t('Add check')}</button>
        </header>
        ${draft.checks.length === 0 ? html`<p class="muted small">${t('Without checks, a deployment succeeds when its files are in place and its scripts have ended.')}</p>` : null}
        ${draft.checks.map((check, index) => keyed(String(index), this.#check(check, index)))}
        ${draft.checks.length === 0 ? null : this.#gate()}
        <div class="pair">
          ${field({
            form: 'policy',
            name: 'confirm',
            label: t('Seconds until a deployment must be confirmed'),
            value: draft.confirmSeconds,
            type: 'number',
            placeholder: t('No confirmation'),
            error: this.#submission.problemAt('policy.confirm.seconds', 'Seconds until a deployment must be confirmed'),
            hint: t('Without a confirmation in this time, the earlier files are put back. From 10 seconds to one day.'),
            onInput: value => this.#change({ confirmSeconds: value })
          })}
          ${this.#choice('revertScript', t('After the earlier files are back, run'), choices.revertScript)}
        </div>
        ${this.#text('onFailureScript', 'On-failure script', { rows: 3, placeholder: './report.sh', hint: t('Runs after a deployment has failed or was reverted. It changes no result.') })}
        ${this.#rollout()}
        ${saveBar(t('Save policy'), { isBusy, isUnsaved: this.#isUnsaved, problem: this.#unplacedProblem() })}
      </form>`
  }

  /** Shows the policy of rollouts for a project on nodes, and wherever one is set. */
  #rollout(): Template | null {
    const { rollout: draft } = this.#draft
    if (!this.isPlaced && rolloutOfDraft(draft) === null && draft === noRollout) return null
    const submission = this.#submission
    return rolloutFields({ draft, submission, onChange: patch => this.#change({ rollout: { ...draft, ...patch } }) })
  }

  #gate(): Template {
    const draft = this.#draft
    return html`
      <div class="pair numbers">
        ${gateNumbers.map(name =>
          field({
            form: 'policy',
            name,
            label: t(numberWords[name].words),
            value: draft[name],
            type: 'number',
            placeholder: numberWords[name].fallback,
            error: this.#submission.problemAt(`policy.gate.${name}`, numberWords[name].words),
            onInput: value => this.#change({ [name]: value })
          })
        )}
        ${this.#choice('onFailure', t('If a check fails'), choices.onFailure)}
      </div>`
  }

  #check(check: CheckDraft, index: number): Template {
    const at = `policy.gate.after[${index}]`
    const id = `policy-check-${index}`
    return html`
      <fieldset aria-label="${t('Check {number}', { number: index + 1 })}">
        <div class="check-row">
          <div class="field">
            <label for="${id}">${t('Kind')}</label>
            <select id="${id}" @change="${(event: Event) => this.#changeCheck(index, { kind: valueOf(event) as CheckKind })}">
              ${checkKinds.map(kind => html`<option value="${kind}" .selected="${kind === check.kind}">${t(checkKindWords[kind].words)}</option>`)}
            </select>
          </div>
          <div class="fields">
            ${checkFields[check.kind].map(({ name, words, placeholder, rows }) =>
              field({
                form: `policy-${index}`,
                name,
                label: t(words),
                value: check[name],
                isMono: true,
                placeholder,
                ...(rows !== undefined && { rows }),
                error: this.#submission.problemAt(`${at}.${name}`, words),
                onInput: value => this.#changeCheck(index, { [name]: value })
              })
            )}
            ${check.kind === 'pm2' ? html`<p class="muted small">${t('The PM2 application of the project must be online and must not restart.')}</p>` : null}
          </div>
          <button type="button" class="quiet" aria-label="${t('Remove check {number}', { number: index + 1 })}" @click="${() => this.#removeCheck(index)}">${icon('delete')}</button>
        </div>
      </fieldset>`
  }

  #choice(name: keyof typeof choices, label: string, rows: readonly Choice[]): Template {
    const id = `policy-${name}`
    return html`
      <div class="field">
        <label for="${id}">${label}</label>
        <select id="${id}" @change="${(event: Event) => this.#change({ [name]: valueOf(event) })}">
          ${rows.map(({ value, words }) => html`<option value="${value}" .selected="${value === this.#draft[name]}">${t(words)}</option>`)}
        </select>
      </div>`
  }

  #text(
    name: (typeof textKeys)[number],
    words: string,
    more: Partial<Pick<Field, 'rows' | 'placeholder' | 'hint'>>
  ): Template {
    return field({
      form: 'policy',
      name,
      label: t(words),
      value: this.#draft[name],
      isMono: true,
      ...more,
      error: this.#textProblem(name, words),
      onInput: value => this.#change({ [name]: value })
    })
  }

  /** The server names the item of a list that it refuses. */
  #textProblem(name: string, words: string): string | undefined {
    const lines = this.#draft.protect.split('\n').length
    const places = [`policy.${name}`, ...Array.from({ length: lines }, (_, at) => `policy.${name}[${at}]`)]
    return places.map(place => this.#submission.problemAt(place, words)).find(problem => problem !== undefined)
  }

  #change(patch: Partial<PolicyDraft>): void {
    this.#draft = { ...this.#draft, ...patch }
    this.#unsaved(true)
  }

  #changeCheck(index: number, patch: Partial<CheckDraft>): void {
    this.#change({ checks: this.#draft.checks.map((check, at) => (at === index ? { ...check, ...patch } : check)) })
  }

  #addCheck(): void {
    this.#change({ checks: [...this.#draft.checks, newCheck()] })
  }

  #removeCheck(index: number): void {
    this.#submission.refuse(null)
    this.#change({ checks: this.#draft.checks.filter((_, at) => at !== index) })
  }

  /** Returns the error unless a field of the form shows it. */
  #unplacedProblem(): string | null {
    const places = [
      'policy.confirm.seconds',
      ...gateNumbers.map(name => `policy.gate.${name}`),
      ...this.#draft.checks.flatMap(({ kind }, index) =>
        checkFields[kind].map(({ name }) => `policy.gate.after[${index}].${name}`)
      )
    ]
    if (hasRolloutProblem(this.#submission)) return null
    if (textKeys.some(name => this.#textProblem(name, '') !== undefined)) return null
    return places.some(place => this.#submission.problemAt(place, '') !== undefined) ? null : this.#submission.problem
  }

  #unsaved(isUnsaved: boolean): void {
    if (isUnsaved !== this.#isUnsaved) {
      this.#isUnsaved = isUnsaved
      this.dispatchEvent(said('unsaved', { isUnsaved }))
    }
    this.update()
  }

  async #save(event: Event): Promise<void> {
    event.preventDefault()
    const policy = policyOfDraft(this.#draft)
    await this.#submission.run(async () => {
      const project = await this.calls.update(this.#project.id, { policy }, null)
      this.#unsaved(false)
      this.project = project
      this.dispatchEvent(said('projectchange', { project }))
      this.dispatchEvent(notice(t('Saved')))
    })
  }
}

function valueOf(event: Event): string {
  return (event.currentTarget as HTMLSelectElement).value
}
