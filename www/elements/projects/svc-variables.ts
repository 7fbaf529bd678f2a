import type { Client } from '../../server/client.js'
import { notice, css, SvcElement } from '../element.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { GivenVariable, Variable } from '../../../lib/model/variable.js'
import type { VariablesChange } from '../../server/requests.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { createResource, loaded, type Resource, staleLine } from '../../state/resource.js'
import { t } from '../../words/t.js'
import { errorLine, field, question, Submission, submitted } from '../base/form.js'

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
