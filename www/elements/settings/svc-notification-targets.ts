import type { Client } from '../../server/client.js'
import { notice, type Said, css, SvcElement } from '../element.js'
import type { NotificationTargetView } from '../../../lib/model/setting.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import type { TargetList, WebhookTest } from '../../server/requests.js'
import { language, countWords, t, errorWords, serverWords, twoLines } from '../../words/t.js'
import { errorLine, question, Submission } from '../base/form.js'
import { eventRows, elements as formElements, kindRow } from './svc-notification-target.js'
import { exactWords, spanWords } from '../base/words.js'

/** The notification targets: add, change, test, delete. Property: `client`. Event: `notice`. */
export class SvcNotificationTargets extends SvcElement {
  static override sheet = css`
    svc-notification-targets {
      display: grid;
      gap: 12px;
      grid-template-columns: minmax(0, 1fr);

      /* Room for the first one, so that what follows moves little when they are there. */
      > .card { min-height: 78px; }
      li { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 4px 16px; align-items: center; padding: 12px 12px 12px 20px; }
      li + li { border-top: 1px solid var(--line); }
      .what { display: grid; gap: 2px; min-width: 0; }
      .what b { font-weight: 500; overflow-wrap: anywhere; }
      .what span { color: var(--muted); font-size: var(--size-13); overflow-wrap: anywhere; }
      .what .off { color: var(--warning); font-weight: 500; }
      .tools { display: flex; align-items: center; gap: 4px; }
      .result { grid-column: 1 / -1; font-size: var(--size-13); overflow-wrap: anywhere; }
      .queue { display: flex; flex-wrap: wrap; gap: 0 6px; grid-column: 1 / -1; color: var(--warning); font-size: var(--size-13); overflow-wrap: anywhere; }
      .result:empty { display: none; }
      .good { color: var(--success); }
      .bad { color: var(--failure); }
      .tools a { padding: 0 8px; }
      .empty { padding: 16px 20px; color: var(--muted); }

      @media (max-width: 719px) {
        li { grid-template-columns: minmax(0, 1fr); padding: 12px 16px; }
        .tools { margin-left: -8px; }
        .empty { padding: 14px 16px; }
      }
    }
  `

  client!: Client
  #list: TargetList | null = null
  #problem: unknown = null
  /** The target in the form, or `new` for a new one. */
  #edited: NotificationTargetView | 'new' | null = null
  #deleted: NotificationTargetView | null = null
  readonly #submission = new Submission(this)
  readonly #tests = new Map<string, WebhookTest | 'going'>()

  protected override connected(): void {
    void this.reload()
  }

  /** Reloads the list. The settings, which define the first target, may have changed. */
  async reload(): Promise<void> {
    try {
      this.#list = await this.client.call('GET /api/notification-targets', { signal: this.signal })
      this.#problem = null
    } catch (error) {
      if (!this.signal.aborted) this.#problem = error
    }
    this.update()
  }

  protected override view(): Template {
    const shown = (this.#list?.items ?? []).filter(({ isFromSettings, enabled }) => !isFromSettings || enabled)
    return html`
      <div class="section-head">
        <h2>${t('Notifications')}</h2>
        <button type="button" disabled="${this.#list === null}" @click="${() => this.#edit('new')}">${t('Add target')}</button>
      </div>
      <div class="card">
        ${
          shown.length === 0 && this.#list !== null
            ? html`<p class="empty">${t('No notification targets yet. Add a chat, ntfy, mail or your own receiver.')}</p>`
            : html`<ul>${shown.map(target => keyed(target.id, this.#row(target)))}</ul>`
        }
      </div>
      ${errorLine(this.#problem === null ? null : errorWords(this.#problem))}
      ${this.#dialogs()}`
  }

  #row(target: NotificationTargetView): Template {
    const { id, name, kind, address, events, projectIds, enabled, isFromSettings } = target
    const test = this.#tests.get(id)
    const told = eventRows.filter(({ event }) => events.includes(event)).map(({ words }) => t(words).toLowerCase())
    const what =
      told.length === 0 ? t('no events') : told.length === eventRows.length ? t('all events') : told.join(', ')
    const scope = projectIds.length === 0 ? t('All projects').toLowerCase() : countWords(projectIds.length, 'project')
    const label = isFromSettings ? t('From the settings') : name
    return html`
      <li>
        <div class="what">
          <b translate="${isFromSettings ? null : 'no'}">${label}</b>
          <span>${t(kindRow(kind).words)} · <span translate="no">${address}</span></span>
          <span>${t('Reports: {events}', { events: what })} · ${scope}${enabled ? null : html` · <span class="off">${t('disabled')}</span>`}</span>
        </div>
        <div class="tools">
          <button type="button" class="quiet" aria-label="${t('Test')}: ${label}" disabled="${test === 'going'}" @click="${() => void this.#test(id)}">
            ${test === 'going' ? t('Sending…') : t('Test')}
          </button>
          ${
            isFromSettings
              ? html`<a class="small" href="settings?key=webhook_url">${t('Change below')}</a>`
              : html`
              <button type="button" class="quiet" title="${t('Change')}" @click="${() => this.#edit(target)}">
                ${icon('edit')}<span class="unseen">${t('Change')}: ${label}</span>
              </button>
              <button type="button" class="quiet" title="${t('Delete')}" @click="${() => this.#askDelete(target)}">
                ${icon('delete')}<span class="unseen">${t('Delete')}: ${label}</span>
              </button>`
          }
        </div>
        ${queueLine(target)}
        <p class="result" role="status">${test === undefined || test === 'going' ? null : resultOf(test)}</p>
      </li>`
  }

  #dialogs(): Template | null {
    const edited = this.#edited
    if (edited !== null) {
      const target = edited === 'new' ? null : edited
      const content = html`
        <svc-notification-target .client="${this.client}" .domains="${this.#list?.domains ?? []}" .target="${target}"
          @targetform="${(event: Event) => this.#formDone((event as Said<'targetform'>).saved)}"></svc-notification-target>`
      return html`
        <svc-dialog heading="${target === null ? t('Add notification target') : t('Change {name}', { name: target.name })}" .content="${content}"
          @dialogclose="${() => this.#edit(null)}"></svc-dialog>`
    }
    const deleted = this.#deleted
    if (deleted === null) return null
    const content = question({
      asked: html`<p>${t('{name} receives no more messages. Its address is deleted.', { name: deleted.name })}</p>`,
      submission: this.#submission,
      answer: t('Delete'),
      onAnswer: event => void this.#delete(event, deleted),
      onRefusal: () => this.#askDelete(null)
    })
    return html`
      <svc-dialog heading="${t('Delete this target?')}" .content="${content}" @dialogclose="${() => this.#askDelete(null)}"></svc-dialog>`
  }

  #edit(target: NotificationTargetView | 'new' | null): void {
    this.#edited = target
    this.update()
  }

  #formDone(isSaved: boolean): void {
    this.#edit(null)
    if (!isSaved) return
    this.#tests.clear()
    this.dispatchEvent(notice(t('Saved')))
    void this.reload()
  }

  #askDelete(target: NotificationTargetView | null): void {
    this.#deleted = target
    this.#submission.refuse(null)
  }

  async #delete(event: Event, { id, name }: NotificationTargetView): Promise<void> {
    event.preventDefault()
    await this.#submission.run(async () => {
      await this.client.call('DELETE /api/notification-targets/:id', { id })
      this.#deleted = null
      this.dispatchEvent(notice(t('{name} deleted', { name })))
      await this.reload()
    })
  }

  async #test(id: string): Promise<void> {
    this.#tests.set(id, 'going')
    this.update()
    try {
      this.#tests.set(
        id,
        await this.client.call('POST /api/notification-targets/:id/test', { id, signal: this.signal })
      )
    } catch (error) {
      this.#tests.set(id, { success: false, statusCode: null, durationMs: 0, attempts: 0, error: errorWords(error) })
    }
    this.update()
  }
}

/** Returns what waits for a target and why, and what was dropped. An older server does not say. */
function queueLine({ queue, failure }: NotificationTargetView): Template | null {
  const { waiting = 0, nextAt = null, problem = null, dropped = 0 } = queue ?? {}
  if (failure === undefined && dropped === 0 && (waiting === 0 || problem === null)) return null
  return html`
    <p class="queue">
      ${waiting === 0 ? null : html`<span>${t('Messages waiting: {count}.', { count: waiting })}</span>`}
      ${problem === null ? null : html`<span>${t('Latest attempt:')} <span translate="no">${twoLines(serverWords(problem))}</span>${language() === 'en' ? '.' : null}</span>`}
      ${nextAt === null ? null : html`<span>${t('Next attempt: {time}.', { time: exactWords(nextAt) })}</span>`}
      ${failure === undefined ? null : html`<span>${t('The latest message failed:')} <span translate="no">${twoLines(serverWords(failure.reason))}</span> (${exactWords(failure.at)})</span>`}
      ${dropped === 0 ? null : html`<span>${t('Messages dropped: {count}.', { count: dropped })}</span>`}
    </p>`
}

/** Returns the result of a test message as a sentence. */
export function resultOf({ success, statusCode, durationMs, attempts, error }: WebhookTest): Template {
  const tried = attempts === 0 ? '' : ` (${countWords(attempts, 'attempt')}, ${spanWords(durationMs)})`
  return success
    ? html`<span class="good">${t('Delivered: status {status} after {time}', { status: statusCode ?? '–', time: spanWords(durationMs) })}</span>`
    : html`<span class="bad">${error === undefined ? t('The test message was not delivered') : twoLines(serverWords(error))}${tried}</span>`
}

/** The elements that a page registers for notification targets. */
export const elements = { 'svc-notification-targets': SvcNotificationTargets, ...formElements }
