import { html, icon, type Template } from '../../dom/html.js'
import { twoLines } from '../../words/errors.js'

/** The parameters of `field`. */
export interface Field {
  /** Name of the control. Its id consists of `form` and this name. */
  name: string
  /** A prefix that keeps the ids of several forms apart. */
  form: string
  label: string
  value?: string
  hint?: string
  error?: string | undefined
  placeholder?: string
  type?: 'text' | 'password' | 'search' | 'number'
  autocomplete?: string
  isRequired?: boolean
  isMono?: boolean
  hasFocus?: boolean
  /** In characters. */
  maxLength?: number
  /** Number of lines of a multi-line field. */
  rows?: number
  /** Values to choose from. Other values can be typed. */
  proposals?: readonly string[]
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
