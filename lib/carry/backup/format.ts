import { isOfRestore } from '../../base/config/home.js'
import { type FileHandle, lstat, open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createHash, type Hash } from 'node:crypto'
import { readAt } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { endBytes, localBytes, signatures } from '../../base/shared/zip-records.js'

/*
 * The format of a backup: a zip with all entries below `svc-backup/`, which contains a data directory as of one moment.
 *
 *   svc.db            the database, with every write that was acknowledged by then; there is no redo log
 *   config.json       with the admin token and everything else in it
 *   deployments/      archives, outputs, manifests
 *   …                 the other files of the directory (`listOthers` names the exceptions)
 *   manifest.json     the last entry: every other one with its size and its SHA-256
 *
 * The zip's comment is a seal: the SHA-256 of every byte before it. Some parts of a zip (local headers,
 * times, modes) are not checked by any reader of zips; the seal detects changes of these too.
 */

/** The version of the format. It grows when older versions of svc could not restore a new backup. */
export const backupFormat = 1
/** The prefix of every path in the zip. */
export const backupRoot = 'svc-backup/'
export const manifestName = 'manifest.json'
export const databaseName = 'svc.db'

export interface BackupFile {
  /** Relative to the data directory, `/` between segments. */
  path: string
  bytes: number
  /** The hash as hex digits. */
  sha256: string
  mtimeMs: number
}

/** The contents of manifest.json. */
export interface BackupManifest {
  format: number
  /** The moment of the backup, as ISO text. */
  createdAt: string
  /** The version of the program that wrote it. */
  version: string
  /** The schema version of the database. */
  schemaVersion: number
  /** The host name of the machine. */
  host: string
  /** The path of the data directory on that machine. */
  directory: string
  files: BackupFile[]
  /** Sentences on files that were left out. */
  notes: string[]
}

/** A manifest with the number of files and their total size instead of the list. */
export interface BackupSummary extends Omit<BackupManifest, 'format' | 'files'> {
  files: number
  bytes: number
}

/** Summarises a manifest. */
export function summaryOf({
  files,
  createdAt,
  version,
  schemaVersion,
  host,
  directory,
  notes
}: BackupManifest): BackupSummary {
  const bytes = files.reduce((total, file) => total + file.bytes, 0)
  return { createdAt, version, schemaVersion, host, directory, files: files.length, bytes, notes }
}

/*
 * Selects the files of a data directory that belong in a backup: every file except temporary ones (tmp, sockets, locks,
 * files being written, undo journals), the key of browser sessions (a restore ends them), the database and its
 * companions (the backup contains an image), and the leftovers of a restore.
 */

/** A file of the data directory. */
export interface FoundFile {
  /** Relative to the data directory, `/` between segments. */
  path: string
  bytes: number
  mtimeMs: number
}

/** The files to include, and notes on those that are left out. */
export interface Contents {
  files: FoundFile[]
  /** Sentences on files that are left out although they are not temporary. */
  notes: string[]
}

/** The directory of deployments. Its files are selected separately (backup.ts). */
export const deploymentsName = 'deployments'
/**
 * Files of this moment. `trees` is made again from the manifests (deploy/trees.ts), and `prepared` is fetched again
 * (fleet/agent/releases.ts). `witness` is what commands saw of the audit logs of servers, which must not become older.
 * `node` is the data directory of the agent of a hub: a node has backups of its own.
 */
const ofTheMoment =
  /^(tmp|trees|prepared|witness|node|deployments|svc\.db.*|svc\.sock.*|session\.key.*|\.cluster-init)$/i
const unfinished = /\.(tmp|lock|pid)$/i
/**
 * Files of deployments/ that are left out: undo journals and their owners belong to this machine and this moment, and an
 * unfinished manifest has the ending .tmp.
 */
const notKept = /\.(undo|helper|tmp)$/i

const isOfTheMoment = (name: string): boolean => ofTheMoment.test(name) || isOfRestore(name)

/**
 * Returns whether a path is that of a file that a backup may contain. A backup of somebody else may contain anything: what
 * a restore or a start would act on (`.restored`, an undo journal, a socket) is refused by the rule that leaves it out.
 */
export function isInBackup(path: string): boolean {
  const [top = '', ...below] = path.split('/')
  if (path === databaseName) return true
  if (top === deploymentsName) return below.length === 1 && isOfDeployments(below[0] as string)
  return !isOfTheMoment(top) && ![top, ...below].some(name => unfinished.test(name))
}

/** Lists the files other than the database and the deployments. */
export async function listOthers(directory: string): Promise<Contents> {
  const contents: Contents = { files: [], notes: [] }
  await visit(directory, '', contents)
  return contents
}

async function visit(directory: string, below: string, contents: Contents): Promise<void> {
  for (const name of (await readdir(join(directory, below))).sort()) {
    if ((below === '' && isOfTheMoment(name)) || unfinished.test(name)) continue
    const path = below === '' ? name : `${below}/${name}`
    const place = join(directory, path)
    const found = await lstat(place).catch(() => null)
    if (found?.isDirectory()) await visit(directory, path, contents)
    else if (found?.isFile()) contents.files.push({ path, bytes: found.size, mtimeMs: found.mtimeMs })
    else if (found?.isSymbolicLink()) await followLink(place, path, contents)
  }
}

/**
 * Includes config.json even if it is a link, because it may be kept elsewhere. Other links may lead to anything, of any
 * size.
 */
async function followLink(place: string, path: string, { files, notes }: Contents): Promise<void> {
  const found = await stat(place).catch(() => null)
  if (path === 'config.json' && found?.isFile()) files.push({ path, bytes: found.size, mtimeMs: found.mtimeMs })
  else notes.push(`"${path}" was left out: it is a symbolic link`)
}

/** Returns whether a file of deployments/ belongs in a backup. */
export function isOfDeployments(name: string): boolean {
  return !notKept.test(name) && !name.startsWith('.')
}

/*
 * The seal of a backup: the comment of its zip (APPNOTE 4.3.16, the last field). It is the SHA-256 of every byte before
 * it:
 *
 *   svc-backup sha256 <64 hex digits>
 *
 * The seal shows that nothing was changed or lost by accident. It does not show who wrote the backup.
 */

/** The progress and cancellation of reading a backup. */
export interface Reading {
  /** Called with the number of bytes read so far. */
  onProgress?: (bytes: number) => void
  signal?: AbortSignal | undefined
}

const prefix = 'svc-backup sha256 '
const commentBytes = prefix.length + 64
const comment = /^svc-backup sha256 ([0-9a-f]{64})$/
const blockBytes = 1024 * 1024

/** Seals a zip file that has no comment, and syncs it. */
export async function sealFile(path: string, reading: Reading = {}): Promise<void> {
  const file = await open(path, 'r+')
  try {
    const { size } = await file.stat()
    await file.write(lengthField(), 0, 2, size - 2)
    const hash = await hashOf(file, size, reading)
    await file.write(commentOf(hash), 0, commentBytes, size)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** Seals a zip while it is streamed. */
export async function* sealStream(zip: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  let held = Buffer.alloc(0)
  for await (const chunk of zip) {
    const known = Buffer.concat([held, chunk])
    const ready = known.subarray(0, Math.max(0, known.length - endBytes))
    held = known.subarray(ready.length)
    if (ready.length === 0) continue
    hash.update(ready)
    yield ready
  }
  if (held.length < endBytes || held.readUInt32LE(0) !== signatures.end)
    throw new Error('Cannot seal the zip: it has no end record')
  const end = Buffer.concat([held.subarray(0, endBytes - 2), lengthField()])
  hash.update(end)
  yield Buffer.concat([end, commentOf(hash)])
}

/** Checks the seal of a file. Refuses (`invalid`) `not_a_backup`, `backup_truncated`, `backup_damaged`. */
export async function checkSeal(path: string, reading: Reading = {}): Promise<void> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    const tail = await readAt(file, Math.max(0, size - endBytes - commentBytes), endBytes + commentBytes)
    const sealed = comment.exec(tail.subarray(endBytes).toString('latin1'))?.[1]
    if (sealed === undefined || tail.readUInt32LE(0) !== signatures.end) throw await foreign(file, path)
    const hash = await hashOf(file, size - commentBytes, reading)
    if (hash.digest('hex') !== sealed) throw damaged(path, 'its SHA-256 is wrong')
  } finally {
    await file.close()
  }
}

/** Returns the refusal of a damaged backup. */
export function damaged(path: string, how: string, cause?: unknown): Refusal {
  const sentence = `Cannot restore "${path}": the backup is damaged: ${how}. Use another backup`
  return new Refusal('invalid', 'backup_damaged', sentence, { cause })
}

/** Returns the refusal of a backup that a newer svc wrote. */
export function newer(path: string, how: string): Refusal {
  const sentence = `Cannot restore "${path}": a newer svc wrote the backup: ${how}. Install that svc first`
  return new Refusal('unsupported', 'backup_newer', sentence)
}

/** Returns the refusal of a file that is not a backup. */
export function notBackup(path: string, how: string): Refusal {
  return new Refusal('invalid', 'not_a_backup', `Cannot restore "${path}": ${how}`)
}

/** Returns the refusal of a file that does not end with a seal. The reason depends on its beginning. */
async function foreign(file: FileHandle, path: string): Promise<Refusal> {
  const head = await readAt(file, 0, localBytes + backupRoot.length)
  if (head.length === 0) return notBackup(path, 'it is empty')
  if (head.length < 4 || head.readUInt32LE(0) !== signatures.local) return notBackup(path, 'it is not a backup of svc')
  const name = head.toString('latin1', localBytes)
  if (name.startsWith('svc-export/')) return notBackup(path, 'it is a package of "svc export". Use "svc import"')
  if (name !== backupRoot) return notBackup(path, 'it is a zip, but not a backup of svc')
  const sentence = `Cannot restore "${path}": the end of the backup is missing, so it is truncated or was changed. Use another backup`
  return new Refusal('invalid', 'backup_truncated', sentence)
}

function lengthField(): Buffer {
  const field = Buffer.alloc(2)
  field.writeUInt16LE(commentBytes)
  return field
}

function commentOf(hash: Hash): Buffer {
  return Buffer.from(prefix + hash.digest('hex'), 'latin1')
}

async function hashOf(file: FileHandle, bytes: number, { onProgress = () => {}, signal }: Reading): Promise<Hash> {
  const hash = createHash('sha256')
  const block = Buffer.allocUnsafeSlow(Math.min(blockBytes, bytes))
  for (let at = 0; at < bytes; ) {
    signal?.throwIfAborted()
    const { bytesRead } = await file.read(block, 0, Math.min(block.length, bytes - at), at)
    if (bytesRead === 0) break
    hash.update(block.subarray(0, bytesRead))
    at += bytesRead
    onProgress(at)
  }
  return hash
}
