import type { Client } from '../../server/client.js'
import type { Labels, VariablesChange } from '../../server/requests.js'
import { notice, said, type Said, css, SvcElement } from '../element.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { html, keyed, type Template, icon } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { confirmation, question, Submission, submitted, errorLine, field } from '../base/form.js'
import { SvcConflict, UnsavedCards } from '../base/saving.js'
import { maskWords } from '../base/words.js'
import type { PageContext } from '../../pages/page.js'
import { SvcLabel } from '../base/facts.js'
import { type CardName, cards } from './project-cards.js'
import { SvcProjectCard } from './svc-project-card.js'
import { SvcTagChoice } from './project-fields.js'
import type { GivenVariable, Variable } from '../../../lib/model/variable.js'
import { createResource, loaded, type Resource, staleLine } from '../../state/resource.js'

/** Deletes a project after its name is typed. Properties: `project`, `client`. Event: `projectdeleted`. */
export class SvcProjectDelete extends SvcElement {
  static override sheet = css`
    svc-project-delete {
      display: grid;
      gap: 20px;
      grid-template-columns: minmax(0, 1fr);

      .ending { display: flex; flex-wrap: wrap; align-items: center; gap: 16px; padding: 16px 20px; }
      .ending p { flex: 1 1 300px; }
    }
  `

  client!: Client
  project!: Project
  #isAsking = false
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const { name } = this.project
    return html`
      <h2>${t('Danger')}</h2>
      <div class="card ending">
        <p class="muted">
          ${t('Deleting the project also deletes its deployments, their output and their archives. The files in its directory stay.')}
        </p>
        <button type="button" class="danger" @click="${() => this.#ask(true)}">${t('Delete project…')}</button>
      </div>
      <svc-dialog heading="${t('Delete {name}?', { name })}" .content="${this.#isAsking ? this.#question() : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  #question(): Template {
    const { name, deployPath } = this.project
    return question({
      asked: html`
        <p class="anywhere">
          ${t('All its deployments, output and archives are permanently deleted. The files in {path} stay.', { path: deployPath })}
        </p>
        ${confirmation('delete', name)}`,
      submission: this.#submission,
      answer: t('Delete project'),
      onAnswer: event => void this.#delete(event),
      onRefusal: () => this.#ask(false)
    })
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.#submission.refuse(null)
  }

  async #delete(event: Event): Promise<void> {
    const { id, name } = this.project
    if (submitted(event)['confirmation']?.trim() !== name) {
      return this.#submission.refuse(t('The name does not match. Type “{name}”.', { name }))
    }
    await this.#submission.run(async () => {
      await this.client.call('DELETE /api/projects/:id', { id })
      this.dispatchEvent(said('projectdeleted', { name }))
    })
  }
}

/**
 * The deploy token of a project: show, copy, regenerate. Properties: `project`, `client`. Events: `projectchange`,
 * `notice`.
 */
export class SvcProjectToken extends SvcElement {
  static override sheet = css`
    svc-project-token {
      display: grid;
      gap: 20px;
      grid-template-columns: minmax(0, 1fr);

      > header { display: grid; gap: 4px; }
      .token { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; }
      .token code {
        flex: 1 1 260px;
        min-width: 0;
        padding: 8px 12px;
        border: 1px solid var(--line);
        border-radius: var(--radius);
        background: var(--sunken);
        overflow-wrap: anywhere;
        font-size: var(--size-13);
      }
      .token button { min-width: 76px; }
    }
  `

  client!: Client
  project!: Project
  #isShown = false
  #isAsking = false
  readonly #submission = new Submission(this)

  protected override view(): Template {
    const { name } = this.project
    // A session that has not given its token lately does not get this one.
    const token = this.project.token as string | null
    return html`
      <header>
        <h2>${t('Tokens')}</h2>
        <p class="muted">${t('The deploy token allows pushes to this project only.')}</p>
        <p class="muted">${this.#reach()}</p>
        <p><a href="access">${t('Tokens of people and pipelines')}</a></p>
      </header>
      <div class="token">
        <code aria-label="${t('Deploy token')}">${this.#isShown && token !== null ? token : maskWords(token ?? '')}</code>
        <button type="button" @click="${() => void this.#show()}">${this.#isShown && token !== null ? t('Hide') : t('Show')}</button>
        ${token === null ? null : html`<svc-copy .text="${token}"></svc-copy>`}
        <button type="button" @click="${() => this.#ask(true)}">${t('Regenerate…')}</button>
      </div>
      <svc-dialog heading="${t('Regenerate the deploy token?')}" .content="${this.#isAsking ? this.#question(name) : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  /** Returns what else the token permits, which depends on whether the project accepts scripts in a push. */
  #reach(): string {
    const { allowClientScripts, runAs: user } = this.project
    if (allowClientScripts !== false && user !== null) {
      return t(
        'Unless pushes with scripts are rejected, in this project or in the settings, it can also run any command as the user {user}.',
        { user }
      )
    }
    return allowClientScripts === false
      ? t('A push cannot contain scripts. Uploaded code still runs if the scripts of this project start it.')
      : t(
          'Unless pushes with scripts are rejected, in this project or in the settings, it can also run any command as the user of svc, which can read all tokens and all projects.'
        )
  }

  #question(name: string): Template {
    return question({
      asked: html`
        <p>
          ${t('The current token of {name} stops working immediately. Everything that pushes with it needs the new token.', { name })}
        </p>`,
      submission: this.#submission,
      answer: t('Regenerate token'),
      onAnswer: event => void this.#regenerate(event),
      onRefusal: () => this.#ask(false)
    })
  }

  /** Returns the project with its token. Asks for the token of the session if it was given too long ago. */
  async #proven(): Promise<Project> {
    await this.client.ensureProven()
    return this.client.call('GET /api/projects/:id', { id: this.project.id })
  }

  async #show(): Promise<void> {
    if ((this.project.token as string | null) === null) {
      const project = await this.#proven().catch(() => null)
      if (project === null) return
      this.#isShown = true
      this.dispatchEvent(said('projectchange', { project }))
    } else this.#isShown = !this.#isShown
    this.update()
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.#submission.refuse(null)
  }

  async #regenerate(event: Event): Promise<void> {
    event.preventDefault()
    await this.#submission.run(async () => {
      const { token } = await this.client.call('POST /api/projects/:id/token', { id: this.project.id })
      this.#ask(false)
      this.dispatchEvent(said('projectchange', { project: { ...this.project, token } }))
      this.dispatchEvent(notice(t('Deploy token regenerated. The old token no longer works')))
    })
  }
}

/**
 * The settings of a project in cards, each saved by itself: its fields, its variables, its token, its deletion. Leaving
 * with unsaved changes asks first. Properties: `project`, `context`, `client`, `labels`; `isPlaced`: whether it is rolled out to nodes. Events: `projectchange`, `projectdeleted`,
 * `notice`.
 */
export class SvcProjectSettings extends SvcElement {
  static override sheet = css`
    svc-project-settings {
      display: grid;
      gap: 40px;
      grid-template-columns: minmax(0, 1fr);
    }
  `

  context!: PageContext
  client!: Client
  project!: Project
  labels: Labels = { categories: [], tags: [] }
  isPlaced = false
  #cards!: UnsavedCards

  protected override connected(): void {
    const { guard } = this.context
    this.#cards = new UnsavedCards({ update: () => this.update(), guard, signal: this.signal })
  }

  protected override view(): Template {
    const project = this.project
    const hasFleet = this.isPlaced || 'rollout' in project.policy
    const names = (Object.keys(cards) as CardName[]).filter(name => name !== 'fleet' || hasFleet)
    return html`
      ${names.map(name =>
        keyed(
          name,
          html`
          <svc-project-card .card="${name}" .project="${project}" .define="${this.context.define}" .client="${this.client}" .labels="${this.labels}"
            @unsaved="${(event: Event) => this.#cards.set(t(cards[name].words), (event as Said<'unsaved'>).isUnsaved)}"></svc-project-card>`
        )
      )}
      <svc-variables .project="${project}" .client="${this.client}"></svc-variables>
      <svc-project-token .project="${project}" .client="${this.context.client}"></svc-project-token>
      <svc-project-delete .project="${project}" .client="${this.context.client}"
        @projectdeleted="${() => this.context.guard(null)}"></svc-project-delete>
      ${this.#cards.view()}`
  }
}

type Dialog = { kind: 'none' } | { kind: 'add' } | { kind: 'paste' } | { kind: 'edit' | 'delete'; variable: Variable }

/**
 * The variables of a project's scripts. Properties: `project`, `client`. Event: `notice`. Each change is saved at once
 * and does not affect concurrent changes to other variables.
 */
export class SvcVariables extends SvcElement {
  static override sheet = css`
    svc-variables {
      display: grid;
      gap: 12px;
      grid-template-columns: minmax(0, 1fr);

      > header { display: grid; gap: 4px; }
      .heads { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 8px 16px; }
      .heads .actions { display: flex; flex-wrap: wrap; gap: 8px; }
      li {
        display: grid;
        grid-template-columns: minmax(0, 2fr) minmax(0, 3fr) auto;
        align-items: center;
        gap: 4px 16px;
        min-height: calc(var(--row) + 4px);
        padding: 8px 8px 8px 16px;
      }
      li + li { border-top: 1px solid var(--line); }
      li code { overflow-wrap: anywhere; font-size: var(--size-13); }
      li .value { display: -webkit-box; white-space: pre-wrap; overflow: hidden; -webkit-box-orient: vertical; -webkit-line-clamp: 3; }
      li .sealed { display: inline-flex; align-items: center; gap: 6px; color: var(--muted); font-size: var(--size-13); }
      li .buttons { display: flex; }
      li button { min-width: 36px; padding: 4px; }
      .hidden textarea { -webkit-text-security: disc; }
      @media (max-width: 719px) {
        li { grid-template-columns: minmax(0, 1fr) auto }
        li .name { grid-area: 1 / 1; }
        li .held { grid-area: 2 / 1; }
        li .buttons { grid-area: 1 / 2 / span 2; }
      }
    }
  `

  client!: Client
  project!: Project
  #variables!: Resource<Variable[]>
  #dialog: Dialog = { kind: 'none' }
  #isSecret = false
  readonly #submission = new Submission(this)

  protected override connected(): void {
    this.#variables = createResource({
      load: async signal =>
        (await this.client.call('GET /api/projects/:id/variables', { id: this.project.id, signal })).variables,
      onChange: () => this.update(),
      signal: this.signal
    })
    void this.#variables.load()
  }

  protected override view(): Template {
    return html`
      <header>
        <div class="heads">
          <h2>${t('Variables')}</h2>
          <div class="actions">
            <button type="button" @click="${() => this.#open({ kind: 'paste' })}">${t('Paste .env file')}</button>
            <button type="button" @click="${() => this.#open({ kind: 'add' })}">${icon('plus')}${t('Add variable')}</button>
          </div>
        </div>
        <p class="muted">${t('Available to the scripts of this project from the next deployment on. They override variables of a push.')}</p>
        <p class="muted">${this.#reach()}</p>
      </header>
      ${staleLine(this.#variables)}
      <div class="card">${loaded(this.#variables, 'the variables', variables => this.#list(variables))}</div>
      <svc-dialog heading="${this.#heading()}" .content="${this.#content()}" @dialogclose="${() => this.#open({ kind: 'none' })}"></svc-dialog>`
  }

  /** Returns who else can read a secret, which depends on whether the project accepts scripts in a push. */
  #reach(): string {
    return this.project.allowClientScripts === false
      ? t(
          'A push cannot contain scripts, so the deploy token alone cannot read a secret. Uploaded code can, if the scripts of this project start it.'
        )
      : t(
          'Unless pushes with scripts are rejected, in this project or in the settings, anyone with the deploy token can read secrets: a script can print them in another form.'
        )
  }

  #list(variables: Variable[]): Template {
    if (variables.length === 0) return html`<div class="state"><p class="muted">${t('No variables yet.')}</p></div>`
    return html`<ul>${variables.map(variable => keyed(variable.name, this.#row(variable)))}</ul>`
  }

  #row(variable: Variable): Template {
    const { name } = variable
    return html`
      <li>
        <code class="name" translate="no">${name}</code>
        <span class="held">${this.#held(variable)}</span>
        <span class="buttons">
          <button type="button" class="quiet" aria-label="${t('Change {name}', { name })}"
            @click="${() => this.#open({ kind: 'edit', variable })}">${icon('edit')}</button>
          <button type="button" class="quiet" aria-label="${t('Delete {name}', { name })}"
            @click="${() => this.#open({ kind: 'delete', variable })}">${icon('delete')}</button>
        </span>
      </li>`
  }

  #held({ value, secret, hasValue }: Variable): Template {
    if (secret && !hasValue)
      return html`<span class="sealed">${icon('warning')}${t('This secret has no value. Scripts do not run until it is set')}</span>`
    if (secret) return html`<span class="sealed">••••••••<span>${t('Secret')}</span></span>`
    return value === ''
      ? html`<span class="muted small">${t('empty')}</span>`
      : html`<code class="value" translate="no" title="${value ?? ''}">${value}</code>`
  }

  #heading(): string {
    const dialog = this.#dialog
    if (dialog.kind === 'add') return t('Add variable')
    if (dialog.kind === 'paste') return t('Paste .env file')
    if (dialog.kind === 'none') return ''
    const { name } = dialog.variable
    return dialog.kind === 'edit' ? t('Change {name}', { name }) : t('Delete {name}?', { name })
  }

  #content(): Template | null {
    const dialog = this.#dialog
    if (dialog.kind === 'none') return null
    if (dialog.kind === 'paste') return this.#paste()
    return dialog.kind === 'delete'
      ? this.#deletion(dialog.variable.name)
      : this.#form(dialog.kind === 'edit' ? dialog.variable : null)
  }

  #form(before: Variable | null): Template {
    const keeps = before?.secret && before.hasValue
    return html`
      <form class="form" @submit="${(event: Event) => void this.#save(event, before)}">
        ${
          before !== null
            ? null
            : field({
                form: 'variable',
                name: 'name',
                label: t('Name'),
                isRequired: true,
                isMono: true,
                hasFocus: true,
                placeholder: 'DATABASE_URL',
                error: this.#submission.problemOf('name')
              })
        }
        <div class="${this.#isSecret ? 'hidden' : null}">
          ${field({
            form: 'variable',
            name: 'value',
            label: t('Value'),
            rows: 3,
            isMono: true,
            error: this.#submission.problemOf('value'),
            hasFocus: before !== null,
            value: before?.value ?? '',
            ...(keeps ? { hint: t('Leave empty to keep the value.') } : {})
          })}
        </div>
        ${this.#secretSwitch()}
        ${errorLine(this.#submission.problemBeside(['name', 'value']))}
        ${this.#buttons(t('Save'))}
      </form>`
  }

  #paste(): Template {
    return html`
      <form class="form" @submit="${(event: Event) => void this.#import(event)}">
        ${field({
          form: 'variable',
          name: 'dotenv',
          label: t('Lines of the form NAME=value'),
          rows: 10,
          isMono: true,
          hasFocus: true,
          isRequired: true,
          hint: t('Variables with the same name are replaced; others stay. References to variables are not expanded.'),
          error: this.#submission.problemOf('dotenv')
        })}
        ${this.#secretSwitch()}
        ${errorLine(this.#submission.problemBeside(['dotenv']))}
        ${this.#buttons(t('Save'))}
      </form>`
  }

  #secretSwitch(): Template {
    return html`
      <div class="field">
        <label class="check">
          <input type="checkbox" name="secret" .checked="${this.#isSecret}" aria-describedby="variable-secret-hint"
            @change="${(event: Event) => this.#choose((event.currentTarget as HTMLInputElement).checked)}">
          <span>${t('Secret')}</span>
        </label>
        <p class="hint" id="variable-secret-hint">${t('Stored encrypted, never shown again, and replaced by *** in outputs. At least 4 characters.')}</p>
      </div>`
  }

  #deletion(name: string): Template {
    return question({
      asked: html`<p>${t('From the next deployment on, scripts no longer receive it. The value cannot be restored.')}</p>`,
      submission: this.#submission,
      answer: t('Delete'),
      onAnswer: event => {
        event.preventDefault()
        void this.#change({ unset: [name] }, t('{name} deleted', { name }))
      },
      onRefusal: () => this.#open({ kind: 'none' })
    })
  }

  #buttons(last: string): Template {
    return html`
      <div class="actions end">
        <button type="button" @click="${() => this.#open({ kind: 'none' })}">${t('Cancel')}</button>
        <button class="primary" disabled="${this.#submission.isBusy}">${last}</button>
      </div>`
  }

  #open(dialog: Dialog): void {
    this.#dialog = dialog
    this.#submission.refuse(null)
    this.#isSecret = dialog.kind === 'edit' && dialog.variable.secret
    this.update()
  }

  #choose(isSecret: boolean): void {
    this.#isSecret = isSecret
    this.update()
  }

  async #save(event: Event, before: Variable | null): Promise<void> {
    const values = submitted(event)
    const name = before?.name ?? (values['name'] ?? '').trim()
    // The text of a form has CRLF line ends.
    const text = (values['value'] ?? '').replaceAll('\r\n', '\n')
    const isKept = text === '' && before !== null && before.secret && before.hasValue
    const variable: GivenVariable = { name, value: isKept ? null : text, secret: this.#isSecret }
    await this.#change({ variables: [variable] }, t('{name} saved', { name }))
  }

  async #import(event: Event): Promise<void> {
    const { dotenv = '' } = submitted(event)
    await this.#change({ dotenv, secret: this.#isSecret }, t('Variables saved'))
  }

  async #change(change: VariablesChange, done: string): Promise<void> {
    await this.#submission.run(async () => {
      await this.client.call('PATCH /api/projects/:id/variables', { id: this.project.id, body: change })
      this.#open({ kind: 'none' })
      this.dispatchEvent(notice(done))
      void this.#variables.load()
    })
  }
}

/** The elements that a page registers for the settings of a project. */
export const elements = {
  'svc-project-settings': SvcProjectSettings,
  'svc-project-card': SvcProjectCard,
  'svc-conflict': SvcConflict,
  'svc-variables': SvcVariables,
  'svc-project-token': SvcProjectToken,
  'svc-project-delete': SvcProjectDelete,
  'svc-label': SvcLabel,
  'svc-tag-choice': SvcTagChoice
}
