/*
 * The seal of a backup: the comment of its zip (APPNOTE 4.3.16, the last field), which is
 *
 *   svc-backup sha256 <64 hex digits>
 *
 * of every byte before it. What it vouches for is that nothing was changed or lost by accident, not who wrote it.
 */
import { createHash } from 'node:crypto'
import type { Hash } from 'node:crypto'
import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { Refusal } from '../base/refusal.js'
import { backupRoot } from './format.js'

export interface Reading {
  /** Told the bytes read so far. */
  onProgress?: (bytes: number) => void
  signal?: AbortSignal | undefined
}

const prefix = 'svc-backup sha256 '
const commentBytes = prefix.length + 64
const comment = /^svc-backup sha256 ([0-9a-f]{64})$/
/** End of central directory record without its comment: the length of that is its last field. */
const endBytes = 22
const endSignature = 0x06054b50
const localSignature = 0x04034b50
const localHeaderBytes = 30
const blockBytes = 1024 * 1024

/** Seals a zip that has no comment, and syncs it. */
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

/** Seals a zip on its way. */
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
  if (held.length < endBytes || held.readUInt32LE(0) !== endSignature) throw new Error('the zip has no end')
  const end = Buffer.concat([held.subarray(0, endBytes - 2), lengthField()])
  hash.update(end)
  yield Buffer.concat([end, commentOf(hash)])
}

/** Refuses (`invalid`): not_a_backup, backup_truncated, backup_damaged. */
export async function checkSeal(path: string, reading: Reading = {}): Promise<void> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    const tail = await readAt(file, Math.max(0, size - endBytes - commentBytes), endBytes + commentBytes)
    const sealed = comment.exec(tail.subarray(endBytes).toString('latin1'))?.[1]
    if (sealed === undefined || tail.readUInt32LE(0) !== endSignature) throw await foreign(file, path)
    const hash = await hashOf(file, size - commentBytes, reading)
    if (hash.digest('hex') !== sealed) throw damaged(path, 'its bytes are not those that were written (SHA-256)')
  } finally {
    await file.close()
  }
}

/** What a backup that cannot be trusted is refused with. */
export function damaged(path: string, how: string, cause?: unknown): Refusal {
  const sentence = `The backup "${path}" cannot be restored: it is damaged: ${how}; take another one`
  return new Refusal('invalid', 'backup_damaged', sentence, { cause })
}

/** What was written by a later svc is refused with. */
export function newer(path: string, how: string): Refusal {
  const sentence = `The backup "${path}" cannot be restored: a newer svc wrote it: ${how}; install that svc first`
  return new Refusal('unsupported', 'backup_newer', sentence)
}

/** What is no backup at all is refused with. */
export function notBackup(path: string, how: string): Refusal {
  return new Refusal('invalid', 'not_a_backup', `"${path}" cannot be restored: ${how}`)
}

/** Its end is no seal: why, its beginning may tell. */
async function foreign(file: FileHandle, path: string): Promise<Refusal> {
  const head = await readAt(file, 0, localHeaderBytes + backupRoot.length)
  if (head.length === 0) return notBackup(path, 'it is empty')
  if (head.length < 4 || head.readUInt32LE(0) !== localSignature) return notBackup(path, 'it is no backup of svc')
  const name = head.toString('latin1', localHeaderBytes)
  if (name.startsWith('svc-export/')) return notBackup(path, 'it is a package of "svc export"; "svc import" takes it')
  if (name !== backupRoot) return notBackup(path, 'it is a zip, but no backup of svc')
  const sentence = `The backup "${path}" cannot be restored: it is cut off, or was changed: its end is missing; take another one`
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
  for (let at = 0; at < bytes;) {
    signal?.throwIfAborted()
    const { bytesRead } = await file.read(block, 0, Math.min(block.length, bytes - at), at)
    if (bytesRead === 0) break
    hash.update(block.subarray(0, bytesRead))
    at += bytesRead
    onProgress(at)
  }
  return hash
}

async function readAt(file: FileHandle, at: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, at)
  return buffer.subarray(0, bytesRead)
}
