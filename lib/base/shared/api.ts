/* What the server, the command line and the panel decide alike about the API. */

/** Returns the path of a route such as `GET /api/projects/:id` with its parameters, each percent-encoded. */
export function routePath(route: string, values: Readonly<Record<string, unknown>>): string {
  return route
    .slice(route.indexOf('/'))
    .replace(/[:*](\w+)/g, (_, name: string) => encodeURIComponent(String(values[name])))
}

/** What a queued deployment waits for before it begins: an approval, or its time. */
export const waitReasons = ['approval', 'schedule'] as const

/** Whether a deployment has not begun, because it waits for an approval or for its time. */
export function isWaitingToBegin({ status, heldFor }: { status: string; heldFor: string | null }): boolean {
  return status === 'queued' && waitReasons.some(reason => reason === heldFor)
}

/** What says when a deployment began. */
interface Begun {
  startTime: string
  endTime: string | null
  heldFor: string | null
  startAt: string | null
  approvals: readonly unknown[]
  steps: ReadonlyArray<{ name: string; startedAt: string }>
}

/**
 * Returns when a deployment began: one that waited for an approval or its time with the first step after its upload, or
 * never. Others begin when they are recorded.
 */
export function begunAt({ startTime, endTime, heldFor, startAt, approvals, steps }: Begun): string {
  const hasWaited = heldFor === 'approval' || startAt !== null || approvals.length > 0
  return (hasWaited ? (steps.find(({ name }) => name !== 'store')?.startedAt ?? endTime) : null) ?? startTime
}

/** The words of environments, in the order in which a release passes them. */
export const environments: ReadonlyArray<readonly string[]> = [
  ['development', 'dev', 'sandbox', 'local'],
  ['test', 'testing', 'qa', 'integration', 'int'],
  ['staging', 'stage', 'preview', 'preprod', 'uat', 'acceptance'],
  ['production', 'prod', 'live']
]

/** Returns where an environment is in this order. Unknown ones come just before production, because they may matter as much. */
export function environmentRank(env: string): number {
  const known = environments.findIndex(words => words.includes(env.trim().toLowerCase()))
  const last = environments.length - 1
  return known === -1 ? last - 0.5 : known
}

/* The limits of locks. */

const minuteSeconds = 60
const daySeconds = 24 * 60 * minuteSeconds
/** Seconds until a lock expires if its owner chose no time. */
export const defaultLockSeconds = daySeconds
/** Minimum number of seconds until a lock expires. */
export const minLockSeconds = minuteSeconds
/** Maximum number of seconds until a lock expires. */
export const maxLockSeconds = 30 * daySeconds
/** Maximum number of characters of a reason. */
export const maxLockReasonLength = 200

/** What a hub of a cluster knows of itself. */
interface HubState {
  role: 'leader' | 'follower' | 'alone'
  /** Why it cannot follow or lead; null if it can. */
  problem: string | null
}

/** Whether a hub cannot follow the writes of its cluster, so that its reads become older. */
export function isCutOff({ role, problem }: HubState): boolean {
  return role === 'alone' || (role === 'follower' && problem !== null)
}

/* What runs when a project is deployed, for the server and the panel. */

/** The fields of a project that decide that. */
interface Runs {
  preDeployScript: string | null
  postDeployScript: string | null
  policy: { gate?: { after: readonly object[] } | null | undefined }
}

/** Scripts that come with a deployment. */
interface Offered {
  preDeploy?: string | null | undefined
  postDeploy?: string | null | undefined
}

/** Whether a deployment of a project runs a command: a script of the project or of the client, or a check. */
export function runsCommand(
  { preDeployScript, postDeployScript, policy }: Runs,
  { preDeploy, postDeploy }: Offered = {}
): boolean {
  const scripts = [preDeployScript, postDeployScript, preDeploy, postDeploy]
  if (scripts.some(script => (script ?? '').trim() !== '')) return true
  return policy.gate?.after.some(check => 'command' in check) ?? false
}

/** Returns whether a deployment would be refused, by its plan. */
export function isRefused({
  counts,
  checks
}: {
  counts: { conflicts: number }
  checks: ReadonlyArray<{ ok: boolean }>
}): boolean {
  return counts.conflicts > 0 || checks.some(({ ok }) => !ok)
}

const units = ['B', 'KB', 'MB', 'GB', 'TB']

/** Formats bytes for people, in steps of 1024: `0 B`, `1.5 KB`, `12 MB`. */
export function formatBytes(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 9.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

/** Returns the number of nodes that a rollout is for: drained ones are skipped, and get the release when they are back. */
export function takingPart({ nodeCount, counts }: { nodeCount: number; counts: { skipped?: number } }): number {
  return nodeCount - (counts.skipped ?? 0)
}

/** The phases of a node in a rollout that need somebody's attention. */
export const troubledPhases = ['stuck', 'failed', 'unreachable'] as const

/*
 * What waits for a person, for the server, the command line and the panel. A further kind is a row of `waitingRows`, a right
 * in www/state/session.ts, and what finds it in operate/machine/health.ts.
 */

const byOperators = { words: 'An operator or an admin decides.' }

/** What each kind says, without and with an end, and who decides it. English; the panel passes it to t(). */
export const waitingRows = {
  confirmation: {
    words: 'waits for confirmation',
    until: { words: 'waits for confirmation until {time}' },
    who: { words: 'The token that started it, an operator or an admin decides.' }
  },
  approval: { words: 'waits for approval', until: { words: 'waits for approval until {time}' }, who: byOperators },
  schedule: {
    words: 'waits for its time',
    until: { words: 'begins at {time}' },
    who: { words: 'Nobody has to decide: it begins by itself.' }
  },
  halted: { words: 'rollout halted', until: null, who: byOperators }
} as const

/** What a deployment or a rollout waits for. */
export type WaitingFor = keyof typeof waitingRows

/** The fields of a deployment that say whether it waits. */
interface Held {
  status: string
  heldFor: string | null
  startTime: string
  steps: ReadonlyArray<{ name: string; status: string; startedAt: string }>
  holdUntil: string | null
}

/** Returns what a deployment waits for, since when and until when; null: for nobody. */
export function waitingOf({
  status,
  heldFor,
  startTime,
  steps,
  holdUntil
}: Held): { for: WaitingFor; since: string; until: string | null } | null {
  if (status === 'queued' && (heldFor === 'approval' || heldFor === 'schedule'))
    return { for: heldFor, since: startTime, until: holdUntil }
  const step = steps.find(({ name, status }) => name === 'confirm' && status === 'running')
  if (status !== 'running' || step === undefined) return null
  return { for: 'confirmation', since: step.startedAt, until: holdUntil }
}

/** Returns the path of the page on which it is decided, below the address of the server. */
export function decisionPath({ deployId, rolloutId }: { deployId: string | null; rolloutId: string | null }): string {
  const [room, id] = rolloutId === null ? ['deployments', deployId ?? ''] : ['rollouts', rolloutId]
  return `${room}/${encodeURIComponent(id)}`
}

/**
 * Returns the status that people see. A post-deploy script that failed in the background does not change the status of its
 * deployment, and yet it is no success.
 */
export function shownStatus<S extends string>(status: S, backgroundFailed: boolean | undefined): S | 'failed' {
  return status === 'success' && backgroundFailed === true ? 'failed' : status
}

/* Actors as texts name them. On the wire and in the audit log, an actor is a word: `token:ben`, `project:<id>`, `admin`. */

const ofProject = 'project:'

/** Actors with a fixed name, in English. */
const knownActors: Readonly<Record<string, string>> = {
  admin: 'admin',
  local: 'the operator on the machine',
  'global-deploy': 'the global deploy token',
  anonymous: 'anonymous',
  system: 'svc'
}

const takenNames: ReadonlySet<string> = new Set(Object.entries(knownActors).flat())

/** Returns the id of the project whose deploy token acted; null if it was somebody else. */
export function projectOfActor(actor: string): string | null {
  return actor.startsWith(ofProject) ? actor.slice(ofProject.length) : null
}

/** Returns the name of the named token that acted; null if it was somebody else. */
export function tokenOfActor(actor: string): string | null {
  return actor.startsWith('token:') ? actor.slice('token:'.length) : null
}

/**
 * Returns an actor as texts name it: a named token by its name, and `project:<id>` as the deploy token of the project. A
 * token that is called like somebody else is told from that one.
 */
export function actorText(actor: string, nameOf: (projectId: string) => string | undefined = () => undefined): string {
  const token = tokenOfActor(actor)
  if (token !== null) return takenNames.has(token.toLowerCase()) ? `the token "${token}"` : token
  const id = projectOfActor(actor)
  if (id !== null) return `the deploy token of ${nameOf(id) ?? id}`
  return knownActors[actor] ?? actor.replace(/^(node|hub):/, '$1 ')
}

/*
 * A parser of server-sent events (WHATWG HTML §9.2.6). Its input is text that may be split anywhere; its output is
 * whole events. An event that is not ended by an empty line is dropped.
 *
 * Differences: `retry` is ignored, because the clients decide themselves how long they wait.
 */

/** An event of a stream. */
export interface ServerEvent {
  /** `message` if the stream does not name the event. */
  event: string
  data: string
  /** The last id of the stream; empty before the first one. */
  id: string
}

/** The callbacks and limits of a reader. */
export interface EventReaderOptions {
  onEvent(event: ServerEvent): void
  /** Called with the text of each comment. */
  onComment?: ((text: string) => void) | undefined
  /** Maximum length of a line in UTF-16 code units. */
  maxLineLength?: number
}

export function createEventReader({ onEvent, onComment, maxLineLength }: EventReaderOptions) {
  let event = ''
  let data: string[] = []
  let id = ''

  function dispatch(): void {
    if (data.length > 0) onEvent({ event: event || 'message', data: data.join('\n'), id })
    event = ''
    data = []
  }

  function take(line: string): void {
    if (line === '') return dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) return onComment?.(line.slice(1))
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'event') event = value
    else if (field === 'data') data.push(value)
    else if (field === 'id' && !value.includes('\0')) id = value
  }

  const { push } = createLineReader(take, {
    isEventStream: true,
    ...(maxLineLength === undefined ? {} : { maxLength: maxLineLength })
  })
  return { push }
}

/** Takes text that may be split anywhere, and calls back with each whole line. */
export interface LineReader {
  push(text: string): void
  /** Passes on the text after the last line break, if any. */
  end(): void
}

/** How lines are split. */
export interface LineReaderOptions {
  /** A lone `\r` also ends a line, as in an event stream. */
  isEventStream?: boolean
  /**
   * Maximum length of a line in memory, in UTF-16 code units. A longer one is passed on in pieces of about that length.
   */
  maxLength?: number
}

/** Creates a reader of lines that end with `\n` or `\r\n`. Fragments of a line are kept in an array and joined once. */
export function createLineReader(
  onLine: (line: string) => void,
  { isEventStream = false, maxLength = Number.POSITIVE_INFINITY }: LineReaderOptions = {}
): LineReader {
  const lineBreak = isEventStream ? /\r\n|\n|\r/g : /\r?\n/g
  let held: string[] = []
  let heldLength = 0
  let isReturnHeld = false

  function emit(last: string): void {
    held.push(last)
    const line = held.join('')
    held = []
    heldLength = 0
    onLine(line)
  }

  function hold(text: string): void {
    held.push(text)
    heldLength += text.length
    if (heldLength > maxLength) emit('')
  }

  return {
    push(chunk) {
      if (chunk === '') return
      // A `\r` at the end of a chunk may be half of a line break: it is kept until the next chunk.
      const text = isReturnHeld ? `\r${chunk}` : chunk
      isReturnHeld = text.endsWith('\r')
      const whole = isReturnHeld ? text.slice(0, -1) : text
      let from = 0
      for (const found of whole.matchAll(lineBreak)) {
        emit(whole.slice(from, found.index))
        from = found.index + found[0].length
      }
      if (from < whole.length) hold(whole.slice(from))
    },
    end() {
      if (isReturnHeld && !isEventStream) held.push('\r')
      isReturnHeld = false
      if (held.length > 0) emit('')
    }
  }
}

/** Creates a reader that passes the value of each JSON line to `onValue`. Skips empty lines. Throws a SyntaxError. */
export function createNdjsonReader(onValue: (value: unknown) => void): LineReader {
  return createLineReader(line => {
    if (line.trim() !== '') onValue(JSON.parse(line))
  })
}
