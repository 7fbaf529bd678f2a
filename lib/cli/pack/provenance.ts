import { oneLine } from '../../base/text.js'
import {
  isCommitId,
  maxProvenanceBytes,
  provenanceLengths,
  webAddress,
  type CiRun,
  type Provenance
} from '../../model/provenance.js'
import { withoutCredentials } from '../../model/repository.js'
import { ciFacts, type CiFacts } from './ci-systems.js'
import { readGit } from './git.js'

/** Maximum length of each text if all of them together are too long for the form field. */
const shortLength = 100

/**
 * Returns the provenance of the files in a directory, from git and from the CI system that runs this process. git takes
 * precedence, except for the tag, since one commit can have several tags. Never rejects.
 */
export async function collectProvenance(
  directory: string,
  env: Readonly<Record<string, string | undefined>>
): Promise<Provenance> {
  const git = await readGit(directory, env)
  const ci = ciFacts(env)
  const provenance = joined({ ...git, tag: ci?.tag ?? git.tag }, ci, Infinity)
  const bytes = Buffer.byteLength(JSON.stringify(provenance))
  return bytes <= maxProvenanceBytes ? provenance : joined({ ...git, tag: ci?.tag ?? git.tag }, ci, shortLength)
}

function joined(git: Awaited<ReturnType<typeof readGit>>, ci: CiFacts | null, longest: number): Provenance {
  const { branch, tag, author, subject, repository } = provenanceLengths
  const text = (value: string | null | undefined, max: number): string | null =>
    cut(value ?? null, Math.min(max, longest))
  return {
    source: 'cli',
    commit: commitOf(git.commit) ?? commitOf(ci?.commit ?? null),
    branch: text(git.branch ?? ci?.branch, branch),
    tag: text(git.tag, tag),
    author: text(git.author, author),
    subject: text(git.subject, subject),
    dirty: git.dirty,
    repository: whole(addressOf(git.repository) ?? addressOf(ci?.repository ?? null), repository),
    ci: ci === null ? null : runOf(ci, text),
    by: null
  }
}

function runOf(ci: CiFacts, text: (value: string | null, max: number) => string | null): CiRun {
  const { run, url, actor } = provenanceLengths
  return {
    system: ci.system,
    run: text(ci.run, run),
    url: whole(webAddress(ci.url ?? ''), url),
    actor: text(ci.actor, actor)
  }
}

function commitOf(text: string | null): string | null {
  const id = text?.toLowerCase() ?? ''
  return isCommitId(id) ? id : null
}

/**
 * Returns an address without credentials. Returns null for a path, which would only reveal directories of this
 * machine.
 */
function addressOf(text: string | null): string | null {
  const address = text === null ? null : withoutCredentials(text)
  return address === null ? null : oneLine(address)
}

/** Returns an address unless it is too long. Shortening it would make it a different address. */
function whole(address: string | null, max: number): string | null {
  return address !== null && address.length <= max ? address : null
}

/** Shortens a text to one line, without splitting a surrogate pair. */
function cut(text: string | null, max: number): string | null {
  if (text === null) return null
  const line = oneLine(text.trim())
  return (line.length <= max ? line : line.slice(0, max).replace(/[\ud800-\udbff]$/, '')) || null
}
