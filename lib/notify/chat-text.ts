import { shortCommit, type Provenance } from '../model/provenance.js'
import { headlineOf, type Notification } from './events.js'

/** In title and text of every chat message: such services let only messages through that contain an agreed word. */
const keyword = 'svc'
export const linkText = 'To this deployment'
/** Characters of one value in a chat message; the generic form carries all of it. */
const maxChatCharacters = 1000

/** One line that says what happened, with the keyword. */
export function titleOf(notification: Notification): string {
  return `${keyword} · ${oneLine(headlineOf(notification))}`
}

/** What a person wants to know, as name and value; what is unknown is left out. At most ten, which is Slack's limit. */
export function chatLines({ project, deployment, errorMessage, timestamp }: Notification): Array<[name: string, value: string]> {
  const lines: Array<[string, string | null]> = [
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
  return lines.flatMap(([name, value]) => (value === null || value === '' ? [] : [[name, oneLine(value)]]))
}

/** `1a2b3c4 on main, by Ada`, as the client claims. */
function commitLine(provenance: Provenance | null): string | null {
  if (provenance === null) return null
  const { commit, branch, tag, author } = provenance
  const name = tag ?? branch
  const parts = [commit && shortCommit(commit), name && (commit === null ? name : `on ${name}`)].filter(Boolean).join(' ')
  return parts === '' || author === null ? parts : `${parts}, by ${author}`
}

/** `Drone 42, https://drone.example.org/42`. */
function runLine(provenance: Provenance | null): string | null {
  const { system, run, url } = provenance?.ci ?? { system: null, run: null, url: null }
  if (system === null) return null
  return [[system, run].filter(Boolean).join(' '), url].filter(Boolean).join(', ')
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > maxChatCharacters ? `${sliceWhole(line, maxChatCharacters)}…` : line
}

/** Never half of a surrogate pair. */
function sliceWhole(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, '')
}

export interface Clipping {
  /** The maximum of `measure` over the result, the ellipsis included. */
  max: number
  /** How a character is written where it would mean something else; default: as it is. */
  escape?: (character: string) => string
  /** What the limit counts; default: UTF-16 units, as `length`. */
  measure?: (text: string) => number
}

/** The text escaped, and cut at a whole character if the escaped text exceeds the limit. */
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
export const bytesOf = (text: string): number => Buffer.byteLength(text)
/** Bytes of the text in a JSON string, without its quotes. */
export const jsonBytesOf = (text: string): number => Buffer.byteLength(JSON.stringify(text)) - 2
