/* What a bundle contains besides the files of its release: the statement, its signatures, and the list of components. */
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { reasonOf, Refusal } from '../../base/errors.js'
import { type AllowedSigner, readAllowedSigners, readPublicKey } from '../../core/proof/keys.js'
import { faultOfSbom, faultOfScripts, faultOfTimes, readSigned } from '../../core/proof/signers.js'
import type { Attached } from '../../model/statement.js'
import { usage } from '../command.js'
import type { Bundle } from './contents.js'
import { type BundleManifest, signaturesOf } from './format.js'
import type { SmallParts } from './write.js'

/** Returns the entries for what is attached to a release. */
export function partsOfAttached({ statement, signatures = [], sbom }: Attached): SmallParts {
  return [
    ...(statement === undefined ? [] : [['statement.json', Buffer.from(statement)] as const]),
    ...signatures.map((text, at) => [`signatures/${at + 1}`, Buffer.from(text)] as const),
    ...(sbom === undefined ? [] : [['sbom.json', sbom] as const])
  ]
}

/** Returns what a server must accept to take it. */
export function needsOfAttached({ statement, sbom }: Attached): string[] {
  return statement === undefined && sbom === undefined ? [] : ['signatures']
}

/** Reads what is attached to the release of a bundle. */
export async function readAttached({ manifest, read }: Bundle): Promise<Attached> {
  const [statement, sbom] = [await read('statement.json'), await read('sbom.json')]
  const signatures: string[] = []
  for (const name of signaturesOf(manifest)) signatures.push(String(await read(name)))
  return {
    ...(statement !== null && { statement: statement.toString('utf8'), signatures }),
    ...(sbom !== null && { sbom })
  }
}

/** Who signed a bundle. */
export interface BundleSigners {
  signedBy: Array<{ name: string; fingerprint: string }>
  /** Other keys, which nobody trusts here. */
  strangers: string[]
  /** The projects for which it was signed, by their ids. */
  projects: string[]
  /** When the statement is accepted no longer. */
  notAfter: string | null
}

/** Reads the keys of --keys: `allowed_signers`, or one public key. */
export async function readKeysFile(path: string): Promise<AllowedSigner[]> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw usage('--keys', `Cannot read the keys "${path}": ${reasonOf(error)}`)
  })
  if (!/^(ssh-|sk-|RW|untrusted comment:|-----BEGIN )/.test(text)) return readAllowedSigners(text)
  const key = readPublicKey(text)
  return [{ key, name: key.comment || basename(path), notBefore: null, notAfter: null }]
}

/**
 * Verifies the statement of a bundle: that one of the keys signed it at least, and that it is about this release. Refuses:
 * 403 signature_missing, signature_bad, signature_unknown_key, signature_expired, 409 tree_differs.
 */
export async function verifySigners(
  bundle: Bundle,
  keys: readonly AllowedSigner[],
  at: string
): Promise<BundleSigners> {
  const { statement: text, signatures = [] } = await readAttached(bundle)
  if (text === undefined || signatures.length === 0) throw denied('signature_missing', 'it is not signed')
  const { statement, keys: makers, strangers } = readSigned(keys, { statement: text, signatures: [...signatures] })
  const good = makers.filter(each => faultOfTimes(each, at) === null)
  const [maker] = makers
  if (maker === undefined)
    throw denied('signature_unknown_key', `${strangers.slice(0, 3).join(', ')} is not among the keys of --keys`)
  if (good.length === 0)
    throw denied('signature_expired', `the key "${maker.name}" (${maker.key.fingerprint}) ${faultOfTimes(maker, at)}`)
  const { projectId, alsoFor, notAfter } = statement
  if (notAfter !== null && at >= notAfter) throw denied('signature_expired', `its statement has expired at ${notAfter}`)
  if (statement.treeSha256 !== bundle.manifest.tree.sha256)
    throw new Refusal('conflict', 'tree_differs', 'The bundle does not contain the files that were signed')
  const fault =
    faultOfScripts(statement, await scriptsOf(bundle), bundle.manifest.env) ??
    faultOfSbom(statement, sbomOf(bundle.manifest))
  if (fault !== null) throw fault
  return {
    signedBy: good.map(({ name, key: { fingerprint } }) => ({ name, fingerprint })),
    strangers,
    projects: [projectId, ...alsoFor],
    notAfter
  }
}

async function scriptsOf({ read }: Bundle) {
  const [preDeploy, postDeploy] = [await read('scripts/pre'), await read('scripts/post')]
  return { preDeploy: preDeploy?.toString('utf8'), postDeploy: postDeploy?.toString('utf8') }
}

function sbomOf({ parts }: BundleManifest): string | null {
  return parts.find(({ name }) => name === 'sbom.json')?.sha256 ?? null
}

function denied(code: string, why: string): Refusal {
  return new Refusal('forbidden', code, `Cannot trust the bundle: ${why}`)
}
