import type { Client } from '../../server/client.js'
import type { Labels } from '../../server/requests.js'
import { notice, said, type Said, css, SvcElement } from '../element.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import { html, keyed, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { confirmation, question, Submission, submitted } from '../base/form.js'
import { SvcConflict, UnsavedCards } from '../base/saving.js'
import { maskWords } from '../base/words.js'
import type { PageContext } from '../../pages/page.js'
import { SvcLabel } from '../base/facts.js'
import { type CardName, cards } from './project-cards.js'
import { SvcProjectCard } from './svc-project-card.js'
import { SvcTagChoice } from './project-fields.js'
import { SvcVariables } from './svc-variables.js'

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
