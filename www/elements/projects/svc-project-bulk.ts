import type { Client } from '../../server/client.js'
import { type Labels, changeProjects } from '../../server/requests.js'
import { notice, said, type Said, css, SvcElement } from '../element.js'
import type { BulkAction, ShownProject as Project } from '../../../lib/model/project.js'
import { html, icon, type Template } from '../../dom/html.js'
import { countWords, numberWords, t, serverWords } from '../../words/t.js'
import { confirmation, question, Submission, submitted } from '../base/form.js'
import { clientScripts } from './project-fields.js'
import type { SvcMenu } from '../base/svc-menu.js'

type TagAction = 'addTags' | 'removeTags'

const done: Record<BulkAction['action'], { words: string }> = {
  addTags: { words: 'Tagged: {projects}' },
  removeTags: { words: 'Untagged: {projects}' },
  setClientScripts: { words: 'Client scripts set: {projects}' },
  setCategory: { words: 'Category set: {projects}' },
  delete: { words: 'Deleted: {projects}' }
}
/** Maximum number of names shown before a deletion. */
const shownNames = 8

/**
 * Actions on several projects at once. Properties: `projects`, the chosen ones; `labels`, `client`. Events: `bulkdone`,
 * `notice`.
 */
export class SvcProjectBulk extends SvcElement {
  static override sheet = css`
    svc-project-bulk {
      display: flex;
      flex-wrap: wrap;
      gap: 8px;

      .choices { display: grid; gap: 2px; }
      .choices button { justify-content: flex-start; min-height: 32px; border-color: transparent; font-weight: 400; }
      .panel > form { display: grid; gap: 8px; }
      dialog li { overflow-wrap: anywhere; }
      dialog ul { max-height: 220px; padding-left: 20px; overflow-y: auto; list-style: disc; }
    }
  `

  client!: Client
  projects: readonly Project[] = []
  labels: Labels = { categories: [], tags: [] }
  #tagIds: readonly string[] = []
  #isDeleting = false
  readonly #submission = new Submission(this)

  protected override view(): Template {
    return html`
      ${this.#tagMenu('addTags', t('Tag'))}
      ${this.#tagMenu('removeTags', t('Untag'))}
      <svc-menu label="${t('Category')}" picture="folder" .content="${this.#categories()}"></svc-menu>
      <svc-menu label="${t('Scripts in a push')}" picture="settings" .content="${this.#clientScripts()}"></svc-menu>
      <button type="button" class="danger" @click="${() => this.#deleting(true)}">${icon('delete')}${t('Delete…')}</button>
      <svc-dialog heading="${t('Delete {projects}?', { projects: this.#what })}"
        .content="${this.#isDeleting ? this.#deleteForm() : null}"
        @dialogclose="${() => this.#deleting(false)}"></svc-dialog>`
  }

  get #what(): string {
    const [only] = this.projects
    return only !== undefined && this.projects.length === 1 ? only.name : countWords(this.projects.length, 'project')
  }

  #tagMenu(action: TagAction, label: string): Template {
    const apply = (event: Event): void => {
      event.preventDefault()
      void this.#apply({ action, categoryId: null, tagIds: [...this.#tagIds] })
    }
    return html`
      <svc-menu label="${label}" picture="tag" .content="${html`
        <form @submit="${apply}">
          <svc-tag-choice list="" label="${label}" .tags="${this.labels.tags}" .chosen="${this.#tagIds}"
            @tagchoice="${(event: Event) => this.#choose((event as Said<'tagchoice'>).tagIds)}"></svc-tag-choice>
          <button class="primary" disabled="${this.#tagIds.length === 0 || this.#submission.isBusy}">${label}</button>
        </form>`}"></svc-menu>`
  }

  #categories(): Template {
    const set = (categoryId: string | null): void => void this.#apply({ action: 'setCategory', categoryId })
    return html`
      <div class="choices">
        ${this.labels.categories.map(
          ({ id, name, color }) => html`
          <button type="button" disabled="${this.#submission.isBusy}" @click="${() => set(id)}">
            <svc-label kind="category" name="${name}" color="${color}"></svc-label>
          </button>`
        )}
        <button type="button" class="quiet" disabled="${this.#submission.isBusy}" @click="${() => set(null)}">${t('No category')}</button>
      </div>`
  }

  #clientScripts(): Template {
    const set = (allowClientScripts: boolean | null): void =>
      void this.#apply({ action: 'setClientScripts', categoryId: null, allowClientScripts })
    return html`
      <div class="choices">
        ${clientScripts.map(
          ({ allowed, words }) => html`
          <button type="button" disabled="${this.#submission.isBusy}" @click="${() => set(allowed)}">${t(words)}</button>`
        )}
      </div>`
  }

  #deleteForm(): Template {
    const more = this.projects.length - shownNames
    const [only] = this.projects
    const name = this.projects.length === 1 ? (only?.name ?? '') : numberWords(this.projects.length)
    return question({
      asked: html`
        <p>${t('Their deployments, output and archives are permanently deleted. The files in their directories stay.')}</p>
        <ul>
          ${this.projects.slice(0, shownNames).map(project => html`<li>${project.name}</li>`)}
          ${more > 0 ? html`<li>${t('and {count} more', { count: numberWords(more) })}</li>` : null}
        </ul>
        ${confirmation('bulk', name)}`,
      submission: this.#submission,
      answer: t('Delete {projects}', { projects: this.#what }),
      onAnswer: event => void this.#delete(event, name),
      onRefusal: () => this.#deleting(false)
    })
  }

  #choose(tagIds: readonly string[]): void {
    this.#tagIds = tagIds
    this.update()
  }

  #deleting(isDeleting: boolean): void {
    this.#isDeleting = isDeleting
    this.#submission.refuse(null)
  }

  async #delete(event: Event, name: string): Promise<void> {
    if (submitted(event)['confirmation']?.trim() !== name) {
      return this.#submission.refuse(t('The text does not match. Type “{name}”.', { name }))
    }
    if (await this.#apply({ action: 'delete', categoryId: null })) this.#deleting(false)
  }

  /** Returns whether the server accepted the action. */
  async #apply(action: BulkAction): Promise<boolean> {
    const { projects } = this
    const isDone = await this.#submission.run(async () => {
      const { done: count, failed } = await changeProjects(
        this.client,
        projects.map(({ id }) => id),
        action
      )
      for (const menu of this.querySelectorAll('svc-menu')) (menu as SvcMenu).close()
      this.#tagIds = []
      const words = t(done[action.action].words, { projects: countWords(count, 'project') })
      if (count > 0) this.dispatchEvent(notice(words))
      const nameOf = (id: string): string => projects.find(project => project.id === id)?.name ?? id
      this.dispatchEvent(
        said('bulkdone', {
          failed: failed.map(({ id, error }) => ({ id, name: nameOf(id), problem: serverWords(error) })),
          left: []
        })
      )
    })
    const { problem } = this.#submission
    if (problem !== null && !this.#isDeleting) this.dispatchEvent(notice(problem, 'failed'))
    return isDone
  }
}
