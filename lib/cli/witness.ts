/*
 * A witness of the audit logs of servers: keeps the newest checkpoint of each server, and asks the next time for the
 * proof that the log still begins with it. `~/.svc/witness/<key id>.note` is the signed note, and `servers.json` says
 * which key belongs to which server. The owner of the server's machine can sign anything,
 * but cannot change these files.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Checkpoint, readCheckpoint, readNote, readVerifierKey, type Verifier } from '../core/audit/signed-note.js'
import { hashNode } from '../core/audit/tree.js'
import { hasCode, Refusal, sentenceOf } from '../base/errors.js'
import { makeDirectories, replaceFile } from '../base/files.js'
import { locateHome } from '../base/config/home.js'
import { isConsistent } from '../base/shared/merkle-proof.js'
import type { Client } from './client/client.js'
import { exitCodes, type Context } from './command.js'

const answerLimitMs = 10_000
const [directoryMode, fileMode] = [0o700, 0o600]
const keyId = /^[0-9a-f]{8}$/

/**
 * Runs the end of a command that has changed a server, and compares its audit log with what this machine saw before.
 * A difference is a warning; with the mode `strict`, the exit code is 1.
 */
export async function withWitness(
  { client, mode }: { client: Client; mode: string },
  context: Context,
  run: () => Promise<number>
): Promise<number> {
  const running = run()
  // The deployment has ended, so the server is asked while the result is read and printed.
  const asked = witness(client, join(locateHome(context.env, context.cwd).directory, 'witness')).catch(
    // The result of the command stands, whatever happens to the files of the witness.
    (error: unknown) => `The checkpoint of the audit log could not be kept: ${sentenceOf(error)}`
  )
  const code = await running
  if (code === exitCodes.interrupted) return code
  const fault = await asked
  if (fault !== null) context.output.warn(fault)
  return fault !== null && mode === 'strict' && code === exitCodes.success ? exitCodes.failed : code
}

/**
 * Compares the log of a server with what was seen before, and keeps its newest checkpoint. Returns what is wrong, or
 * null. A server that was never seen with a checkpoint may be without one: it is older.
 */
export async function witness(client: Client, directory: string): Promise<string | null> {
  const pinned = (await readServers(directory))[client.address]
  const own = await readKnown(directory, pinned)
  const answer = await orRefusal(client.call('GET /api/audit/checkpoint', { answerLimitMs }))
  if (answer instanceof Refusal) {
    if (own === null) return null
    return `The server ${client.address} does not show its audit log, which had ${own.checkpoint.size} entries: ${answer.message}. ${cureOf(own)}`
  }
  // The same server may have been seen at another address.
  const known = own ?? (await readKnown(directory, answer.key))
  const [note, key] = [readNote(String(answer.note)), readVerifierKey(String(answer.key))]
  const checkpoint = note === null ? null : readCheckpoint(note.text)
  if (note === null || key === null || checkpoint === null || !key.verifies(note))
    return `The server ${client.address} sent a checkpoint of its audit log that is not valid`
  if (known !== null) {
    if (!known.verifier.verifies(note))
      return `The server ${client.address} signs its audit log with another key (${key.keyId}) than before (${known.verifier.keyId}). ${cureOf(known)}`
    const fault = await compare(client, known.checkpoint, checkpoint)
    if (fault !== null) return `The audit log of ${client.address} ${fault}. ${cureOf(known)}`
  }
  await keep(directory, { address: client.address, key: answer.key, keyId: key.keyId, note: answer.note })
  return null
}

/** Returns how the log differs from the one that was seen, or null. */
async function compare(client: Client, seen: Checkpoint, now: Checkpoint): Promise<string | null> {
  const rewritten = `was rewritten: it does not begin with the ${seen.size} entries that this machine saw`
  if (now.origin !== seen.origin) return `is another one: ${now.origin} instead of ${seen.origin}`
  if (now.size < seen.size) return `has lost entries: it had ${seen.size}, and now has ${now.size}`
  let proof: string[] = []
  if (now.size > seen.size) {
    const query = { from: seen.size, to: now.size }
    const answer = await orRefusal(client.call('GET /api/audit/proof', { query, answerLimitMs }))
    if (answer instanceof Refusal) return `could not be compared with what this machine saw: ${answer.message}`
    if (!Array.isArray(answer.proof)) return rewritten
    proof = answer.proof
  }
  const claim = { from: seen.size, fromRoot: seen.root, to: now.size, toRoot: now.root }
  const hashes = proof.map(hash => Buffer.from(String(hash), 'base64'))
  return isConsistent({ ...claim, proof: hashes }, hashNode) ? null : rewritten
}

function orRefusal<T>(asked: Promise<T>): Promise<T | Refusal> {
  return asked.catch((error: unknown) => {
    if (error instanceof Refusal) return error
    throw error
  })
}

/** What was seen of a server. */
interface Known {
  path: string
  verifier: Verifier
  checkpoint: Checkpoint
}

function cureOf({ path }: Known): string {
  return `Compare an export with the checkpoint in "${path}" (svc audit verify --anchor). If the server was restored from a backup, remove that file`
}

/** Returns what was seen with a key. */
async function readKnown(directory: string, key: unknown): Promise<Known | null> {
  const verifier = typeof key === 'string' ? readVerifierKey(key) : null
  if (verifier === null) return null
  const path = join(directory, `${verifier.keyId}.note`)
  const note = readNote((await readText(path)) ?? '')
  const checkpoint = note === null ? null : readCheckpoint(note.text)
  // A file that its own key did not sign proves nothing.
  if (note === null || checkpoint === null || !verifier.verifies(note)) return null
  return { path, verifier, checkpoint }
}

async function readServers(directory: string): Promise<Record<string, unknown>> {
  try {
    const value = JSON.parse((await readText(join(directory, 'servers.json'))) ?? '{}') as unknown
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return null
    throw error
  }
}

async function keep(
  directory: string,
  given: { address: string; key: string; keyId: string; note: string }
): Promise<void> {
  if (!keyId.test(given.keyId)) return
  await makeDirectories(directory, directoryMode)
  await replaceFile(join(directory, `${given.keyId}.note`), given.note, fileMode)
  const servers = await readServers(directory)
  if (servers[given.address] === given.key) return
  const text = `${JSON.stringify({ ...servers, [given.address]: given.key }, null, 2)}\n`
  await replaceFile(join(directory, 'servers.json'), text, fileMode)
}
