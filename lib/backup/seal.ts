/*
 * The seal of a backup: the comment of its zip (APPNOTE 4.3.16, the last field). It is the SHA-256 of every byte before
 * it:
 *
 *   svc-backup sha256 <64 hex digits>
 *
 * The seal shows that nothing was changed or lost by accident. It does not show who wrote the backup.
 */
import { createHash, type Hash } from 'node:crypto'
import { open, type FileHandle } from 'node:fs/promises'
import { readAt } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import { endBytes, localBytes, signatures } from '../shared/zip-records.js'
import { backupRoot } from './format.js'

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
