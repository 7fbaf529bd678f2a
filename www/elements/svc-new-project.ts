import type { Project } from '../../lib/model/project.js'
import type { PlaceCalls } from '../server/place-calls.js'
import type { Labels, ProjectCalls } from '../server/project-calls.js'
import { Refused } from '../server/client.js'
import { css, SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { t } from '../words/t.js'
import { errorLine, field, submitted } from './field.js'
import { categoryField } from './category-field.js'
import { pathField } from './path-field.js'
import { proposedPath } from './proposed-path.js'
import { DialogCloseEvent } from './svc-dialog.js'
import { SvcPlaces } from './svc-places.js'
import { SvcLabel } from './svc-label.js'
import { SvcTagChoice, TagChoiceEvent } from './svc-tag-choice.js'
import { errorWords } from '../words/errors.js'

/** There is a new project. */
export class ProjectCreatedEvent extends Event {
  readonly project: Project

  constructor(project: Project) {
    super('projectcreated', { bubbles: true })
    this.project = project
  }
}

declare global {
  interface HTMLElementEventMap {
    projectcreated: ProjectCreatedEvent
  }
}

const ownFields = new Set(['name', 'deployPath', 'env', 'description'])

/**
 * The form that creates a project, for a dialog. Properties `calls`, `places`, `labels`, `environments`: those there are.
 * Events `projectcreated`; `dialogclose`: the reader does not want to.
 */
export class SvcNewProject extends SvcElement {
  static override sheet = css`
    svc-new-project {
      display: block;

      .pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 20px; align-items: start; }
      @media (max-width: 719px) { .pair { grid-template-columns: minmax(0, 1fr); } }
    }
  `

  calls!: ProjectCalls
  places!: PlaceCalls
  environments: readonly string[] = []
  #labels: Labels = { categories: [], tags: [] }
  #basePath = ''
  #path = ''
  /** The path follows the name until the reader writes one. */
  #isPathOwn = false
  #isChoosing = false
  #tagIds: readonly string[] = []
  #refusal: unknown = null
  #isCreating = false

  get labels(): Labels {
    return this.#labels
  }

  set labels(labels: Labels) {
    this.#labels = labels
    this.update()
  }

  protected override connected(): void {
    // Only a proposal: without it the reader writes the path.
    this.calls.defaultPath(this.signal).then(path => (this.#basePath = path), () => {})
  }

  protected override view(): Template {
    const refusal = this.#refusal
    const errorOf = (name: string): string | undefined =>
      refusal instanceof Refused && refusal.field === name ? errorWords(refusal) : undefined
    const isOfField = refusal instanceof Refused && ownFields.has(refusal.field ?? '')
    return html`
      <form class="form" @submit="${(event: Event) => void this.#create(event)}">
        ${field({
          form: 'new', name: 'name', label: t('Name'), placeholder: 'storefront', isRequired: true, hasFocus: true,
          error: errorOf('name'), onInput: name => this.#named(name)
        })}
        ${pathField({
          form: 'new', placeholder: '/srv/storefront', value: this.#path, error: errorOf('deployPath'),
          hint: t('Absolute. It is created with the first deployment if it is missing.'),
          onInput: path => this.#pathIs(path),
          calls: this.places, isChoosing: this.#isChoosing, start: this.#path,
          onChoosing: isChoosing => this.#choosing(isChoosing), onChosen: path => this.#pathIs(path)
        })}
        <div class="pair">
          ${field({
            form: 'new', name: 'env', label: t('Environment'), placeholder: 'production', error: errorOf('env'),
            proposals: this.environments
          })}
          ${categoryField({ form: 'new', categories: this.#labels.categories, chosen: null })}
        </div>
        ${field({ form: 'new', name: 'description', label: t('Description'), error: errorOf('description') })}
        ${this.#labels.tags.length === 0
          ? null
          : html`
            <svc-tag-choice label="${t('Tags')}" .tags="${this.#labels.tags}" .chosen="${this.#tagIds}"
              @tagchoice="${(event: Event) => (this.#tagIds = (event as TagChoiceEvent).tagIds)}"></svc-tag-choice>`}
        ${errorLine(refusal === null || isOfField ? null : errorWords(refusal))}
        <div class="actions end">
          <button type="button" @click="${() => this.dispatchEvent(new DialogCloseEvent())}">${t('Cancel')}</button>
          <button class="primary" disabled="${this.#isCreating}">
            ${this.#isCreating ? t('Creating…') : t('Create project')}
          </button>
        </div>
      </form>`
  }

  #named(name: string): void {
    if (this.#isPathOwn) return
    this.#path = proposedPath(this.#basePath, name)
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
    const { name = '', deployPath = '', env = '', description = '', categoryId = '' } = submitted(event)
    this.#isCreating = true
    this.#refusal = null
    this.update()
    try {
      const project = await this.calls.create({
        name: name.trim(),
        deployPath: deployPath.trim(),
        ...(env.trim() === '' ? {} : { env: env.trim() }),
        ...(description.trim() === '' ? {} : { description: description.trim() }),
        ...(categoryId === '' ? {} : { categoryId }),
        ...(this.#tagIds.length === 0 ? {} : { tagIds: [...this.#tagIds] })
      })
      this.dispatchEvent(new ProjectCreatedEvent(project))
    } catch (error) {
      this.#refusal = error
    }
    this.#isCreating = false
    this.update()
  }
}

export const elements = {
  'svc-new-project': SvcNewProject,
  'svc-places': SvcPlaces,
  'svc-label': SvcLabel,
  'svc-tag-choice': SvcTagChoice
}
