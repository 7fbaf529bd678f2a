import type { Said } from '../events.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { PageContext } from '../../pages/page.js'
import type { PlaceCalls } from '../../server/place-calls.js'
import type { Labels, ProjectCalls } from '../../server/project-calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { SvcConflict } from '../base/svc-conflict.js'
import { SvcLabel } from '../base/svc-label.js'
import { SvcProjectDelete } from './svc-project-delete.js'
import { SvcProjectForm } from './svc-project-form.js'
import { SvcProjectPolicy } from './svc-project-policy.js'
import { SvcProjectToken } from './svc-project-token.js'
import { SvcTagChoice } from './svc-tag-choice.js'
import { SvcVariables } from './svc-variables.js'

/**
 * The settings of a project: its form, its policy, its variables, its token, its deletion. Leaving with unsaved changes
 * asks first. Properties: `project`, `context`, `calls`, `places`, `labels`; `isPlaced`: whether it is rolled out to nodes. Events: `projectchange`, `projectdeleted`,
 * `notice`.
 */
export class SvcProjectSettings extends SvcElement {
  static override sheet = css`
    svc-project-settings {
      display: grid;
      gap: 40px;
      grid-template-columns: minmax(0, 1fr);
      max-width: 760px;
    }
  `

  context!: PageContext
  calls!: ProjectCalls
  places!: PlaceCalls
  project!: Project
  labels: Labels = { categories: [], tags: [] }
  isPlaced = false
  #leave: (() => void) | null = null
  /** The forms with unsaved changes. */
  readonly #unsaved = new Set<EventTarget | null>()

  protected override connected(): void {
    this.signal.addEventListener('abort', () => this.context.guard(null))
  }

  protected override view(): Template {
    const project = this.project
    return html`
      <svc-project-form .project="${project}" .define="${this.context.define}" .calls="${this.calls}" .places="${this.places}" .labels="${this.labels}"
        @unsaved="${(event: Event) => this.#guard(event as Said<'unsaved'>)}"></svc-project-form>
      <svc-project-policy .project="${project}" .calls="${this.calls}" .isPlaced="${this.isPlaced}"
        @unsaved="${(event: Event) => this.#guard(event as Said<'unsaved'>)}"></svc-project-policy>
      <svc-variables .project="${project}" .calls="${this.calls}"></svc-variables>
      <svc-project-token .project="${project}" .calls="${this.context.calls}"></svc-project-token>
      <svc-project-delete .project="${project}" .calls="${this.context.calls}"
        @projectdeleted="${() => this.context.guard(null)}"></svc-project-delete>
      <svc-dialog heading="${t('Leave without saving?')}"
        .content="${this.#leave === null ? null : this.#question(this.#leave)}"
        @dialogclose="${() => this.#stay()}"></svc-dialog>`
  }

  #question(leave: () => void): Template {
    return html`
      <div class="form">
        <p>${t('The settings of {name} have unsaved changes.', { name: this.project.name })}</p>
        <div class="actions end">
          <button type="button" autofocus="" @click="${() => this.#stay()}">${t('Stay')}</button>
          <button type="button" class="danger" @click="${leave}">${t('Discard changes')}</button>
        </div>
      </div>`
  }

  #guard({ target, isUnsaved }: Said<'unsaved'>): void {
    if (isUnsaved) this.#unsaved.add(target)
    else this.#unsaved.delete(target)
    this.context.guard(this.#unsaved.size > 0 ? leave => this.#ask(leave) : null)
  }

  #ask(leave: () => void): void {
    this.#leave = leave
    this.update()
  }

  #stay(): void {
    this.#leave = null
    this.update()
  }
}

/** The elements that a page registers for the settings of a project. */
export const elements = {
  'svc-project-settings': SvcProjectSettings,
  'svc-project-form': SvcProjectForm,
  'svc-project-policy': SvcProjectPolicy,
  'svc-conflict': SvcConflict,
  'svc-variables': SvcVariables,
  'svc-project-token': SvcProjectToken,
  'svc-project-delete': SvcProjectDelete,
  'svc-label': SvcLabel,
  'svc-tag-choice': SvcTagChoice
}
