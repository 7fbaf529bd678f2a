import type { Project } from '../../lib/model/project.js'
import type { GivenVariable, Variable } from '../../lib/model/variable.js'
import type { ProjectCalls, VariablesChange } from '../server/project-calls.js'
import { Refused } from '../server/client.js'
import { css, SvcElement } from '../dom/element.js'
import { html, icon, keyed } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { createResource, loaded, staleLine } from '../state/resource.js'
import type { Resource } from '../state/resource.js'
import { t } from '../words/t.js'
import { errorLine, field, submitted } from './field.js'
import { question } from './question.js'
import { NoticeEvent } from './svc-notices.js'
import { errorWords } from '../words/errors.js'

type Dialog = { kind: 'none' } | { kind: 'add' } | { kind: 'paste' } | { kind: 'edit' | 'delete'; variable: Variable }

/**
 * The variables of a project's scripts. Properties `project`, `calls`. Event `notice`. Each change is saved at once; what
 * others changed meanwhile stays.
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

  calls!: ProjectCalls
  #project!: Project
  #variables!: Resource<Variable[]>
  #dialog: Dialog = { kind: 'none' }
  #isSecret = false
  #refusal: unknown = null
  #isBusy = false

  get project(): Project {
    return this.#project
  }

  set project(project: Project) {
    this.#project = project
    this.update()
  }

  protected override connected(): void {
    this.#variables = createResource({
      load: signal => this.calls.variables(this.#project.id, signal), onChange: () => this.update(), signal: this.signal
    })
    void this.#variables.load()
  }

  protected override view(): Template {
    return html`
      <header>
        <div class="heads">
          <h2>${t('Variables')}</h2>
          <div class="actions">
            <button type="button" @click="${() => this.#open({ kind: 'paste' })}">${t('Paste a .env file')}</button>
            <button type="button" @click="${() => this.#open({ kind: 'add' })}">${icon('plus')}${t('Add a variable')}</button>
          </div>
        </div>
        <p class="muted">${t('The scripts of this project get them, from the next deployment on. They win over variables that a push brings.')}</p>
        <p class="muted">${this.#reach()}</p>
      </header>
      ${staleLine(this.#variables)}
      <div class="card">${loaded(this.#variables, 'the variables', variables => this.#list(variables))}</div>
      <svc-dialog heading="${this.#heading()}" .content="${this.#content()}" @dialogclose="${() => this.#open({ kind: 'none' })}"></svc-dialog>`
  }

  /** Who can read a secret besides, by what the project says of scripts that a push carries. */
  #reach(): string {
    return this.#project.allowClientScripts === false
      ? t('A push cannot bring scripts, so the deploy token alone cannot read a secret. What it uploads can, where the scripts of this project start it.')
      : t('Unless scripts of a push are refused, in this project or in the settings, whoever has the deploy token can read secrets: a script can print them in another form.')
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
    if (secret && !hasValue) return html`<span class="sealed">${icon('warning')}${t('A secret without a value: scripts do not run before it is set')}</span>`
    if (secret) return html`<span class="sealed">••••••••<span>${t('Secret')}</span></span>`
    return value === '' ? html`<span class="muted small">${t('empty')}</span>` : html`<code class="value" translate="no" title="${value ?? ''}">${value}</code>`
  }

  #heading(): string {
    const dialog = this.#dialog
    if (dialog.kind === 'add') return t('Add a variable')
    if (dialog.kind === 'paste') return t('Paste a .env file')
    if (dialog.kind === 'none') return ''
    const { name } = dialog.variable
    return dialog.kind === 'edit' ? t('Change {name}', { name }) : t('Delete {name}?', { name })
  }

  #content(): Template | null {
    const dialog = this.#dialog
    if (dialog.kind === 'none') return null
    if (dialog.kind === 'paste') return this.#paste()
    return dialog.kind === 'delete' ? this.#deletion(dialog.variable.name) : this.#form(dialog.kind === 'edit' ? dialog.variable : null)
  }

  #form(before: Variable | null): Template {
    const at = this.#refusal instanceof Refused ? this.#refusal.field?.replace(/^.*\./, '') : undefined
    const errorOf = (name: string): string | undefined => (at === name ? errorWords(this.#refusal) : undefined)
    const keeps = before !== null && before.secret && before.hasValue
    return html`
      <form class="form" @submit="${(event: Event) => void this.#save(event, before)}">
        ${before !== null ? null : field({
          form: 'variable', name: 'name', label: t('Name'), isRequired: true, isMono: true, hasFocus: true,
          placeholder: 'DATABASE_URL', error: errorOf('name')
        })}
        <div class="${this.#isSecret ? 'hidden' : null}">
          ${field({
            form: 'variable', name: 'value', label: t('Value'), rows: 3, isMono: true, error: errorOf('value'),
            hasFocus: before !== null, value: before?.value ?? '',
            ...(keeps ? { hint: t('Empty: the value stays as it is.') } : {})
          })}
        </div>
        ${this.#secretSwitch()}
        ${errorLine(this.#refusal === null || at === 'name' || at === 'value' ? null : errorWords(this.#refusal))}
        ${this.#buttons(t('Save'))}
      </form>`
  }

  #paste(): Template {
    const refusal = this.#refusal
    return html`
      <form class="form" @submit="${(event: Event) => void this.#import(event)}">
        ${field({
          form: 'variable', name: 'dotenv', label: t('Lines like NAME=value'), rows: 10, isMono: true, hasFocus: true, isRequired: true,
          hint: t('Variables of the same name are replaced, the others stay. Nothing is expanded.'),
          error: refusal instanceof Refused && refusal.field === 'dotenv' ? errorWords(refusal) : undefined
        })}
        ${this.#secretSwitch()}
        ${errorLine(refusal === null || (refusal instanceof Refused && refusal.field === 'dotenv') ? null : errorWords(refusal))}
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
        <p class="hint" id="variable-secret-hint">${t('Stored encrypted, never shown again, and *** in outputs. At least 4 characters.')}</p>
      </div>`
  }

  #deletion(name: string): Template {
    return question({
      asked: html`<p>${t('Scripts no longer get it from the next deployment on. The value cannot be brought back.')}</p>`,
      problem: this.#refusal === null ? null : errorWords(this.#refusal),
      isBusy: this.#isBusy,
      answer: t('Delete'),
      onAnswer: event => {
        event.preventDefault()
        void this.#change({ unset: [name] }, t('{name} is deleted', { name }))
      },
      onRefusal: () => this.#open({ kind: 'none' })
    })
  }

  #buttons(last: string): Template {
    return html`
      <div class="actions end">
        <button type="button" @click="${() => this.#open({ kind: 'none' })}">${t('Cancel')}</button>
        <button class="primary" disabled="${this.#isBusy}">${last}</button>
      </div>`
  }

  #open(dialog: Dialog): void {
    this.#dialog = dialog
    this.#refusal = null
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
    // A form's text has the line ends of the network.
    const text = (values['value'] ?? '').replaceAll('\r\n', '\n')
    const isKept = text === '' && before !== null && before.secret && before.hasValue
    const variable: GivenVariable = { name, value: isKept ? null : text, secret: this.#isSecret }
    await this.#change({ variables: [variable] }, t('{name} is set', { name }))
  }

  async #import(event: Event): Promise<void> {
    const { dotenv = '' } = submitted(event)
    await this.#change({ dotenv, secret: this.#isSecret }, t('The variables are set'))
  }

  async #change(change: VariablesChange, done: string): Promise<void> {
    this.#isBusy = true
    this.#refusal = null
    this.update()
    try {
      await this.calls.changeVariables(this.#project.id, change)
      this.#open({ kind: 'none' })
      this.dispatchEvent(new NoticeEvent(done))
      void this.#variables.load()
    } catch (error) {
      this.#refusal = error
    }
    this.#isBusy = false
    this.update()
  }
}
