/* Writes a bundle (format.ts). Its entries have one fixed time, so that the same contents give the same bytes. */
import { createReadStream, existsSync, readdirSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { crc32, sha256 } from '../../base/digests.js'
import { Refusal, reasonOf } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import { treeHead, treeLine } from '../../base/shared/tree-text.js'
import { directoryOf, localHeader, newRecord, type ZipRecord } from '../../base/shared/zip-records.js'
import { entriesOfArchive } from '../../core/archive/archive-tree.js'
import { openArchive } from '../../core/archive/read.js'
import type { TimedEntry } from '../../core/archive/tree.js'
import { maxTreeEntries } from '../../core/archive/tree-wire.js'
import { type BundleManifest, type BundlePart, manifestName, manifestText, signaturesOf } from './format.js'
import { archiveBytesAllowed, digestOfTree, type Bundle } from './contents.js'
import { createVolumes } from './volumes.js'
import { readFile } from 'node:fs/promises'
import { type AllowedSigner, readAllowedSigners, readPublicKey } from '../../core/proof/keys.js'
import { faultOfSbom, faultOfScripts, faultOfTimes, readSigned } from '../../core/proof/signers.js'
import type { Attached } from '../../model/statement.js'
import { usage } from '../command.js'

/** Contents that are held in memory, by the name of their entry. */
export type SmallParts = ReadonlyArray<readonly [name: string, contents: Uint8Array]>

/** What a bundle is made of. */
export interface BundleSource {
  archive: { path: string; bytes: number; sha256: string }
  /** Besides the tree, which `contentsOf` makes from the archive. */
  parts: SmallParts
  about: Omit<BundleManifest, 'tree' | 'parts'>
}

export interface WrittenBundle {
  paths: string[]
  bytes: number
  sha256: string
  treeSha256: string
  files: number
}

const attributes = (0o100644 << 16) >>> 0
/** The first day that a zip can name, in every time zone. */
const fixedTimeMs = Date.UTC(1980, 0, 2)
const readBytes = 1024 * 1024

/** Refuses (`conflict`, file_exists) to write where a bundle or a part of one is. */
export function checkFree(path: string): void {
  const name = basename(path)
  const there = existsSync(path)
    ? name
    : existsSync(dirname(path))
      ? readdirSync(dirname(path)).find(each => each.startsWith(`${name}.`) && /\.\d{3}$/.test(each))
      : undefined
  if (there === undefined) return
  const sentence = `"${oneLine(there)}" exists. Remove it, or name another --file`
  throw new Refusal('conflict', 'file_exists', sentence, { field: '--file' })
}

/** Returns the entries of a packed archive, sorted. Refuses an archive that `svc bundle verify` would refuse. */
export async function entriesOf(archive: BundleSource['archive'], signal: AbortSignal): Promise<TimedEntry[]> {
  const opened = await openArchive(archive.path, {
    maxEntries: maxTreeEntries,
    maxExtractedBytes: archiveBytesAllowed(archive.bytes)
  })
  try {
    return await entriesOfArchive(opened, { signal })
  } finally {
    opened.close()
  }
}

export function treeText(entries: readonly TimedEntry[]): Buffer {
  return Buffer.from(treeHead + entries.map(treeLine).join(''))
}

/** Writes the bundle to `path`, or to parts of it. Removes what it wrote if it fails. */
export async function writeBundle(
  { archive, parts, about }: BundleSource,
  {
    path,
    entries,
    splitBytes,
    signal
  }: {
    path: string
    entries: readonly TimedEntry[]
    splitBytes: number | null
    signal: AbortSignal
  }
): Promise<WrittenBundle> {
  const tree = treeText(entries)
  const treeSha256 = digestOfTree(tree)
  const small: SmallParts = [['tree', tree], ...parts]
  const described: BundlePart[] = [
    { name: 'archive.zip', bytes: archive.bytes, sha256: archive.sha256 },
    ...small.map(([name, contents]) => ({ name, bytes: contents.length, sha256: sha256(contents).toString('hex') }))
  ]
  const manifest = Buffer.from(
    manifestText({
      ...about,
      tree: { sha256: treeSha256, files: entries.length, bytes: entries.reduce((sum, { size }) => sum + size, 0) },
      parts: described
    })
  )
  checkFree(path)
  const volumes = createVolumes(path, splitBytes)
  const records: ZipRecord[] = []
  let offset = 0
  async function put(bytes: Uint8Array): Promise<void> {
    signal.throwIfAborted()
    await volumes.write(bytes)
    offset += bytes.length
  }
  async function begin(name: string, bytes: number, crc: number): Promise<void> {
    const entry = newRecord({ name: Buffer.from(name), mtimeMs: fixedTimeMs, attributes, bytes, offset })
    Object.assign(entry, { crc, packedBytes: bytes })
    records.push(entry)
    await put(localHeader(entry))
  }
  async function putSmall(name: string, contents: Uint8Array): Promise<void> {
    await begin(name, contents.length, crc32(contents))
    await put(contents)
  }
  try {
    await putSmall(manifestName, manifest)
    await begin('archive.zip', archive.bytes, await checksumOf(archive.path, signal))
    for await (const piece of piecesOf(archive.path)) await put(piece)
    for (const [name, contents] of small) await putSmall(name, contents)
    await put(directoryOf(records, offset))
    return { ...(await volumes.end()), treeSha256, files: entries.length }
  } catch (error) {
    await volumes.abandon()
    throw error
  }
}

function piecesOf(path: string): AsyncIterable<Buffer> {
  return createReadStream(path, { highWaterMark: readBytes }) as AsyncIterable<Buffer>
}

async function checksumOf(path: string, signal: AbortSignal): Promise<number> {
  let crc = 0
  for await (const piece of piecesOf(path)) {
    signal.throwIfAborted()
    crc = crc32(piece, crc)
  }
  return crc
}

/* What a bundle contains besides the files of its release: the statement, its signatures, and the list of components. */

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
