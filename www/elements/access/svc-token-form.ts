import { said, type Said, css, SvcElement } from '../element.js'
import { html, keyed, type Template } from '../../dom/html.js'
import { numberWords, t } from '../../words/t.js'
import type { AccessRole, AccessToken } from '../../../lib/model/access.js'
import { type TokenFields, usualMaxDays } from '../../server/requests.js'
import { serverNow, type Client } from '../../server/client.js'
import { errorLine, field, Submission, submitted } from '../base/form.js'
import { roleWords } from '../base/words.js'
import { afterDays, daysProblem, daysUntil, limits, readAddresses, roleRows } from './token-row.js'

export interface ChoosableProject {
  id: string
  name: string
}

/** Projects with a field that finds them: more would be slow to draw, and nobody scrolls through them. */
const mostShown = 200
/** With fewer projects, a field to find them would only be in the way. */
const fewProjects = 8

/**
 * Projects to choose from, with a field that finds them by name. Properties: `projects`; `chosen`, their ids; `most`, the
 * number that can be chosen. Event: `projectchoice`.
 */
export class SvcProjectChoice extends SvcElement {
  static override sheet = css`
    svc-project-choice {
      display: grid;
      gap: 8px;
      grid-template-columns: minmax(0, 1fr);

      .list {
        max-height: 196px;
        overflow-y: auto;
        padding: 4px 0;
        border: 1px solid var(--edge);
        border-radius: var(--radius);
        overscroll-behavior: contain;
      }
      .list label { display: grid; grid-template-columns: 16px minmax(0, 1fr); gap: 10px; align-items: center; min-height: 32px; padding: 4px 12px; cursor: pointer; }
      .list label:hover { background: var(--hover); }
      .list span { overflow-wrap: anywhere; }
      .list p { padding: 6px 12px; }
      .foot { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 4px 12px; }
      .foot button { min-height: 28px; padding: 2px 8px; font-size: var(--size-13); }
    }
  `

  projects: readonly ChoosableProject[] = []
  chosen: readonly string[] = []
  most = Infinity
  #text = ''

  protected override view(): Template {
    const sought = this.#text.trim().toLowerCase()
    const found = this.projects.filter(({ name }) => name.toLowerCase().includes(sought))
    const isFull = this.chosen.length >= this.most
    return html`
      ${
        this.projects.length < fewProjects
          ? null
          : html`
          <input type="search" aria-label="${t('Find projects')}" placeholder="${t('Find projects')}" autocomplete="off"
            spellcheck="false" .value="${this.#text}" @keydown="${keepForm}"
            @input="${(event: Event) => this.#find((event.currentTarget as HTMLInputElement).value)}">`
      }
      <div class="list" role="group" aria-label="${t('Projects')}">
        ${found.slice(0, mostShown).map(project => keyed(project.id, this.#row(project, isFull)))}
        ${found.length === 0 ? html`<p class="muted small">${t('Nothing found')}</p>` : null}
        ${
          found.length > mostShown
            ? html`<p class="muted small">${t('{count} more. Type a name to find them.', { count: numberWords(found.length - mostShown) })}</p>`
            : null
        }
      </div>
      <div class="foot">
        <span class="muted small number" role="status">${t('{count} of {all} chosen', { count: numberWords(this.chosen.length), all: numberWords(this.projects.length) })}</span>
        ${
          this.chosen.length === 0
            ? null
            : html`<button type="button" class="quiet" @click="${() => this.#choose([])}">${t('Choose none')}</button>`
        }
      </div>`
  }

  #row({ id, name }: ChoosableProject, isFull: boolean): Template {
    const isChosen = this.chosen.includes(id)
    const change = (): void => this.#choose(isChosen ? this.chosen.filter(each => each !== id) : [...this.chosen, id])
    return html`
      <label>
        <input type="checkbox" .checked="${isChosen}" disabled="${isFull && !isChosen}" @change="${change}">
        <span translate="no">${name}</span>
      </label>`
  }

  #find(text: string): void {
    this.#text = text
    this.update()
  }

  #choose(ids: readonly string[]): void {
    this.dispatchEvent(said('projectchoice', { ids }))
  }
}

/** Enter in the field that finds projects does not submit the form. */
function keepForm(event: Event): void {
  if ((event as KeyboardEvent).key === 'Enter') event.preventDefault()
}

const usualDays = 90

/**
 * The form of a named token. Properties: `token`, the one to change, or null for a new one; `projects`, all of them;
 * `maxDays`, the longest lifetime; `client`. Events: `tokensaved`, `tokencancel`.
 */
export class SvcTokenForm extends SvcElement {
  static override sheet = css`
    svc-token-form {
      fieldset { display: grid; gap: 8px; min-width: 0; margin: 0; padding: 0; border: 0; }
      legend { margin-bottom: 6px; padding: 0; font-weight: 500; }
      .choice { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 10px; align-items: center; cursor: pointer; }
      .choice small { grid-column: 2; color: var(--muted); font-size: var(--size-13); }
      .choice:has(:disabled) { cursor: default; }
      [name=days] { max-width: 140px; }
    }
  `

  token: AccessToken | null = null
  projects: readonly ChoosableProject[] = []
  maxDays = usualMaxDays
  client!: Client
  #role: AccessRole = 'viewer'
  #isLimited = false
  #chosen: readonly string[] = []
  #hasOpened = false
  readonly #submission = new Submission(this)

  protected override connected(): void {
    const { token } = this
    this.#role = token?.role ?? 'viewer'
    this.#isLimited = token !== null && token.projectIds !== null
    // A project that was deleted meanwhile cannot be chosen.
    this.#chosen = (token?.projectIds ?? []).filter(id => this.projects.some(project => project.id === id))
  }

  /** The dialog opens before its form has controls. */
  protected override rendered(): void {
    if (this.#hasOpened) return
    this.#hasOpened = true
    this.querySelector<HTMLElement>('[autofocus]')?.focus()
  }

  protected override view(): Template {
    const { token } = this
    return html`
      <form class="form" @submit="${(event: Event) => void this.#save(event)}">
        ${field({
          form: 'access',
          name: 'name',
          label: t('Name'),
          value: token?.name ?? '',
          isRequired: true,
          hasFocus: true,
          maxLength: limits.nameLength,
          placeholder: 'ci-shop',
          hint: t('A person or a program. The audit log shows it.'),
          error: this.#submission.problemOf('name')
        })}
        ${this.#roles()}
        ${this.#scope()}
        ${field({
          form: 'access',
          name: 'days',
          label: t('Days until it expires'),
          type: 'number',
          value: String(token === null ? Math.min(usualDays, this.maxDays) : daysUntil(token.expiresAt, serverNow())),
          isRequired: true,
          hint: t('At most {count}.', { count: numberWords(this.maxDays) }),
          error: this.#submission.problemOf('expiresAt')
        })}
        ${field({
          form: 'access',
          name: 'allowedIps',
          label: t('Addresses that may use it (optional)'),
          rows: 2,
          isMono: true,
          value: (token?.allowedIps ?? []).join('\n'),
          placeholder: '10.0.0.0/8',
          hint: t('Addresses or blocks, one on each line. Empty allows all.'),
          error: this.#submission.problemOf('allowedIps')
        })}
        ${
          this.#role === 'viewer' || this.#role === 'deployer'
            ? html`
            <label class="check">
              <input type="checkbox" name="showScripts" .checked="${token?.showScripts ?? false}">
              <span>${t('May read the scripts of its projects')}</span>
            </label>`
            : null
        }
        ${errorLine(this.#submission.problemBeside(['name', 'expiresAt', 'allowedIps', 'projectIds']))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('tokencancel'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#submission.isBusy}">
            ${token === null ? t('Create token') : t('Save')}
          </button>
        </div>
      </form>`
  }

  #roles(): Template {
    return html`
      <fieldset>
        <legend>${t('Role')}</legend>
        ${roleRows.map(
          ({ role, words }) => html`
          <label class="choice">
            <input type="radio" name="role" value="${role}" .checked="${role === this.#role}" @change="${() => this.#setRole(role)}">
            <span>${t(roleWords[role])}</span><small>${t(words)}</small>
          </label>`
        )}
      </fieldset>`
  }

  #scope(): Template {
    const isAdmin = this.#role === 'admin'
    const isLimited = this.#isLimited && !isAdmin
    const option = (value: boolean, words: string): Template => html`
      <label class="choice">
        <input type="radio" name="scope" value="${value ? 'some' : 'all'}" .checked="${isLimited === value}" disabled="${isAdmin}"
          @change="${() => this.#limit(value)}">
        <span>${words}</span>
      </label>`
    return html`
      <fieldset>
        <legend>${t('Projects')}</legend>
        ${option(false, t('All projects, and what concerns the whole server'))}
        ${option(true, t('Only these projects'))}
        ${isAdmin ? html`<p class="muted small">${t('An admin cannot be limited to projects: it could give itself the others.')}</p>` : null}
        ${
          isLimited
            ? html`
            <svc-project-choice .projects="${this.projects}" .chosen="${this.#chosen}" .most="${limits.projects}"
              @projectchoice="${(event: Event) => this.#choose((event as Said<'projectchoice'>).ids)}"></svc-project-choice>`
            : null
        }
        ${errorLine(this.#submission.problemOf('projectIds') ?? null)}
      </fieldset>`
  }

  #setRole(role: AccessRole): void {
    this.#role = role
    this.update()
  }

  #limit(isLimited: boolean): void {
    this.#isLimited = isLimited
    this.update()
  }

  #choose(ids: readonly string[]): void {
    this.#chosen = ids
    this.update()
  }

  async #save(event: Event): Promise<void> {
    const { name = '', days = '', allowedIps = '', showScripts } = submitted(event)
    const { token } = this
    const isLimited = this.#isLimited && this.#role !== 'admin'
    if (isLimited && this.#chosen.length === 0) return this.#submission.refuse(t('Choose at least one project.'))
    const isSameEnd = token !== null && Number(days) === daysUntil(token.expiresAt, serverNow())
    const problem = isSameEnd ? null : daysProblem(days, this.maxDays)
    if (problem !== null) return this.#submission.refuse(problem)
    const fields: TokenFields = {
      name: name.trim(),
      role: this.#role,
      projectIds: isLimited ? [...this.#chosen] : null,
      allowedIps: readAddresses(allowedIps),
      showScripts: showScripts !== undefined,
      ...(!isSameEnd && { expiresAt: afterDays(Number(days), serverNow()) })
    }
    await this.#submission.run(async () => {
      const saved =
        token === null
          ? await this.client
              .call('POST /api/tokens', { body: fields })
              .then(({ record, token }) => said('tokensaved', { token: record, secret: token }))
          : said('tokensaved', {
              token: (await this.client.call('PATCH /api/tokens/:id', { id: token.id, body: fields })).record,
              secret: null
            })
      this.dispatchEvent(saved)
    })
  }
}
