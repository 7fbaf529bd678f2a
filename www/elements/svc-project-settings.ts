import type { Project } from '../../lib/model/project.js'
import type { Calls, ProjectPatch } from '../server/calls.js'
import { Refused } from '../server/client.js'
import { css } from '../dom/css.js'
import { SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { errorLine, field, submitted } from './field.js'
import type { Field } from './field.js'
import { NoticeEvent } from './svc-notices.js'
import { errorWords, maskWords } from './words.js'

/** The project was changed; the record as it is now. */
export class ProjectChangeEvent extends Event {
  readonly project: Project

  constructor(project: Project) {
    super('projectchange', { bubbles: true })
    this.project = project
  }
}

/** The project is gone. */
export class ProjectDeletedEvent extends Event {
  readonly name: string

  constructor(name: string) {
    super('projectdeleted', { bubbles: true })
    this.name = name
  }
}

declare global {
  interface HTMLElementEventMap {
    projectchange: ProjectChangeEvent
    projectdeleted: ProjectDeletedEvent
  }
}

type Dialog = 'none' | 'regenerate' | 'delete'

const clientScripts: ReadonlyArray<{ value: string; allowed: boolean | null; words: string }> = [
  { value: '', allowed: null, words: "As the server's settings say" },
  { value: 'yes', allowed: true, words: 'Run them where this project has none of its own' },
  { value: 'no', allowed: false, words: 'Refuse a push that carries one' }
]

/**
 * What can be set on a project, its deploy token, and its deletion. Properties `project`, `calls`. Events
 * `projectchange`, `projectdeleted`, `notice`.
 */
export class SvcProjectSettings extends SvcElement {
  static override sheet = css`
    svc-project-settings {
      display: grid;
      gap: 40px;
      max-width: 760px;

      .group { display: grid; gap: 20px; grid-template-columns: minmax(0, 1fr); }
      .group > header { display: grid; gap: 4px; }
      .pair { display: grid; grid-template-columns: 1fr 1fr; gap: 20px; align-items: start; }
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
      .ending { display: flex; flex-wrap: wrap; align-items: center; gap: 16px; padding: 16px 20px; }
      .ending p { flex: 1 1 300px; }
      .save { display: flex; flex-wrap: wrap; align-items: center; gap: 16px; }
      @media (max-width: 719px) { .pair { grid-template-columns: 1fr; } }
    }
  `

  calls!: Calls
  #project!: Project
  #dialog: Dialog = 'none'
  #refusal: unknown = null
  #dialogProblem: string | null = null
  #isBusy = false
  #isDirty = false
  #isTokenShown = false

  get project(): Project {
    return this.#project
  }

  set project(project: Project) {
    this.#project = project
    this.update()
  }

  protected override connected(): void {
    this.listen(window, 'beforeunload', event => {
      if (this.#isDirty) event.preventDefault()
    })
  }

  protected override view(): Template {
    return html`${this.#form()}${this.#token()}${this.#end()}${this.#dialogs()}`
  }

  #form(): Template {
    const project = this.#project
    const refusedField = this.#refusal instanceof Refused ? this.#refusal.field : undefined
    const own = (name: keyof ProjectPatch & string, rest: Omit<Field, 'form' | 'name' | 'value'>): Template =>
      field({
        form: 'project',
        name,
        value: String(project[name] ?? ''),
        error: refusedField === name ? errorWords(this.#refusal) : undefined,
        ...rest
      })
    const isElsewhere = this.#refusal !== null && (refusedField === undefined || !formFields.has(refusedField))
    return html`
      <form class="group" @submit="${(event: Event) => void this.#save(event)}" @input="${() => this.#touched()}">
        <div class="pair">
          ${own('name', { label: 'Name', isRequired: true })}
          ${own('env', { label: 'Environment', placeholder: 'production' })}
        </div>
        ${own('description', { label: 'Description' })}
        ${own('deployPath', {
          label: 'Directory on the server', isRequired: true, isMono: true,
          hint: 'The next deployment goes there. Files of earlier ones stay where they are.'
        })}
        ${own('preDeployScript', {
          label: 'Pre-deploy script', rows: 4, isMono: true,
          hint: 'Runs in the directory before the files arrive. If it fails, nothing is replaced.'
        })}
        ${own('postDeployScript', {
          label: 'Post-deploy script', rows: 4, isMono: true, placeholder: 'systemctl restart storefront',
          hint: 'Runs in the directory after the files have arrived. Set here, it wins over one that a push carries.'
        })}
        <label class="check">
          <input type="checkbox" name="postDeployAsync" .checked="${project.postDeployAsync}">
          <span>Do not wait for the post-deploy script</span>
        </label>
        <div class="field">
          <label for="project-client-scripts">Scripts that a push carries</label>
          <select id="project-client-scripts" name="allowClientScripts">
            ${clientScripts.map(({ value, allowed, words }) => html`
              <option value="${value}" .selected="${allowed === project.allowClientScripts}">${words}</option>`)}
          </select>
        </div>
        ${errorLine(isElsewhere ? errorWords(this.#refusal) : null)}
        <div class="save">
          <button class="primary" disabled="${this.#isBusy || !this.#isDirty}">Save</button>
          ${this.#isDirty ? html`<span class="muted small">Not saved yet.</span>` : null}
        </div>
      </form>`
  }

  #token(): Template {
    const { token } = this.#project
    const isShown = this.#isTokenShown
    return html`
      <section class="group">
        <header>
          <h2>Deploy token</h2>
          <p class="muted">Lets a push deploy to this project, and to no other.</p>
        </header>
        <div class="token">
          <code aria-label="Deploy token">${isShown ? token : maskWords(token)}</code>
          <button type="button" @click="${() => this.#showToken()}">${isShown ? 'Hide' : 'Show'}</button>
          <svc-copy .text="${token}"></svc-copy>
          <button type="button" @click="${() => this.#open('regenerate')}">Regenerate…</button>
        </div>
      </section>`
  }

  #end(): Template {
    return html`
      <section class="group">
        <h2>Delete this project</h2>
        <div class="card ending">
          <p class="muted">
            Its deployments, their output and archives go with it. The files in its directory stay where they are.
          </p>
          <button type="button" class="danger" @click="${() => this.#open('delete')}">Delete project…</button>
        </div>
      </section>`
  }

  #dialogs(): Template {
    const { name } = this.#project
    const headings: Record<Dialog, string> = {
      none: '',
      regenerate: 'Regenerate the deploy token?',
      delete: `Delete ${name}?`
    }
    return html`
      <svc-dialog heading="${headings[this.#dialog]}" .content="${this.#dialogContent()}"
        @dialogclose="${() => this.#open('none')}"></svc-dialog>`
  }

  #dialogContent(): Template | null {
    const { name, deployPath } = this.#project
    const buttons = (word: string): Template => html`
      ${errorLine(this.#dialogProblem)}
      <div class="actions end">
        <button type="button" @click="${() => this.#open('none')}">Cancel</button>
        <button class="danger primary" disabled="${this.#isBusy}">${word}</button>
      </div>`
    if (this.#dialog === 'regenerate') {
      return html`
        <form class="form" @submit="${(event: Event) => void this.#regenerate(event)}">
          <p>The token that ${name} has now stops working at once. Everything that pushes with it needs the new one.</p>
          ${buttons('Regenerate token')}
        </form>`
    }
    if (this.#dialog === 'none') return null
    return html`
      <form class="form" @submit="${(event: Event) => void this.#delete(event)}">
        <p>
          All its deployments, output and archives are lost for good. The files in
          <code class="anywhere">${deployPath}</code> stay.
        </p>
        ${field({
          form: 'delete', name: 'confirmation', label: `Type “${name}” to confirm`, isRequired: true, hasFocus: true
        })}
        ${buttons('Delete project')}
      </form>`
  }

  #open(dialog: Dialog): void {
    this.#dialog = dialog
    this.#dialogProblem = null
    this.update()
  }

  #touched(): void {
    this.#isDirty = true
    this.update()
  }

  #showToken(): void {
    this.#isTokenShown = !this.#isTokenShown
    this.update()
  }

  async #save(event: Event): Promise<void> {
    const values = submitted(event)
    this.#refusal = null
    await this.#busy(async () => {
      const project = await this.calls.updateProject(this.#project.id, patchOf(values))
      this.#isDirty = false
      this.dispatchEvent(new ProjectChangeEvent(project))
      this.dispatchEvent(new NoticeEvent('Saved'))
    }, error => (this.#refusal = error))
  }

  async #regenerate(event: Event): Promise<void> {
    event.preventDefault()
    await this.#busy(async () => {
      const token = await this.calls.regenerateToken(this.#project.id)
      this.#open('none')
      this.dispatchEvent(new ProjectChangeEvent({ ...this.#project, token }))
      this.dispatchEvent(new NoticeEvent('The deploy token is new; the old one no longer works'))
    }, error => (this.#dialogProblem = errorWords(error)))
  }

  async #delete(event: Event): Promise<void> {
    const { id, name } = this.#project
    if (submitted(event)['confirmation']?.trim() !== name) {
      this.#dialogProblem = `That is not its name: type “${name}”.`
      return this.update()
    }
    await this.#busy(async () => {
      await this.calls.deleteProject(id)
      this.#isDirty = false
      this.dispatchEvent(new ProjectDeletedEvent(name))
    }, error => (this.#dialogProblem = errorWords(error)))
  }

  async #busy(work: () => Promise<void>, onError: (error: unknown) => void): Promise<void> {
    this.#isBusy = true
    this.update()
    try {
      await work()
    } catch (error) {
      onError(error)
    }
    this.#isBusy = false
    this.update()
  }
}

const formFields = new Set(['name', 'env', 'description', 'deployPath', 'preDeployScript', 'postDeployScript'])

function patchOf(values: Record<string, string>): ProjectPatch {
  const { name = '', env = '', description = '', deployPath = '' } = values
  const { preDeployScript = '', postDeployScript = '', allowClientScripts = '' } = values
  return {
    name: name.trim(),
    description: description.trim(),
    deployPath: deployPath.trim(),
    ...(env.trim() === '' ? {} : { env: env.trim() }),
    // A form's text has the line ends of the network; a shell stumbles over them.
    preDeployScript: preDeployScript.replaceAll('\r\n', '\n'),
    postDeployScript: postDeployScript.replaceAll('\r\n', '\n'),
    postDeployAsync: values['postDeployAsync'] !== undefined,
    allowClientScripts: clientScripts.find(({ value }) => value === allowClientScripts)?.allowed ?? null
  }
}
