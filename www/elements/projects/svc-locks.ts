import { type Restriction, unlock } from '../../server/requests.js'
import { type Client, Refused } from '../../server/client.js'
import { said, css, SvcElement, type Wish } from '../element.js'
import type { ListedLock, ListedMaintenance } from '../../../lib/model/marks.js'
import { maxLockReasonLength, defaultLockSeconds, maxLockSeconds } from '../../shared/api.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { t, actorWords } from '../../words/t.js'
import { field, question, Submission, submitted, SvcDialog } from '../base/form.js'
import { isOwnLock } from '../base/words.js'
import { may } from '../../state/session.js'

/**
 * Locks and maintenances as rows: who, why, until when, and a button that ends it. Properties: `items`, `client`. Attribute:
 * `single`, on the page of the project, whose name is then omitted. Event: `lockschange`.
 */
export class SvcLocks extends SvcElement {
  static readonly observedAttributes = ['single']

  static override sheet = css`
    svc-locks {
      display: block;

      > .card { border-color: color-mix(in srgb, var(--warning) 55%, var(--line)); }
      li { display: grid; grid-template-columns: 16px minmax(0, 1fr) auto; gap: 4px 12px; align-items: center; padding: 12px 16px; }
      li + li { border-top: 1px solid var(--line); }
      li > .icon { align-self: start; margin-top: 3px; color: var(--warning); }
      .what { display: grid; grid-template-columns: minmax(0, 1fr); gap: 2px; }
      .head { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; }
      .head b { font-weight: 600; color: var(--text); overflow-wrap: anywhere; }
      .why { overflow-wrap: anywhere; }
      @media (max-width: 719px) {
        li { grid-template-columns: 16px minmax(0, 1fr); }
        .actions { grid-column: 2; margin-top: 6px; }
      }
    }
  `

  items: readonly Restriction[] = []
  client!: Client
  #asked: Restriction | null = null
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const asked = this.#asked
    return html`
      <ul class="card">${this.items.map(item => keyed(`${item.projectId} ${item.kind}`, this.#line(item)))}</ul>
      <svc-dialog heading="${asked === null ? '' : this.#heading(asked)}"
        .content="${asked === null ? null : asked.kind === 'lock' ? this.#question(asked) : this.#ending(asked)}"
        @dialogclose="${() => this.#ask(null)}"></svc-dialog>`
  }

  #heading(asked: Restriction): string {
    if (asked.kind === 'maintenance') return t('End the maintenance?')
    return isOwnLock(asked) ? t('Remove this lock?') : t('Take this lock over?')
  }

  #line(item: Restriction): Template {
    const { projectId, projectName, reason, expiresAt, createdAt, kind } = item
    const owner = { owner: actorWords(item.owner, () => item.projectName ?? undefined) }
    return html`
      <li>
        ${icon(kind === 'lock' ? 'lock' : 'pause')}
        <div class="what">
          <p class="head">
            ${kind === 'lock' ? this.#name(projectId, projectName) : this.#maintained(item)}
            <span class="muted small">${expiresAt === null ? t('since') : t('until')} <svc-time at="${expiresAt ?? createdAt}"></svc-time></span>
          </p>
          ${reason === null ? null : html`<p class="why" translate="no">${reason}</p>`}
          <p class="muted small">${kind === 'lock' ? t('Locked by: {owner}', owner) : t('Begun by: {owner}', owner)}</p>
        </div>
        <div class="actions">
          ${
            mayRemove(item)
              ? html`
              <button type="button" @click="${() => this.#ask(item)}">
                ${kind === 'maintenance' ? t('End maintenance…') : isOwnLock(item) ? t('Unlock…') : t('Take over…')}
              </button>`
              : null
          }
        </div>
      </li>`
  }

  #maintained({ projectId, projectName }: ListedMaintenance): Template {
    if (this.hasAttribute('single')) return html`<b>${t('This project is in maintenance')}</b>`
    return html`<a href="projects/${projectId}"><b translate="no">${projectName}</b></a> <span class="small">${t('in maintenance')}</span>`
  }

  #name(projectId: string | null, projectName: string | null): Template {
    if (projectId === null) return html`<b>${t('The whole server is locked')}</b>`
    if (this.hasAttribute('single')) return html`<b>${t('This project is locked')}</b>`
    return html`<a href="projects/${projectId}"><b translate="no">${projectName}</b></a>`
  }

  #question(lock: ListedLock): Template {
    const isOwn = isOwnLock(lock)
    return question({
      asked: html`
        <p class="anywhere">${t('Deployments are accepted again. The reason of the lock was:')} <q translate="no">${lock.reason}</q></p>
        ${
          isOwn
            ? null
            : field({
                form: 'lock',
                name: 'takeOver',
                label: t('Why do you remove the lock of somebody else?'),
                isRequired: true,
                hasFocus: true,
                maxLength: maxLockReasonLength,
                hint: t('The audit log keeps your reason.')
              })
        }`,
      submission: this.#submission,
      answer: isOwn ? t('Unlock') : t('Take over'),
      kind: 'primary',
      onAnswer: event => void this.#unlock(lock, event),
      onRefusal: () => this.#ask(null)
    })
  }

  #ending(maintenance: ListedMaintenance): Template {
    const isChanged = isRefusedAs(this.#submission.refusal, 'maintenance_changed')
    return question({
      asked: html`
        <p>${t('The maintenance file is removed from the target, so the web server shows the site again.')}</p>
        ${isChanged ? forceBox(t('Remove the file although it was changed')) : null}`,
      submission: this.#submission,
      answer: t('End maintenance'),
      kind: 'primary',
      onAnswer: event => void this.#end(maintenance, event),
      onRefusal: () => this.#ask(null)
    })
  }

  async #end({ projectId }: ListedMaintenance, event: Event): Promise<void> {
    const force = submitted(event)['force'] !== undefined
    const given = { id: projectId, body: { on: false, force } }
    const isDone = await this.#submission.run(() => this.client.call('PUT /api/projects/:id/maintenance', given))
    if (!isDone) return
    this.#ask(null)
    this.dispatchEvent(said('lockschange'))
  }

  #ask(asked: Restriction | null): void {
    this.#asked = asked
    this.#submission.refuse(null)
  }

  async #unlock(lock: ListedLock, event: Event): Promise<void> {
    const { takeOver = null } = submitted(event)
    if (!(await this.#submission.run(() => unlock(this.client, lock, takeOver)))) return
    this.#ask(null)
    this.dispatchEvent(said('lockschange'))
  }
}

function mayRemove({ kind, projectId }: Restriction): boolean {
  if (kind === 'maintenance') return may('maintain')
  return may(projectId === null ? 'lock_server' : 'lock')
}

/** Returns whether the server refused with this code. */
export function isRefusedAs(refusal: unknown, code: string): boolean {
  return refusal instanceof Refused && refusal.code === code
}

/** Returns the box that a reader checks to act although the server has refused. */
export function forceBox(words: string): Template {
  return html`<label class="check"><input type="checkbox" name="force"><span>${words}</span></label>`
}

const hourSeconds = 60 * 60
/** The offered times. `words` is English and passed to t(). */
const times: ReadonlyArray<{ seconds: number; words: string }> = [
  { seconds: hourSeconds, words: '1 hour' },
  { seconds: 4 * hourSeconds, words: '4 hours' },
  { seconds: defaultLockSeconds, words: '1 day' },
  { seconds: 7 * 24 * hourSeconds, words: '1 week' },
  { seconds: maxLockSeconds, words: '30 days' }
]

/** A button that changes the locks of a project after asking. Its dialog opens also for a wish of its kind. */
abstract class AskingButton extends SvcElement {
  projectId!: string
  client!: Client
  wish: Wish | null = null
  protected isAsking = false
  protected readonly submission = new Submission(this)
  protected abstract readonly what: Wish['what']

  protected override connected(): void {
    this.#grant()
  }

  protected override changed(name: string): void {
    if (name === 'wish') this.#grant()
  }

  #grant(): void {
    if (this.wish?.what === this.what) this.ask(true)
  }

  protected ask(isAsking: boolean): void {
    this.isAsking = isAsking
    this.submission.refuse(null)
  }

  protected done(): void {
    this.ask(false)
    this.dispatchEvent(said('lockschange'))
  }
}

/**
 * A button that locks a project after asking for a reason. Properties: `projectId`, `client`; `wish`: the dialog to open.
 * Event: `lockschange`.
 */
export class SvcLock extends AskingButton {
  static override sheet = css`
    svc-lock { display: contents; }
  `

  protected readonly what = 'lock'

  protected override view(): Template {
    return html`
      <button type="button" @click="${() => this.ask(true)}">${icon('lock')}${t('Lock…')}</button>
      <svc-dialog heading="${t('Lock this project?')}" .content="${this.isAsking ? this.#question() : null}"
        @dialogclose="${() => this.ask(false)}"></svc-dialog>`
  }

  #question(): Template {
    return question({
      asked: html`
        <p>${t('Pushes and rollbacks are refused until the lock expires or is removed. A running deployment continues.')}</p>
        ${field({
          form: 'lock',
          name: 'reason',
          label: t('Reason'),
          isRequired: true,
          hasFocus: true,
          maxLength: maxLockReasonLength,
          error: this.submission.problemOf('reason'),
          hint: t('Everyone whose deployment is refused reads it.')
        })}
        <div class="field">
          <label for="lock-seconds">${t('Expires after')}</label>
          <select id="lock-seconds" name="seconds">
            ${times.map(
              ({ seconds, words }) => html`
              <option value="${seconds}" .selected="${seconds === defaultLockSeconds}">${t(words)}</option>`
            )}
          </select>
        </div>`,
      submission: { isBusy: this.submission.isBusy, problem: this.submission.problemBeside(['reason']) },
      answer: t('Lock'),
      kind: 'primary',
      onAnswer: event => void this.#lock(event),
      onRefusal: () => this.ask(false)
    })
  }

  async #lock(event: Event): Promise<void> {
    const { reason = '', seconds } = submitted(event)
    const { client, projectId: id } = this
    const body = { reason, seconds: Number(seconds) }
    const isDone = await this.submission.run(() => client.call('PUT /api/projects/:id/lock', { id, body }))
    if (isDone) this.done()
  }
}

/**
 * A button that begins the maintenance of a project after asking for a reason. Properties: `projectId`, `client`; `wish`: the
 * dialog to open. Event: `lockschange`.
 */
export class SvcMaintenance extends AskingButton {
  static override sheet = css`
    svc-maintenance { display: contents; }
  `

  protected readonly what = 'maintain'

  protected override view(): Template {
    return html`
      <button type="button" @click="${() => this.ask(true)}">${icon('pause')}${t('Maintenance…')}</button>
      <svc-dialog heading="${t('Begin the maintenance?')}" .content="${this.isAsking ? this.#question() : null}"
        @dialogclose="${() => this.ask(false)}"></svc-dialog>`
  }

  #question(): Template {
    const isTaken = isRefusedAs(this.submission.refusal, 'maintenance_file_exists')
    return question({
      asked: html`
        <p>${t('A file is placed in the target. A web server that is configured for it shows this page instead of the site. Deployments are still accepted.')}</p>
        ${field({
          form: 'maintenance',
          name: 'reason',
          label: t('Reason (optional)'),
          hasFocus: true,
          maxLength: maxLockReasonLength,
          error: this.submission.problemOf('reason')
        })}
        ${isTaken ? forceBox(t('Replace the file that is there')) : null}`,
      submission: { isBusy: this.submission.isBusy, problem: this.submission.problemBeside(['reason']) },
      answer: t('Begin maintenance'),
      kind: 'primary',
      onAnswer: event => void this.#begin(event),
      onRefusal: () => this.ask(false)
    })
  }

  async #begin(event: Event): Promise<void> {
    const { reason = '', force } = submitted(event)
    const change = { on: true, reason: reason.trim() || null, force: force !== undefined }
    const given = { id: this.projectId, body: change }
    const isDone = await this.submission.run(() => this.client.call('PUT /api/projects/:id/maintenance', given))
    if (isDone) this.done()
  }
}

/** The elements that a page registers for locks. */
export const elements = {
  'svc-lock': SvcLock,
  'svc-locks': SvcLocks,
  'svc-maintenance': SvcMaintenance,
  'svc-dialog': SvcDialog
}
