import type { Client } from '../../server/client.js'
import { said, type Said, css, SvcElement } from '../element.js'
import type { Labels } from '../../server/requests.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { errorLine, field, Submission, submitted } from '../base/form.js'
import { categoryField, createCommand, pathField, proposedPath, proposedUser, SvcTagChoice } from './project-fields.js'
import { SvcCopy, SvcLabel } from '../base/facts.js'
import { SvcPlaces } from '../base/svc-places.js'

const ownFields = ['name', 'deployPath', 'runAs', 'env', 'description']

/**
 * The form that creates a project, for a dialog. Properties: `client`, `labels`; `environments`, the existing
 * ones. Events: `projectcreated`; `dialogclose`, if the reader cancels.
 */
export class SvcNewProject extends SvcElement {
  static override sheet = css`
    svc-new-project {
      display: block;

      .pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 20px; align-items: start; }
      @media (max-width: 719px) { .pair { grid-template-columns: minmax(0, 1fr); } }
    }
  `

  client!: Client
  environments: readonly string[] = []
  labels: Labels = { categories: [], tags: [] }
  #basePath = ''
  #name = ''
  #path = ''
  /** False while the path still follows the name, because the reader has not typed a path. */
  #isPathOwn = false
  /** Whether the server can give the project a user. */
  #hasUsers = false
  #user = ''
  /** False while the user still follows the name. */
  #isUserOwn = false
  #isChoosing = false
  #tagIds: readonly string[] = []
  readonly #submission = new Submission(this)

  protected override connected(): void {
    const { client, signal } = this
    client.call('GET /api/settings/status', { signal }).then(
      ({ switchesUsers }) => {
        this.#hasUsers = switchesUsers === true
        this.update()
      },
      () => {}
    )
    // The default path is only a proposal. Without it, the reader types the path.
    client.call('GET /api/settings', { signal }).then(
      ({ default_deploy_path: path = '' }) => (this.#basePath = path),
      () => {}
    )
  }

  protected override view(): Template {
    const { isBusy } = this.#submission
    return html`
      <form class="form" @submit="${(event: Event) => void this.#create(event)}">
        ${field({
          form: 'new',
          name: 'name',
          label: t('Name'),
          placeholder: 'storefront',
          isRequired: true,
          hasFocus: true,
          error: this.#submission.problemOf('name'),
          onInput: name => this.#named(name)
        })}
        ${pathField({
          form: 'new',
          placeholder: '/srv/storefront',
          value: this.#path,
          error: this.#submission.problemOf('deployPath'),
          hint: t('Absolute path. The first deployment creates the directory if it does not exist.'),
          onInput: path => this.#pathIs(path),
          client: this.client,
          isChoosing: this.#isChoosing,
          start: this.#path,
          onChoosing: isChoosing => this.#choosing(isChoosing),
          onChosen: path => this.#pathIs(path)
        })}
        ${this.#hasUsers ? this.#userField() : null}
        <div class="pair">
          ${field({
            form: 'new',
            name: 'env',
            label: t('Environment'),
            placeholder: 'production',
            error: this.#submission.problemOf('env'),
            proposals: this.environments
          })}
          ${categoryField({ form: 'new', categories: this.labels.categories, chosen: null })}
        </div>
        ${field({ form: 'new', name: 'description', label: t('Description'), error: this.#submission.problemOf('description') })}
        ${
          this.labels.tags.length === 0
            ? null
            : html`
            <svc-tag-choice label="${t('Tags')}" .tags="${this.labels.tags}" .chosen="${this.#tagIds}"
              @tagchoice="${(event: Event) => (this.#tagIds = (event as Said<'tagchoice'>).tagIds)}"></svc-tag-choice>`
        }
        ${errorLine(this.#submission.problemBeside(ownFields))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(said('dialogclose'))}">${t('Cancel')}</button>
          <button class="primary" disabled="${isBusy}">
            ${isBusy ? t('Creating…') : t('Create project')}
          </button>
        </div>
      </form>`
  }

  #userField(): Template {
    const problem = this.#submission.problemOf('runAs')
    const command = createCommand({ name: this.#name, path: this.#path, user: this.#user })
    return html`
      ${field({
        form: 'new',
        name: 'runAs',
        label: t('Run as user'),
        isMono: true,
        value: this.#user,
        error: problem,
        hint: t('A system user for this project only. Without one, its deployments run commands as root.'),
        onInput: user => this.#userIs(user)
      })}
      ${
        problem === undefined || this.#user === ''
          ? null
          : html`
          <div class="field">
            <p class="hint">${t('On the server, as root, this creates the user and the project:')}</p>
            <div class="command"><pre translate="no">${command}</pre><svc-copy .text="${command}"></svc-copy></div>
          </div>`
      }`
  }

  #named(name: string): void {
    this.#name = name
    if (!this.#isPathOwn) this.#path = proposedPath(this.#basePath, name)
    if (!this.#isUserOwn) this.#user = proposedUser(name)
    this.update()
  }

  #userIs(user: string): void {
    this.#user = user
    // An empty field is a decision, too.
    this.#isUserOwn = true
    this.update()
  }

  #pathIs(path: string): void {
    this.#path = path
    this.#isPathOwn = path !== ''
    this.update()
  }

  #choosing(isChoosing: boolean): void {
    this.#isChoosing = isChoosing
    this.update()
    if (!isChoosing) this.querySelector<HTMLElement>('#new-deployPath')?.focus()
  }

  async #create(event: Event): Promise<void> {
    const { name = '', deployPath = '', env = '', description = '', categoryId = '', runAs = '' } = submitted(event)
    await this.#submission.run(async () => {
      const { project } = await this.client.call('POST /api/projects', {
        body: {
          name: name.trim(),
          deployPath: deployPath.trim(),
          ...(env.trim() === '' ? {} : { env: env.trim() }),
          ...(runAs.trim() === '' ? {} : { runAs: runAs.trim() }),
          ...(description.trim() === '' ? {} : { description: description.trim() }),
          ...(categoryId === '' ? {} : { categoryId }),
          ...(this.#tagIds.length === 0 ? {} : { tagIds: [...this.#tagIds] })
        }
      })
      this.dispatchEvent(said('projectcreated', { project }))
    })
  }
}

/** The elements that a page registers for a new project. */
export const elements = {
  'svc-new-project': SvcNewProject,
  'svc-copy': SvcCopy,
  'svc-places': SvcPlaces,
  'svc-label': SvcLabel,
  'svc-tag-choice': SvcTagChoice
}
