import type { Project } from '../../lib/model/project.js'
import type { Calls } from '../server/calls.js'
import { css, SvcElement } from '../dom/element.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { t } from '../words/t.js'
import { question } from './question.js'
import { NoticeEvent } from './svc-notices.js'
import { ProjectChangeEvent } from './svc-project-form.js'
import { maskWords } from './words.js'
import { errorWords } from '../words/errors.js'

/**
 * A project's deploy token: shown on request, copied, replaced. Properties `project`, `calls`. Events `projectchange`,
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

  calls!: Calls
  #project!: Project
  #isShown = false
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
    const { token, name } = this.#project
    return html`
      <header>
        <h2>${t('Deploy token')}</h2>
        <p class="muted">${t('Lets a push deploy to this project, and to no other.')}</p>
        <p class="muted">${this.#reach()}</p>
      </header>
      <div class="token">
        <code aria-label="${t('Deploy token')}">${this.#isShown ? token : maskWords(token)}</code>
        <button type="button" @click="${() => this.#show()}">${this.#isShown ? t('Hide') : t('Show')}</button>
        <svc-copy .text="${token}"></svc-copy>
        <button type="button" @click="${() => this.#ask(true)}">${t('Regenerate…')}</button>
      </div>
      <svc-dialog heading="${t('Regenerate the deploy token?')}" .content="${this.#isAsking ? this.#question(name) : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  /** What the token can do beyond that, by what the project says of scripts that a push carries. */
  #reach(): string {
    const { allowClientScripts, runAs: user } = this.#project
    if (allowClientScripts !== false && user !== null) {
      return t('Unless scripts of a push are refused, in this project or in the settings, it also runs any command as the user {user}.', { user })
    }
    return allowClientScripts === false
      ? t('A push cannot bring scripts. What it uploads runs all the same where the scripts of this project start it.')
      : t('Unless scripts of a push are refused, in this project or in the settings, it also runs any command as the user of svc, who can read every token and every project.')
  }

  #question(name: string): Template {
    return question({
      asked: html`
        <p>
          ${t('The token that {name} has now stops working at once. Everything that pushes with it needs the new one.', { name })}
        </p>`,
      problem: this.#problem,
      isBusy: this.#isBusy,
      answer: t('Regenerate token'),
      onAnswer: event => void this.#regenerate(event),
      onRefusal: () => this.#ask(false)
    })
  }

  #show(): void {
    this.#isShown = !this.#isShown
    this.update()
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.#problem = null
    this.update()
  }

  async #regenerate(event: Event): Promise<void> {
    event.preventDefault()
    this.#isBusy = true
    this.update()
    try {
      const token = await this.calls.regenerateToken(this.#project.id)
      this.#ask(false)
      this.dispatchEvent(new ProjectChangeEvent({ ...this.#project, token }))
      this.dispatchEvent(new NoticeEvent(t('The deploy token is new; the old one no longer works')))
    } catch (error) {
      this.#problem = errorWords(error)
    }
    this.#isBusy = false
    this.update()
  }
}
