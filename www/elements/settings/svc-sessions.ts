import type { ListedSession } from '../../../lib/model/access.js'
import { css, SvcElement } from '../element.js'
import { html, keyed, type Template } from '../../dom/html.js'
import { Refused, type Client } from '../../server/client.js'
import { type ChangeWatch, createResource, loaded, type Resource, staleLine } from '../../state/resource.js'
import type { Session } from '../../state/session.js'
import { t } from '../../words/t.js'
import { SvcTime } from '../base/facts.js'
import { errorLine, Submission } from '../base/form.js'

/* Describes a User-Agent in two words. Pure. */

const browsers: ReadonlyArray<[pattern: RegExp, name: string]> = [
  [/\bEdg(?:e|A|iOS)?\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bSamsungBrowser\//, 'Samsung Internet'],
  [/\bFirefox\/|\bFxiOS\//, 'Firefox'],
  [/\bHeadlessChrome\/|\bChrome\/|\bCriOS\//, 'Chrome'],
  [/\bSafari\//, 'Safari']
]
const systems: ReadonlyArray<[pattern: RegExp, name: string]> = [
  [/\biPhone\b/, 'iPhone'],
  [/\biPad\b/, 'iPad'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b|\bMacintosh\b/, 'macOS'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux']
]
const maxLength = 60

/**
 * Returns for example "Firefox, Linux". For other programs, returns the beginning of the text; null if it is empty.
 */
export function browserWords(userAgent: string | null): string | null {
  if (userAgent === null) return null
  const find = (rows: typeof browsers): string | undefined => rows.find(([pattern]) => pattern.test(userAgent))?.[1]
  const found = [find(browsers), find(systems)].filter(name => name !== undefined)
  return found.length === 0 ? userAgent.slice(0, maxLength) : found.join(', ')
}

/** The signed-in browsers. Properties: `client`, `session`, `changes`. */
export class SvcSessions extends SvcElement {
  static override sheet = css`
    svc-sessions {
      display: grid;
      gap: 12px;
      grid-template-columns: minmax(0, 1fr);

      .head { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: 4px 16px; }
      li { display: flex; align-items: center; gap: 12px; padding: 10px 12px 10px 20px; }
      li + li { border-top: 1px solid var(--line); }
      li > div { display: grid; gap: 2px; flex: 1; min-width: 0; }
      .what { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 8px; font-weight: 500; }
      .what b { color: var(--success); font-size: var(--size-12); font-weight: 500; }
      .below { display: flex; flex-wrap: wrap; gap: 2px 12px; color: var(--muted); font-size: var(--size-13); }
      .below span { overflow-wrap: anywhere; }
    }
  `

  client!: Client
  session!: Session
  changes!: ChangeWatch
  #sessions!: Resource<ListedSession[]>
  readonly #submission = new Submission(this)

  protected override connected(): void {
    this.#sessions = createResource({
      load: async signal => (await this.client.call('GET /api/sessions', { signal })).sessions,
      onChange: () => this.update(),
      signal: this.signal
    })
    void this.#sessions.load()
    this.changes.follow(['sessions'], () => void this.#sessions.load(), this.signal)
  }

  protected override view(): Template {
    const others = (this.#sessions.value ?? []).filter(({ current }) => !current)
    return html`
      <div class="head">
        <h2>${t('Sessions')}</h2>
        ${
          others.length < 2
            ? null
            : html`
            <button type="button" class="quiet" disabled="${this.#submission.isBusy}" @click="${() => void this.#end(others)}">
              ${t('Sign out everywhere else')}
            </button>`
        }
      </div>
      ${loaded(
        this.#sessions,
        'the sessions',
        sessions => html`
        ${staleLine(this.#sessions)}
        <ul class="card">${sessions.map(session => keyed(session.id, this.#row(session)))}</ul>`
      )}
      ${errorLine(this.#submission.problem)}`
  }

  #row(session: ListedSession): Template {
    const browser = browserWords(session.userAgent) ?? t('Unknown client')
    const words = session.current ? t('Sign out') : t('End')
    return html`
      <li>
        <div>
          <span class="what" title="${session.userAgent}">
            <span translate="no">${browser}</span>${session.current ? html`<b>${t('This browser')}</b>` : null}
          </span>
          <span class="below">
            ${session.tokenName === null ? null : html`<span translate="no">${session.tokenName}</span>`}
            ${session.ip === null ? null : html`<span class="mono">${session.ip}</span>`}
            <span>${t('Last used')} <svc-time at="${session.lastUsedAt}"></svc-time></span>
            <span>${t('Signed in')} <svc-time at="${session.createdAt}"></svc-time></span>
          </span>
        </div>
        <button type="button" disabled="${this.#submission.isBusy}" aria-label="${`${words}: ${browser}`}"
          @click="${() => void this.#end([session])}">
          ${words}
        </button>
      </li>`
  }

  /** A session that has ended meanwhile is not an error. */
  async #end(sessions: readonly ListedSession[]): Promise<void> {
    let isSignedOut = false
    await this.#submission.run(async () => {
      for (const { id, current } of sessions) {
        await this.client.call('DELETE /api/sessions/:id', { id }).catch(error => {
          if (!(error instanceof Refused) || error.status !== 404) throw error
        })
        if (!current) continue
        isSignedOut = true
        return this.session.end('signed_out')
      }
    })
    if (!isSignedOut) await this.#sessions.load()
  }
}

/** The elements that a page registers for the sessions. */
export const elements = { 'svc-sessions': SvcSessions, 'svc-time': SvcTime }
