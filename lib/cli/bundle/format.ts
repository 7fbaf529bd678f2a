/*
 * A bundle carries one release to a server that this machine does not reach: a zip, stored, with these entries in this
 * order. `bundle.json` names the size and the SHA-256 of every other one; an entry that it does not name is refused.
 *
 *   bundle.json      the format, what the server must be able to do, the project, the origin, the list of entries
 *   archive.zip      what "svc push" would upload
 *   tree             the canonical text of its files (base/shared/tree-text.ts); its SHA-256 is that of the tree
 *   statement.json   what was signed
 *   signatures/1 …   the signatures of the statement
 *   sbom.json        the list of components
 *   scripts/pre      the scripts, as `--pre` and `--post` gave them
 *   scripts/post
 *
 * The values of variables are no part of it, only their names. Nor are the time and the machine: the same files, options
 * and commit give the same bytes.
 */
import { Refusal } from '../../base/errors.js'
import {
  checked,
  flag,
  integer,
  line,
  list,
  maxScriptLength,
  nullable,
  object,
  readFields,
  sha256Text,
  withDefault
} from '../../base/fields.js'
import { maxTreeBytes } from '../../core/archive/tree-wire.js'
import { maxMessageLength } from '../../model/deployment.js'
import { type Provenance, provenanceReader } from '../../model/provenance.js'
import { maxSbomBytes, maxSignatureBytes, maxStatementBytes } from '../../model/statement.js'
import { clientVariableNameFault, maxClientVariables } from '../../model/variable.js'

/** The name of the entry that describes the others. */
export const manifestName = 'bundle.json'
/** The format that this svc writes. */
const bundleFormat = 1
/** The first entry of a zip, and of a bundle in one file. */
export const zipMark = 'PK\x03\x04'

/** Maximum size of `bundle.json` in bytes. */
export const maxManifestBytes = 256 * 1024
const maxCharacterBytes = 4

/** The entries that a bundle may have besides `bundle.json` and its signatures, in their order, with their maximum sizes. */
const limits: Readonly<Record<string, number>> = {
  'archive.zip': Number.MAX_SAFE_INTEGER,
  tree: maxTreeBytes,
  'statement.json': maxStatementBytes,
  'sbom.json': maxSbomBytes,
  'scripts/pre': maxScriptLength * maxCharacterBytes,
  'scripts/post': maxScriptLength * maxCharacterBytes
}
const signaturePattern = /^signatures\/([1-9]|1[0-6])$/

/** Returns the maximum size of an entry in bytes; null if a bundle has no such entry. */
export function maxBytesOf(name: string): number | null {
  if (name === manifestName) return maxManifestBytes
  if (signaturePattern.test(name)) return maxSignatureBytes
  return Object.hasOwn(limits, name) ? (limits[name] as number) : null
}

/** An entry of a bundle. */
export interface BundlePart {
  name: string
  bytes: number
  /** In hexadecimal. */
  sha256: string
}

/** What `bundle.json` says. */
export interface BundleManifest {
  /** The lowest version of a server that can take it. */
  minServer: string
  /** What the server must accept besides files (`features` of `GET /api/deploy/check`). */
  needs: readonly string[]
  /** The project that it was made for, by id or name; null: any. */
  project: string | null
  message: string | null
  provenance: Provenance | null
  tree: { sha256: string; files: number; bytes: number }
  /** The names of the variables that its scripts expect. */
  env: readonly string[]
  /** Whether the post-deploy script runs in the background; null: as the server is configured. */
  postDeployAsync: boolean | null
  parts: readonly BundlePart[]
}

const size = integer(0, Number.MAX_SAFE_INTEGER)
const partName = checked(line({ min: 1, max: 100 }), text =>
  maxBytesOf(text) === null || text === manifestName ? 'a bundle has no such entry' : null
)
const version = checked(line({ min: 1, max: 40 }), text =>
  /^(dev|\d{1,5}\.\d{1,5}\.\d{1,5}(-[\w.]+)?)$/.test(text) ? null : 'expected a version'
)
const variable = checked(line({ min: 1, max: 200 }), clientVariableNameFault)
const count = integer(0, 1_000_000)

const shape = {
  minServer: version,
  needs: withDefault(list(line({ min: 1, max: 40 }), { max: 20 }), []),
  project: withDefault(nullable(line({ min: 1, max: 200 })), null),
  message: withDefault(nullable(line({ max: maxMessageLength })), null),
  provenance: withDefault(provenanceReader('escape'), null),
  tree: object({ sha256: sha256Text, files: count, bytes: size }),
  env: withDefault(list(variable, { max: maxClientVariables }), []),
  postDeployAsync: withDefault(nullable(flag), null),
  parts: list(object({ name: partName, bytes: size, sha256: sha256Text }), { min: 2, max: 30 })
}

/** Returns the text of `bundle.json`. */
export function manifestText(manifest: BundleManifest): string {
  return `${JSON.stringify({ format: bundleFormat, ...manifest }, null, 2)}\n`
}

/** Reads the text of `bundle.json`. Refuses (`invalid`) bundle_too_new, not_a_bundle. */
export function readManifest(text: string): BundleManifest {
  const value = parse(text)
  const { format } = value as { format?: unknown }
  if (typeof format === 'number' && Number.isInteger(format) && format > bundleFormat) {
    throw new Refusal(
      'invalid',
      'bundle_too_new',
      `Cannot read the bundle: its format is ${format}, and this svc knows up to ${bundleFormat}. Update svc on this machine`
    )
  }
  if (format !== bundleFormat) throw notABundle(`"${manifestName}" does not say "format": ${bundleFormat}`)
  try {
    const manifest = readFields(value, shape)
    const names = manifest.parts.map(({ name }) => name)
    if (new Set(names).size < names.length) throw notABundle(`"${manifestName}" names an entry twice`)
    for (const needed of ['archive.zip', 'tree'])
      if (!names.includes(needed)) throw notABundle(`"${manifestName}" does not name "${needed}"`)
    if (signaturesOf(manifest).length > 0 && !names.includes('statement.json'))
      throw notABundle('it contains signatures, but not the statement that was signed')
    return manifest
  } catch (error) {
    if (!(error instanceof Refusal) || error.code === 'not_a_bundle') throw error
    throw notABundle(`"${manifestName}": ${error.message}`)
  }
}

function parse(text: string): object {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw notABundle(`"${manifestName}" is not valid JSON`)
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw notABundle(`"${manifestName}" is not a JSON object`)
}

/** Returns the names of the signatures, in the order of their numbers. */
export function signaturesOf({ parts }: Pick<BundleManifest, 'parts'>): string[] {
  const number = (name: string): number => Number(name.slice('signatures/'.length))
  const names = parts.map(({ name }) => name).filter(name => signaturePattern.test(name))
  return names.sort((a, b) => number(a) - number(b))
}

/** The refusal of a file that is not a bundle. */
export function notABundle(why: string, cause?: unknown): Refusal {
  return new Refusal('invalid', 'not_a_bundle', `Cannot read the bundle: ${why}`, { cause })
}

/** The refusal of a bundle that is not as it was written. */
export function damaged(why: string, cause?: unknown): Refusal {
  return new Refusal('invalid', 'bundle_damaged', `The bundle is damaged: ${why}. Copy it again`, { cause })
}

/** Whether a server of a version can take a bundle that asks for another one. A development build takes any. */
export function isLateEnough(version: string, least: string): boolean {
  const numbers = (text: string): number[] => text.split('-')[0]?.split('.').map(Number) ?? []
  if (version === 'dev' || least === 'dev') return true
  const [own, asked] = [numbers(version), numbers(least)]
  const at = asked.findIndex((each, index) => each !== own[index])
  return at === -1 || (own[at] ?? 0) > (asked[at] ?? 0)
}
