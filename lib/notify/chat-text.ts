import { oneLine as escapedLine } from '../base/text.js'
import { shortCommit, type Provenance } from '../model/provenance.js'
import { headlineOf, type DeploymentNotification, type Notification, type TokenNotification } from './events.js'

/** Part of every title and text, because chat services can require a keyword in each message. */
const keyword = 'svc'
/** Maximum characters of one value in a chat message. The generic payload contains the whole value. */
const maxChatCharacters = 1000

/** Returns one line that says what happened, with the keyword. */
export function titleOf(notification: Notification): string {
  return `${keyword} · ${oneLine(headlineOf(notification))}`
}

/** Returns the text of the link of a notification. */
export function linkTextOf({ event }: Pick<Notification, 'event'>): string {
  return event === 'token_expiring' || event === 'token_locked' ? 'Open the tokens' : 'Open this deployment'
}

/** Returns the facts of an event as names and values, without unknown ones. At most ten, which is Slack's limit. */
export function chatLines(notification: Notification): Array<[name: string, value: string]> {
  const lines = 'token' in notification ? linesOfToken(notification) : linesOfDeployment(notification)
  return lines.flatMap(([name, value]) => (value === null || value === '' ? [] : [[name, oneLine(value)]]))
}

type Line = [name: string, value: string | null]

function linesOfToken(notification: TokenNotification): Line[] {
  const { token, timestamp, lockedUntil } = { lockedUntil: null, ...notification }
  return [
    ['Token', `${token.name} (${token.id})`],
    ['Role', token.role],
    ['Projects', token.projectIds === null ? 'all' : token.projectIds.join(', ')],
    ['Expires', token.expiresAt],
    ['Locked until', lockedUntil],
    ['Time', timestamp]
  ]
}

function linesOfDeployment({ project, deployment, errorMessage, timestamp }: DeploymentNotification): Line[] {
  return [
    ['Project', `${project.name} (${project.id})`],
    ['Target', project.deployPath],
    ['Deployment', deployment.id],
    ['Rollback to', deployment.rollbackOf],
    ['Message', deployment.message || (deployment.provenance?.subject ?? null)],
    ['Commit', commitLine(deployment.provenance)],
    ['CI run', runLine(deployment.provenance)],
    ['Duration', deployment.duration],
    ['Error', errorMessage],
    ['Time', timestamp]
  ]
}

/** Returns a line like `1a2b3c4 on main, by Ada`, as claimed by the client. */
function commitLine(provenance: Provenance | null): string | null {
  if (provenance === null) return null
  const { commit, branch, tag, author } = provenance
  const name = tag ?? branch
  const parts = [commit && shortCommit(commit), name && (commit === null ? name : `on ${name}`)]
    .filter(Boolean)
    .join(' ')
  return parts === '' || author === null ? parts : `${parts}, by ${author}`
}

/** Returns a line like `Drone 42, https://drone.example.org/42`. */
function runLine(provenance: Provenance | null): string | null {
  const { system, run, url } = provenance?.ci ?? { system: null, run: null, url: null }
  if (system === null) return null
  return [[system, run].filter(Boolean).join(' '), url].filter(Boolean).join(', ')
}

function oneLine(text: string): string {
  const line = escapedLine(text.replace(/\s+/g, ' ').trim())
  return line.length > maxChatCharacters ? `${sliceWhole(line, maxChatCharacters)}…` : line
}

/** Cuts a text without splitting a surrogate pair. */
function sliceWhole(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, '')
}

/** Options of `clip`. */
export interface Clipping {
  /** Maximum of `measure` for the result, including the ellipsis. */
  max: number
  /** Escapes one character. Default: unchanged. */
  escape?: (character: string) => string
  /** Measures a text in the unit of the limit. Default: UTF-16 units, like `length`. */
  measure?: (text: string) => number
}

/** Escapes a text, and cuts it after a whole character if the escaped text exceeds the limit. */
export function clip(text: string, { max, escape = same, measure = lengthOf }: Clipping): string {
  const end = measure('…')
  let clipped = ''
  let used = 0
  let fitting = ''
  for (const character of text) {
    const written = escape(character)
    used += measure(written)
    if (used > max) return `${fitting}…`
    clipped += written
    if (used + end <= max) fitting = clipped
  }
  return clipped
}

const same = (text: string): string => text
const lengthOf = (text: string): number => text.length
/** Returns the size of a text in UTF-8 bytes. */
export const bytesOf = (text: string): number => Buffer.byteLength(text)
/** Returns the size of a text in bytes within a JSON string, without the quotes. */
export const jsonBytesOf = (text: string): number => Buffer.byteLength(JSON.stringify(text)) - 2
