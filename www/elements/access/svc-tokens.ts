import { notice, said, type Said, css, SvcElement } from '../element.js'
import type { AccessToken, BuiltInToken, TokenList } from '../../../lib/model/access.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { usualMaxDays } from '../../server/requests.js'
import { serverNow, type Client } from '../../server/client.js'
import { numberWords, t } from '../../words/t.js'
import { errorLine, field, question, Submission, submitted, SvcDialog } from '../base/form.js'
import { afterDays, daysProblem, findTokens, stateOf, tokenRow } from './token-row.js'
import { holderNow } from '../../state/session.js'
import { SvcCopy, SvcTime } from '../base/facts.js'
import { type ChoosableProject, SvcProjectChoice, SvcTokenForm } from './svc-token-form.js'

/**
 * Asks before the second factor of another token is removed. Properties: `token`, `client`. Events: `tokensaved`,
 * `tokencancel`.
 */
export class SvcTokenFactor extends SvcElement {
  token!: AccessToken
  client!: Client
  readonly #submission = new Submission(this)

  protected override view(): Template {
    return question({
      asked: html`<p>${t('For a user who lost the authenticator and the recovery codes. Afterwards the token alone is enough to sign in, so make sure that the user asked for this.')}</p>`,
      submission: this.#submission,
      answer: t('Remove second factor'),
      onAnswer: event => void this.#remove(event),
      onRefusal: () => this.dispatchEvent(said('tokencancel'))
    })
  }

  async #remove(event: Event): Promise<void> {
    event.preventDefault()
    const { token } = this
    await this.#submission.run(async () => {
      await this.client.call('DELETE /api/tokens/:id/second-factor', { id: token.id })
      this.dispatchEvent(said('tokensaved', { token: { ...token, secondFactor: false }, secret: null }))
    })
  }
}

/** Asks before a token is revoked. Properties: `token`, `client`. Events: `tokensaved`, `tokencancel`. */
export class SvcTokenRevoke extends SvcElement {
  token!: AccessToken
  client!: Client
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const { lastUsedAt } = this.token
    return question({
      asked: html`
        <p>${t('The token becomes invalid at once, and its sessions in browsers end. This cannot be undone.')}</p>
        <p class="muted">${lastUsedAt === null ? t('Never used') : html`${t('Last used')} <svc-time at="${lastUsedAt}"></svc-time>`}</p>`,
      submission: this.#submission,
      answer: t('Revoke'),
      onAnswer: event => void this.#revoke(event),
      onRefusal: () => this.dispatchEvent(said('tokencancel'))
    })
  }

  async #revoke(event: Event): Promise<void> {
    event.preventDefault()
    const { token } = this
    await this.#submission.run(async () => {
      await this.client.call('DELETE /api/tokens/:id', { id: token.id })
      this.dispatchEvent(
        said('tokensaved', { token: { ...token, revokedAt: new Date(serverNow()).toISOString() }, secret: null })
      )
    })
  }
}

const hourSeconds = 60 * 60
/** The offered overlaps. `words` is English and passed to t(). */
const overlaps: ReadonlyArray<{ seconds: number; words: string }> = [
  { seconds: 0, words: 'At once' },
  { seconds: hourSeconds, words: 'After 1 hour' },
  { seconds: 4 * hourSeconds, words: 'After 4 hours' },
  { seconds: 24 * hourSeconds, words: 'After 1 day' }
]
const usualOverlapSeconds = hourSeconds

/**
 * Asks how to replace the secret of a token. Properties: `token`, `client`; `maxDays`, the longest lifetime. Events:
 * `tokensaved` with the new secret, `tokencancel`.
 */
export class SvcTokenRotate extends SvcElement {
  token!: AccessToken
  client!: Client
  maxDays = usualMaxDays
  #hasOpened = false
  readonly #submission = new Submission(this)

  /** The dialog opens before its form has controls. */
  protected override rendered(): void {
    if (this.#hasOpened) return
    this.#hasOpened = true
    this.querySelector<HTMLElement>('[autofocus]')?.focus()
  }

  protected override view(): Template {
    return html`
      <form class="form" @submit="${(event: Event) => void this.#rotate(event)}">
        <p>${t('Role, projects and name stay. The sessions of this token in browsers end.')}</p>
        <div class="field">
          <label for="rotate-overlap">${t('The present secret becomes invalid')}</label>
          <select id="rotate-overlap" name="overlap" autofocus="">
            ${overlaps.map(
              ({ seconds, words }) => html`
              <option value="${seconds}" .selected="${seconds === usualOverlapSeconds}">${t(words)}</option>`
            )}
          </select>
        </div>
        ${field({
          form: 'rotate',
          name: 'days',
          label: t('Days until the token expires (optional)'),
          type: 'number',
          hint: t('Empty: as long as before.'),
          error: this.#submission.problemOf('expiresAt')
        })}
        ${errorLine(this.#submission.problemBeside(['expiresAt']))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('tokencancel'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">${t('Create new secret')}</button>
        </div>
      </form>`
  }

  async #rotate(event: Event): Promise<void> {
    const { overlap = '0', days = '' } = submitted(event)
    const problem = days === '' ? null : daysProblem(days, this.maxDays)
    if (problem !== null) return this.#submission.refuse(problem)
    await this.#submission.run(async () => {
      const { record, token } = await this.client.call('POST /api/tokens/:id/rotate', {
        id: this.token.id,
        body: {
          overlapSeconds: Number(overlap),
          ...(days !== '' && { expiresAt: afterDays(Number(days), serverNow()) })
        }
      })
      this.dispatchEvent(said('tokensaved', { token: record, secret: token }))
    })
  }
}

/** Rows that are shown at first, and added with each press. */
const pageRows = 100
/** With fewer tokens, a field to find them would only be in the way. */
const fewTokens = 6

type Dialog =
  | { kind: 'create' }
  | { kind: 'edit' | 'rotate' | 'revoke' | 'factor'; token: AccessToken }
  | { kind: 'secret'; token: AccessToken; secret: string }

/**
 * The named tokens and the built-in ones: find, create, change, rotate, revoke. Properties: `list`, `projects`,
 * `maxDays`, `client`. Events: `tokenschange`, `notice`.
 */
export class SvcTokens extends SvcElement {
  static override sheet = css`
    svc-tokens {
      display: grid;
      gap: 32px;
      grid-template-columns: minmax(0, 1fr);

      section { display: grid; gap: 12px; grid-template-columns: minmax(0, 1fr); }
      .tools-above { display: flex; flex-wrap: wrap; gap: 8px; }
      .tools-above input { flex: 1; min-width: 160px; max-width: 340px; }
      li { display: grid; grid-template-columns: minmax(0, 1.3fr) minmax(0, 1fr) auto; gap: 4px 20px; align-items: center; padding: 12px 12px 12px 20px; }
      li + li { border-top: 1px solid var(--line); }
      .what, .when { display: grid; gap: 2px; min-width: 0; font-size: var(--size-13); color: var(--muted); overflow-wrap: anywhere; }
      .what b { font-weight: 500; font-size: var(--size-14); color: var(--text); }
      .ended b { text-decoration: line-through; color: var(--muted); }
      .soon { display: flex; gap: 6px; align-items: center; color: var(--warning); font-weight: 500; }
      .overlap { color: var(--warning); }
      .tools { display: flex; flex-wrap: wrap; align-items: center; justify-content: flex-end; grid-column: 3; }
      .tools button, .tools a { min-height: 32px; padding: 4px 8px; font-size: var(--size-13); }
      .tools a {
        display: inline-flex;
        align-items: center;
        border: 1px solid transparent;
        color: var(--muted);
        font-weight: 500;
        line-height: 1.4;
      }
      .secret { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; padding: 12px; border-radius: var(--radius); background: var(--sunken); }
      .secret code { flex: 1 1 260px; min-width: 0; overflow-wrap: anywhere; user-select: all; }
      .more { display: flex; justify-content: space-between; align-items: center; gap: 16px; }

      @media (max-width: 1099px) {
        li { grid-template-columns: minmax(0, 1fr); padding: 14px 16px; }
        .tools { grid-column: 1; justify-content: flex-start; margin-left: -8px; }
      }
    }
  `

  list: TokenList = { items: [], builtIn: [] }
  projects: readonly ChoosableProject[] = []
  maxDays = usualMaxDays
  client!: Client
  #dialog: Dialog | null = null
  #text = ''
  #most = pageRows
  #focused: Dialog | null = null

  protected override view(): Template {
    return html`${this.#named()}${this.#builtIn()}${this.#dialogs()}`
  }

  #named(): Template {
    const { items } = this.list
    const nowMs = serverNow()
    const names = new Map(this.projects.map(({ id, name }) => [id, name]))
    const nameOf = (id: string): string => names.get(id) ?? id
    const found = findTokens(items, { text: this.#text, nowMs, nameOf })
    return html`
      <section>
        <div class="section-head">
          <h2>${t('Named tokens')}</h2>
          <button type="button" class="primary" @click="${() => this.#open({ kind: 'create' })}">${icon('plus')}${t('Create token')}</button>
        </div>
        ${
          items.length < fewTokens
            ? null
            : html`
            <div class="tools-above">
              <input type="search" aria-label="${t('Find tokens')}" placeholder="${t('Name, role or project')}" autocomplete="off"
                spellcheck="false" .value="${this.#text}" @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">
            </div>`
        }
        ${items.length === 0 ? emptyState() : found.length === 0 ? nothingFound() : this.#rows(found, { nowMs, nameOf })}
      </section>`
  }

  #rows(found: readonly AccessToken[], needs: { nowMs: number; nameOf: (id: string) => string }): Template {
    const shown = found.slice(0, this.#most)
    const row = (token: AccessToken): Template => {
      const state = stateOf(token, needs.nowMs)
      const content = tokenRow(token, {
        ...needs,
        isForeign: holderNow()?.token?.id !== token.id,
        act: kind => this.#open({ kind, token })
      })
      return html`<li class="${state === 'revoked' || state === 'expired' ? 'ended' : null}">${content}</li>`
    }
    return html`
      <ul class="card" aria-label="${t('Named tokens')}">${shown.map(token => keyed(token.id, row(token)))}</ul>
      ${
        shown.length === found.length
          ? null
          : html`
          <div class="more">
            <span class="muted small number">${t('{count} of {all}', { count: numberWords(shown.length), all: numberWords(found.length) })}</span>
            <button type="button" @click="${() => this.#showMore()}">${t('Show more')}</button>
          </div>`
      }`
  }

  /** The button that had the focus is gone: the secret gets it, selected for copying. */
  protected override rendered(): void {
    if (this.#dialog?.kind !== 'secret' || this.#dialog === this.#focused) return
    this.#focused = this.#dialog
    // The dialog renders its content after this element.
    queueMicrotask(() => {
      const code = this.querySelector<HTMLElement>('.secret code')
      code?.focus()
      if (code !== null) getSelection()?.selectAllChildren(code)
    })
  }

  #builtIn(): Template {
    const { builtIn } = this.list
    const ofProjects = builtIn.filter(({ kind }) => kind === 'project')
    return html`
      <section>
        <h2>${t('Built-in tokens')}</h2>
        <p class="muted small">${t('They never expire, and the audit log does not show who used them. Prefer named tokens.')}</p>
        <ul class="card" aria-label="${t('Built-in tokens')}">
          ${builtIn.filter(({ kind }) => kind !== 'project').map(token => keyed(token.kind, builtInRow(token)))}
          ${ofProjects.length === 0 ? null : projectTokensRow(ofProjects)}
        </ul>
      </section>`
  }

  #dialogs(): Template {
    const heading = this.#dialog === null ? '' : headingOf(this.#dialog)
    return html`
      <svc-dialog heading="${heading}" .content="${this.#dialog === null ? null : this.#content(this.#dialog)}"
        @dialogclose="${() => this.#open(null)}" @tokencancel="${() => this.#open(null)}"
        @tokensaved="${(event: Event) => this.#saved(event as Said<'tokensaved'>)}"></svc-dialog>`
  }

  #content(dialog: Dialog): Template {
    const { client, projects, maxDays } = this
    if (dialog.kind === 'secret') return this.#secret(dialog.secret)
    if (dialog.kind === 'rotate')
      return html`<svc-token-rotate .token="${dialog.token}" .client="${client}" .maxDays="${maxDays}"></svc-token-rotate>`
    if (dialog.kind === 'revoke')
      return html`<svc-token-revoke .token="${dialog.token}" .client="${client}"></svc-token-revoke>`
    if (dialog.kind === 'factor')
      return html`<svc-token-factor .token="${dialog.token}" .client="${client}"></svc-token-factor>`
    const token = dialog.kind === 'edit' ? dialog.token : null
    return html`<svc-token-form .token="${token}" .projects="${projects}" .maxDays="${maxDays}" .client="${client}"></svc-token-form>`
  }

  #secret(secret: string): Template {
    return html`
      <div class="form">
        <p>${t('Copy the secret now. It is not stored, and nobody can show it again.')}</p>
        <div class="secret"><code tabindex="-1" translate="no">${secret}</code><svc-copy .text="${secret}"></svc-copy></div>
        <div class="actions end">
          <button type="button" class="primary" @click="${() => this.#open(null)}">${t('Done')}</button>
        </div>
      </div>`
  }

  #saved({ token, secret }: Said<'tokensaved'>): void {
    if (secret !== null) this.#open({ kind: 'secret', token, secret })
    else {
      this.#open(null)
      this.dispatchEvent(notice(token.revokedAt === null ? t('Saved') : t('The token was revoked')))
    }
    this.dispatchEvent(said('tokenschange'))
  }

  #open(dialog: Dialog | null): void {
    this.#dialog = dialog
    this.update()
  }

  #find(text: string): void {
    this.#text = text
    this.#most = pageRows
    this.update()
  }

  #showMore(): void {
    this.#most += pageRows
    this.update()
  }
}

function headingOf(dialog: Dialog): string {
  if (dialog.kind === 'create') return t('New token')
  const { name } = dialog.token
  if (dialog.kind === 'edit') return t('Change {name}', { name })
  if (dialog.kind === 'rotate') return t('New secret for {name}?', { name })
  if (dialog.kind === 'factor') return t('Remove the second factor of {name}?', { name })
  return dialog.kind === 'revoke' ? t('Revoke {name}?', { name }) : t('The secret of {name}', { name })
}

function emptyState(): Template {
  return html`
    <div class="card">
      <div class="state">
        <h2>${t('No tokens yet')}</h2>
        <p class="muted">${t('Give each person and each program a token of its own: with the least role that it needs, for its projects only, and with an end.')}</p>
      </div>
    </div>`
}

function nothingFound(): Template {
  return html`<div class="card"><div class="state"><h2>${t('Nothing found')}</h2></div></div>`
}

const builtInWords: Readonly<Record<'admin' | 'global', { words: string; hint: { words: string } }>> = {
  admin: { words: 'Admin token', hint: { words: 'Grants full access. Change it in the settings.' } },
  global: { words: 'Global deploy token', hint: { words: 'Deploys to every project. A setting.' } }
}

function builtInRow({ kind }: BuiltInToken): Template {
  const { words, hint } = builtInWords[kind === 'admin' ? 'admin' : 'global']
  return html`
    <li>
      <div class="what"><b>${t(words)}</b><span>${t(hint.words)}</span></div>
      <div class="tools"><a href="${kind === 'admin' ? 'settings' : 'settings?key=global_deploy_token'}">${t('Settings')}</a></div>
    </li>`
}

/** Each project has a deploy token, so they share one row that unfolds. */
function projectTokensRow(tokens: readonly BuiltInToken[]): Template {
  return html`
    <li>
      <div class="what">
        <b>${t('Deploy tokens of projects')}</b>
        <details>
          <summary>${t('One for each of {count} projects', { count: numberWords(tokens.length) })}</summary>
          <span translate="no">${tokens.map(({ projectId, projectName }, index) => html`${index === 0 ? '' : ', '}<a href="projects/${projectId}/settings">${projectName ?? projectId}</a>`)}</span>
        </details>
      </div>
    </li>`
}

/** The elements that a page registers for the tokens. */
export const elements = {
  'svc-tokens': SvcTokens,
  'svc-token-form': SvcTokenForm,
  'svc-token-rotate': SvcTokenRotate,
  'svc-token-revoke': SvcTokenRevoke,
  'svc-token-factor': SvcTokenFactor,
  'svc-project-choice': SvcProjectChoice,
  'svc-copy': SvcCopy,
  'svc-dialog': SvcDialog,
  'svc-time': SvcTime
}
