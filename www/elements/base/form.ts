import { html, icon, type Template } from '../../dom/html.js'
import { t, errorWords, fieldOf, twoLines } from '../../words/t.js'
import { Refused } from '../../server/client.js'
import { said, css, SvcElement } from '../element.js'

/** The parameters of `field`. */
export interface Field {
  /** Name of the control. Its id consists of `form` and this name. */
  name: string
  /** A prefix that keeps the ids of several forms apart. */
  form: string
  label: string
  value?: string
  hint?: string | undefined
  error?: string | undefined
  placeholder?: string | undefined
  type?: 'text' | 'password' | 'search' | 'number' | 'date' | undefined
  autocomplete?: string
  isRequired?: boolean | undefined
  isMono?: boolean
  hasFocus?: boolean
  /** In characters. */
  maxLength?: number
  /** Number of lines of a multi-line field. */
  rows?: number | undefined
  /** Values to choose from. Other values can be typed. */
  proposals?: readonly string[] | undefined
  /** A control at the end of the field. */
  beside?: Template
  onInput?: (value: string) => void
}

/** Returns a labelled control with its hint and its error, linked for screen readers. */
export function field(field: Field): Template {
  const id = `${field.form}-${field.name}`
  const shared = {
    described: [field.hint && `${id}-hint`, field.error && `${id}-error`].filter(Boolean).join(' '),
    invalid: field.error === undefined ? null : 'true',
    kind: field.isMono === true ? 'mono' : null
  }
  const onInput = (event: Event): void => field.onInput?.((event.currentTarget as HTMLInputElement).value)
  const control =
    field.rows === undefined
      ? html`
      <input id="${id}" name="${field.name}" type="${field.type ?? 'text'}" class="${shared.kind}" @input="${onInput}"
        list="${field.proposals === undefined ? null : `${id}-proposals`}"
        .value="${field.value ?? ''}" placeholder="${field.placeholder ?? null}"
        maxlength="${field.maxLength ?? null}" required="${field.isRequired === true}" autofocus="${field.hasFocus === true}" spellcheck="false"
        autocomplete="${field.autocomplete ?? 'off'}" autocapitalize="off"
        aria-invalid="${shared.invalid}" aria-describedby="${shared.described || null}">`
      : html`
      <textarea id="${id}" name="${field.name}" class="${shared.kind}" rows="${field.rows}" spellcheck="false"
        @input="${onInput}"
        .value="${field.value ?? ''}" placeholder="${field.placeholder ?? null}" autocomplete="off" autocapitalize="off"
        aria-invalid="${shared.invalid}" aria-describedby="${shared.described || null}"></textarea>`
  return html`
    <div class="field">
      <label for="${id}">${field.label}</label>
      ${field.beside === undefined ? control : html`<div class="beside">${control}${field.beside}</div>`}
      ${
        field.proposals === undefined
          ? null
          : html`<datalist id="${id}-proposals">${field.proposals.map(each => html`<option value="${each}"></option>`)}</datalist>`
      }
      ${
        field.error === undefined
          ? null
          : html`<p class="error" id="${id}-error">${icon('warning')}<span>${twoLines(field.error)}</span></p>`
      }
      ${field.hint === undefined ? null : html`<p class="hint" id="${id}-hint">${field.hint}</p>`}
    </div>`
}

/** A value of a choice. `words` is a sentence, `hint` explains it; both are English and passed to t(). */
export interface Choice {
  value: string
  words: string
  hint?: string
}

/** Returns radio buttons with a sentence each. A value that is not among the choices is shown as the first one. */
export function choice({
  form,
  name,
  label,
  labelledBy,
  value,
  choices,
  onInput
}: Pick<Field, 'form' | 'name' | 'value'> & {
  label?: string
  /** The id of the label, if the choice does not show one itself. */
  labelledBy?: string
  choices: readonly Choice[]
  onInput: (value: string) => void
}): Template {
  const id = `${form}-${name}`
  const chosen = choices.find(each => each.value === value) ?? choices[0]
  return html`
    <fieldset class="choice" id="${id}" tabindex="-1" aria-labelledby="${labelledBy ?? null}">
      ${label === undefined ? null : html`<legend>${label}</legend>`}
      ${choices.map(
        each => html`
        <label>
          <input type="radio" name="${id}" value="${each.value}" .checked="${each === chosen}" @change="${() => onInput(each.value)}">
          <span>${t(each.words)}${each.hint === undefined ? null : html`<small>${t(each.hint)}</small>`}</span>
        </label>`
      )}
    </fieldset>`
}

/** Returns the values of a submitted form, and prevents the browser from sending it. */
export function submitted(event: Event): Record<string, string> {
  event.preventDefault()
  const values: Record<string, string> = {}
  for (const [name, value] of new FormData(event.currentTarget as HTMLFormElement)) values[name] = String(value)
  return values
}

/** Returns an error line for an error that belongs to no field. */
export function errorLine(sentence: string | null): Template | null {
  if (sentence === null) return null
  return html`<p class="error-line" role="alert">${icon('warning')}<span>${twoLines(sentence)}</span></p>`
}

/**
 * Returns the field for a code of an authenticator. `isNew`: the second factor is not confirmed yet, so it has no
 * recovery codes.
 */
export function codeField({
  form,
  error,
  isNew = false
}: {
  form: string
  error?: string | undefined
  isNew?: boolean
}): Template {
  return field({
    form,
    name: 'code',
    label: t('Code'),
    hint: isNew
      ? t('The six digits that your authenticator shows now.')
      : t('The six digits of your authenticator, or a recovery code.'),
    error,
    autocomplete: 'one-time-code',
    maxLength: 100,
    isMono: true,
    isRequired: true,
    hasFocus: true
  })
}

/** What shows a submission: an element that contains its form. */
type Shown = Pick<SvcElement, 'update' | 'querySelector'>

/**
 * A request of a form or a dialog: whether it is in progress, and why the last attempt failed. The first field that the
 * server refused gets the focus.
 */
export class Submission {
  isBusy = false
  /** The error of the last attempt, or a sentence for it; null if there is none. */
  refusal: unknown = null
  readonly #shown: Shown

  constructor(shown: Shown) {
    this.#shown = shown
  }

  /** The error as a sentence. */
  get problem(): string | null {
    if (this.refusal === null || typeof this.refusal === 'string') return this.refusal
    return errorWords(this.refusal)
  }

  /** The error in words if the server refused this field. */
  problemOf(field: string): string | undefined {
    return fieldOf(this.refusal) === field ? errorWords(this.refusal) : undefined
  }

  /**
   * The error in words if the server refused the field at this path, for example `policy.gate.after[0].http`, or an item
   * of its list. The words contain the label of the field in place of its path.
   */
  problemAt(path: string, label: string): string | undefined {
    const { refusal } = this
    const isThere = refusal instanceof Refused && [refusal.field, refusal.field?.replace(/\[\d+\]$/, '')].includes(path)
    return isThere ? errorWords(refusal, { [fieldOf(refusal) ?? '']: label }) : undefined
  }

  /** The error in words, unless it is shown with one of these fields. */
  problemBeside(fields: readonly string[]): string | null {
    return fields.some(field => this.problemOf(field) !== undefined) ? null : this.problem
  }

  /** Sets the error; null removes it, for example when a dialog is opened. */
  refuse(refusal: unknown): void {
    this.refusal = refusal
    this.#shown.update()
  }

  /** Runs the work. Returns whether it succeeded. */
  async run(work: () => Promise<unknown>): Promise<boolean> {
    this.isBusy = true
    this.refuse(null)
    try {
      await work()
    } catch (error) {
      this.refusal = error
    }
    this.isBusy = false
    this.#shown.update()
    if (this.refusal === null) return true
    // After the microtask in which the element shows the error.
    setTimeout(() => {
      const wrong = this.#shown.querySelector<HTMLElement>('[aria-invalid="true"]')
      wrong?.focus({ preventScroll: true })
      wrong?.scrollIntoView({ block: 'center' })
    })
    return false
  }
}

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

/** Returns the field in which the user types a name to confirm a deletion. It submits `confirmation`. */
export function confirmation(form: string, name: string): Template {
  const label = t('Type “{name}” to confirm', { name })
  return field({ form, name: 'confirmation', label, isRequired: true, hasFocus: true })
}

/**
 * A modal dialog, open while it has content. Attributes: `heading`; `persistent`: only its content closes it. Property:
 * `content`, a template or null. Event: `dialogclose`. Keys: Escape closes it. A control with `autofocus` has the focus
 * first.
 */
export class SvcDialog extends SvcElement {
  static readonly observedAttributes = ['heading', 'persistent']

  static override sheet = css`
    svc-dialog dialog {
      width: min(520px, calc(100vw - 32px));
      max-height: calc(100dvh - 32px);
      padding: 24px;
      border: 0;
      border-radius: 10px;
      background: var(--raised);
      color: var(--text);
      box-shadow: var(--float);
      overscroll-behavior: contain;

      &::backdrop { background: rgb(0 0 0 / 45%); }
      &[open] { animation: svc-dialog-appear var(--appear); }
      > h2 { margin-bottom: 16px; font-size: var(--size-20); letter-spacing: -0.01em; overflow-wrap: anywhere; }
    }

    @keyframes svc-dialog-appear {
      from { opacity: 0; translate: 0 6px; }
    }
  `

  static #count = 0
  readonly #headingId = `dialog-heading-${++SvcDialog.#count}`
  content: Template | null = null

  protected override view(): Template {
    const isPersistent = this.hasAttribute('persistent')
    const close = (event: Event): void => {
      event.preventDefault()
      if (!isPersistent) this.dispatchEvent(said('dialogclose'))
    }
    // A second Escape would close the dialog without the event `cancel`.
    const keep = (event: KeyboardEvent): void => {
      if (isPersistent && event.key === 'Escape') event.preventDefault()
    }
    return html`
      <dialog aria-labelledby="${this.#headingId}" @cancel="${close}" @keydown="${keep}">
        <h2 id="${this.#headingId}">${this.getAttribute('heading')}</h2>
        ${this.content}
      </dialog>`
  }

  protected override rendered(): void {
    const dialog = this.querySelector('dialog') as HTMLDialogElement
    if (this.content === null) dialog.close()
    else if (!dialog.open) dialog.showModal()
    // The control that had the focus was replaced by other content.
    else if (document.activeElement === document.body) dialog.querySelector<HTMLElement>('[autofocus]')?.focus()
  }
}
