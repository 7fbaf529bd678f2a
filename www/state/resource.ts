import type { ChangeTopic, ChangeVersions } from '../../lib/model/health.js'
import type { Marks } from '../../lib/model/marks.js'
import { html, icon, type Template } from '../dom/html.js'
import { Unreachable } from '../server/client.js'
import { t, errorWords, twoLines } from '../words/t.js'

/** Reloads lists only when the server reports that something in them may have changed. */
export interface ChangeWatch {
  /**
   * Calls `work` when one of the topics has changed, until the signal is aborted. If `work` returns false (it is busy),
   * the next poll calls it again.
   */
  follow(topics: readonly ChangeTopic[], work: () => void | boolean, signal: AbortSignal): void
}

export interface ChangeNeeds {
  /** Requests the versions of all topics. */
  ask: () => Promise<ChangeVersions>
  /** Whether the page is visible and the server can be reached. */
  isActive: () => boolean
  intervalMs: number
  /** Calls `work` after `ms` milliseconds. Returns a function that cancels the call. */
  later: (work: () => void, ms: number) => () => void
}

interface Follower {
  topics: readonly ChangeTopic[]
  work: () => void | boolean
  /** Versions of the topics at the last call of `work`. Null means unknown: the next poll calls it. */
  known: string | null
}

const realLater: ChangeNeeds['later'] = (work, ms) => {
  const timer = setTimeout(work, ms)
  return () => clearTimeout(timer)
}

/**
 * Creates one poll for all lists of a page. `look` polls at once, for a tab that becomes visible again. The first poll
 * reloads a list that is followed newly, because it may have changed before.
 */
export function createChanges({
  ask,
  isActive,
  intervalMs,
  later
}: Omit<ChangeNeeds, 'later'> & Partial<Pick<ChangeNeeds, 'later'>>): ChangeWatch & { look(): void } {
  const wait = later ?? realLater
  const followers = new Set<Follower>()
  let last: ChangeVersions | null = null
  let stop: (() => void) | null = null
  let isAsking = false

  const textOf = (changes: ChangeVersions, topics: readonly ChangeTopic[]): string =>
    topics.map(topic => changes[topic]).join(' ')

  function tell(changes: ChangeVersions): void {
    last = changes
    for (const follower of [...followers]) {
      const now = textOf(changes, follower.topics)
      if (now === follower.known) continue
      if (follower.work() !== false) follower.known = now
    }
  }

  function plan(): void {
    stop?.()
    stop = followers.size === 0 ? null : wait(() => void look(), intervalMs)
  }

  async function look(): Promise<void> {
    if (isAsking) return
    if (followers.size > 0 && isActive()) {
      isAsking = true
      // The frame shows that the server cannot be reached.
      await ask().then(tell, () => {})
      isAsking = false
    }
    plan()
  }

  return {
    follow(topics, work, signal) {
      if (signal.aborted) return
      const follower: Follower = { topics, work, known: last === null ? null : textOf(last, topics) }
      followers.add(follower)
      signal.addEventListener('abort', () => void followers.delete(follower), { once: true })
      if (stop === null) plan()
    },
    look: () => void look()
  }
}

/** What lists of projects show beside their status, as the server said last. The frame and the pages share it. */
export interface MarksNow extends Marks {
  /** Calls `work` after each change that a follower learns of, without following. */
  hear(work: () => void, signal: AbortSignal): void
  /** Forgets what another user may see. */
  forget(): void
  /** Calls `work` after each change, until the signal is aborted. */
  follow(work: () => void, signal: AbortSignal): void
}

const none: Marks = { waiting: [], locks: [], failedInBackground: [], placed: [] }

/** Creates the marks. They are asked for when somebody follows them, and again when they may have changed. */
export function createMarks({ ask, changes }: { ask: () => Promise<Marks>; changes: ChangeWatch }): MarksNow {
  const news = new EventTarget()
  let now = none
  let asking: Promise<void> | null = null
  let user = 0

  /** Several followers share a request. An older server, and one that cannot be reached, tells nothing. */
  function load(): void {
    const asker = user
    asking ??= ask()
      .then(
        marks => {
          if (asker !== user) return
          now = marks
          news.dispatchEvent(new Event('change'))
        },
        () => {}
      )
      .finally(() => {
        if (asker === user) asking = null
      })
  }

  return {
    get waiting() {
      return now.waiting
    },
    get locks() {
      return now.locks
    },
    get failedInBackground() {
      return now.failedInBackground
    },
    get placed() {
      return now.placed
    },
    hear: (work, signal) => news.addEventListener('change', work, { signal }),
    forget() {
      now = none
      // What was asked for before is not for the next one.
      user++
      asking = null
      news.dispatchEvent(new Event('change'))
    },
    follow(work, signal) {
      if (signal.aborted) return
      news.addEventListener('change', work, { signal })
      changes.follow(['marks'], load, signal)
      // What is known is kept up to date by the polls.
      if (now === none) load()
    }
  }
}

/** A value from the server and its loading state. `value` survives a failed reload. */
export interface Resource<T> {
  readonly value: T | undefined
  readonly error: unknown
  /** Loads or reloads the value. Cancels an older request. */
  load(): Promise<void>
  /** Reloads unless a request is in progress. A request without an answer for `silenceMs` fails. */
  refresh(): Promise<void>
  /** Sets a value that is known without a request. */
  set(value: T): void
}

export interface ResourceOptions<T> {
  load: (signal: AbortSignal) => Promise<T>
  /** Called after each change. */
  onChange: () => void
  /** Called when a refresh timed out. */
  onSilence?: () => void
  signal: AbortSignal
}

/** Timeout of a refresh. Networks may drop requests silently. */
export const silenceMs = 15_000

/** Creates a resource. Only the newest request changes it. */
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
      // The timed-out request is still in progress.
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

/** Renders a resource: its value, placeholder bars while it loads, or its error. */
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

/** Returns a line that says that the shown value is outdated because reloading failed. */
export function staleLine<T>(resource: Resource<T>): Template | null {
  if (resource.value === undefined || resource.error === undefined) return null
  return html`
    <p class="error-line" role="status">
      ${icon('warning')}<span>${t('Not up to date: {problem}', { problem: errorWords(resource.error) })}</span>
    </p>`
}
