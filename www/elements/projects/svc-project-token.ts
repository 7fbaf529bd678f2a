import { notice, said } from '../events.js'
import type { ShownProject as Project } from '../../../lib/model/project.js'
import type { Calls } from '../../server/calls.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { question } from '../base/question.js'
import { maskWords } from '../base/words.js'
import { Submission } from '../base/submission.js'

/**
 * The deploy token of a project: show, copy, regenerate. Properties: `project`, `calls`. Events: `projectchange`,
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
  project!: Project
  #isShown = false
  #isAsking = false
  readonly #submission = new Submission(() => this.update())

  protected override view(): Template {
    const { name } = this.project
    // A session that has not given its token lately does not get this one.
    const token = this.project.token as string | null
    return html`
      <header>
        <h2>${t('Deploy token')}</h2>
        <p class="muted">${t('Allows pushes to this project only.')}</p>
        <p class="muted">${this.#reach()}</p>
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

  async #show(): Promise<void> {
    if ((this.project.token as string | null) === null) {
      const project = await this.calls.provenProject(this.project.id).catch(() => null)
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
      const token = await this.calls.regenerateToken(this.project.id)
      this.#ask(false)
      this.dispatchEvent(said('projectchange', { project: { ...this.project, token } }))
      this.dispatchEvent(notice(t('Deploy token regenerated. The old token no longer works')))
    })
  }
}
