import { html, icon } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { Unreachable } from '../server/client.js'
import { twoLines, errorWords } from '../words/errors.js'
import { t } from '../words/t.js'

/** Something loaded from the server, and how that stands. `value` survives a failed reload. */
export interface Resource<T> {
  readonly value: T | undefined
  readonly error: unknown
  /** Loads, or loads again; an older request still on its way is given up. */
  load(): Promise<void>
  /** Loads again, unless a request is on its way. One without an answer for `silenceMs` fails: the server is silent. */
  refresh(): Promise<void>
  /** Puts in a value that is known without asking. */
  set(value: T): void
}

export interface ResourceOptions<T> {
  load: (signal: AbortSignal) => Promise<T>
  /** Called after each change. */
  onChange: () => void
  /** Called when a refresh had no answer in time. */
  onSilence?: () => void
  signal: AbortSignal
}

/** A refresh that takes longer has failed: the network may have swallowed it without a word. */
export const silenceMs = 15_000

/** A value that a page shows, with its error. Only the newest request counts. */
export function createResource<T>({ load, onChange, onSilence, signal }: ResourceOptions<T>): Resource<T> {
  let value: T | undefined
  let error: unknown
  let request: AbortController | undefined
  let isLoading = false

  async function begin(deadlineMs: number | null): Promise<void> {
    request?.abort()
    const mine = (request = new AbortController())
    const stop = (): void => mine.abort()
    signal.addEventListener('abort', stop)
    if (signal.aborted) stop()
    let timer: ReturnType<typeof setTimeout> | undefined
    const silence = new Promise<never>((_, reject) => {
      if (deadlineMs === null) return
      timer = setTimeout(() => {
        onSilence?.()
        reject(new Unreachable(new Error('no answer in time')))
      }, deadlineMs)
    })
    isLoading = true
    try {
      const next = await Promise.race([load(mine.signal), silence])
      if (mine.signal.aborted) return
      value = next
      error = undefined
    } catch (reason) {
      if (mine.signal.aborted) return
      error = reason
      // One that had no answer in time is still on its way.
      mine.abort()
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
      if (request === mine) isLoading = false
    }
    onChange()
  }

  return {
    get value() {
      return value
    },
    get error() {
      return error
    },
    set(next) {
      value = next
      error = undefined
      onChange()
    },
    load: () => begin(null),
    async refresh() {
      if (!isLoading) await begin(silenceMs)
    }
  }
}

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
      <p class="muted">${twoLines(errorWords(resource.error))}</p>
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
