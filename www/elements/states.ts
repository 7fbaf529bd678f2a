import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import type { Resource } from '../state/resource.js'
import { icon } from './icon.js'
import { errorWords } from './words.js'
import { t } from '../words/t.js'

/** A resource in its three states: what it holds, quiet bars while there is nothing yet, or what went wrong. */
export function loaded<T>(resource: Resource<T>, what: string, view: (value: T) => unknown): unknown {
  if (resource.value !== undefined) return view(resource.value)
  if (resource.error !== undefined) return failed(resource, what)
  return html`
    <div class="placeholder" aria-busy="true"><span class="unseen">${t('Loading {what}', { what: t(what) })}</span><i></i><i></i><i></i></div>`
}

function failed<T>(resource: Resource<T>, what: string): Template {
  return html`
    <div class="state" role="alert">
      <h2>${t('Could not load {what}', { what: t(what) })}</h2>
      <p class="muted">${errorWords(resource.error)}</p>
      <button type="button" @click="${() => void resource.load()}">${t('Try again')}</button>
    </div>`
}

/** That what is shown is older than it should be, because loading it again failed. */
export function staleLine<T>(resource: Resource<T>): Template | null {
  if (resource.value === undefined || resource.error === undefined) return null
  return html`
    <p class="error-line" role="status">
      ${icon('warning')}<span>${t('Not up to date: {problem}', { problem: errorWords(resource.error) })}</span>
    </p>`
}
