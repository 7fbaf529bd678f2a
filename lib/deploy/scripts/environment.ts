import { clientVariableFault, folded, minSecretLength } from '../../model/variable.js'
import type { Project } from '../../model/project.js'
import { inheritedEnvironment, variablesWhere } from '../../core/proc/environment.js'
import { type Rights, variablesOf as variablesOfUser } from '../../core/proc/identity.js'

/** The values of the variables `SVC_*` (decisions 4). */
export interface ScriptFacts {
  project: Pick<Project, 'id' | 'name' | 'deployPath' | 'env'>
  deployId: string
  rollbackOf: string | null
  /** Whether it is a rollback although it has no source: the undo of the first deployment. Default: false. */
  isUndo?: boolean
  previousDeployId: string | null
}

/** A variable that is not passed to the scripts. */
export interface DroppedVariable {
  name: string
  /** The reason, as the end of a sentence. Never contains the value. */
  why: string
}

/**
 * Splits the client's variables into accepted and dropped ones. Every variable of a client must pass through here.
 * `allowed` is the project's `allowedEnv` if client scripts are disabled, or null if they are allowed. `own` contains
 * the names of the project's variables on the server, which take precedence.
 */
export function acceptClientEnv(
  sent: Readonly<Record<string, string>>,
  allowed: readonly string[] | null,
  own: readonly string[] = []
): { accepted: Record<string, string>; dropped: DroppedVariable[] } {
  const taken = new Set(own.map(folded))
  const judged = Object.entries(sent).map(([name, value]) => {
    return { name, value, why: taken.has(folded(name)) ? ofTheServer : clientVariableFault(name, value, allowed) }
  })
  return {
    accepted: Object.fromEntries(judged.flatMap(({ name, value, why }) => (why === null ? [[name, value]] : []))),
    dropped: judged.flatMap(({ name, why }) => (why === null ? [] : [{ name, why }]))
  }
}

const ofTheServer = 'the project sets it on the server'

/** Returns the output lines about dropped variables: one line per reason, with names only. */
export function linesOfDropped(dropped: readonly DroppedVariable[]): string[] {
  const reasons = [...new Set(dropped.map(({ why }) => why))]
  return reasons.map(reason => {
    const names = dropped.filter(({ why }) => why === reason).map(({ name }) => JSON.stringify(name))
    const more = names.length - maxNames
    const shownNames = names.slice(0, maxNames).join(', ') + (more > 0 ? `, and ${more} more` : '')
    return `→ not passed to the scripts: ${shownNames} (${reason})`
  })
}

/** Maximum number of names in a line: a client may send thousands. */
const maxNames = 50

/** The sources of a script's environment. Later ones take precedence. */
export interface EnvironmentParts {
  /** The server's own environment. */
  inherited: Readonly<Record<string, string | undefined>>
  /** The variables of the client and of the project. */
  accepted: Readonly<Record<string, string>>
  facts: ScriptFacts
  /** The rights of the script's user, or null for those of svc. */
  rights: Rights | null
}

/**
 * Returns the complete environment of a script. A script that runs as the project's own user inherits little, because
 * svc's environment belongs to root and may contain secrets.
 */
export function scriptEnvironment({
  inherited,
  accepted,
  facts,
  rights
}: EnvironmentParts): Record<string, string | undefined> {
  const base = inheritedEnvironment(inherited)
  return {
    ...(rights === null
      ? base
      : { ...variablesWhere(base, name => plainName.test(name)), ...variablesOfUser(rights.identity) }),
    ...accepted,
    ...variablesOf(facts)
  }
}

/** Variables for program paths, language and time zone. */
const plainName = /^(PATH|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR)$/

/** Returns the variables `SVC_*`. All of them are always set, even if empty: a script may use `set -u`. */
function variablesOf({
  project,
  deployId,
  rollbackOf,
  isUndo = false,
  previousDeployId
}: ScriptFacts): Record<string, string> {
  return {
    SVC_PROJECT_ID: project.id,
    SVC_PROJECT_NAME: project.name,
    SVC_DEPLOY_ID: deployId,
    SVC_DEPLOY_PATH: project.deployPath,
    SVC_ENV: project.env,
    SVC_DEPLOY_MODE: rollbackOf === null && !isUndo ? 'deploy' : 'rollback',
    SVC_ROLLBACK_OF: rollbackOf ?? '',
    SVC_PREVIOUS_DEPLOY_ID: previousDeployId ?? '',
    SVC_CHANGES: '',
    SVC_FAILURE: '',
    SVC_FAILURE_REASON: ''
  }
}

/*
 * Masks secrets in outputs and sentences: each occurrence is replaced by `***`.
 *
 * A secret with several lines is masked line by line. Lines shorter than four characters are not masked, because every
 * output would be full of stars. The API refuses a secret without a longer line.
 *
 * Line breaks can cut a secret in an output (`fold`, `base64`). The search continues across lines, and the secret's
 * part of each line is replaced. A line whose end may be the beginning of a secret is held back until later lines
 * decide, for a second at most. The search is the algorithm of Knuth, Morris and Pratt with one state per secret. Each
 * character is read once, and the lines held back are never longer than the longest secret plus the line in which it
 * began.
 */

/** The replacement of a secret. */
const mask = '***'
/** How long a line is held back if no other line follows. */
const holdMs = 1000

/** A secret, or one line of it, with the longest border of each of its prefixes. */
interface Needle {
  text: string
  borders: Int32Array
}

/** Masks the secrets of one deployment. */
export type Masker = ReturnType<typeof createMasker>

/** Receives a line. If it returns a promise, the next line should wait for it. */
export type Emit = (line: string) => void | Promise<void>

/** Lines of an output that are being masked. */
export type MaskedLines = ReturnType<typeof maskLines>

/** Creates a masker of these values. */
export function createMasker(secrets: readonly string[]) {
  const parts = secrets
    .flatMap(secret => secret.split(/\r\n|\r|\n/))
    .map(part => part.trim())
    .filter(part => part.length >= minSecretLength)
  const needles = [...new Set(parts)].map(text => ({ text, borders: bordersOf(text) }))
  return {
    /** Returns a sentence without secrets. */
    text(text: string): string {
      let masked = ''
      const lines = maskLines(needles, line => void (masked = line))
      lines.push(text)
      lines.end()
      return masked
    },

    /** Starts masking the lines of an output. `emit` receives them in order, without secrets. */
    lines: (emit: Emit): MaskedLines =>
      needles.length === 0 ? { push: emit, end: () => {} } : maskLines(needles, emit)
  }
}

/** A line held back. Offsets count all characters since the start of the output. */
interface HeldLine {
  text: string
  start: number
  found: Span[]
}

type Span = [from: number, to: number]

function maskLines(needles: readonly Needle[], emit: Emit) {
  const states = new Int32Array(needles.length)
  const held: HeldLine[] = []
  let end = 0
  let timer: NodeJS.Timeout | undefined

  /** Searches one line for all secrets, including those that began in an earlier line. */
  function search(line: HeldLine): void {
    needles.forEach((needle, index) => {
      const onEnd = (at: number): void => mark(line.start + at - needle.text.length, line.start + at)
      states[index] = scan({ text: line.text, needle, onEnd }, states[index] as number)
    })
  }

  function mark(from: number, to: number): void {
    for (let index = held.length - 1; index >= 0; index--) {
      const line = held[index] as HeldLine
      if (line.start + line.text.length <= from) break
      line.found.push([Math.max(from, line.start) - line.start, Math.min(to - line.start, line.text.length)])
    }
  }

  /** Emits the lines that end at or before `offset`. */
  function release(offset: number): void | Promise<void> {
    let wait: void | Promise<void> = undefined
    const first = held.findIndex(({ start, text }) => start + text.length > offset)
    for (const line of held.splice(0, first === -1 ? held.length : first)) wait = emit(withMasks(line)) ?? wait
    return wait
  }

  function releaseLater(): void {
    timer = setTimeout(() => {
      // An error while emitting stops the script at its next line.
      try {
        Promise.resolve(release(end)).catch(() => {})
      } catch {}
    }, holdMs)
    timer.unref()
  }

  return {
    push(text: string): void | Promise<void> {
      clearTimeout(timer)
      // No program that folds lines prints an empty line within a value.
      if (text === '') states.fill(0)
      const line = { text, start: end, found: [] }
      held.push(line)
      end += text.length
      search(line)
      const wait = release(end - states.reduce((longest, state) => Math.max(longest, state), 0))
      if (held.length > 0) releaseLater()
      return wait
    },

    /** Emits the lines held back, at the end of the output. */
    end(): void | Promise<void> {
      clearTimeout(timer)
      return release(end)
    }
  }
}

/** The search for one secret in one text. */
interface Search {
  text: string
  needle: Needle
  /** Called with the position after each occurrence. */
  onEnd(at: number): void
}

/**
 * Searches a text for one secret, starting in `state`. Returns how many of its characters the end of the text matches.
 * Nearly every line starts in state 0. Then the faster `indexOf` finds whole secrets, and only the end of the text is
 * searched character by character.
 */
function scan(search: Search, state: number): number {
  if (state > 0) return walk(search, 0, state)
  const { text, needle, onEnd } = search
  const { length } = needle.text
  for (let at = text.indexOf(needle.text); at !== -1; at = text.indexOf(needle.text, at + 1)) onEnd(at + length)
  return walk(search, Math.max(0, text.length - length + 1), 0)
}

function walk({ text, needle: { text: wanted, borders }, onEnd }: Search, from: number, begun: number): number {
  let state = begun
  for (let at = from; at < text.length; at++) {
    if (state === 0) {
      at = text.indexOf(wanted[0] as string, at)
      if (at === -1) return 0
    }
    while (state > 0 && wanted[state] !== text[at]) state = borders[state - 1] as number
    if (wanted[state] === text[at]) state++
    if (state < wanted.length) continue
    onEnd(at + 1)
    state = borders[state - 1] as number
  }
  return state
}

/** Returns for each prefix the length of its longest border: a text that both begins and ends it. */
function bordersOf(text: string): Int32Array {
  const borders = new Int32Array(text.length)
  for (let at = 1, border = 0; at < text.length; at++) {
    while (border > 0 && text[at] !== text[border]) border = borders[border - 1] as number
    if (text[at] === text[border]) border++
    borders[at] = border
  }
  return borders
}

function withMasks({ text, found }: HeldLine): string {
  let masked = ''
  let at = 0
  for (const [from, to] of found.sort(([a], [b]) => a - b)) {
    if (from >= at) masked += text.slice(at, from) + mask
    at = Math.max(at, to)
  }
  return masked + text.slice(at)
}
