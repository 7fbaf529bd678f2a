import type { ListedLock } from '../../../lib/model/lock.js'
import { maxLockReasonLength } from '../../shared/lock-limits.js'
import type { LockCalls } from '../../server/lock-calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, keyed } from '../../dom/html.js'
import type { Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { field, submitted } from '../base/field.js'
import { question } from '../base/question.js'
import { Submission } from '../base/submission.js'
import { SvcDialog } from '../base/svc-dialog.js'
import { isOwnLock, ownerWords } from './lock-words.js'

/** Locks were removed. The page loads the list again. */
export class LocksChangeEvent extends Event {
  constructor() {
    super('lockschange', { bubbles: true })
  }
}

declare global {
  interface HTMLElementEventMap {
    lockschange: LocksChangeEvent
  }
}

/**
 * Locks as rows: who, why, until when, and a button that removes the lock. Properties: `items`, `calls`. Attribute:
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

  items: readonly ListedLock[] = []
  calls!: LockCalls
  #asked: ListedLock | null = null
  readonly #submission = new Submission(() => this.update())

  protected override view(): Template {
    return html`
      <ul class="card">${this.items.map(lock => keyed(`${lock.projectId} ${lock.kind}`, this.#line(lock)))}</ul>
      <svc-dialog heading="${this.#asked !== null && isOwnLock(this.#asked) ? t('Remove this lock?') : t('Take this lock over?')}"
        .content="${this.#asked === null ? null : this.#question(this.#asked)}"
        @dialogclose="${() => this.#ask(null)}"></svc-dialog>`
  }

  #line(lock: ListedLock): Template {
    const { projectId, projectName, reason, expiresAt } = lock
    return html`
      <li>
        ${icon('lock')}
        <div class="what">
          <p class="head">
            ${this.#name(projectId, projectName)}
            <span class="muted small">${t('until')} <svc-time at="${expiresAt}"></svc-time></span>
          </p>
          <p class="why" translate="no">${reason}</p>
          <p class="muted small">${t('Locked by: {owner}', { owner: ownerWords(lock) })}</p>
        </div>
        <div class="actions">
          <button type="button" @click="${() => this.#ask(lock)}">
            ${isOwnLock(lock) ? t('Unlock…') : t('Take over…')}
          </button>
        </div>
      </li>`
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

  #ask(lock: ListedLock | null): void {
    this.#asked = lock
    this.#submission.refuse(null)
  }

  async #unlock(lock: ListedLock, event: Event): Promise<void> {
    const { takeOver = null } = submitted(event)
    if (!(await this.#submission.run(() => this.calls.unlock(lock, takeOver)))) return
    this.#ask(null)
    this.dispatchEvent(new LocksChangeEvent())
  }
}

/** The elements that a page registers for locks. */
export const elements = { 'svc-locks': SvcLocks, 'svc-dialog': SvcDialog }
