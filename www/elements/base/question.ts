import { html, type Template } from '../../dom/html.js'
import { t } from '../../words/t.js'
import { errorLine } from './field.js'
import type { Submission } from './submission.js'

/** The parameters of `question`. */
export interface Question {
  /** What will happen, and the text to type for confirmation, if any. */
  asked: unknown
  /** Its problem is shown; the button is disabled while it is in progress. */
  submission: Pick<Submission, 'problem' | 'isBusy'>
  /** Label of the button that confirms. */
  answer: string
  /** Classes of that button. Default: those of an irreversible action. */
  kind?: string
  /** Label of the button that refuses. Default: Cancel. */
  refusal?: string
  onAnswer: (event: Event) => void
  onRefusal: () => void
}

/** Returns the content of a dialog that asks before an action. */
export function question({
  asked,
  submission,
  answer,
  kind = 'danger primary',
  refusal,
  onAnswer,
  onRefusal
}: Question): Template {
  return html`
    <form class="form" @submit="${onAnswer}">
      ${asked}
      ${errorLine(submission.problem)}
      <div class="actions end">
        <button type="button" @click="${onRefusal}">${refusal ?? t('Cancel')}</button>
        <button class="${kind}" disabled="${submission.isBusy}">${answer}</button>
      </div>
    </form>`
}
