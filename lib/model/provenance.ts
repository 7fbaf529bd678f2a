import { parseUrl } from '../base/text.js'
import {
  checked,
  escapedLine,
  flag,
  line,
  mapped,
  nullable,
  object,
  oneOf,
  withDefault,
  type Read
} from '../base/fields.js'
import { withoutCredentials } from './repository.js'

/** Maximum size of the `provenance` field of an upload, in bytes of JSON. */
export const maxProvenanceBytes = 16 * 1024

/** A continuous integration run, as its system names it. */
export interface CiRun {
  /** The name of the continuous integration system. */
  system: string
  /** The number of the run. */
  run: string | null
  /** The URL of the run. */
  url: string | null
  /** The user that started the run. */
  actor: string | null
}

/**
 * The origin of a deployment as its client claims it: the server checks the form of each value, not its truth. Values
 * that the client does not know are null.
 * @schema Provenance
 */
export interface Provenance {
  /** The kind of client that sent the archive. */
  source: 'cli' | 'panel'
  /** The full id of the Git commit. */
  commit: string | null
  branch: string | null
  tag: string | null
  /** The name of the author of the commit. */
  author: string | null
  /** The first line of the commit message. */
  subject: string | null
  /** Whether tracked files differed from the commit. */
  dirty: boolean | null
  /** The URL of the repository, without credentials. */
  repository: string | null
  /** The continuous integration run, or null. */
  ci: CiRun | null
  /** The user of the panel that sent the archive. Null for other clients. */
  by: string | null
}

/** The maximum length of each field, in characters. */
export const provenanceLengths = {
  branch: 300,
  tag: 300,
  author: 200,
  subject: 500,
  repository: 1000,
  by: 200,
  system: 100,
  run: 100,
  url: 2000,
  actor: 200
} as const

/**
 * Returns the reader of a claimed provenance: null stays null, missing keys become null, unknown keys are ignored, and
 * credentials are removed from addresses. Control characters are escaped, as in packages, or refused, as in requests.
 */
export function provenanceReader(unprintable: 'escape' | 'refuse'): Read<Provenance | null> {
  const lineOf = unprintable === 'escape' ? escapedLine : line
  const text = (max: number): Read<string | null> => mapped(nullable(lineOf({ max })), given => given || null)
  const max = provenanceLengths
  const run = object({
    system: lineOf({ min: 1, max: max.system }),
    run: text(max.run),
    url: checked(
      mapped(text(max.url), given => given && (webAddress(given) ?? '')),
      given => (given === '' ? 'expected an address with http:// or https://' : null)
    ),
    actor: text(max.actor)
  })
  return nullable(
    object({
      source: withDefault(oneOf(['cli', 'panel']), 'cli'),
      commit: checked(
        mapped(text(64), given => given?.toLowerCase() ?? null),
        given => (given === null || isCommitId(given) ? null : 'expected 40 or 64 hexadecimal digits')
      ),
      branch: text(max.branch),
      tag: text(max.tag),
      author: text(max.author),
      subject: text(max.subject),
      dirty: nullable(flag),
      repository: mapped(text(max.repository), given => withoutCredentials(given ?? '')),
      ci: nullable(run),
      by: text(max.by)
    })
  )
}

/** Returns whether the text is the full id of a commit, in lower case. */
export function isCommitId(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text)
}

/** Returns an http or https address without credentials, as URL writes it; null for anything else. */
export function webAddress(text: string): string | null {
  const url = parseUrl(text)
  if (url === null) return null
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return null
  url.username = ''
  url.password = ''
  return url.href
}

/** Returns the first digits of a commit's id, as people write it. */
export function shortCommit(commit: string): string {
  return commit.slice(0, 7)
}
