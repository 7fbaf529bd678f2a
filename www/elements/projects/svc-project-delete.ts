import { said } from '../events.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { Calls } from '../../server/calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { submitted } from '../base/field.js'
import { question } from '../base/question.js'
import { confirmation } from './confirmation.js'
import { Submission } from '../base/submission.js'

/** Deletes a project after its name is typed. Properties: `project`, `calls`. Event: `projectdeleted`. */
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
  project!: Project
  #isAsking = false
  readonly #submission = new Submission(() => this.update())

  protected override view(): Template {
    const { name } = this.project
    return html`
      <h2>${t('Delete this project')}</h2>
      <div class="card ending">
        <p class="muted">
          ${t('Also deletes its deployments, their output and their archives. The files in its directory stay.')}
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
      await this.calls.deleteProject(id)
      this.dispatchEvent(said('projectdeleted', { name }))
    })
  }
}
