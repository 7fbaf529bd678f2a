/* Files of receipts, and what `svc receipt verify` compares with them. */
import { createHash } from 'node:crypto'
import { lstat, readdir, readFile, realpath, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { reasonOf, Refusal } from '../base/errors.js'
import { replaceFile } from '../base/files.js'
import { compareTreePaths, fileType, treeHead, treeLine } from '../base/shared/tree-text.js'
import { countOf } from '../base/text.js'
import { treeOf } from '../core/archive/tree.js'
import { walkTree } from '../core/archive/walk.js'
import type { ZipSource } from '../core/archive/source.js'
import { maxReceiptBytes, type ReadReceipt } from '../core/proof/receipt.js'
import { readReceipts, type ReceiptFile } from '../core/proof/receipt-chain.js'
import { createTreeDigest, type ManifestFile } from '../model/manifest.js'
import type { ReceiptSubject } from '../model/receipt.js'
import type { TreeEntry } from '../base/shared/tree-text.js'
import type { Client } from './client/client.js'
import { readText } from './client/answer.js'
import { exitCodes, type Context } from './command.js'

const fileMode = 0o644
/** Maximum size of a file of receipts: about 60,000 of them. */
const maxFileBytes = 512 * 1024 * 1024
/** All receipts of a server take their time. */
const answerLimitMs = 5 * 60_000
const receiptName = /\.(json|jsonl)$/
const shownDifferences = 10
const typeBits = 0o170000

/** Returns the receipt of a deployment. `form`: `result` for its verification result. */
export async function fetchReceipt(client: Client, deployId: string, form?: 'result'): Promise<string> {
  const given = { id: deployId, query: { form }, accept: 'application/vnd.in-toto+dsse' } as const
  const answer = await client.ask('GET /api/deployments/:id/receipt', given)
  return readText(answer, maxReceiptBytes)
}

/** Returns the receipts of the server, and their text as the server sent it. */
export async function fetchReceipts(
  client: Client,
  query: { projectId?: string | undefined; since?: string | undefined }
): Promise<ReceiptFile & { text: string }> {
  const given = { query, accept: 'application/x-ndjson', answerLimitMs } as const
  const text = await readText(await client.ask('GET /api/receipts', given), maxFileBytes)
  return { text, ...readReceipts(text, 'The answer of the server') }
}

interface ReceiptWish {
  client: Client
  deployId: string | null
  /** The file to write. */
  path: string
}

/**
 * Runs the end of a command that deployed, and then writes the receipt, also of a failed deployment. Without a receipt, the
 * exit code is 1.
 */
export async function withReceipt(
  { client, deployId, path }: ReceiptWish,
  { cwd, output }: Context,
  finish: () => Promise<number>
): Promise<number> {
  const code = await finish()
  if (deployId === null || code === exitCodes.interrupted) return code
  try {
    await replaceFile(resolve(cwd, path), await fetchReceipt(client, deployId), fileMode)
    output.note(`The receipt is in ${path}`)
    return code
  } catch (error) {
    output.error(
      `The receipt was not written: ${reasonOf(error)}. Get it with "svc receipt show ${deployId} --out ${path}"`
    )
    return code === exitCodes.success ? exitCodes.failed : code
  }
}

/** Reads receipts: files, and all `.json` and `.jsonl` files of directories. Refuses `bad_receipt`, naming the file. */
export async function readReceiptFiles(paths: readonly string[], cwd: string): Promise<ReceiptFile> {
  const found: ReceiptFile = { receipts: [], successors: [] }
  for (const path of paths) {
    for (const file of await filesAt(resolve(cwd, path))) {
      const { size } = await stat(file)
      if (size > maxFileBytes)
        throw new Refusal('invalid', 'bad_receipt', `"${file}" is too large for a file of receipts`)
      const { receipts, successors } = readReceipts(await readFile(file, 'utf8'), file)
      found.receipts.push(...receipts)
      found.successors.push(...successors)
    }
  }
  return found
}

async function filesAt(path: string): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path]
    const names = (await readdir(path)).filter(name => receiptName.test(name)).sort()
    if (names.length > 0) return names.map(name => join(path, name))
  } catch (error) {
    throw new Refusal('not_found', 'file_unreadable', `Cannot read "${path}": ${reasonOf(error)}`, { cause: error })
  }
  throw new Refusal('not_found', 'file_unreadable', `"${path}" contains no receipts: no .json or .jsonl file`)
}

/** Returns what a receipt says about its release; undefined: it is about no release. */
function releaseOf({ subjects, receipt }: ReadReceipt): ReceiptSubject['digest'] | undefined {
  const archive = `${receipt.deployment.id}.zip`
  return subjects.find(({ name }) => name !== archive && name !== receipt.deployment.id)?.digest
}

/** Returns the list of files of a deployment in the canonical form, of which the receipt has the digest. */
export function listText(files: readonly ManifestFile[]): string {
  const sorted = [...files].sort((a, b) => compareTreePaths(a.path, b.path))
  return treeHead + sorted.map(treeLine).join('')
}

/**
 * Compares a directory with the release of a receipt. Returns what differs, as sentences. `list` is the list of files of
 * the release (`listText`), without which only the whole can be compared.
 */
export async function treeFaults(receipt: ReadReceipt, directory: string, list: string | null): Promise<string[]> {
  const release = releaseOf(receipt)
  if (release === undefined) return ['The receipt is about no release: a directory cannot be compared with it']
  if (list !== null && createHash('sha256').update(list).digest('hex') !== release.sha256)
    return ['The list of files is not that of the release: its SHA-256 is another one']
  const entries = await readDirectory(directory)
  const digest = createTreeDigest()
  for (const entry of entries) digest.add(entry)
  const tree = digest.end()
  if (tree === release.sha256) return []
  if (list !== null) return differences(parseList(list), entries)
  const contents = createHash('sha256')
  for (const { mode, sha256, path } of entries)
    if ((mode & typeBits) === fileType) contents.update(`${sha256}  ${path}\n`)
  if (contents.digest('hex') === release.dirHash)
    return ['The contents of all files are those of the release, but permissions or links differ']
  const advice = 'Give --list with what "svc receipt show --list" prints to see the differences'
  return [`The directory is not the release: its ${countOf(entries.length, 'file')} give the tree ${tree}. ${advice}`]
}

async function readDirectory(directory: string): Promise<TreeEntry[]> {
  const root = await realpath(directory).catch((error: unknown) => {
    throw new Refusal('not_found', 'file_unreadable', `Cannot read "${directory}": ${reasonOf(error)}`, {
      cause: error
    })
  })
  if (!(await lstat(root)).isDirectory())
    throw new Refusal('invalid', 'file_unreadable', `"${directory}" is not a directory`)
  const sources: ZipSource[] = []
  const all = { root, ignore: null, globs: null, except: () => false }
  await walkTree('', { ...all, warn: () => {} }, source => void sources.push(source))
  return (await treeOf(sources)).entries
}

function parseList(list: string): Map<string, string> {
  const lines = list.slice(treeHead.length).split('\n').slice(0, -1)
  return new Map(lines.map(line => [line.split(' ').slice(3).join(' '), line]))
}

/** Returns the first differences between the list of a release and the files of a directory. */
function differences(wanted: ReadonlyMap<string, string>, found: readonly TreeEntry[]): string[] {
  const faults: string[] = []
  const here = new Map(found.map(entry => [entry.path, treeLine(entry).trimEnd()]))
  for (const [path, line] of wanted) {
    const other = here.get(path)
    if (other === line) continue
    const isContent = other?.slice(7) !== line.slice(7)
    faults.push(
      other === undefined ? `Missing: ${path}` : isContent ? `Changed: ${path}` : `Other permissions: ${path}`
    )
  }
  for (const path of here.keys()) if (!wanted.has(path)) faults.push(`Not in the release: ${path}`)
  const more = faults.length - shownDifferences
  return more > 0 ? [...faults.slice(0, shownDifferences), `… and ${countOf(more, 'more difference')}`] : faults
}
