import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { t } from '../words/t.js'
import { errorLine } from './field.js'

export interface Question {
  /** What will happen, and what has to be typed for it. */
  asked: unknown
  /** What stood in the way the last time. */
  problem: string | null
  isBusy: boolean
  /** The button that does it. */
  answer: string
  /** Its classes; default: those of what cannot be undone. */
  kind?: string
  /** The button that does not; default: Cancel. */
  refusal?: string
  onAnswer: (event: Event) => void
  onRefusal: () => void
}

/** What a dialog holds that asks before something is done. */
export function question({ asked, problem, isBusy, answer, kind = 'danger primary', refusal, onAnswer, onRefusal }: Question): Template {
  return html`
    <form class="form" @submit="${onAnswer}">
      ${asked}
      ${errorLine(problem)}
      <div class="actions end">
        <button type="button" @click="${onRefusal}">${refusal ?? t('Cancel')}</button>
        <button class="${kind}" disabled="${isBusy}">${answer}</button>
      </div>
    </form>`
}
