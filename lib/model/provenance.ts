import { oneLine, unprintableIn } from '../base/one-line.js'
import { withoutCredentials } from './repository.js'

/** Maximum size of the `provenance` field of an upload, in bytes of JSON. */
export const maxProvenanceBytes = 16 * 1024

/** A continuous integration run, as its system names it. */
export interface CiRun {
  /** The system's name, for example "GitHub Actions". */
  system: string
  /** The run number that people see, for example "42" or "42.1". */
  run: string | null
  /** The address of the run's page: http or https, without credentials. */
  url: string | null
  /** The user who started the run, as the system names them. */
  actor: string | null
}

/**
 * The origin of a deployment as its client claims it: the server checks the form of each value, not its truth. Values
 * that the client does not know are null.
 */
export interface Provenance {
  /** The program that sent the archive. */
  source: 'cli' | 'panel'
  /** The full id of the git commit: 40 or 64 hexadecimal digits. */
  commit: string | null
  branch: string | null
  tag: string | null
  /** The author's name, without the email address. */
  author: string | null
  /** The first line of the commit's message. */
  subject: string | null
  /** Whether tracked files differed from the commit. */
  dirty: boolean | null
  /** The repository's address, without credentials. */
  repository: string | null
  /** Null if no continuous integration system ran the command. */
  ci: CiRun | null
  /** The user who sent it from the panel, for example "admin"; null for other sources. */
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

/** How a provenance is read. */
export interface ProvenanceReading {
  /** Returns the error for a field: `commit`, `ci.url`, or "" for the whole value. `reason` continues a sentence. */
  wrong(field: string, reason: string): Error
  /** Whether control characters are escaped, as in packages, or refused, as in requests. */
  unprintable: 'escape' | 'refuse'
}

/**
 * Reads a claimed provenance: null stays null, missing keys become null, unknown keys are ignored, and credentials are
 * removed from addresses. Throws the error that `wrong` returns for a value of a wrong type or form.
 */
export function readProvenance(given: unknown, reading: ProvenanceReading): Provenance | null {
  if (given === null || given === undefined) return null
  const claim = readerOf(given, '', reading)
  const { branch, tag, author, subject, repository, by } = provenanceLengths
  return {
    source: claim.source(),
    commit: claim.commit(),
    branch: claim.text('branch', branch),
    tag: claim.text('tag', tag),
    author: claim.text('author', author),
    subject: claim.text('subject', subject),
    dirty: claim.flag('dirty'),
    repository: withoutCredentials(claim.text('repository', repository) ?? ''),
    ci: readRun(claim.value('ci'), reading),
    by: claim.text('by', by)
  }
}

function readRun(given: unknown, reading: ProvenanceReading): CiRun | null {
  if (given === null || given === undefined) return null
  const claim = readerOf(given, 'ci', reading)
  const { system, run, url, actor } = provenanceLengths
  const name = claim.text('system', system)
  if (name === null) throw reading.wrong('ci.system', 'is missing: the name of the system is needed')
  return {
    system: name,
    run: claim.text('run', run),
    url: claim.address('url', url),
    actor: claim.text('actor', actor)
  }
}

function readerOf(given: unknown, parent: string, { wrong, unprintable }: ProvenanceReading) {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw wrong(parent, 'must be an object')
  const fields = given as Record<string, unknown>
  const value = (name: string): unknown => (Object.hasOwn(fields, name) ? fields[name] : undefined)
  const at = (name: string): string => (parent === '' ? name : `${parent}.${name}`)

  /** Returns a text field; empty text becomes null. */
  function text(name: string, max: number): string | null {
    const found = value(name)
    if (found === undefined || found === null || found === '') return null
    if (typeof found !== 'string') throw wrong(at(name), 'must be a string or null')
    const character = unprintableIn(found)
    if (character !== null && unprintable === 'refuse') {
      throw wrong(at(name), `must be one line of visible characters: it contains ${character}`)
    }
    if (found.length > max) throw wrong(at(name), `is too long: ${found.length} characters, at most ${max}`)
    return character === null ? found : oneLine(found)
  }

  return {
    value,
    text,
    source(): Provenance['source'] {
      const found = value('source') ?? 'cli'
      if (found !== 'cli' && found !== 'panel') throw wrong(at('source'), 'must be "cli" or "panel"')
      return found
    },
    commit(): string | null {
      const found = text('commit', 64)?.toLowerCase() ?? null
      if (found !== null && !isCommitId(found)) throw wrong(at('commit'), 'must be 40 or 64 hexadecimal digits')
      return found
    },
    flag(name: string): boolean | null {
      const found = value(name) ?? null
      if (found !== null && typeof found !== 'boolean') throw wrong(at(name), 'must be true, false or null')
      return found
    },
    /** Returns an address that is safe as a link in a browser. */
    address(name: string, max: number): string | null {
      const found = text(name, max)
      if (found === null) return null
      const address = webAddress(found)
      if (address === null) throw wrong(at(name), 'must be an address with http:// or https://')
      return address
    }
  }
}

/** Returns whether the text is the full id of a commit, in lower case. */
export function isCommitId(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text)
}

/** Returns an http or https address without credentials, as URL writes it; null for anything else. */
export function webAddress(text: string): string | null {
  if (!URL.canParse(text)) return null
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return null
  url.username = ''
  url.password = ''
  return url.href
}

/** Returns the first digits of a commit's id, as people write it. */
export function shortCommit(commit: string): string {
  return commit.slice(0, 7)
}
