import { said } from '../events.js'
import type { ListedLock, ListedMaintenance } from '../../../lib/model/lock.js'
import { maxLockReasonLength } from '../../shared/api.js'
import type { LockCalls, Restriction } from '../../server/lock-calls.js'
import { Refused } from '../../server/client.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { field, submitted } from '../base/field.js'
import { question } from '../base/question.js'
import { Submission } from '../base/submission.js'
import { SvcDialog } from '../base/svc-dialog.js'
import { isOwnLock, ownerWords } from './lock-words.js'
import { may } from '../../state/rights.js'

/**
 * Locks and maintenances as rows: who, why, until when, and a button that ends it. Properties: `items`, `calls`. Attribute:
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
  calls!: LockCalls
  #asked: Restriction | null = null
  readonly #submission = new Submission(() => this.update())

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
    const owner = { owner: ownerWords(item) }
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
    if (!(await this.#submission.run(() => this.calls.maintain(projectId, { on: false, force })))) return
    this.#ask(null)
    this.dispatchEvent(said('lockschange'))
  }

  #ask(asked: Restriction | null): void {
    this.#asked = asked
    this.#submission.refuse(null)
  }

  async #unlock(lock: ListedLock, event: Event): Promise<void> {
    const { takeOver = null } = submitted(event)
    if (!(await this.#submission.run(() => this.calls.unlock(lock, takeOver)))) return
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

/** The elements that a page registers for locks. */
export const elements = { 'svc-locks': SvcLocks, 'svc-dialog': SvcDialog }
