import { css, notice, said, type Said, SvcElement } from '../element.js'
import type { FileKey, SignersFile, SigningKey } from '../../../lib/model/statement.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { countWords, t } from '../../words/t.js'
import { errorLine, field, question, Submission, submitted } from '../base/form.js'
import { serverNow, type Client } from '../../server/client.js'
import type { ChoosableProject } from './svc-token-form.js'
import { timeWords } from '../base/words.js'

type Dialog = { kind: 'trust' } | { kind: 'revoke'; key: SigningKey }

/** Form to trust a key by pasting it. Properties: `projects`, `client`. Events: `keysaved`, `keycancel`. */
export class SvcTrustKey extends SvcElement {
  projects: readonly ChoosableProject[] = []
  client!: Client
  readonly #submission = new Submission(this)
  #hasOpened = false

  /** The dialog opens before its form has controls. */
  protected override rendered(): void {
    if (this.#hasOpened) return
    this.#hasOpened = true
    this.querySelector<HTMLElement>('textarea')?.focus()
  }

  protected override view(): Template {
    const problem = this.#submission.problemOf('public')
    return html`
      <form class="form" @submit="${(event: Event) => void this.#trust(event)}">
        <div class="field">
          <label for="key-public">${t('Public key')}</label>
          <textarea id="key-public" name="public" rows="4" required="" spellcheck="false" autocomplete="off" class="code"
            aria-describedby="key-public-hint" aria-invalid="${problem ? 'true' : null}" placeholder="ssh-ed25519 AAAA… ana@laptop"></textarea>
          ${errorLine(problem ?? null)}
          <p id="key-public-hint" class="muted small">${t('A line of an OpenSSH public key or of allowed_signers, a public key of minisign, or one of "svc keys generate".')}</p>
        </div>
        ${field({
          form: 'key',
          name: 'name',
          label: t('Name (optional)'),
          hint: t('Empty: the name in the key.'),
          error: this.#submission.problemOf('name')
        })}
        <div class="field">
          <label for="key-project">${t('Project whose releases it may sign')}</label>
          <select id="key-project" name="project">
            <option value="">${t('All projects')}</option>
            ${this.projects.map(({ id, name }) => html`<option value="${id}" translate="no">${name}</option>`)}
          </select>
        </div>
        ${errorLine(this.#submission.problemBeside(['public', 'name']))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('keycancel'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">${t('Trust key')}</button>
        </div>
      </form>`
  }

  async #trust(event: Event): Promise<void> {
    const { public: text = '', name = '', project = '' } = submitted(event)
    await this.#submission.run(async () => {
      await this.client.call('POST /api/signing-keys', {
        body: {
          public: text,
          ...(name.trim() !== '' && { name }),
          projectIds: project === '' ? null : [project]
        }
      })
      this.dispatchEvent(said('keysaved', { words: t('The key is trusted') }))
    })
  }
}

/** Asks before a key is revoked. Properties: `key`, `client`. Events: `keysaved`, `keycancel`. */
export class SvcRevokeKey extends SvcElement {
  key!: SigningKey
  client!: Client
  readonly #submission = new Submission(this)

  protected override view(): Template {
    return question({
      asked: html`
        <p>${t('What the key signs from now on is not accepted. What was accepted before stays valid, so that one can go back to it.')}</p>
        <p class="muted small anywhere"><code translate="no">${this.key.fingerprint}</code></p>`,
      submission: this.#submission,
      answer: t('Revoke'),
      onAnswer: event => void this.#revoke(event),
      onRefusal: () => this.dispatchEvent(said('keycancel'))
    })
  }

  async #revoke(event: Event): Promise<void> {
    event.preventDefault()
    await this.#submission.run(async () => {
      const { deployments } = await this.client.call('POST /api/signing-keys/:id/revoke', { id: this.key.id, body: {} })
      const signed = countWords(deployments.length, 'deployment')
      this.dispatchEvent(
        said('keysaved', { words: t('The key was revoked. It has signed {deployments}.', { deployments: signed }) })
      )
    })
  }
}

/** The keys that may sign releases: list, trust, revoke. Properties: `keys`, `file`, `projects`, `client`. Events: `keyschange`, `notice`. */
export class SvcSigningKeys extends SvcElement {
  static override sheet = css`
    svc-signing-keys {
      display: grid;
      gap: 12px;
      grid-template-columns: minmax(0, 1fr);

      li { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 4px 20px; align-items: center; padding: 12px 12px 12px 20px; }
      li + li { border-top: 1px solid var(--line); }
      .what { display: grid; gap: 2px; min-width: 0; font-size: var(--size-13); color: var(--muted); overflow-wrap: anywhere; }
      .what b { font-weight: 500; font-size: var(--size-14); color: var(--text); }
      .ended b { text-decoration: line-through; color: var(--muted); }
      textarea { width: 100%; font-family: var(--mono); font-size: var(--size-13); }
      @media (max-width: 719px) { li { grid-template-columns: minmax(0, 1fr); padding: 14px 16px; } li button { justify-self: start; margin-left: -12px; } }
    }
  `

  keys: readonly SigningKey[] = []
  /** The keys of `keys/allowed_signers`, which then count alone. */
  file: SignersFile | null = null
  projects: readonly ChoosableProject[] = []
  client!: Client
  #dialog: Dialog | null = null

  protected override view(): Template {
    return this.file === null ? this.#own() : this.#ofMachine(this.file)
  }

  #ofMachine({ keys, problem }: SignersFile): Template {
    return html`
      <div class="section-head"><h2>${t('Keys that sign releases')}</h2></div>
      <p class="muted small">${t('The server was started with --require-signatures: only the keys in the file keys/allowed_signers of its data directory count, and only who can write it can change them.')}</p>
      ${problem === null ? null : errorLine(t('Every release is refused: {why}', { why: problem }))}
      ${
        problem === null && keys.length === 0
          ? html`<p class="card padded muted">${t('The file contains no key, so every release is refused.')}</p>`
          : html`<ul class="card" aria-label="${t('Keys that sign releases')}" hidden="${keys.length === 0}">${keys.map(fileRow)}</ul>`
      }`
  }

  #own(): Template {
    return html`
      <div class="section-head">
        <h2>${t('Keys that sign releases')}</h2>
        <button type="button" @click="${() => this.#open({ kind: 'trust' })}">${icon('plus')}${t('Trust key')}</button>
      </div>
      <p class="muted small">${t('A project can refuse releases that none of these keys has signed: Safety, in its settings.')}</p>
      ${
        this.keys.length === 0
          ? html`<p class="card padded muted">${t('No key is trusted yet.')}</p>`
          : html`<ul class="card" aria-label="${t('Keys that sign releases')}">${this.keys.map(key => keyed(key.id, this.#row(key)))}</ul>`
      }
      <svc-dialog heading="${this.#heading()}" .content="${this.#dialog === null ? null : this.#content(this.#dialog)}"
        @dialogclose="${() => this.#open(null)}" @keycancel="${() => this.#open(null)}"
        @keysaved="${(event: Event) => this.#saved((event as Said<'keysaved'>).words)}"></svc-dialog>`
  }

  #row(key: SigningKey): Template {
    const ended = endWords(key)
    return html`
      <li class="${ended === null ? null : 'ended'}">
        <div class="what">
          <b translate="no">${key.name}</b>
          <code translate="no">${key.fingerprint}</code>
          <span>${[key.kind, this.#placeWords(key), ended ?? untilWords(key)].filter(Boolean).join(' · ')}</span>
          <code translate="no">${key.id}</code>
        </div>
        ${
          key.revokedAt === null
            ? html`<button type="button" class="quiet" aria-label="${t('Revoke {name}', { name: key.name })}" @click="${() => this.#open({ kind: 'revoke', key })}">${t('Revoke')}</button>`
            : null
        }
      </li>`
  }

  #placeWords({ projectIds }: SigningKey): string {
    if (projectIds === null) return t('all projects')
    const names = new Map(this.projects.map(({ id, name }) => [id, name]))
    return projectIds.map(id => names.get(id) ?? id).join(', ')
  }

  #heading(): string {
    if (this.#dialog === null) return ''
    return this.#dialog.kind === 'trust' ? t('Trust a key') : t('Revoke {name}?', { name: this.#dialog.key.name })
  }

  #content(dialog: Dialog): Template {
    return dialog.kind === 'trust'
      ? html`<svc-trust-key .projects="${this.projects}" .client="${this.client}"></svc-trust-key>`
      : html`<svc-revoke-key .key="${dialog.key}" .client="${this.client}"></svc-revoke-key>`
  }

  #saved(words: string): void {
    this.#open(null)
    this.dispatchEvent(notice(words))
    this.dispatchEvent(said('keyschange'))
  }

  #open(dialog: Dialog | null): void {
    this.#dialog = dialog
    this.update()
  }
}

function fileRow(key: FileKey): Template {
  const ended = endWords({ ...key, revokedAt: null })
  return html`
    <li class="${ended === null ? null : 'ended'}">
      <div class="what">
        <b translate="no">${key.name}</b>
        <code translate="no">${key.fingerprint}</code>
        <span>${[key.kind, ended ?? untilWords(key)].filter(Boolean).join(' · ')}</span>
      </div>
    </li>`
}

function endWords({ revokedAt, notAfter }: Pick<SigningKey, 'revokedAt' | 'notAfter'>): string | null {
  if (revokedAt !== null) return t('revoked {when}', { when: timeWords(revokedAt) })
  if (notAfter !== null && Date.parse(notAfter) < serverNow()) return t('expired {when}', { when: timeWords(notAfter) })
  return null
}

function untilWords({ notAfter }: Pick<SigningKey, 'notAfter'>): string {
  return notAfter === null ? '' : t('until {when}', { when: timeWords(notAfter) })
}

/** The elements of the keys, loaded after the page. */
export const elements = {
  'svc-signing-keys': SvcSigningKeys,
  'svc-trust-key': SvcTrustKey,
  'svc-revoke-key': SvcRevokeKey
}
