import { notice, said } from '../events.js'
import type { DeploymentRow } from '../../../lib/model/deployment.js'
import { css, SvcElement } from '../../dom/element.js'
import { html, icon, type Template } from '../../dom/html.js'
import type { ExactCalls } from '../../server/exact-calls.js'
import { may } from '../../state/rights.js'
import { t } from '../../words/t.js'
import { question } from '../base/question.js'
import { Submission } from '../base/submission.js'

/**
 * Shows the size of the archive of a deployment, and deletes it. Properties: `deployment`, `exactCalls`, `size` in words. Events:
 * `archivedeleted`, `notice`.
 */
export class SvcArchive extends SvcElement {
  static override sheet = css`
    svc-archive > button { margin-left: 8px; }
  `

  deployment!: DeploymentRow
  exactCalls!: ExactCalls
  size = ''
  #isAsking = false
  #isForced = false
  readonly #submission = new Submission(() => this.update())

  protected override view(): Template {
    const { hasArtifact, status } = this.deployment
    const isOver = status === 'success' || status === 'failed'
    return html`<span>${this.size}${hasArtifact ? null : t(', deleted')}</span>${
      hasArtifact && isOver && may('delete_archive')
        ? html`
        <button type="button" class="quiet" aria-label="${t('Delete the archive…')}" title="${t('Delete the archive…')}"
          @click="${() => this.#ask(true)}">${icon('delete')}</button>`
        : null
    }
      <svc-dialog heading="${t('Delete the archive?')}" .content="${this.#isAsking ? this.#question() : null}"
        @dialogclose="${() => this.#ask(false)}"></svc-dialog>`
  }

  #question(): Template {
    const choose = (event: Event): void => {
      this.#isForced = (event.currentTarget as HTMLInputElement).checked
    }
    return question({
      asked: html`
        <p>${t('Nobody can roll back to this deployment afterwards. Its record, output and list of files stay.')}</p>
        <label class="check">
          <input type="checkbox" .checked="${this.#isForced}" @change="${choose}">
          <span>${t('Also if an exact undo needs it')}</span>
        </label>`,
      submission: this.#submission,
      answer: t('Delete the archive'),
      onAnswer: event => {
        event.preventDefault()
        void this.#delete()
      },
      onRefusal: () => this.#ask(false)
    })
  }

  #ask(isAsking: boolean): void {
    this.#isAsking = isAsking
    this.#isForced = false
    this.#submission.refuse(null)
  }

  async #delete(): Promise<void> {
    const isDone = await this.#submission.run(async () => {
      const deployment = await this.exactCalls.deleteArchive(this.deployment.id, this.#isForced)
      this.dispatchEvent(notice(t('Archive deleted')))
      this.dispatchEvent(said('archivedeleted', { deployment }))
    })
    if (isDone) this.#ask(false)
  }
}
