import type { Project } from '../../lib/model/project.js'
import type { Calls } from '../server/calls.js'
import { css, SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { t } from '../words/t.js'
import { field, submitted } from './field.js'
import { question } from './question.js'
import { errorWords } from '../words/errors.js'

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
    projectdeleted: ProjectDeletedEvent
  }
}

/** The end of a project, which asks for its name. Properties `project`, `calls`. Event `projectdeleted`. */
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

  calls!: Calls
  #project!: Project
  #isAsking = false
  #isBusy = false
  #problem: string | null = null

  get project(): Project {
    return this.#project
  }

  set project(project: Project) {
    this.#project = project
    this.update()
  }

  protected override view(): Template {
    const { name } = this.#project
    return html`
      <h2>${t('Delete this project')}</h2>
      <div class="card ending">
        <p class="muted">
          ${t('Its deployments, their output and archives go with it. The files in its directory stay where they are.')}
        </p>
        <button type="button" class="danger" @click="${() => this.#ask(true)}">${t('Delete project…')}</button>
      </div>
      <svc-dialog heading="${t('Delete {name}?', { name })}" .content="${this.#isAsking ? this.#question() : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  #question(): Template {
    const { name, deployPath } = this.#project
    return question({
      asked: html`
        <p class="anywhere">
          ${t('All its deployments, output and archives are lost for good. The files in {path} stay.', { path: deployPath })}
        </p>
        ${field({
          form: 'delete', name: 'confirmation', label: t('Type “{name}” to confirm', { name }), isRequired: true,
          hasFocus: true
        })}`,
      problem: this.#problem,
      isBusy: this.#isBusy,
      answer: t('Delete project'),
      onAnswer: event => void this.#delete(event),
      onRefusal: () => this.#ask(false)
    })
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.#problem = null
    this.update()
  }

  async #delete(event: Event): Promise<void> {
    const { id, name } = this.#project
    if (submitted(event)['confirmation']?.trim() !== name) {
      this.#problem = t('That is not its name: type “{name}”.', { name })
      return this.update()
    }
    this.#isBusy = true
    this.update()
    try {
      await this.calls.deleteProject(id)
      this.dispatchEvent(new ProjectDeletedEvent(name))
    } catch (error) {
      this.#problem = errorWords(error)
    }
    this.#isBusy = false
    this.update()
  }
}
